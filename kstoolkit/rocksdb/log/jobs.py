"""RocksDB's jobs put together again: what began, the files it wrote, and how it ended.

The lines of a job carry its number, which begins anew whenever the store is opened. One job may
flush several column families, one after the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.rocksdb.log.compactions import Compaction
from kstoolkit.rocksdb.log.events import Event, event_of, number_in, text_in
from kstoolkit.rocksdb.log.flushes import Flush

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kstoolkit.rocksdb.log.lines import LogLine


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
class Job:
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
    def recovers(self) -> bool:
        """Whether it is the replay of a write-ahead log."""
        return self.kind == "recovery"

    @property
    def duration_ms(self) -> float | None:
        """How long it took: as it says, else from its first event to its last."""
        lasted = self.lasted_micros
        if lasted is None:
            lasted = number_in(self.finished, "compaction_time_micros")
        if lasted is None:
            began = number_in(self.started, "time_micros")
            ended = number_in(self.finished, "time_micros")
            lasted = None if began is None or ended is None else ended - began
        return None if lasted is None else lasted / 1000

    def add_file(self, event: Event) -> None:
        """Take in a file that it wrote."""
        properties = event.get("table_properties")
        if isinstance(properties, dict):
            self.compression = text_in(properties, "compression")
        size = number_in(event, "file_size")
        self.column_family = text_in(event, "cf_name") or self.column_family
        self.num_files = (self.num_files or 0) + 1
        self.written_bytes = (self.written_bytes or 0) + (size or 0)

    def why_unknown(self, values: dict[str, Any]) -> dict[str, str]:
        """Return why each value that is None is unknown."""
        if self.failed:
            why = f"it was not finished: {self.status}"
        elif not self.finished:
            why = "the log doesn't tell that it finished"
        elif not self.started:
            why = "the log doesn't tell of its start: it was rotated away, or cut"
        else:
            why = "this version of RocksDB doesn't log it"
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
        self._running: dict[int | None, Job] = {}
        self._families: dict[int, str] = {}
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
            if not job.recovers or job.num_files:
                yield job.record()
        self._running.clear()
        self._families.clear()
        self._compacted.clear()

    def _note_family(self, text: str, family: str) -> None:
        self._last_family = family
        match = _JOB.match(text)
        if match is None:
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
        job = Job(number, name.removesuffix("_started"), self._store, started=event)
        job.column_family = text_in(event, "cf_name") or self._family(number)
        self._running[number] = job

    def _end(self, name: str, number: int | None, event: Event) -> Iterator[Flush | Compaction]:
        kind = name.removesuffix("_finished")
        job = self._running.pop(number, None)
        if job is not None and job.kind != kind:
            yield job.record()
            job = None
        if job is None:
            job = Job(number, kind, self._store, num_files=None, written_bytes=None)
            job.column_family = text_in(event, "cf_name") or self._family(number)
        job.finished = event
        if kind == "compaction":
            job.status = self._compacted.pop(
                (job.column_family, number_in(event, "output_level")), None
            )
        if not job.recovers or job.num_files:
            yield job.record()

    def _family(self, number: int | None) -> str | None:
        return None if number is None else self._families.get(number)
