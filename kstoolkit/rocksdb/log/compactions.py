"""One compaction: SST files merged into others, as the writer's log tells it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from kstoolkit.records import Source, counted, of_source
from kstoolkit.rocksdb.log.background import BackgroundJob, told_of, unfinished
from kstoolkit.rocksdb.log.clock import of_micros
from kstoolkit.rocksdb.log.events import Event, list_in, number_in, text_in
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from kstoolkit.rocksdb.log.jobs import Job


_INPUT_LEVEL = re.compile(r"files_L([0-9]{1,3})")


@dataclass(frozen=True, slots=True, repr=False)
class Compaction(BackgroundJob):
    """A compaction, or a trivial move: files that went a level down without being rewritten.

    Parameters
    ----------
    at, finished_at, column_family, job
        See :class:`~kstoolkit.rocksdb.log.background.BackgroundJob`; ``status`` and
        ``wasted_bytes`` too.
    reason
        Why, in RocksDB's words: ``"LevelL0FilesNum"``, ``"UniversalSizeRatio"`` ...
    from_levels, to_level
        The levels of the files that went in, and of those that came out.
    num_files_in, input_bytes, num_records_in
        What went in.
    num_files_out, output_bytes, num_records_out
        What came out; no file and no byte of one that was not finished.
    num_records_dropped
        Records in less records out: overwritten, deleted, expired or merged.
    duration_ms, cpu_ms
        How long it took.
    num_subcompactions, compression
        How many threads shared it; how the new files are compressed.
    moved
        Whether it was a trivial move: nothing was written.
    store
        Which of Spark's stores, in a log of Spark's that says it.
    unknown
        Why a figure is unknown, by its name.
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
    def of_job(cls, job: Job) -> Compaction:
        """Build the record of what was logged of a job."""
        started, finished = job.started, job.finished
        inputs = _files_by_level(started) if started else None
        records_in = number_in(finished, "num_input_records")
        records_out = number_in(finished, "num_output_records")
        known = records_in is not None and records_out is not None and not job.failed
        values = told_of(job) | {
            "reason": text_in(started, "compaction_reason"),
            "from_levels": None if inputs is None else tuple(sorted(inputs)),
            "to_level": number_in(finished, "output_level"),
            "num_files_in": None if inputs is None else sum(inputs.values()),
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
    def of_move(
        cls, event: Event, column_family: str | None, store: str | None = None
    ) -> Compaction:
        """Build the record of a ``trivial_move`` event."""
        files, size = number_in(event, "files"), number_in(event, "total_files_size")
        at = of_micros(number_in(event, "time_micros"))
        values = {
            "column_family": column_family,
            "job": number_in(event, "job"),
            "to_level": number_in(event, "destination_level"),
            "num_files_in": files,
            "num_files_out": files,
            "input_bytes": size,
            "output_bytes": size,
            "wasted_bytes": 0,
        }
        told = {"at", "finished_at", "moved", "store", "unknown", *values}
        untold = [each.name for each in fields(cls) if each.name not in told]
        unknown = dict.fromkeys(untold, "the event of a trivial move doesn't tell")
        blank = dict.fromkeys(untold)
        values |= blank
        return cls(at=at, finished_at=at, moved=True, store=store, unknown=unknown, **values)  # type: ignore[arg-type] # by name

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "move" if self.moved else "compaction"

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        files, size = _files(self.num_files_in), format_bytes(self.input_bytes)
        if self.moved:
            return f"{files}, {size}, to L{_shown(self.to_level)} as they were"
        levels = "+".join(f"L{level}" for level in self.from_levels or ()) or "L?"
        dropped = self.num_records_dropped
        drops = "? records" if dropped is None else counted(dropped, "records")
        out = f"{format_bytes(self.output_bytes)}, {drops} dropped"
        return (
            f"{files}, {size}, {levels} to L{_shown(self.to_level)}: "
            f"{unfinished(self) or out} ({self.reason})"
        )


def _files_by_level(event: Event) -> dict[int, int]:
    """Return how many files of each level went in."""
    return {
        int(match[1]): len(list_in(event, name))
        for name in event
        if (match := _INPUT_LEVEL.fullmatch(name))
    }


def _files(number: int | None) -> str:
    return "? files" if number is None else counted(number, "files")


def _in_ms(micros: int | None) -> float | None:
    return None if micros is None else micros / 1000


def _shown(level: int | None) -> str:
    return "?" if level is None else str(level)
