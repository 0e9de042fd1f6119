"""Plots: records in, matplotlib Axes out; drawn where one says, else in a figure of pyplot's."""

from __future__ import annotations

from kstoolkit.plots.expected import plot_expected

__all__ = ["plot_expected"]
