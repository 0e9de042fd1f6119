"""What stands in a store: levels, SST files, sizes of keys and values, hot prefixes, its folder.

Of the files, how large they are level by level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.formats.columns import is_utf8
from kstoolkit.plots.axes import (
    captioned,
    empty,
    few_of,
    height,
    in_bytes,
    new_axes,
    plot_nothing,
    say,
    shown,
    wrapped,
)
from kstoolkit.plots.marks import Bar, BarPart, draw_bars, name_rows
from kstoolkit.plots.palette import COUNTED, FLAGGED, INK
from kstoolkit.records import counted
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.keystats import HotPrefix, KeyStats, Sizes
    from kstoolkit.rocksdb.files.ssts import Level, Sst
    from kstoolkit.rocksdb.files.summary import StoreSummary

    Style = dict[str, Any]

_MOST_ROWS = 40


def plot_levels(levels: Records[Level], *, ax: Axes | None = None) -> Axes:
    """Return a plot of how many bytes stand on each level of each column family, in how many files.

    More than 40 levels are thinned to the largest, and the figure says so.
    """
    if not len(levels):
        return plot_nothing(levels, ax=ax)
    least = sorted((each.size_bytes for each in levels), reverse=True)[:_MOST_ROWS][-1]
    drawn = [each for each in levels if each.size_bytes >= least][:_MOST_ROWS]
    several = len({each.column_family for each in levels}) > 1
    bars = [
        Bar(
            f"{shown(each.column_family, 20)} L{each.level}" if several else f"L{each.level}",
            (BarPart(each.column_family, each.size_bytes),),
            _beside(each),
        )
        for each in drawn
    ]
    whys = {why: None for each in drawn for why in each.unknown.values()}
    notes = [f"sizes before compression, of some levels: unknown ({why})" for why in whys]
    notes += few_of("the {} largest of {} levels are drawn", len(drawn), len(levels))
    return draw_bars(ax, bars, _levels_seen(levels), notes, "SST files of the level")


def _beside(level: Level) -> str:
    files = f", {counted(level.num_files, 'files')}"
    if level.compression == "NoCompression":
        return f"{files}, not compressed"
    if level.raw_bytes is None:
        return files
    kind = shown(level.compression or "compression")
    return f"{files}; {format_bytes(level.raw_bytes)} before {kind}"


def _levels_seen(levels: Sequence[Level]) -> str:
    total = sum(each.size_bytes for each in levels)
    entries = sum(each.num_entries for each in levels)
    deleted = sum(each.num_deletions for each in levels)
    largest = max(levels, key=lambda each: each.size_bytes)
    top = [each for each in levels if each.level == 0] or [largest]
    held = sum(each.size_bytes for each in top)
    files = counted(sum(each.num_files for each in top), "files")
    tombstones = f", {deleted / entries:.0%} tombstones" if entries and deleted else ""
    families = {each.column_family for each in levels}
    of = " in all" if len(families) == 1 else f" of {counted(len(families), 'column families')}"
    return (
        f"L{top[0].level} holds {files}, {format_bytes(held)} of {format_bytes(total)}; "
        f"{counted(entries, 'entries')}{of}{tombstones}"
    )


_MOST_PREFIXES = 40
_FAR_APART = 50  # sizes whose largest is so many times the smallest are drawn on a logarithmic axis


def plot_key_stats(stats: KeyStats, *, ax: Axes | None = None) -> Axes:
    """Return a plot of how the sizes of keys and values are spread; see :func:`plot_sizes`."""
    named = {"keys": stats.key_sizes, "values": stats.value_sizes}
    sizes = {name: each for name, each in named.items() if each is not None}
    rows = counted(stats.num_sampled, "rows")
    read = f"all {rows}" if stats.is_complete else f"a sample of {rows}"
    if not sizes:
        return empty(new_axes(ax), "no rows", f"{shown(stats.column_family)} has no rows")
    medians = [f"{name} of {format_bytes(each.median_bytes)}" for name, each in sizes.items()]
    density = stats.tombstone_density
    entries = counted(stats.num_entries, "entries")
    deleted = f"tombstones: {density:.0%} of {entries}" if density else ""
    said = f"{shown(stats.column_family)}: {' and '.join(medians)} at the median of {read}"
    return _draw_row_sizes(sizes, said, [deleted] if deleted else [], ax)


def plot_sizes(sizes: Sizes, *, ax: Axes | None = None) -> Axes:
    """Return a plot of how sizes are spread: least, median, mean, 99th percentile, largest.

    >>> from kstoolkit.rocksdb.files.keystats import Sizes
    >>> plot_sizes(Sizes(8, 16, 18.5, 40, 64)).get_title(loc="left")
    'From 8 B to 64 B; half of them up to 16 B'
    """
    ends = f"From {format_bytes(sizes.min_bytes)} to {format_bytes(sizes.max_bytes)}"
    seen = f"{ends}; half of them up to {format_bytes(sizes.median_bytes)}"
    return _draw_row_sizes({"sizes": sizes}, seen, [], ax)


def plot_prefixes(prefixes: Records[HotPrefix], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the hottest prefixes of keys, at most 40, and their shares of the rows."""
    some = sorted(prefixes, key=lambda each: -each.num_rows)[:_MOST_PREFIXES]
    notes = few_of("the {} hottest of {} prefixes are drawn", len(some), len(prefixes))
    bars = [
        Bar(
            _key_text(each.prefix),
            (BarPart("rows", 100 * each.share),),
            f", {counted(each.num_rows, 'rows')}",
        )
        for each in some
    ]
    has = "has" if len(prefixes) == 1 else "together have"
    together = f"{has} {_percent(sum(each.share for each in prefixes))}"
    hottest = f"{_key_text(some[0].prefix)}, has {_percent(some[0].share)} of the sampled rows"
    seen = f"The hottest prefix, {hottest}; {counted(len(prefixes), 'prefixes')} {together}"
    x = "% of the sampled rows"
    return draw_bars(ax, bars, seen, notes, x=x, printed=lambda part: _percent(part / 100))


