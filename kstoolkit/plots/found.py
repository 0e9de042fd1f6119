"""Stores that were found: which of them take the room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.plots.axes import days, in_bytes, in_time, label, nothing
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import PARTS
from kstoolkit.plots.rowbars import MOST_ROWS, Part, Row, draw_rows, rest_row, row_axes
from kstoolkit.plots.strips import Steps, Strip, draw_strips, strip_axes
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from kstoolkit.stores.discovery.found import FoundStore


_DAY_MS = 86_400_000
_ENGINES = ("kafka-streams", "spark", "kstoolkit", "rocksdb")


def plot_found_stores(stores: Sequence[FoundStore], *, ax: Axes | None = None) -> Axes:
    """Return the size of each store's files, the largest first; beyond 30 the rest together.

    Examples
    --------
    >>> from kstoolkit.stores.discovery.found import FoundStore
    >>> found = FoundStore("/a", "rocksdb", None, "counts", size_bytes=2048)
    >>> plot_found_stores([found]).get_title(loc="left")
    '1 store of 2.0 KiB; the largest, counts, has 100 % of that'
    """
    ranked = sorted(stores, key=lambda each: -each.size_bytes)
    chosen, rest = ranked[:MOST_ROWS], ranked[MOST_ROWS:]
    axes = row_axes(ax, len(chosen) + bool(rest))
    if not chosen:
        nothing(axes, "no stores")
        head(axes, "No stores")
        return axes
    rows = [_store_row(each) for each in chosen]
    if rest:
        size = sum(each.size_bytes for each in rest)
        others = f"{format_count(len(rest))} others together"
        rows.append(rest_row(others, size, rows, format_bytes(size)))
    draw_rows(axes, rows, longest_name=40)
    in_bytes(axes.xaxis)
    notes = [f"the largest {MOST_ROWS} of {format_count(len(ranked))} stores"] if rest else []
    label(axes, x="size of the store's files", notes=notes)
    head(axes, _stores_seen(ranked))
    return axes


def _store_row(found: FoundStore) -> Row:
    color, hatch = PARTS[_ENGINES.index(found.engine)]
    part = Part(size=found.size_bytes, color=color, hatch=hatch, name=found.engine)
    locked = ", open elsewhere" if found.is_locked else ""
    return Row(_store_name(found), (part,), f"{format_bytes(found.size_bytes)}{locked}")


def _store_name(found: FoundStore) -> str:
    where = "" if found.partition is None else f" [{found.task or found.partition}]"
    return f"{shown(found.store, 28)}{where}"


def _stores_seen(ranked: list[FoundStore]) -> str:
    total = sum(each.size_bytes for each in ranked)
    number = "1 store" if len(ranked) == 1 else f"{format_count(len(ranked))} stores"
    share = (
        f"{ranked[0].size_bytes / total:.0%}".replace("%", "\N{NO-BREAK SPACE}%")
        if total
        else "nothing"
    )
    largest = f"the largest, {shown(ranked[0].store)}, has {share} of that"
    return f"{number} of {format_bytes(total)}; {largest}"


def plot_found_store(found: FoundStore, *, ax: Axes | None = None) -> Axes:
    """Return the size of a store's segments over time; of a store without segments its own.

    Examples
    --------
    >>> from kstoolkit.records import Records
    >>> from kstoolkit.stores.discovery.found import FoundSegment, FoundStore
    >>> parts = Records([FoundSegment("/a/0", 0, 2048)], "segments")
    >>> found = FoundStore("/a", "kafka-streams", None, "counts", segments=parts, size_bytes=2048)
    >>> plot_found_store(found).get_title(loc="left")
    'counts: 1 segment, 2.0 KiB'
    """
    if not found.segments:
        return plot_found_stores([found], ax=ax)
    axes = strip_axes(ax, 1)
    starts_ms = np.array([each.start_ms for each in found.segments], np.int64)
    # How long a segment is, it does not say: the nearest two are so far apart.
    apart_ms = np.diff(np.unique(starts_ms)).min(initial=_DAY_MS)
    edges = days(np.stack([starts_ms, starts_ms + apart_ms], axis=1))
    color, hatch = PARTS[_ENGINES.index(found.engine)]
    steps = tuple(
        Steps(edges=span, heights=np.array([float(each.size_bytes)]), color=color, hatch=hatch)
        for span, each in zip(edges, found.segments, strict=True)
    )
    axes.set_xlim(edges.min(), edges.max())
    draw_strips(axes, [Strip(name="files of\na segment", steps=steps, printed=format_bytes)])
    in_time(axes.xaxis)
    label(axes, x="the segment's rows are from then on, UTC")
    number = counted(len(found.segments), "segments")
    size = format_bytes(found.size_bytes)
    head(axes, f"{shown(found.store)}: {number}, {size}")
    return axes
