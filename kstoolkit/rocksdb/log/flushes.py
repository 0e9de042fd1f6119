"""One flush: a memtable that became an SST file, as the writer's log tells it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.records import Source, counted, of_source
from kstoolkit.rocksdb.log.background import BackgroundJob, told_of, unfinished
from kstoolkit.rocksdb.log.events import number_in, text_in
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from kstoolkit.rocksdb.log.events import Event
    from kstoolkit.rocksdb.log.jobs import Job


@dataclass(frozen=True, slots=True, repr=False)
class Flush(BackgroundJob):
    """A flush, or the replay of a write-ahead log at an open, which leaves a file just so.

    Parameters
    ----------
    at, finished_at, column_family, job
        See :class:`~kstoolkit.rocksdb.log.background.BackgroundJob`; ``status`` and
        ``wasted_bytes`` too.
    reason
        Why, in RocksDB's words: ``"Write Buffer Full"``, ``"Shut down"`` ...; ``"Recovery"``.
    num_memtables, num_entries, num_deletes
        What was flushed.
    input_bytes, memory_bytes
        Keys and values that were flushed, and the memory they took.
    output_bytes, num_files_out
        The SST files that were written; none by a flush that was not finished.
    duration_ms, cpu_ms
        How long it took.
    compression
        Of the files.
    store
        Which of Spark's stores, in a log of Spark's that says it.
    unknown
        Why a figure is unknown, by its name.
    """

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
    def of_job(cls, job: Job) -> Flush:
        """Build the record of what was logged of a job."""
        values = told_of(job) | {
            "reason": "Recovery" if job.recovers else text_in(job.started, "flush_reason"),
            "num_memtables": number_in(job.started, "num_memtables"),
            "num_entries": number_in(job.started, _entries_in(job.started)),
            "num_deletes": number_in(job.started, "num_deletes"),
            "input_bytes": number_in(job.started, "total_data_size"),
            "memory_bytes": number_in(job.started, "memory_usage"),
            "output_bytes": 0 if job.failed else job.written_bytes,
            "num_files_out": 0 if job.failed else job.num_files,
            "cpu_ms": None if job.cpu_micros is None else job.cpu_micros / 1000,
            "compression": text_in(job.finished, "output_compression") or job.compression,
        }
        return cls(**values, store=job.store, unknown=job.why_unknown(values))

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "flush"

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        number = self.num_entries
        entries = "? entries" if number is None else counted(number, "entries")
        into = unfinished(self) or f"to {format_bytes(self.output_bytes)}"
        return f"{entries} of {format_bytes(self.input_bytes)} {into} ({self.reason})"


def _entries_in(started: Event) -> str:
    """Return what the number of entries is called, which RocksDB 10.4 renamed."""
    return "num_entries" if "num_entries" in started else "total_num_input_entries"