def plot_summary(summary: StoreSummary, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what a store's folder takes: SST files, blob files, WAL, the rest."""
    parts = {
        "SST files": summary.sst_bytes,
        "blob files": summary.blob_bytes,
        "WAL": summary.wal_bytes,
    }
    parts["the rest"] = summary.apparent_bytes - sum(parts.values())
    bars = [
        Bar("its files", tuple(BarPart(name, size) for name, size in parts.items())),
        Bar("taken from the disk", (BarPart("blocks of the file system", summary.disk_bytes),)),
    ]
    rows = "unknown" if summary.estimated_rows is None else counted(summary.estimated_rows, "rows")
    files = f"{counted(summary.num_files, 'SST files')}, {format_bytes(summary.sst_bytes)}"
    levels = summary.num_levels_used
    on = "" if levels is None else f" on {counted(levels, 'levels')}"
    said = f"{files}{on}; about {rows}"
    notes = []
    if summary.tombstone_density:
        share = f"{summary.tombstone_density:.0%} of {counted(summary.num_entries, 'entries')}"
        notes.append(f"tombstones: {share}")
    if summary.num_unlisted_ssts:
        notes.append(f"SST files that the store does not list: {summary.num_unlisted_ssts:,}")
    return draw_bars(ax, bars, said, notes, "disk")


def _key_text(key: bytes) -> str:
    """Return a key as text if it is one, else in hexadecimal digits."""
    text = key.decode() if is_utf8(key) else ""
    return shown(text if text and text.isprintable() else f"0x{key.hex()}", 20)


def _percent(share: float) -> str:
    """Return a share in percent, with a digit that counts even if it is small."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"  # noqa: PLR2004 - 10 %


def _draw_row_sizes(
    sizes: dict[str, Sizes], said: str, notes: Sequence[str], ax: Axes | None
) -> Axes:
    """Draw a line from the least to the largest, a box up to the 99th percentile, and marks."""
    highest = max(each.max_bytes for each in sizes.values())
    least = min(max(each.min_bytes, 1) for each in sizes.values())
    lines = wrapped(notes)
    ax = new_axes(ax, (7.2, height(len(sizes), lines) + 0.2))
    for row, each in enumerate(sizes.values()):
        ax.plot([each.min_bytes, each.max_bytes], [row, row], color=INK, linewidth=1, zorder=1)
        box: Style = {"height": 0.3, "facecolor": f"{COUNTED}66", "edgecolor": COUNTED, "zorder": 2}
        name = None if row else "99 of 100"
        ax.barh(row, each.p99_bytes - each.min_bytes, left=each.min_bytes, label=name, **box)
        for kind, values, marker, color in (
            ("median", [each.median_bytes], "D", FLAGGED),
            ("mean", [each.mean_bytes], "o", COUNTED),
            ("least and largest", [each.min_bytes, each.max_bytes], "|", INK),
        ):
            style: Style = {"linestyle": "none", "color": color, "zorder": 3, "markersize": 6}
            ax.plot(values, [row] * len(values), marker, label=None if row else kind, **style)
        say(ax, format_bytes(each.max_bytes), (each.max_bytes, row), (7, 0))
    name_rows(ax, list(sizes))
    if highest > _FAR_APART * least:
        ax.set_xscale("symlog", linthresh=least, base=2)
        ax.set_xlim(0, 4 * highest)
        ticks = [size for power in range(0, 64, 4) if (size := 1 << power) <= highest]
        ax.set_xticks(ticks, [format_bytes(size).replace(".0 ", " ") for size in ticks])
        ax.xaxis.minorticks_off()
        lines = ["logarithmic axis", *lines]
    else:
        ax.set_xlim(0, 1.2 * highest or 1)
        in_bytes(ax.xaxis)
    return captioned(ax, said, x="size", notes=lines)


_MOST_FILES = 2_000


def plot_ssts(ssts: Records[Sst], *, ax: Axes | None = None) -> Axes:
    """Return a plot of SST files: a mark for each at its size, a row for each level.

    More than 2,000 files are thinned to the largest, more than 40 rows to the first, and the figure
    says so.
    """
    if not len(ssts):
        return plot_nothing(ssts, ax=ax)
    largest = sorted(ssts, key=lambda each: -each.size_bytes)[:_MOST_FILES]
    every = sorted({(each.column_family, each.level) for each in largest})
    rows = {place: row for row, place in enumerate(every[:_MOST_ROWS])}
    notes = few_of("the {} largest of {} files", len(largest), len(ssts))
    notes += few_of("the first {} of {} rows are drawn", len(rows), len(every))
    several = len({family for family, _ in every}) > 1
    names = [f"{shown(family, 20)} L{at}" if several else f"L{at}" for family, at in rows]
    lines = wrapped(notes)
    ax = new_axes(ax, (7.2, height(len(rows), lines)))
    placed = [(each.size_bytes, rows.get((each.column_family, each.level))) for each in largest]
    _draw_sst_sizes(ax, [(size, row) for size, row in placed if row is not None])
    name_rows(ax, names)
    sizes = [each.size_bytes for each in ssts]
    seen = (
        f"{counted(len(ssts), 'SST files')}, {format_bytes(sum(sizes))}: from "
        f"{format_bytes(min(sizes))} to {format_bytes(max(sizes))}, "
        f"half of them up to {format_bytes(float(np.median(sizes)))}"
    )
    return captioned(ax, seen, x="size of a file", notes=lines)


def _draw_sst_sizes(ax: Axes, placed: Sequence[tuple[int, int]]) -> None:
    sizes, places = np.array(placed).T
    style: Style = {"linestyle": "none", "markersize": 11, "color": COUNTED, "alpha": 0.8}
    ax.plot(sizes, places, marker="|", label="a file", **style)
    rows = np.unique(places)
    medians = [np.median(sizes[places == row]) for row in rows]
    middle: Style = {"marker": "D", "markersize": 4.5, "color": FLAGGED, "linestyle": "none"}
    ax.plot(medians, rows, label="median", **middle)
    ax.set_xlim(0, 1.05 * sizes.max() or 1)
    in_bytes(ax.xaxis)
