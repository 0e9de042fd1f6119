"""Plots: records in, matplotlib Axes out; drawn where one says, else in a figure of pyplot's."""

from __future__ import annotations

from kstoolkit.plots.memory import plot_memory
from kstoolkit.plots.users import plot_expected, plot_users

__all__ = ["plot_expected", "plot_memory", "plot_users"]
