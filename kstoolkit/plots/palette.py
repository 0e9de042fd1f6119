"""The colours of every plot: apart for every kind of colour vision, readable on light and dark.

They are Okabe and Ito's (https://jfly.uni-koeln.de/color/). A colour never stands alone: a place,
a marker, a line style or a text says the same.
"""

from __future__ import annotations

COUNTED = "#0072b2"
EXPECTED = "#009e73"
FLAGGED = "#d55e00"
INK = "#2b323a"
"""Text and axes on paper, which is white; on a page of a report they have the page's own ink."""

PARTS = (COUNTED, "#e69f00", EXPECTED, "#cc79a7", "#56b4e9", FLAGGED, "#f0e442")
"""Colours of the parts of a whole, in their order; an edge of ink bounds the pale ones."""
LINES = (
    (COUNTED, "-", "o"),
    (FLAGGED, "--", "s"),
    (EXPECTED, "-.", "^"),
    ("#cc79a7", ":", "D"),
    ("#56b4e9", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("#e69f00", (0, (7, 2)), "P"),
)
"""Colour, line style and marker of several lines, in their order."""
UNKNOWN_HATCH = "////"  # of what is not known, in ink and without a fill
