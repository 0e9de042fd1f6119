"""A Kafka Streams store that was found: what its place, its files and its checkpoint say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.kinds import DEFAULT, OFFSETS, STREAMS_FAMILIES, live_family
from kstoolkit.formats.streams.places import read_checkpoint, segment_interval_ms
from kstoolkit.formats.streams.recognising import recognise
from kstoolkit.records import Records
from kstoolkit.stores.discovery.changelogs import changelog_of
from kstoolkit.stores.discovery.foundstore import FoundSegment, FoundStore
from kstoolkit.stores.discovery.ondisk import OnDisk, folder_bytes, on_disk
from kstoolkit.stores.discovery.segmentnames import BY_NAME_ALONE, by_name_alone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kstoolkit.formats.streams.recognising import Place
    from kstoolkit.stores.discovery.streamsplace import StreamsPlace


_CERTAIN = 0.9
_CHECKPOINT = ".checkpoint"
_NO_OFFSET = "the task's checkpoint does not name its changelog"
_NO_CHECKPOINT = (
    "there is no checkpoint file: under exactly-once it goes when a store is opened and comes when "
    "it is closed; without it a restart restores the store from the start"
)
_ASK_OFFSETS = "there is no checkpoint file: look=True asks the column family offsets for it"
_OPEN_IT = "only its rows tell: look=True opens it"
_NO_SIGN = "Kafka Streams before 4.3 leaves no sign of it"
_NOT_CLOSED = (
    "Kafka Streams before 4.3 leaves no sign of it but a checkpoint file, and there is none: it is "
    "running, was not closed cleanly, or its task has no changelog"
)
_NOT_TOLD = "a file of it does not tell"
_NO_OPTIONS = "there is no OPTIONS file that names its column families"


def streams_store(places: Sequence[tuple[Path, StreamsPlace]], root: Path) -> FoundStore:
    """Return the store that lies in one folder, or in several as its segments.

    Parameters
    ----------
    places
        The folders, and what their places say.
    root
        Where they were looked for: if that is a segment, the others of the store are not asked for.
    """
    folders = [folder for folder, _ in places]
    is_alone = len(places) == 1 and places[0][1].is_by_name_alone
    place, held = places[0][1], on_disk(folders)
    families = tuple(name for name in held.column_families if name != OFFSETS)
    kind, confidence, reasons = _kind(families, place)
    keeps_offsets = OFFSETS in held.column_families
    offset, no_offset = _offset(place, _ASK_OFFSETS if keeps_offsets else _NO_CHECKPOINT)
    unknown = {"closed": _OPEN_IT if keeps_offsets else _no_sign(place)}
    if kind is None:
        unknown["kind"] = _OPEN_IT if families else _NO_OPTIONS
    if offset is None:
        unknown["offset"] = no_offset
    if held.num_entries is None:
        unknown["num_not_rewritten"] = _NOT_TOLD
    counted = held.counted(_but_offsets(held))
    return FoundStore(
        str(folders[0] if is_alone or root in folders else place.folder),
        "kafka-streams",
        place.application,
        place.store,
        topology=place.topology,
        subtopology=place.subtopology,
        partition=place.partition,
        kind=kind,
        confidence=confidence,
        reasons=reasons,
        segments=_streams_segments(places),
        column_families=held.column_families,
        size_bytes=held.size_bytes,
        disk_bytes=held.disk_bytes,
        wal_bytes=held.wal_bytes,
        num_entries=counted.num_entries,
        num_deletions=counted.num_deletions,
        estimated_keys=counted.estimated_keys,
        num_not_rewritten=_not_rewritten(held),
        format_versions=held.format_versions,
        offset=offset,
        unknown=unknown | counted.unknown,
    )


def _kind(
    families: tuple[str, ...], place: StreamsPlace
) -> tuple[str | None, float | None, tuple[str, ...]]:
    """Return the kind, if the column families leave no doubt of it."""
    if not families:
        return None, None, ()
    nothing = ByteColumn.of([])
    lies: Place = "store" if place.segment_start_ms is None else "segment"
    guess = recognise(families, nothing, nothing, place=lies, store=place.store)
    if guess.confidence < _CERTAIN:
        return None, None, ()
    if not place.is_by_name_alone:
        return str(guess.kind), guess.confidence, guess.reasons
    why = by_name_alone(place.store, place.folder.name)
    return str(guess.kind), round(guess.confidence * BY_NAME_ALONE, 3), (*guess.reasons, why)


def _but_offsets(held: OnDisk) -> set[str]:
    """Return the column families that hold what the application put in."""
    return {*(held.num_entries or {})} - {OFFSETS}


def _not_rewritten(held: OnDisk) -> int | None:
    """Return the entries in column families that a newer kind of store has taken over."""
    if held.num_entries is None:
        return None
    live = live_family(held.column_families)
    return sum(
        count
        for family, count in held.num_entries.items()
        if family in STREAMS_FAMILIES | {DEFAULT} and family != live
    )


def _no_sign(place: StreamsPlace) -> str:
    return _NO_SIGN if (place.task_folder / _CHECKPOINT).exists() else _NOT_CLOSED


def _streams_segments(places: Sequence[tuple[Path, StreamsPlace]]) -> Records[FoundSegment]:
    starts = {folder: place.segment_start_ms for folder, place in places}
    length_ms = _length_ms(starts)
    found = [
        FoundSegment(
            str(folder), start_ms, size, end_ms=None if length_ms is None else start_ms + length_ms
        )
        for folder, start_ms in starts.items()
        if start_ms is not None and (size := folder_bytes(folder)) is not None
    ]
    return Records(sorted(found, key=lambda each: each.start_ms), "segments")


def _length_ms(starts: Mapping[Path, int | None]) -> int | None:
    """Return how long segments are at most; None if fewer than two, or minutes, tell of it."""
    known = [each for each in starts.values() if each is not None]
    to_the_ms = all(folder.name.endswith(str(start)) for folder, start in starts.items())
    return segment_interval_ms(known) if len(known) > 1 and to_the_ms else None


def _offset(place: StreamsPlace, why: str) -> tuple[int | None, str]:
    """Return how far of the changelog is in a store, or why that is not known.

    ``why`` is so if there is no checkpoint file.
    """
    for name in (_CHECKPOINT, f"{_CHECKPOINT}_{place.store}"):
        path = place.task_folder / name
        if path.exists() and not path.is_file():
            why = f"what should be the checkpoint file is none: {name}"
            continue
        try:
            told = read_checkpoint(path.read_bytes()).offsets
        except OSError:
            continue
        except FormatError as error:
            why = error.message
            continue
        why = _NO_OFFSET
        changelog = changelog_of(
            {topic for topic, _ in told},
            place.store,
            application=place.application,
            topology=place.topology,
        )
        for (topic, partition), offset in told.items():
            if topic == changelog and (place.is_global or partition == place.partition):
                return offset, "the checkpoint names it without an offset"
    return None, why
