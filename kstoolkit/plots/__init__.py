"""Plots: records in, matplotlib Axes out; drawn where one says, else in a figure of pyplot's."""
