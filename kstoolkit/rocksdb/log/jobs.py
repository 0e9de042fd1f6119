"""What a log tells of flushes, compactions, write stalls and errors, put together from its lines.

The lines of a job carry its number, which begins anew whenever the store is opened. One job may
flush several column families, one after the other. The messages on stalls are those of
``ColumnFamilyData::RecalculateWriteStallConditions`` in RocksDB's ``db/column_family.cc``. Errors
are lines of level ERROR or FATAL, whatever they say, and WARN lines of the same: most are written
by ``DBImpl::BackgroundCallFlush`` and ``BackgroundCallCompaction`` with the text of a ``Status``.
No rows are not the same as no knowledge: rows say why the log can't tell of more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.log.lines import NO_ZONE, event_of, list_in, number_in, of_micros, text_in
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from kstoolkit.rocksdb.log.lines import Event, LogLine


@dataclass(frozen=True, slots=True, repr=False)
class BackgroundJob(Record):
    """A job: when it was done, whose, and why.

    Parameters
    ----------
    at, finished_at
        When it began and ended (UTC). One that was not finished has no end: the files that it
        wrote are deleted again, and those that it read stay.
    column_family, job
        Whose; the number that RocksDB gave the job since its last open.
    reason, status
        Why, and how it ended, in RocksDB's words: ``"OK"``, ``"Shutdown in progress"`` ...
    wasted_bytes
        What it wrote for nothing, as it was not finished.
    """

    at: datetime | None = of_source(Source.LOG)
    finished_at: datetime | None = of_source(Source.LOG)
    column_family: str | None = of_source(Source.LOG)
    job: int | None = of_source(Source.LOG)
    reason: str | None = of_source(Source.LOG)
    status: str | None = of_source(Source.LOG)
    wasted_bytes: int | None = of_source(Source.LOG)

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        return unfinished(self) or f"job {self.job}"

    def __repr__(self) -> str:
        moment = self.at or self.finished_at
        when = "at an unknown time" if moment is None else f"{moment:%F %T} UTC"
        return f"{type(self).__name__}({when}, {self.column_family!r}: {self.sentence})"


def _job_figures(job: JobEvents) -> dict[str, Any]:
    """Return, by name, what the records of all kinds have of a job; each kind has reasons."""
    ended = None if job.failed else number_in(job.finished, "time_micros")
    return {
        "at": of_micros(number_in(job.started, "time_micros")),
        "finished_at": of_micros(ended),
        "status": job.status,
        "wasted_bytes": job.wasted_bytes,
        "column_family": job.column_family,
        "job": job.number,
        "duration_ms": job.duration_ms,
    }


def unfinished(job: BackgroundJob) -> str | None:
    """Return how a job stands that was not finished, for people; None if it was."""
    if job.status not in {None, "OK"}:
        return f"not finished ({job.status}): {format_bytes(job.wasted_bytes)} written for nothing"
    if job.finished_at is None and job.at is not None:
        return "no end is logged"
    return None


@dataclass(frozen=True, slots=True, repr=False)
class Flush(BackgroundJob):
    """A flush, or the replay of a write-ahead log at an open, which leaves a file just so.

    Parameters
    ----------
    reason
        Why, in RocksDB's words: ``"Write Buffer Full"``, ``"Shut down"`` ...; ``"Recovery"``.
    num_memtables, num_entries, num_deletes, input_bytes, memory_bytes
        What was flushed: with its keys and values, and the memory they took.
    output_bytes, num_files_out, compression
        The SST files that were written; none by a flush that was not finished.
    duration_ms, cpu_ms
        How long it took.
    store
        Which of Spark's stores, in a log of Spark's that says it.
    """

    kind: ClassVar[str] = "flush"
    num_memtables: int | None = of_source(Source.LOG)
    num_entries: int | None = of_source(Source.LOG)
    num_deletes: int | None = of_source(Source.LOG)
    input_bytes: int | None = of_source(Source.LOG)
    memory_bytes: int | None = of_source(Source.LOG)
    output_bytes: int | None = of_source(Source.LOG)
    num_files_out: int | None = of_source(Source.LOG)
    duration_ms: float | None = of_source(Source.LOG)
    cpu_ms: float | None = of_source(Source.LOG)
    compression: str | None = of_source(Source.LOG)
    store: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_job(cls, job: JobEvents) -> Flush:
        """Build the record of what was logged of a job."""
        renamed = "total_num_input_entries"  # by RocksDB 10.4
        entries = "num_entries" if "num_entries" in job.started else renamed
        reason = "Recovery" if job.kind == "recovery" else text_in(job.started, "flush_reason")
        values = _job_figures(job) | {
            "reason": reason,
            "num_memtables": number_in(job.started, "num_memtables"),
            "num_entries": number_in(job.started, entries),
            "num_deletes": number_in(job.started, "num_deletes"),
            "input_bytes": number_in(job.started, "total_data_size"),
            "memory_bytes": number_in(job.started, "memory_usage"),
            "output_bytes": 0 if job.failed else job.written_bytes,
            "num_files_out": 0 if job.failed else job.num_files,
            "cpu_ms": _in_ms(job.cpu_micros),
            "compression": text_in(job.finished, "output_compression") or job.compression,
        }
        return cls(**values, store=job.store, unknown=job.why_unknown(values))

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        into = unfinished(self) or f"to {format_bytes(self.output_bytes)}"
        entries = _count(self.num_entries, "entries")
        return f"{entries} of {format_bytes(self.input_bytes)} {into} ({self.reason})"


_INPUT_LEVEL = re.compile(r"files_L([0-9]{1,3})")


@dataclass(frozen=True, slots=True, repr=False)
class Compaction(BackgroundJob):
    """A compaction, or a trivial move: files that went a level down without being rewritten.

    Parameters
    ----------
    reason
        Why, in RocksDB's words: ``"LevelL0FilesNum"``, ``"UniversalSizeRatio"`` ...
    from_levels, to_level
        The levels of the files that went in, and of those that came out.
    num_files_in, input_bytes, num_records_in, num_files_out, output_bytes, num_records_out
        What went in, and came out: no file and no byte of one that was not finished.
    num_records_dropped
        Records in less records out: overwritten, deleted, expired or merged.
    duration_ms, cpu_ms, num_subcompactions, compression
        How long it took, how many threads shared it, how the new files are compressed.
    moved
        Whether it was a trivial move: nothing was written.
    store
        Which of Spark's stores, in a log of Spark's that says it.
    """

    from_levels: tuple[int, ...] | None = of_source(Source.LOG)
    to_level: int | None = of_source(Source.LOG)
    num_files_in: int | None = of_source(Source.LOG)
    num_files_out: int | None = of_source(Source.LOG)
    input_bytes: int | None = of_source(Source.LOG)
    output_bytes: int | None = of_source(Source.LOG)
    num_records_in: int | None = of_source(Source.LOG)
    num_records_out: int | None = of_source(Source.LOG)
    num_records_dropped: int | None = of_source(Source.LOG)
    duration_ms: float | None = of_source(Source.LOG)
    cpu_ms: float | None = of_source(Source.LOG)
    num_subcompactions: int | None = of_source(Source.LOG)
    compression: str | None = of_source(Source.LOG)
    moved: bool = of_source(Source.LOG, default=False)
    store: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_job(cls, job: JobEvents) -> Compaction:
        """Build the record of what was logged of a job."""
        started, finished = job.started, job.finished
        levels = {name: _INPUT_LEVEL.fullmatch(name) for name in started}
        inputs = {int(at[1]): len(list_in(started, name)) for name, at in levels.items() if at}
        records_in = number_in(finished, "num_input_records")
        records_out = number_in(finished, "num_output_records")
        known = records_in is not None and records_out is not None and not job.failed
        values = _job_figures(job) | {
            "reason": text_in(started, "compaction_reason"),
            "from_levels": tuple(sorted(inputs)) if started else None,
            "to_level": number_in(finished, "output_level"),
            "num_files_in": sum(inputs.values()) if started else None,
            "num_files_out": 0 if job.failed else number_in(finished, "num_output_files"),
            "input_bytes": number_in(started, "input_data_size"),
            "output_bytes": 0 if job.failed else number_in(finished, "total_output_size"),
            "num_records_in": records_in,
            "num_records_out": 0 if job.failed else records_out,
            "num_records_dropped": (records_in or 0) - (records_out or 0) if known else None,
            "cpu_ms": _in_ms(number_in(finished, "compaction_time_cpu_micros")),
            "num_subcompactions": number_in(finished, "num_subcompactions"),
            "compression": text_in(finished, "output_compression"),
        }
        return cls(**values, store=job.store, unknown=job.why_unknown(values))

    @classmethod
    def of_move(cls, event: Event, column_family: str | None, store: str | None) -> Compaction:
        """Build the record of a ``trivial_move`` event."""
        files, size = number_in(event, "files"), number_in(event, "total_files_size")
        at = of_micros(number_in(event, "time_micros"))
        known = {
            "at": at,
            "finished_at": at,
            "column_family": column_family,
            "job": number_in(event, "job"),
            "to_level": number_in(event, "destination_level"),
            "num_files_in": files,
            "num_files_out": files,
            "input_bytes": size,
            "output_bytes": size,
            "wasted_bytes": 0,
            "moved": True,
            "store": store,
        }
        untold = [name for each in fields(cls) if (name := each.name) not in {*known, "unknown"}]
        why = dict.fromkeys(untold, "the event of a trivial move doesn't tell")
        return cls(**known, **dict.fromkeys(untold), unknown=why)  # type: ignore[arg-type] # by name

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "move" if self.moved else "compaction"

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        files, size = _count(self.num_files_in, "files"), format_bytes(self.input_bytes)
        to_level = "L?" if self.to_level is None else f"L{self.to_level}"
        if self.moved:
            return f"{files}, {size}, to {to_level} as they were"
        levels = "+".join(f"L{level}" for level in self.from_levels or ()) or "L?"
        dropped = _count(self.num_records_dropped, "records")
        how = unfinished(self) or f"{format_bytes(self.output_bytes)}, {dropped} dropped"
        return f"{files}, {size}, {levels} to {to_level}: {how} ({self.reason})"


def _count(number: int | None, kind: str) -> str:
    return f"? {kind}" if number is None else counted(number, kind)


def _in_ms(micros: int | None) -> float | None:
    return None if micros is None else micros / 1000


_MOST_OPEN = 1000
_JOB = re.compile(r"\[JOB ([0-9]{1,9})\] ")
_LASTED = re.compile(
    r"\[JOB [0-9]{1,9}\] Flush lasted ([0-9]{1,18}) microseconds, and ([0-9]{1,18}) cpu"
)
_FLUSHED = re.compile(
    r"\[JOB ([0-9]{1,9})\] Level-0 flush table #[0-9]{1,20}: [0-9]{1,20} bytes (.{1,500})"
)
_COMPACTED = re.compile(r" write-amplify\([^)]{1,20}\) (.{1,500}?), records in: ")
_TO_LEVEL = re.compile(r" level ([0-9]{1,3}), files in")
_COMPACTED_TO = "compacted to: "
_OK = "OK"
_SESSION = "DB Session ID:"
_STARTS = {"flush_started", "compaction_started", "recovery_started"}
_ENDS = {"flush_finished", "compaction_finished", "recovery_finished"}


@dataclass(slots=True)
class JobEvents:
    """What was logged of a job so far."""

    number: int | None
    kind: str
    store: str | None = None
    started: Event = field(default_factory=dict)
    finished: Event = field(default_factory=dict)
    column_family: str | None = None
    compression: str | None = None
    num_files: int | None = 0
    written_bytes: int | None = 0
    lasted_micros: int | None = None
    cpu_micros: int | None = None
    status: str | None = None

    @property
    def failed(self) -> bool:
        """Whether it is said to have ended otherwise than well: its files are not kept."""
        return self.status is not None and self.status != _OK

    @property
    def wasted_bytes(self) -> int | None:
        """What it wrote for nothing: files that RocksDB deletes again."""
        if not self.failed:
            return 0 if self.finished else None
        told = number_in(self.finished, "total_output_size")
        return self.written_bytes if told is None else told

    @property
    def duration_ms(self) -> float | None:
        """How long it took: as it says, else from its first event to its last."""
        lasted = self.lasted_micros
        if lasted is None:
            lasted = number_in(self.finished, "compaction_time_micros")
        began, ended = (number_in(each, "time_micros") for each in (self.started, self.finished))
        if lasted is None and began is not None and ended is not None:
            lasted = ended - began
        return _in_ms(lasted)

    def add_file(self, event: Event) -> None:
        """Take in a file that it wrote."""
        properties = event.get("table_properties")
        if isinstance(properties, dict):
            self.compression = text_in(properties, "compression")
        self.column_family = text_in(event, "cf_name") or self.column_family
        self.num_files = (self.num_files or 0) + 1
        self.written_bytes = (self.written_bytes or 0) + (number_in(event, "file_size") or 0)

    def why_unknown(self, values: dict[str, Any]) -> dict[str, str]:
        """Return why each value that is None is unknown."""
        why = "this version of RocksDB doesn't log it"
        if self.failed:
            why = f"it was not finished: {self.status}"
        elif not self.finished:
            why = "the log doesn't tell that it finished"
        elif not self.started:
            why = "the log doesn't tell of its start: it was rotated away, or cut"
        return {name: why for name, value in values.items() if value is None}

    def record(self) -> Flush | Compaction:
        """Return what is known of it now."""
        return Compaction.of_job(self) if self.kind == "compaction" else Flush.of_job(self)


def jobs(lines: Iterable[LogLine]) -> Iterator[Flush | Compaction]:
    """Yield the flushes and compactions of a log, each when its end is logged.

    Those whose end is not logged come when the store is opened anew, or at the end of the log.
    """
    stores: dict[str | None, _Joined] = {}
    for line in lines:
        if not line.continued:
            yield from stores.setdefault(line.store, _Joined(line.store)).take(line)
    for joined in stores.values():
        yield from joined.abandon()


class _Joined:
    """The jobs of a store that run at one place in the log."""

    def __init__(self, store: str | None) -> None:
        self._store = store
        self._running: dict[int | None, JobEvents] = {}
        self._families: dict[int | None, str] = {}
        self._compacted: dict[tuple[str | None, int | None], str] = {}
        self._last_family: str | None = None
        self._session: str | None = None

    def take(self, line: LogLine) -> Iterator[Flush | Compaction]:
        """Read a line, and yield what it brings to its end."""
        event = event_of(line.text)
        if event is not None:
            yield from self._event(event)
        elif line.column_family is not None:
            self._note_family(line.text, line.column_family)
            self._note_status(line.text, line.column_family)
        elif line.text.startswith(_SESSION):
            session = line.text.removeprefix(_SESSION).strip()
            if session != self._session:  # a rotated file begins with the same one again
                self._session = session
                yield from self.abandon()

    def abandon(self) -> Iterator[Flush | Compaction]:
        """Yield what never ended."""
        for job in self._running.values():
            if job.kind != "recovery" or job.num_files:
                yield job.record()
        self._running.clear()
        self._families.clear()
        self._compacted.clear()

    def _note_family(self, text: str, family: str) -> None:
        self._last_family = family
        if not (match := _JOB.match(text)):
            return
        number = int(match[1])
        if len(self._families) >= _MOST_OPEN:
            self._families.clear()
        self._families[number] = family
        lasted, job = _LASTED.match(text), self._running.get(number)
        if lasted and job:
            job.lasted_micros, job.cpu_micros = int(lasted[1]), int(lasted[2])

    def _note_status(self, text: str, family: str) -> None:
        """Note how a flush ended, or a compaction, whose line has no number of its job."""
        if text.startswith(_COMPACTED_TO):
            level, status = _TO_LEVEL.search(text), _COMPACTED.search(text)
            if level and status:
                self._compacted[family, int(level[1])] = status[1]
            return
        flushed = _FLUSHED.match(text)
        job = self._running.get(int(flushed[1])) if flushed else None
        if flushed and job:
            job.status = _OK if flushed[2].startswith(_OK) else flushed[2].strip()

    def _event(self, event: Event) -> Iterator[Flush | Compaction]:
        name, number = text_in(event, "event") or "", number_in(event, "job")
        if name in _STARTS:
            yield from self._start(name, number, event)
        elif name == "table_file_creation" and number in self._running:
            self._running[number].add_file(event)
        elif name == "trivial_move":
            family = text_in(event, "cf_name") or self._last_family
            yield Compaction.of_move(event, family, self._store)
        elif name in _ENDS:
            yield from self._end(name, number, event)

    def _start(self, name: str, number: int | None, event: Event) -> Iterator[Flush | Compaction]:
        earlier = self._running.pop(number, None)
        if earlier is None and len(self._running) >= _MOST_OPEN:
            earlier = self._running.pop(next(iter(self._running)))
        if earlier is not None:
            yield earlier.record()
        job = self._job(number, name.removesuffix("_started"), event)
        job.started = event
        self._running[number] = job

    def _end(self, name: str, number: int | None, event: Event) -> Iterator[Flush | Compaction]:
        kind = name.removesuffix("_finished")
        job = self._running.pop(number, None)
        if job is not None and job.kind != kind:
            yield job.record()
            job = None
        if job is None:
            job = self._job(number, kind, event)
            job.num_files = job.written_bytes = None
        job.finished = event
        if kind == "compaction":
            level = number_in(event, "output_level")
            job.status = self._compacted.pop((job.column_family, level), None)
        if kind != "recovery" or job.num_files:
            yield job.record()

    def _job(self, number: int | None, kind: str, event: Event) -> JobEvents:
        family = text_in(event, "cf_name") or self._families.get(number)
        return JobEvents(number, kind, self._store, column_family=family)


_NO_RATE = "a stopped write has no rate"
_NO_CAUSE = "the message names a cause that is not known here"
_WHY_UNKNOWN = {
    "at": NO_ZONE,
    "column_family": "the line doesn't name it",
    "cause": _NO_CAUSE,
    "amount": _NO_CAUSE,
    "limit": "the message doesn't tell it: see the store's options",
    "rate_bytes": "the message doesn't tell it",
    "duration_ms": "RocksDB logs where a stall begins, not where it ends; stall_time() has their "
    "sum",
    "written": "the line has no time",
}
_CONDITION = {"Stopping": "stopped", "Stalling": "delayed"}
_CAUSES = (
    ("memtable limit", re.compile(r"we have ([0-9]{1,18}) immutable memtables")),
    ("L0 file count limit", re.compile(r"we have ([0-9]{1,18}) level-0 files")),
    ("pending compaction bytes", re.compile(r"estimated pending compaction bytes ([0-9]{1,20})")),
)
_MESSAGE = re.compile(r"(Stopping|Stalling) writes because ")
_LIMIT = re.compile(r"max_write_buffer_number is set to ([0-9]{1,18})")
_RATE = re.compile(r" rate ([0-9]{1,20})")


@dataclass(frozen=True, slots=True, repr=False)
class Stall(Record):
    """The beginning of a stall.

    Parameters
    ----------
    at, written
        When (UTC), and the local time of the line, as it was written.
    column_family
        Whose state was the cause; writes to all of the store's families wait.
    condition, rate_bytes
        ``"delayed"``, to so many bytes a second, or ``"stopped"``.
    cause
        ``"memtable limit"``, ``"L0 file count limit"``, ``"pending compaction bytes"``, or None.
    amount, limit
        How many memtables (of ``limit``) or level-0 files there were, or bytes to be compacted.
    duration_ms
        How long it lasted: the log doesn't tell.
    store
        Which of Spark's stores, in a log of Spark's that says it.
    """

    kind: ClassVar[str] = "stall"
    at: datetime | None = of_source(Source.LOG)
    column_family: str | None = of_source(Source.LOG)
    condition: str | None = of_source(Source.LOG)
    cause: str | None = of_source(Source.LOG)
    amount: int | None = of_source(Source.LOG)
    limit: int | None = of_source(Source.LOG)
    rate_bytes: int | None = of_source(Source.LOG)
    duration_ms: float | None = of_source(Source.LOG)
    written: datetime | None = of_source(Source.LOG)
    store: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_line(cls, line: LogLine, at: datetime | None) -> Stall | None:
        """Return the stall that a line tells of; None if it tells of none.

        Examples
        --------
        >>> from kstoolkit.rocksdb.log.lines import LogLine
        >>> line = LogLine("Stalling writes because we have 3 level-0 files rate 16777216")
        >>> stall = Stall.of_line(line, None)
        >>> stall.condition, stall.cause, stall.amount, stall.rate_bytes
        ('delayed', 'L0 file count limit', 3, 16777216)
        """
        message = None if line.continued else _MESSAGE.match(line.text)
        if message is None:
            return None
        found = ((cause, pattern.search(line.text)) for cause, pattern in _CAUSES)
        cause, amount = next(((each, int(m[1])) for each, m in found if m), (None, None))
        limit, rate = _LIMIT.search(line.text), _RATE.search(line.text)
        values = {
            "at": at,
            "column_family": line.column_family,
            "condition": _CONDITION[message[1]],
            "cause": cause,
            "amount": amount,
            "limit": int(limit[1]) if limit else None,
            "rate_bytes": int(rate[1]) if rate else None,
            "duration_ms": None,
            "written": line.written,
        }
        whys = _WHY_UNKNOWN | ({"rate_bytes": _NO_RATE} if message[1] == "Stopping" else {})
        unknown = {name: whys[name] for name, value in values.items() if value is None}
        return cls(**values, store=line.store, unknown=unknown)  # type: ignore[arg-type] # by name

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        in_bytes = self.cause == "pending compaction bytes"
        amount = format_bytes(self.amount) if in_bytes else format_count(self.amount)
        limit = "" if self.limit is None else f" of {self.limit}"
        rate = "" if self.rate_bytes is None else f", to {format_bytes(self.rate_bytes)}/s"
        return f"writes {self.condition}: {self.cause or 'another cause'}, {amount}{limit}{rate}"

    def __repr__(self) -> str:
        return f"Stall({time_told(self)}, {self.column_family!r}: {self.sentence})"


NO_SPACE, CORRUPTION, IO_ERROR = "no space left", "corruption", "io error"
IN_BACKGROUND, OTHER_ERROR = "background error", "other error"
_ERRORS = {
    NO_SPACE: r"No space left|Space limit reached|quota exceeded|free space \[",
    CORRUPTION: r"(?i:corruption|corrupted|checksum mismatch)",
    IO_ERROR: r"IO error",
    IN_BACKGROUND: r"(?i:background \w{0,20} ?error|ErrorHandler|(?:hard|soft) error)",
}
"""The first that fits is the cause: what failed in the background mostly says why."""


@dataclass(frozen=True, slots=True, repr=False)
class LoggedError(Record):
    """A line that tells of an error.

    Parameters
    ----------
    at, column_family, written, store
        As of a :class:`Stall`; few lines name the column family.
    level
        ``"fatal"``, ``"error"``, or ``"warn"``.
    cause
        ``"no space left"``, ``"corruption"``, ``"io error"``, ``"background error"`` or others.
    text
        The line, in RocksDB's words.
    """

    kind: ClassVar[str] = "error"
    at: datetime | None = of_source(Source.LOG)
    column_family: str | None = of_source(Source.LOG)
    level: str = of_source(Source.LOG)
    cause: str = of_source(Source.LOG)
    text: str = of_source(Source.LOG)
    written: datetime | None = of_source(Source.LOG)
    store: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_line(cls, line: LogLine, at: datetime | None) -> LoggedError | None:
        """Return the error that a line tells of; None if it tells of none."""
        if line.continued or line.level not in {"fatal", "error", "warn"}:
            return None
        causes = (cause for cause, words in _ERRORS.items() if re.search(words, line.text))
        cause = next(causes, OTHER_ERROR)
        if line.level == "warn" and cause is OTHER_ERROR:
            return None
        values = {"at": at, "column_family": line.column_family, "written": line.written}
        unknown = {name: _WHY_UNKNOWN[name] for name, value in values.items() if value is None}
        told = {"level": line.level, "cause": cause, "text": line.text.rstrip()}
        return cls(**values, **told, store=line.store, unknown=unknown)  # type: ignore[arg-type] # by name

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        return f"{self.cause}: {self.text}"

    def __repr__(self) -> str:
        return f"LoggedError({time_told(self)}, {self.sentence})"


def time_told(event: Stall | LoggedError) -> str:
    """Return when a line was logged, for people: in UTC; if that is unknown, as it says."""
    if event.at is None and event.written is not None:
        return f"{event.written:%F %T} of the writer's clock"
    return "at an unknown time" if event.at is None else f"{event.at:%F %T} UTC"


_Row = TypeVar("_Row", bound=Record)


class LogRows(Records[_Row]):
    """Rows out of a log.

    Parameters
    ----------
    rows, kind
        The records, in the order of the log; what they are: ``"stalls"``.
    unknown
        Why there may be more than these: None if the log would tell all.

    Examples
    --------
    >>> LogRows([], "stalls", "the writer logs at level ERROR")
    LogRows(stalls unknown: the writer logs at level ERROR)
    >>> LogRows([], "stalls")
    LogRows(0 stalls)
    """

    def __init__(self, rows: Sequence[_Row], kind: str, unknown: str | None = None) -> None:
        super().__init__(rows, kind)
        self.unknown = unknown

    def __repr__(self) -> str:
        if self.unknown is None:
            return f"LogRows({counted(len(self), self.kind)})"
        if not self.rows:
            return f"LogRows({self.kind} unknown: {self.unknown})"
        return f"LogRows({counted(len(self), self.kind)}; others unknown: {self.unknown})"
