"""What stands in a store: sizes of keys and values, hot prefixes, and what its folder takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.plots.axes import SMALL, in_bytes, label, new_axes, nothing
from kstoolkit.plots.memory import draw_memory
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, height, wrapped
from kstoolkit.plots.palette import COUNTED, FLAGGED, INK
from kstoolkit.plots.stacked import THICKNESS, Bar, StackedPart, look_of, name_rows, say_beside
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.keystats import HotPrefix, KeyStats, Sizes
    from kstoolkit.rocksdb.files.summary import Summary

    Style = dict[str, Any]


MOST_PREFIXES = 40
_FAR_APART = 50
"""Sizes whose largest is so many times the smallest are drawn on a logarithmic axis."""


def plot_key_stats(stats: KeyStats, *, ax: Axes | None = None) -> Axes:
    """Return a plot of how the sizes of keys and values are spread; see :func:`plot_sizes`.

    ``stats.hot_prefixes.plot()`` shows the hottest prefixes.
    """
    named = {"keys": stats.key_sizes, "values": stats.value_sizes}
    sizes = {name: each for name, each in named.items() if each is not None}
    rows = counted(stats.num_sampled, "rows")
    read = f"all {rows}" if stats.is_complete else f"a sample of {rows}"
    if not sizes:
        ax = new_axes(ax)
        nothing(ax, "no rows")
        head(ax, f"{shown(stats.column_family)} has no rows")
        return ax
    medians = [f"{name} of {format_bytes(each.median_bytes)}" for name, each in sizes.items()]
    density = stats.tombstone_density
    entries = counted(stats.num_entries, "entries")
    deleted = f"tombstones: {density:.0%} of {entries}" if density else ""
    said = f"{shown(stats.column_family)}: {' and '.join(medians)} at the median of {read}"
    return _draw_row_sizes(sizes, said, [deleted] if deleted else [], ax)


def plot_sizes(sizes: Sizes, *, ax: Axes | None = None) -> Axes:
    """Return a plot of how sizes are spread: least, median, mean, 99th percentile, largest.

    Examples
    --------
    >>> from kstoolkit.rocksdb.files.keystats import Sizes
    >>> plot_sizes(Sizes(8, 16, 18.5, 40, 64)).get_title(loc="left")
    'From 8 B to 64 B; half of them up to 16 B'
    """
    low, middle, high = (
        format_bytes(each) for each in (sizes.min_bytes, sizes.median_bytes, sizes.max_bytes)
    )
    return _draw_row_sizes(
        {"sizes": sizes}, f"From {low} to {high}; half of them up to {middle}", [], ax
    )


def plot_prefixes(prefixes: Records[HotPrefix], *, ax: Axes | None = None) -> Axes:
    """Return a plot of the hottest prefixes of keys, each with its share of the sampled rows.

    More than 40 are thinned to the hottest, and the figure says so.

    Examples
    --------
    >>> from kstoolkit.rocksdb.files.keystats import HotPrefix
    >>> from kstoolkit.records import Records
    >>> ax = plot_prefixes(Records([HotPrefix(b"user", 30, 0.75)], "prefixes"))
    >>> ax.get_title(loc="left")
    'The hottest prefix, user, has 75 % of the sampled rows; 1 prefix has 75 %'
    """
    some = sorted(prefixes, key=lambda each: -each.num_rows)[:MOST_PREFIXES]
    notes = []
    if len(some) < len(prefixes):
        notes.append(f"the {len(some)} hottest of {format_count(len(prefixes))} prefixes are drawn")
    said: list[tuple[float, float, str]] = []
    ax = new_axes(ax, (7.2, height(len(some), notes, 0)))
    for row, each in enumerate(some):
        ax.barh(row, 100 * each.share, height=THICKNESS, **look_of(0))
        text = f"{_percent(each.share)}, {counted(each.num_rows, 'rows')}"
        said.append((100 * each.share, row, text))
    name_rows(ax, [key_text(each.prefix) for each in some])
    say_beside(ax, said)
    label(ax, x="% of the sampled rows", notes=notes)
    together = _percent(sum(each.share for each in prefixes))
    has = "has" if len(prefixes) == 1 else "together have"
    hottest = f"{key_text(some[0].prefix)}, has {_percent(some[0].share)} of the sampled rows"
    head(
        ax,
        f"The hottest prefix, {hottest}; {counted(len(prefixes), 'prefixes')} {has} {together}",
    )
    return ax


def plot_summary(summary: Summary, *, ax: Axes | None = None) -> Axes:
    """Return a plot of what a store's folder takes: SST files, blob files, WAL, the rest."""
    parts = {
        "SST files": summary.sst_bytes,
        "blob files": summary.blob_bytes,
        "WAL": summary.wal_bytes,
    }
    rest = summary.apparent_bytes - sum(parts.values())
    bars = [
        Bar(
            "its files",
            tuple(StackedPart(name, size) for name, size in (parts | {"the rest": rest}).items()),
        ),
        Bar("taken from the disk", (StackedPart("blocks of the file system", summary.disk_bytes),)),
    ]
    rows = "unknown" if summary.estimated_rows is None else counted(summary.estimated_rows, "rows")
    files = f"{counted(summary.num_files, 'SST files')}, {format_bytes(summary.sst_bytes)}"
    said = f"{files} on {counted(summary.num_levels_used, 'levels')}; about {rows}"
    notes = []
    if summary.tombstone_density:
        share = f"{summary.tombstone_density:.0%} of {counted(summary.num_entries, 'entries')}"
        notes.append(f"tombstones: {share}")
    if summary.num_unlisted_ssts:
        notes.append(f"SST files that the store does not list: {summary.num_unlisted_ssts:,}")
    return draw_memory(ax, bars, said, notes, "disk")


def key_text(key: bytes) -> str:
    """Return a key as text if it is one, else in hexadecimal digits, short enough for a figure.

    Examples
    --------
    >>> key_text(b"user-1"), key_text(bytes([0, 255]))
    ('user-1', '0x00ff')
    """
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
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
        for kind, value, marker, color in (
            ("median", each.median_bytes, "D", FLAGGED),
            ("mean", each.mean_bytes, "o", COUNTED),
            ("least and largest", [each.min_bytes, each.max_bytes], "|", INK),
        ):
            values = value if isinstance(value, list) else [value]
            style: Style = {"linestyle": "none", "color": color, "zorder": 3, "markersize": 6}
            ax.plot(values, [row] * len(values), marker, label=None if row else kind, **style)
        _say_size(ax, row, each.max_bytes)
    name_rows(ax, list(sizes))
    if highest > _FAR_APART * least:
        ax.set_xscale("symlog", linthresh=max(least, 1), base=2)
        lines = ["logarithmic axis", *lines]
    ax.set_xlim(0, highest * (4 if highest > _FAR_APART * least else 1.2) or 1)
    if highest <= _FAR_APART * least:
        in_bytes(ax.xaxis)
    else:
        _powers(ax, highest)
    label(ax, x="size", notes=lines)
    head(ax, said)
    return ax


def _say_size(ax: Axes, row: int, size: int) -> None:
    place: Style = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
    ax.annotate(format_bytes(size), (size, row), color=INK, fontsize=SMALL, **place)


def _powers(ax: Axes, highest: float) -> None:
    ticks = [size for power in range(0, 64, 4) if (size := 1 << power) <= highest]
    ax.set_xticks(ticks, [format_bytes(size).replace(".0 ", " ") for size in ticks])
    ax.xaxis.minorticks_off()
