"""A store that was found: what its place and its files say, without opening it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from pathlib import Path


Engine = Literal["kafka-streams", "spark", "kstoolkit", "rocksdb"]
"""Who wrote a store; ``rocksdb`` if nothing says more."""

_GUESS = 0.5
_NO_END = "the names of at least two segments, to the ms, would tell"


@dataclass(frozen=True, slots=True)
class FoundSegment(Record):
    """A segment of a store: the folder, and the times that its rows are of, epoch ms UTC.

    ``end_ms`` is when they end at the latest, as far as the starts of all segments tell; a store of
    few segments may have shorter ones. None if only one is there.
    """

    path: str
    start_ms: int = of_source(Source.STORE)
    size_bytes: int = of_source(Source.STORE)
    end_ms: int | None = of_source(Source.FORMULA, None)

    @property
    def unknown(self) -> dict[str, str]:
        """Why its end is unknown, if it is."""
        return {} if self.end_ms is not None else {"end_ms": _NO_END}


@dataclass(frozen=True, slots=True, repr=False)
class FoundStore(Record):
    """A store that was found.

    Parameters
    ----------
    path
        Its folder; of a store in segments, the folder that holds them.
    engine
        Who wrote it.
    application
        Kafka Streams' application id, or the folder of Spark's checkpoint or of the replica.
    store
        Its name.
    topology, subtopology
        Of Kafka Streams: its topology, if that has a name, and the number of the sub-topology.
    operator
        Of Spark: the number of the operator.
    partition
        Which partition it holds; None for a store that holds all.
    kind
        What it is for: a window store, a session store, an aggregation.
    confidence, reasons
        How sure that is, from 0 to 1, and what speaks for it.
    segments
        Its segments, earliest first.
    column_families
        The names of its column families.
    size_bytes, disk_bytes
        How long its files are, and what they take on the disk.
    wal_bytes
        How long its WALs are among them: rows in those alone are in none of the counts below.
    num_entries
        Rows, older versions and tombstones in its files: RocksDB's own counts of them.
    num_deletions
        The tombstones among them.
    estimated_keys
        About how many keys these are, as RocksDB estimates it: a tombstone takes away an entry.
    num_not_rewritten
        Those of them that an upgrade to a newer kind of store has not rewritten: they lie in the
        column family of the older kind, in its form.
    format_versions
        The format versions of its SST files.
    versions
        Of Spark: the oldest and the newest version of the state that can be read.
    offset
        How far of its changelog is in it: the last offset applied; of a global store the next.
    closed
        ``"cleanly"`` or ``"not cleanly"``; None if nothing tells. A store that was closed cleanly,
        opened again and killed before it wrote anything still looks cleanly closed.
    is_locked
        Whether a process has it open.
    unknown
        Why a figure is unknown, by its name.
    """

    path: str
    engine: Engine
    application: str | None
    store: str
    topology: str | None = None
    subtopology: int | None = None
    operator: int | None = None
    partition: int | None = None
    kind: str | None = of_source(Source.STORE, None)
    confidence: float | None = of_source(Source.STORE, None)
    reasons: tuple[str, ...] = ()
    segments: Records[FoundSegment] = field(default_factory=lambda: Records((), "segments"))
    column_families: tuple[str, ...] = of_source(Source.OPTIONS, ())
    size_bytes: int = of_source(Source.STORE, 0)
    disk_bytes: int = of_source(Source.STORE, 0)
    wal_bytes: int = of_source(Source.STORE, 0)
    num_entries: int | None = of_source(Source.STORE, None)
    num_deletions: int | None = of_source(Source.STORE, None)
    estimated_keys: int | None = of_source(Source.FORMULA, None)
    num_not_rewritten: int | None = of_source(Source.STORE, 0)
    format_versions: tuple[int, ...] = of_source(Source.STORE, ())
    versions: tuple[int, int] | None = of_source(Source.STORE, None)
    offset: int | None = of_source(Source.STORE, None)
    closed: str | None = of_source(Source.STORE, None)
    is_locked: bool | None = of_source(Source.SYSTEM, None)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def task(self) -> str | None:
        """Kafka Streams' name of the task, ``<sub-topology>_<partition>``."""
        if self.subtopology is None:
            return None
        task = f"{self.subtopology}_{self.partition}"
        return task if self.topology is None else f"{self.topology}__{task}"

    def __repr__(self) -> str:
        whose = f" of {self.application!r}" if self.application else ""
        part = "" if self.partition is None else f", partition {self.partition}"
        segments = f", {counted(len(self.segments), 'segments')}" if self.segments else ""
        guess = " (a guess)" if self.confidence is not None and self.confidence < _GUESS else ""
        return (
            f"FoundStore({self.store!r}{whose}, {self.engine} {self.kind or 'of unknown kind'}"
            f"{guess}{part}{segments}, {format_bytes(self.size_bytes)})"
        )


class FoundStores(Records[FoundStore]):
    """The stores under a folder, and the folders that could not be looked into.

    Parameters
    ----------
    rows
        The stores.
    root
        Where was looked.
    unreadable
        The folders that could not be read, this one or below it, and why.
    """

    def __init__(self, rows: list[FoundStore], root: Path, unreadable: dict[str, str]) -> None:
        super().__init__(rows, "stores")
        self.root, self.unreadable = root, unreadable

    def __repr__(self) -> str:
        size = format_bytes(sum(each.size_bytes for each in self))
        hidden = len(self.unreadable)
        missed = f", {counted(hidden, 'folders')} could not be read" if hidden else ""
        return f"FoundStores({counted(len(self), 'stores')} in {str(self.root)!r}, {size}{missed})"
