"""A store that was found, opened for a look: its kind, by its rows, and how it was left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import KstoolkitError
from kstoolkit.formats.streams.kinds import OFFSETS
from kstoolkit.formats.streams.places import read_offsets, segment_interval_ms
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.stores.discovery.changelogs import changelog_of
from kstoolkit.stores.discovery.segmentnames import by_name_alone, real_path
from kstoolkit.stores.rows.statestore import doubted, recognised_as, recognised_at

if TYPE_CHECKING:
    from kstoolkit.formats.streams.recognising import Recognised
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.discovery.foundstore import FoundSegment, FoundStore


_ENDINGS = {"closed": "cleanly", "open": "not cleanly", None: "not cleanly"}
_ASKED = {"closed", "offset"}
_IS_OPEN = "a process has it open"
_NO_OFFSET = "it has no changelog, or nothing of it was ever flushed"


def looked_into(found: FoundStore) -> FoundStore:
    """Return what was found with what a look into its rows tells.

    Whose kind is known by its place, as of a replica, is left as it is; a store that can't be
    opened is returned with why.
    """
    if found.engine in {"kstoolkit", "spark"}:
        return found
    segment = max(found.segments, key=lambda each: each.size_bytes, default=None)
    try:
        path = Path(found.path if segment is None else segment.path)
        with open_store(path, partly=True) as store:
            return _with_kind(found, store, segment)
    except KstoolkitError as error:
        why = f"it can't be opened: {error.message}"
        return replace(found, unknown=found.unknown | {"kind": why, "closed": why})


def _with_kind(found: FoundStore, store: Store, segment: FoundSegment | None) -> FoundStore:
    guess = _recognised(found, store, segment)
    unknown = {name: why for name, why in found.unknown.items() if name != "kind"}
    told = replace(
        found,
        kind=str(guess.kind),
        confidence=guess.confidence,
        reasons=guess.reasons,
        column_families=store.column_families,
        unknown=unknown,
    )
    if segment is None and found.wal_bytes:
        told = _with_wal(told, store)
    return _with_ending(told, store) if OFFSETS in store.column_families else told


def _recognised(found: FoundStore, store: Store, segment: FoundSegment | None) -> Recognised:
    if segment is None:
        return recognised_at(store, real_path(found.path), None)[0]
    guess = recognised_as(
        store,
        None,
        start_ms=segment.start_ms,
        interval_ms=segment_interval_ms(each.start_ms for each in found.segments),
    )
    folder = real_path(segment.path).parent.name
    return guess if folder == found.store else doubted(guess, by_name_alone(found.store, folder))


def _with_wal(found: FoundStore, store: Store) -> FoundStore:
    """Return what was found with an estimate that counts what lies in its WAL alone, too."""
    told = [store.summary(each).estimated_rows for each in store.column_families if each != OFFSETS]
    if None in told:
        return found
    unknown = {name: why for name, why in found.unknown.items() if name != "estimated_keys"}
    return replace(found, estimated_keys=sum(each or 0 for each in told), unknown=unknown)


def _with_ending(found: FoundStore, store: Store) -> FoundStore:
    """Return what was found with what its column family ``offsets`` says."""
    told = read_offsets(store.iter_rows(cf=OFFSETS))
    asked = _offset(found, told.offsets)
    offset = found.offset if asked is None else asked
    closed = None if found.is_locked else _ENDINGS[told.status]
    unknown = {name: why for name, why in found.unknown.items() if name not in _ASKED}
    unknown |= {"closed": _IS_OPEN} if closed is None else {}
    unknown |= {"offset": _NO_OFFSET} if offset is None else {}
    return replace(found, closed=closed, offset=offset, unknown=unknown)


def _offset(found: FoundStore, offsets: dict[tuple[str, int], int]) -> int | None:
    """Return the offset of a store's changelog, or of the one topic that it is kept from."""
    changelog = changelog_of(
        {topic for topic, _ in offsets},
        found.store,
        application=found.application,
        topology=found.topology,
    )
    mine = [
        offset
        for (topic, partition), offset in offsets.items()
        if topic == changelog and found.partition in {None, partition}
    ]
    told = mine or (list(offsets.values()) if len(offsets) == 1 else [])
    return told[0] if told else None
