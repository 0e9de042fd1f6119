"""The colours of every plot: apart for every kind of colour vision, readable on light and dark.

They are Okabe and Ito's (https://jfly.uni-koeln.de/color/). A colour never stands alone: a marker,
a line style or a text says the same.
"""

from __future__ import annotations

__all__ = ["COUNTED", "EXPECTED", "FLAGGED", "INK"]

COUNTED = "#0072b2"
EXPECTED = "#009e73"
FLAGGED = "#d55e00"
INK = "#777777"
"""Text and axes: a grey of contrast 4 or more on white and on near-black."""
