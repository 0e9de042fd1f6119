"""A Kafka Streams store that was found: what its place, its files and its checkpoint say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.checkpoint import read_checkpoint
from kstoolkit.formats.streams.kinds import OFFSETS
from kstoolkit.formats.streams.recognising import recognise
from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.rocksdb.records import Records
from kstoolkit.stores.discovery.foundstore import FoundSegment, FoundStore
from kstoolkit.stores.discovery.ondisk import OnDisk, on_disk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kstoolkit.stores.discovery.streamsplace import StreamsPlace

__all__ = ["streams_store"]

_CERTAIN = 0.9
_NO_OFFSET = "the task's checkpoint does not name its changelog"
_NO_CHECKPOINT = "there is no checkpoint file: look=True asks the column family offsets for it"
_OPEN_IT = "only its rows tell: look=True opens it"
_NO_SIGN = "Kafka Streams before 4.3 leaves no sign of it"
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
    place, held = places[0][1], on_disk(folders)
    families = tuple(name for name in held.column_families if name != OFFSETS)
    kind, confidence, reasons = _kind(families, place)
    offset, no_offset = _offset(place)
    unknown = {} if kind is not None else {"kind": _OPEN_IT if families else _NO_OPTIONS}
    if offset is None:
        unknown["offset"] = no_offset
    unknown["closed"] = _OPEN_IT if OFFSETS in held.column_families else _NO_SIGN
    count = _entries(held)
    if count is None:
        unknown["num_entries"] = "a file of it does not tell"
    return FoundStore(
        str(root if root in folders else place.folder),
        "kafka-streams",
        place.application,
        place.store,
        topology=place.topology,
        subtopology=place.subtopology,
        partition=place.partition,
        kind=kind,
        confidence=confidence,
        reasons=reasons,
        segments=_segments(places),
        column_families=held.column_families,
        size_bytes=held.size_bytes,
        disk_bytes=held.disk_bytes,
        num_entries=count,
        format_versions=held.format_versions,
        offset=offset,
        unknown=unknown,
    )


def _kind(
    families: tuple[str, ...], place: StreamsPlace
) -> tuple[str | None, float | None, tuple[str, ...]]:
    """Return the kind, if the column families leave no doubt of it."""
    if not families:
        return None, None, ()
    nothing = ByteColumn.of([])
    lies = "store" if place.segment_start_ms is None else "segment"
    guess = recognise(families, nothing, nothing, place=lies)  # type: ignore[arg-type] # one of both
    if guess.confidence < _CERTAIN:
        return None, None, ()
    return str(guess.kind), guess.confidence, guess.reasons


def _entries(held: OnDisk) -> int | None:
    if held.num_entries is None:
        return None
    return sum(count for family, count in held.num_entries.items() if family != OFFSETS)


def _segments(places: Sequence[tuple[Path, StreamsPlace]]) -> Records[FoundSegment]:
    found = [
        FoundSegment(str(folder), place.segment_start_ms, footprint_of(folder).apparent_bytes)
        for folder, place in places
        if place.segment_start_ms is not None
    ]
    return Records(sorted(found, key=lambda each: each.start_ms), "segments")


def _offset(place: StreamsPlace) -> tuple[int | None, str]:
    """Return how far of the changelog is in a store, or why that is not known."""
    why = _NO_CHECKPOINT
    for name in (".checkpoint", f".checkpoint_{place.store}"):
        try:
            told = read_checkpoint((place.task_folder / name).read_bytes()).offsets
        except OSError:
            continue
        except FormatError as error:
            why = error.message
            continue
        why = _NO_OFFSET
        for (topic, partition), offset in told.items():
            mine = topic.endswith(f"-{place.store}-changelog")
            if mine and (place.is_global or partition == place.partition):
                return offset, "the checkpoint names it without an offset"
    return None, why
