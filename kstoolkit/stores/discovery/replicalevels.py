"""The levels of a replica that was found: each is a store in segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.formats.streams.places import segment_start_ms
from kstoolkit.records import Records
from kstoolkit.replica.replicafile import FILE, segment_span_ms
from kstoolkit.stores.discovery.foundstore import FoundSegment, FoundStore
from kstoolkit.stores.discovery.ondisk import folder_bytes, on_disk
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def is_replica_level(folder: Path) -> bool:
    """Return whether a folder is ``<replica>/<window in ms>``."""
    return _is_length(folder.name) and (folder.parent / FILE).is_file()


def is_replica_segment(folder: Path) -> bool:
    """Return whether a folder is a segment of a level: one that was set aside is none."""
    is_named = segment_start_ms(folder.parent.name, folder.name) is not None
    return is_named and is_replica_level(folder.parent)


def replica_levels(replica: Path) -> Iterator[FoundStore]:
    """Yield the levels of a replica, the shortest windows first.

    Raises
    ------
    OSError
        If a folder of it can't be read.
    """
    levels = (each for each in replica.iterdir() if _is_length(each.name) and each.is_dir())
    yield from map(replica_level, sorted(levels, key=lambda each: int(each.name)))


def replica_level(level: Path, only: Path | None = None) -> FoundStore:
    """Return a level of a replica as a store, or the one segment of it that is asked for."""
    folders = sorted(level.iterdir()) if only is None else [only]
    starts = {each: segment_start_ms(level.name, each.name) for each in folders}
    segments = {each: start_ms for each, start_ms in starts.items() if start_ms is not None}
    held = on_disk(segments)
    counted = held.counted()
    return FoundStore(
        str(only or level),
        "kstoolkit",
        level.parent.name,
        format_duration(int(level.name)),
        kind="window",
        confidence=1.0,
        reasons=("a level of a replica",),
        segments=_replica_segments(segments, int(level.name)),
        column_families=held.column_families,
        size_bytes=held.size_bytes,
        disk_bytes=held.disk_bytes,
        wal_bytes=held.wal_bytes,
        num_entries=counted.num_entries,
        num_deletions=counted.num_deletions,
        estimated_keys=counted.estimated_keys,
        format_versions=held.format_versions,
        unknown=counted.unknown,
    )


def _is_length(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _replica_segments(starts: dict[Path, int], window_ms: int) -> Records[FoundSegment]:
    sizes = {each: folder_bytes(each) for each in starts}
    found = [
        FoundSegment(
            str(each), starts[each], size, end_ms=segment_span_ms(window_ms, starts[each]).stop
        )
        for each, size in sizes.items()
        if size is not None
    ]
    return Records(sorted(found, key=lambda each: each.start_ms), "segments")
