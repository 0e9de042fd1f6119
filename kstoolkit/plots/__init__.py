"""Plots: plain records in, matplotlib Axes out; nothing is shown and no global state is touched."""

from __future__ import annotations

from kstoolkit.plots.expected import plot_expected

__all__ = ["plot_expected"]
