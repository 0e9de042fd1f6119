"""The picture of ours beside every rival: CPU, memory, and the time to be back after a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kstoolkit.plots.palette import COUNTED, EXPECTED, INK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from tests.benchmarks.standing import Standing

_ROOM = 1.35  # how many times the longest bar there is, so that its figure has a place
_GIB = 1 << 30


def draw(standings: Sequence[Standing], events: int, path: Path) -> None:
    """Write the picture, a row for each contestant; ours have a colour of their own."""
    with style.context("kstoolkit.plots.kstoolkit"):
        figure = Figure(figsize=(7.2, 0.9 + 0.27 * len(standings)), facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, 3, sharey=True)
        cpu = [each.row.steady_cpu_seconds_per_million for each in standings]
        memory = [each.row.peak_bytes / _GIB for each in standings]
        back = [each.back_seconds for each in standings]
        names = [each.row.name for each in standings]
        _bars(axes[0], names, cpu, "CPU seconds a million events")
        _bars(axes[1], names, memory, "peak memory, GiB")
        _bars(axes[2], names, back, "back after kill -9, s")
        figure.suptitle(
            f"{events:,} events counted by minute, hour and day: what it costs", x=0.01, ha="left"
        )
        figure.savefig(path, dpi=192)


def _bars(ax: Axes, names: Sequence[str], sizes: Sequence[float | None], measured: str) -> None:
    for row, (name, size) in enumerate(zip(names, sizes, strict=True)):
        color = EXPECTED if name.startswith("kstoolkit") else COUNTED
        ax.barh(row, size or 0, height=0.62, color=color)
        text = "no state" if size is None else f"{size:,.2f}" if size < 10 else f"{size:,.0f}"
        ax.annotate(
            text, (size or 0, row), (4, 0), textcoords="offset points", va="center", color=INK
        )
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, max(size or 0 for size in sizes) * _ROOM or 1)
    ax.set_xlabel(measured, loc="left")
    ax.tick_params(axis="y", length=0)
