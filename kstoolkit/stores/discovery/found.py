"""What is known of a store that was found: what its place and its files say, without opening it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kstoolkit.errors import FormatError, KstoolkitError
from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.rocksdb.files.finding import irregular_files
from kstoolkit.rocksdb.files.options import read_options
from kstoolkit.rocksdb.files.ssts import as_count, read_footer, read_properties
from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.rocksdb.log.lines import log_files
from kstoolkit.rocksdb.log.storelog import count_errors
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
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
    path, engine, store
        Its folder (of a store in segments, the folder that holds them), who wrote it, and its name.
    application
        Kafka Streams' application id, or the folder of Spark's checkpoint or of the replica.
    topology, subtopology, operator
        Of Kafka Streams: topology, if named, and sub-topology's number; of Spark, the operator's.
    partition
        Which partition it holds; None for a store that holds all.
    kind, confidence, reasons
        What it is for (a window store, an aggregation), how sure that is, and what speaks for it.
    segments, column_families
        Its segments, earliest first, and the names of its column families.
    size_bytes, disk_bytes
        How long its files are, and what they take on the disk.
    wal_bytes
        How long its WALs are among them: rows in those alone are in none of the counts below.
    num_entries, num_deletions
        Rows, older versions and tombstones in its files by RocksDB's own counts; the tombstones.
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
    errors
        How many lines of its log tell of errors, since it was last opened.
    errors_before
        How many of the logs do that RocksDB set aside, ``LOG.old.*``: of before that.
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
    errors: int | None = of_source(Source.LOG, None)
    errors_before: int | None = of_source(Source.LOG, None)
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
        kind, size = self.kind or "of unknown kind", format_bytes(self.size_bytes)
        what = f"{self.engine} {kind}{guess}{part}{segments}, {size}"
        return f"FoundStore({self.store!r}{whose}, {what})"


_ENTRIES, _DELETIONS = "rocksdb.num.entries", "rocksdb.deleted.keys"
_FAMILY = "rocksdb.column.family.name"
_NOT_TOLD = "a file of it does not tell"
_TOLD = ("column_families", "size_bytes", "disk_bytes", "wal_bytes", "format_versions")
_ERRORS = ("errors", "errors_before")
_ODD = "a file of it is none, but a pipe or the like"
_MOST_LOG_BYTES = 256 << 20
_TOO_LONG = f"its logs have more than {format_bytes(_MOST_LOG_BYTES)}: kstoolkit log reads them"


@dataclass(frozen=True, slots=True)
class OnDisk:
    """What one or several RocksDB folders hold together; counts are by column family.

    A count is None if a file doesn't tell. What lies in WALs may be in no SST file yet.
    """

    size_bytes: int
    disk_bytes: int
    column_families: tuple[str, ...]
    num_entries: dict[str, int] | None
    num_deletions: dict[str, int] | None
    format_versions: tuple[int, ...]
    wal_bytes: int
    errors: tuple[int, int] | str

    def figures(self, families: Collection[str] | None = None) -> dict[str, Any]:
        """Return what a :class:`FoundStore` has of it; counts are of some families, or of all.

        About how many keys there are is estimated as RocksDB does: each tombstone is taken to stand
        for one entry that is still there (``VersionStorageInfo::GetEstimatedActiveKeys``).
        """
        entries = _sum_of(self.num_entries, families)
        deletions = _sum_of(self.num_deletions, families)
        keys = None
        why = _NOT_TOLD
        if entries == 0 and self.wal_bytes:
            why = f"no SST file has any yet: all may be in its WAL of {self.wal_bytes} bytes"
            entries = deletions = None
        elif entries is not None and deletions is not None:
            keys = max(entries - 2 * deletions, 0)
        counts = {"num_entries": entries, "num_deletions": deletions, "estimated_keys": keys}
        unknown = {name: why for name, count in counts.items() if count is None}
        if isinstance(self.errors, str):
            unknown |= dict.fromkeys(_ERRORS, self.errors)
        else:
            counts |= dict(zip(_ERRORS, self.errors, strict=True))
        return {name: getattr(self, name) for name in _TOLD} | counts | {"unknown": unknown}


@dataclass(frozen=True, slots=True)
class _Table:
    family: str
    num_entries: int | None
    num_deletions: int | None
    format_version: int | None


def on_disk(folders: Iterable[Path]) -> OnDisk:
    """Return what some folders hold; files that vanish meanwhile are left out."""
    size = disk = wal = 0
    families: dict[str, None] = {}
    tables: list[_Table | None] = []
    errors: list[tuple[int, int] | str] = []
    for folder in folders:
        with suppress(OSError):
            footprint = footprint_of(folder)
            size, disk = size + footprint.apparent_bytes, disk + footprint.disk_bytes
            wal += footprint.wal_bytes
            odd = irregular_files(folder)
            families |= dict.fromkeys([] if odd else _families(folder))
            errors.append(_ODD if odd else _errors(folder))
            for name in footprint.ssts:
                with suppress(FileNotFoundError):  # compacted away meanwhile
                    tables.append(None if name in odd else _table(folder / name))
    versions = {each.format_version for each in tables if each is not None}
    told = [each for each in errors if not isinstance(each, str)]
    sums = sum(each for each, _ in told), sum(each for _, each in told)
    return OnDisk(
        size,
        disk,
        tuple(families),
        _summed(tables, "num_entries"),
        _summed(tables, "num_deletions"),
        tuple(sorted(each for each in versions if each is not None)),
        wal,
        next((each for each in errors if isinstance(each, str)), sums),
    )


def _errors(folder: Path) -> tuple[int, int] | str:
    """Return how many errors a log tells of, and what was set aside of it, or why not."""
    try:
        *aside, newest = log_files(folder)
        if sum(each.stat().st_size for each in (*aside, newest)) > _MOST_LOG_BYTES:
            return _TOO_LONG
        return count_errors(newest), sum(map(count_errors, aside))
    except KstoolkitError as error:
        return error.message.rstrip(".")
    except OSError as error:
        return f"its log can't be read: {error.strerror}"


def folder_bytes(folder: Path) -> int | None:
    """Return how long the files of a folder are; None if it is gone by now."""
    with suppress(OSError):
        return footprint_of(folder).apparent_bytes
    return None


def _families(folder: Path) -> list[str]:
    with suppress(NoStoreError, FormatError, OSError):
        named = (each.column_family for each in read_options(folder) if each.kind == "CFOptions")
        return [each for each in named if each]
    return []


def _table(path: Path) -> _Table | None:
    """Return what an SST file tells of itself, unless it is gone; None if it can't be read."""
    try:
        footer, properties = read_footer(path), read_properties(path)
    except (OSError, FormatError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        return None
    return _Table(
        properties.get(_FAMILY, b"default").decode(errors="replace"),
        as_count(properties.get(_ENTRIES)),
        as_count(properties.get(_DELETIONS)),
        None if footer is None else footer.format_version,
    )


def _summed(tables: list[_Table | None], name: str) -> dict[str, int] | None:
    """Return the sums of a figure of tables, by column family; None if a table lacks it."""
    sums: dict[str, int] = {}
    for each in tables:
        count = None if each is None else getattr(each, name)
        if each is None or count is None:
            return None
        sums[each.family] = sums.get(each.family, 0) + count
    return sums


def _sum_of(counts: dict[str, int] | None, families: Collection[str] | None) -> int | None:
    if counts is None:
        return None
    return sum(count for name, count in counts.items() if families is None or name in families)
