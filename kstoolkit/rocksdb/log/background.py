"""What a log tells of any job that RocksDB did in the background, be it a flush or a compaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.log.clock import of_micros
from kstoolkit.rocksdb.log.events import number_in
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from datetime import datetime

    from kstoolkit.rocksdb.log.jobs import Job


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
    reason
        Why, in RocksDB's words.
    status
        How it ended, in RocksDB's words: ``"OK"``, ``"Shutdown in progress"`` ...
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


def told_of(job: Job) -> dict[str, Any]:
    """Return, by name, what the records of all kinds have of a job; each kind has reasons."""
    ended = None if job.failed else of_micros(number_in(job.finished, "time_micros"))
    return {
        "at": of_micros(number_in(job.started, "time_micros")),
        "finished_at": ended,
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
