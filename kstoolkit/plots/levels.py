"""The shape of a store's tree: how much stands on each level, and how large it is meant to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.plots.axes import in_bytes, label, new_axes, plot_nothing
from kstoolkit.plots.leveltargets import level_targets
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, height, listed, wrapped
from kstoolkit.plots.palette import FLAGGED
from kstoolkit.plots.stacked import THICKNESS, look_of, name_rows, say_beside
from kstoolkit.records import counted
from kstoolkit.rocksdb.memory.planning import profile_given
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.files.ssts import Level
    from kstoolkit.rocksdb.profiles.profile import Profile

    Style = dict[str, Any]


MOST_ROWS = 40
_FAR = 4
"""A target so many times larger than the largest level would make all of them small."""
_NO_TARGET = "level 0 is bounded by its number of files, not by its size"


def plot_levels(
    levels: Records[Level],
    *,
    profile: Profile | str | os.PathLike[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Return a plot of how many bytes stand on each level of each column family, in how many files.

    More than 40 levels are thinned to the largest, and the figure says so.

    Parameters
    ----------
    levels
        As ``store.levels()`` gives them.
    profile
        The options that the store is written with, as ``store.profile()`` gives them, or the name
        of a profile, or where the store lies: each level gets a mark at the size that RocksDB means
        it to have, if its compaction style has such. Column families of other options may differ.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    InputError
        If there is no such profile.
    """
    if not len(levels):
        return plot_nothing(levels, ax=ax)
    drawn = _largest(levels)
    targets = {} if profile is None else _targets(levels, profile_given(profile))
    meant = [targets.get((each.column_family, each.level)) for each in drawn]
    most = _FAR * max(each.size_bytes for each in drawn)
    near = [None if size is None or size > most else size for size in meant]
    lines = wrapped(_level_notes(levels, drawn, meant, near))
    ax = new_axes(ax, (7.2, height(len(drawn), lines)))
    _draw(ax, drawn, near)
    in_bytes(ax.xaxis)
    label(ax, x="SST files of the level", notes=lines)
    head(ax, _levels_seen(levels))
    return ax


def _largest(levels: Sequence[Level]) -> list[Level]:
    if len(levels) <= MOST_ROWS:
        return list(levels)
    least = sorted(each.size_bytes for each in levels)[-MOST_ROWS]
    return [each for each in levels if each.size_bytes >= least][:MOST_ROWS]


def _draw(ax: Axes, drawn: Sequence[Level], targets: Sequence[float | None]) -> None:
    families = list(dict.fromkeys(each.column_family for each in drawn))
    said: list[tuple[float, float, str]] = []
    for row, (each, target) in enumerate(zip(drawn, targets, strict=True)):
        look = look_of(families.index(each.column_family))
        ax.barh(row, each.size_bytes, height=THICKNESS, **look)
        said.append((max(each.size_bytes, target or 0), row, _said(each)))
    marks = [(target, row) for row, target in enumerate(targets) if target is not None]
    if marks:
        look = {"linestyle": "none", "marker": "|", "markersize": 13, "markeredgewidth": 2.2}
        ax.plot(*zip(*marks, strict=True), color=FLAGGED, label="target size", **look)
    name_rows(ax, _names(drawn))
    say_beside(ax, said)


def _said(level: Level) -> str:
    files = f"{counted(level.num_files, 'files')}, {format_bytes(level.size_bytes)}"
    if level.compression == "NoCompression":
        return f"{files}, not compressed"
    kind = shown(level.compression or "compression")
    return (
        files
        if level.raw_bytes is None
        else f"{files}; {format_bytes(level.raw_bytes)} before {kind}"
    )


def _names(drawn: Sequence[Level]) -> list[str]:
    several = len({each.column_family for each in drawn}) > 1
    return [
        f"{shown(each.column_family, 20)} L{each.level}" if several else f"L{each.level}"
        for each in drawn
    ]


def _targets(levels: Sequence[Level], profile: Profile) -> dict[tuple[str, int], float]:
    sizes: dict[str, dict[int, int]] = {}
    for each in levels:
        sizes.setdefault(each.column_family, {})[each.level] = each.size_bytes
    return {
        (family, level): size
        for family, held in sizes.items()
        for level, size in level_targets(profile, held).items()
        if level in held
    }


def _level_notes(
    levels: Sequence[Level],
    drawn: Sequence[Level],
    meant: Sequence[float | None],
    near: Sequence[float | None],
) -> list[str]:
    whys = {why: None for each in drawn for why in each.unknown.values()}
    notes = [f"sizes before compression, of some levels: unknown ({why})" for why in whys]
    if len(levels) > len(drawn):
        notes.append(f"the {len(drawn)} largest of {format_count(len(levels))} levels are drawn")
    known = [size for size in meant if size is not None]
    if known and any(each.level == 0 for each in drawn):
        notes.append(_NO_TARGET)
    far = [
        f"L{each.level} {format_bytes(size)}"
        for each, size, shown_size in zip(drawn, meant, near, strict=True)
        if size is not None and shown_size is None
    ]
    return notes + ([f"target size, too far right to draw: {listed(far)}"] if far else [])


def _levels_seen(levels: Sequence[Level]) -> str:
    total = sum(each.size_bytes for each in levels)
    entries = sum(each.num_entries for each in levels)
    deleted = sum(each.num_deletions for each in levels)
    top = [each for each in levels if each.level == 0] or [
        max(levels, key=lambda each: each.size_bytes)
    ]
    held = sum(each.size_bytes for each in top)
    files = counted(sum(each.num_files for each in top), "files")
    tombstones = f", {deleted / entries:.0%} tombstones" if entries and deleted else ""
    return (
        f"L{top[0].level} holds {files}, {format_bytes(held)} of {format_bytes(total)}; "
        f"{counted(entries, 'entries')} in all{tombstones}"
    )
