"""A store's SST files: how large they are level by level, or which keys each of them spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import in_bytes, label, new_axes, plot_nothing
from kstoolkit.plots.keys import key_text
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, height, wrapped
from kstoolkit.plots.palette import COUNTED, FLAGGED
from kstoolkit.plots.spans import draw_spans
from kstoolkit.plots.stacked import name_rows
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.ssts import Sst

    Style = dict[str, Any]


MOST_FILES = 2_000
MOST_ROWS = 40


def plot_ssts(ssts: Records[Sst], *, by: str = "size", ax: Axes | None = None) -> Axes:
    """Return a plot of SST files: a mark for each at its size, or a span over its keys.

    More than 2,000 files are thinned to the largest, more than 40 rows to the first, and the figure
    says so.

    Parameters
    ----------
    ssts
        As ``store.ssts()`` gives them.
    by
        ``"size"``, or ``"keys"``: a span from the smallest key to the largest. Files of level 0 lie
        over each other, so each has a row of its own; those of a level below share one.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If ``by`` is neither.
    """
    if by not in {"size", "keys"}:
        message = f"SST files can't be drawn by {by!r}."
        raise ConfigurationError(message, hint="Give by='size' or by='keys'.")
    if not len(ssts):
        return plot_nothing(ssts, ax=ax)
    largest = sorted(ssts, key=lambda each: -each.size_bytes)[:MOST_FILES]
    files = sorted(largest, key=lambda each: (each.column_family, each.level))
    rows = _rows(files, alone=by == "keys")
    notes = _sst_notes(ssts, files, rows)
    files = [each for each in files if rows[each.name, each.column_family][0] < MOST_ROWS]
    names = list(dict.fromkeys(rows[each.name, each.column_family] for each in files))
    lines = wrapped(notes)
    ax = new_axes(ax, (7.2, height(len(names), lines)))
    (_draw_sst_sizes if by == "size" else _draw_keys)(ax, files, rows)
    name_rows(ax, [name for _, name in names])
    keys = "keys in order, at even distances: where files begin and end"
    label(ax, x="size of a file" if by == "size" else keys, notes=lines)
    head(ax, _ssts_seen(ssts))
    return ax


_Rows = dict[tuple[str, str], tuple[int, str]]
"""For each file by name and column family: its row, and what that is called."""


def _rows(files: Sequence[Sst], *, alone: bool) -> _Rows:
    several = len({each.column_family for each in files}) > 1
    numbers: dict[str, int] = {}
    rows: _Rows = {}
    for each in files:
        level = f"L{each.level}"
        whose = f"{shown(each.column_family, 20)} {level}" if several else level
        name = f"{whose} {each.name}" if alone and each.level == 0 else whose
        rows[each.name, each.column_family] = numbers.setdefault(name, len(numbers)), name
    return rows


def _draw_sst_sizes(ax: Axes, files: Sequence[Sst], rows: _Rows) -> None:
    places = [rows[each.name, each.column_family][0] for each in files]
    style: Style = {"linestyle": "none", "markersize": 11, "color": COUNTED, "alpha": 0.8}
    ax.plot([each.size_bytes for each in files], places, marker="|", label="a file", **style)
    for row in sorted(set(places)):
        sizes = [each.size_bytes for each, place in zip(files, places, strict=True) if place == row]
        middle: Style = {"marker": "D", "markersize": 4.5, "color": FLAGGED, "linestyle": "none"}
        ax.plot([np.median(sizes)], [row], label="median" if row == min(places) else None, **middle)
    ax.set_xlim(0, 1.05 * max(each.size_bytes for each in files) or 1)
    in_bytes(ax.xaxis)


def _draw_keys(ax: Axes, files: Sequence[Sst], rows: _Rows) -> None:
    keys = sorted({key for each in files for key in (each.smallest_key, each.largest_key)})
    place = {key: number for number, key in enumerate(keys)}
    rights = [place[each.largest_key] + 0.5 for each in files]
    lefts = [place[each.smallest_key] - 0.5 for each in files]
    style: Style = {"facecolor": f"{COUNTED}bb", "edgecolor": COUNTED, "linewidth": 0.8}
    numbers = [rows[each.name, each.column_family][0] for each in files]
    draw_spans(ax, lefts, rights, numbers, height=0.55, **style)
    ax.set_xlim(-1, len(keys))
    ends = {0: keys[0], len(keys) - 1: keys[-1]}
    ax.set_xticks(list(ends), [key_text(key) for key in ends.values()], parse_math=False)


def _sst_notes(ssts: Sequence[Sst], files: Sequence[Sst], rows: _Rows) -> list[str]:
    notes = []
    if len(ssts) > len(files):
        notes.append(f"the {format_count(len(files))} largest of {format_count(len(ssts))} files")
    num_rows = len(set(rows.values()))
    if num_rows > MOST_ROWS:
        notes.append(f"the first {MOST_ROWS} of {format_count(num_rows)} rows are drawn")
    return notes


def _ssts_seen(ssts: Sequence[Sst]) -> str:
    sizes = [each.size_bytes for each in ssts]
    return (
        f"{counted(len(ssts), 'SST files')}, {format_bytes(sum(sizes))}: from "
        f"{format_bytes(min(sizes))} to {format_bytes(max(sizes))}, "
        f"half of them up to {format_bytes(float(np.median(sizes)))}"
    )
