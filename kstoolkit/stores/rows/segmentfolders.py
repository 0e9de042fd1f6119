"""The folders of a store's segments, and which of those around them are none of its."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.formats.streams.places import segment_start_ms
from kstoolkit.rocksdb.faults import NoStoreError, translated
from kstoolkit.rocksdb.files.finding import has_remains
from kstoolkit.stores.discovery.segmentnames import are_segments, real_path, segment_name
from kstoolkit.stores.rows.leftout import LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kstoolkit.stores.discovery.segmentnames import SegmentName


_LOOKS, _PAUSE_S = 4, 0.05


@dataclass(frozen=True, slots=True)
class SegmentFolders:
    """The segments of a store, by their folders.

    Parameters
    ----------
    store
        The store's name.
    by_start
        The folders by where the segments begin, epoch ms UTC.
    left_out
        What lies among them and is not read, and why.
    is_by_name_alone
        Whether only the segments' own names tell the store's: their folder has another.
    """

    store: str
    by_start: Mapping[int, Path]
    left_out: tuple[LeftOut, ...] = ()
    is_by_name_alone: bool = False


def segment_folders(folder: Path) -> SegmentFolders | None:
    """Return the segments in a folder; None if there are none, or it is a RocksDB itself.

    Raises
    ------
    NoStoreError
        If only the names of the segments tell whose they are, and they are those of several stores.
    StorePermissionError
        If this user may not look into it.
    """
    with translated(folder):
        if not folder.is_dir() or (folder / "CURRENT").exists():
            return None
        inside = sorted(each for each in folder.iterdir() if each.is_dir())
        stores = [each for each in inside if (each / "CURRENT").exists()]
    name = real_path(folder).name
    own = {
        each: start for each in stores if (start := segment_start_ms(name, each.name)) is not None
    }
    if own:
        return _of_one(name, own, inside, stores)
    named = {each: found for each in stores if (found := _named(each)) is not None}
    names = _stores(named.values())
    if len(names) > 1:
        raise _several(folder, names)
    return _of_copy(names[0], named, inside, stores) if names else None


def _named(folder: Path) -> SegmentName | None:
    """Return what the own name of a folder says, wherever it lies, or leads to."""
    return segment_name(folder) or segment_name(real_path(folder))


def _stores(named: Iterable[SegmentName]) -> list[str]:
    """Return the names of the stores whose segments are named so that they can be segments."""
    starts: dict[str, list[int]] = {}
    for each in named:
        starts.setdefault(each.store, []).append(each.start_ms)
    return [store for store, begin in starts.items() if are_segments(begin)]


def _several(folder: Path, names: list[str]) -> NoStoreError:
    message = f"{folder} holds segments of {len(names)} stores: {', '.join(names)}."
    hint = "Give the folder of one segment, or put each store's into a folder of the store's name."
    return NoStoreError(message, hint=hint)


def _of_copy(
    store: str, named: dict[Path, SegmentName], inside: list[Path], stores: list[Path]
) -> SegmentFolders:
    own = {each: found.start_ms for each, found in named.items() if found.store == store}
    return _of_one(store, own, inside, stores, is_by_name_alone=True)


def _of_one(
    store: str,
    own: dict[Path, int],
    inside: list[Path],
    stores: list[Path],
    *,
    is_by_name_alone: bool = False,
) -> SegmentFolders:
    by_start: dict[int, Path] = {}
    left_out: list[LeftOut] = []
    # Names with a mark of today's come last: they are what Kafka Streams writes to.
    for each, start_ms in sorted(own.items(), key=lambda item: item[0].name.endswith(str(item[1]))):
        other = by_start.get(start_ms)
        if other is not None:
            left_out.append(LeftOut(other, f"{each.name} is the same segment"))
        by_start[start_ms] = each
    foreign = [each for each in stores if each not in own]
    left_out += [LeftOut(each, f"it is no segment of {store!r}") for each in foreign]
    others = [each for each in inside if each not in own and each not in foreign]
    bare = _that_stay([each for each in others if segment_start_ms(store, each.name) is not None])
    for each in bare:
        start = segment_start_ms(store, each.name)
        if start is not None and start not in by_start and has_remains(each):
            by_start[start] = each  # it is damaged, and read as far as it goes
        else:
            left_out.append(LeftOut(each, "it has no CURRENT file"))
    return SegmentFolders(store, by_start, tuple(left_out), is_by_name_alone)


def _that_stay(folders: list[Path]) -> list[Path]:
    """Return which folders stay there without a RocksDB: segments that come or go do not."""
    for _ in range(_LOOKS):
        folders = [each for each in folders if each.exists() and not (each / "CURRENT").exists()]
        if not folders:
            break
        time.sleep(_PAUSE_S)
    return folders
