"""What a log tells of any job that RocksDB did in the background, be it a flush or a compaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.rocksdb.log.clock import of_micros
from kstoolkit.rocksdb.log.events import number_in
from kstoolkit.rocksdb.records import Record, Source, of_source

if TYPE_CHECKING:
    from datetime import datetime

    from kstoolkit.rocksdb.log.jobs import Job

__all__ = ["BackgroundJob", "told_of"]


@dataclass(frozen=True, slots=True)
class BackgroundJob(Record):
    """A job: when it was done, whose, and why.

    Parameters
    ----------
    at, finished_at
        When it began and ended (UTC).
    column_family, job
        Whose; the number that RocksDB gave the job since its last open.
    reason
        Why, in RocksDB's words.
    """

    at: datetime | None = of_source(Source.LOG)
    finished_at: datetime | None = of_source(Source.LOG)
    column_family: str | None = of_source(Source.LOG)
    job: int | None = of_source(Source.LOG)
    reason: str | None = of_source(Source.LOG)


def told_of(job: Job) -> dict[str, Any]:
    """Return, by name, what the records of all kinds have of a job; each kind has reasons."""
    return {
        "at": of_micros(number_in(job.started, "time_micros")),
        "finished_at": of_micros(number_in(job.finished, "time_micros")),
        "column_family": job.column_family,
        "job": job.number,
        "duration_ms": job.duration_ms,
    }
