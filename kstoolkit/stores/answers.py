"""Bundles as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.errors import FormatError
from kstoolkit.formats import countbundle
from kstoolkit.formats.keys import decode_replica_keys, is_of_window
from kstoolkit.rocksdb.faults import MissingFileError
from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.stores.disksegment import DiskSegment
from kstoolkit.stores.memorysegment import MemorySegment
from kstoolkit.stores.records import SegmentState, UserCounts
from kstoolkit.stores.segment import check_ids

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.stores.segment import Pairs, Segment


Found = tuple[bytes | None, list[str]]
"""A bundle, and the texts of the actions of its segment."""

_NOTHING = {"updated_at_ms": "there are no counts of this user in this window"}


def look_up(segment: Segment, key: bytes) -> Found:
    """Return the bundle of a key, with what it takes to read it."""
    value = segment.get(key)
    return value, [] if value is None else segment.actions


def absent(user: str, start_ms: int, end_ms: int) -> UserCounts:
    """Return the answer that there are no counts."""
    return UserCounts(user, start_ms, end_ms, {}, None, dict(_NOTHING))


def counts_of(user: str, start_ms: int, end_ms: int, found: Found) -> UserCounts:
    """Return the counts of a bundle.

    Raises
    ------
    FormatError
        If it is damaged.
    """
    value, actions = found
    if value is None:
        return absent(user, start_ms, end_ms)
    ids, counts, updated_ms = countbundle.decode(value)
    try:
        by_action = {actions[place]: count for place, count in zip(ids, counts, strict=True)}
    except IndexError:
        check_ids(max(ids), actions)
        raise
    return UserCounts(user, start_ms, end_ms, by_action, updated_ms)


def counts_of_page(rows: Pairs, actions: list[str], start_ms: int, end_ms: int) -> list[UserCounts]:
    """Return the counts of those of some rows that are of one window, read as columns."""
    keys, values = rows
    chosen = [place for place, key in enumerate(keys) if is_of_window(key, start_ms)]
    if not chosen:
        return []
    users, _ = decode_replica_keys([keys[place] for place in chosen])
    bundles = countbundle.decode_many([values[place] for place in chosen])
    check_ids(int(bundles.action_id.max(initial=0)), actions)
    texts = np.array(actions, object)[bundles.action_id].tolist()
    counts = bundles.count.tolist()
    ends = np.cumsum(bundles.size).tolist()
    begins = [0, *ends[:-1]]
    return [
        UserCounts(
            user, start_ms, end_ms, dict(zip(texts[a:b], counts[a:b], strict=True)), updated_ms
        )
        for user, a, b, updated_ms in zip(
            users, begins, ends, bundles.updated_at_ms.tolist(), strict=True
        )
    ]


def segment_state(segment: Segment, window: str, span_ms: range, folder: Path) -> SegmentState:
    """Return what there is to say of a segment."""
    about = (window, span_ms.start, span_ms.stop)
    epoch, batch = (segment.mark or (None, None))[:2]
    if isinstance(segment, MemorySegment):
        why = {"sst_bytes": "it is in memory", "disk_bytes": "it is in memory"}
        return SegmentState(*about, None, len(segment), None, None, epoch, batch, why)
    if not isinstance(segment, DiskSegment):
        message = f"A segment of an unknown kind: {segment!r}."
        raise FormatError(message)
    keys, sst_bytes = segment.figures()
    disk_bytes = _disk_bytes(folder)
    why = {} if keys is not None else {"bundles": "RocksDB has no estimate"}
    return SegmentState(*about, str(folder), keys, sst_bytes, disk_bytes, epoch, batch, why)


def _disk_bytes(folder: Path) -> int:
    try:
        return footprint_of(folder).disk_bytes
    except FileNotFoundError as error:  # expired, or set aside, since it was opened
        message = f"The segment {folder} is gone."
        raise MissingFileError(message, hint="Ask again, or restore the replica.") from error
