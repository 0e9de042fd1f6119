"""."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstoolkit.pipeline.parcels import from_ipc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


_STATISTICS_NAME = "part-statistics.json"


_MOMENTS_NAME = "part-moments.parquet"


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """What one micro-batch came to: the sums over its buckets and tasks.

    Parameters
    ----------
    batch, batch_ms, seconds
        Its number, its clock, and how long the sink took for it.
    events
        Events that came in; late ones too.
    counters_in
        Records that went into the shuffle: counters by pane, collapsed before.
    late, backlog, changed, left_out
        By window: events too late for it; counters held back by the flush limit; counters whose
        latest value was reported; those of them left out of the changelog by ``min_count``.
    dead_letters
        By reason.
    changelog_records, changelog_bytes, findings
        What was written.
    """

    batch: int
    batch_ms: int
    seconds: float
    events: int = 0
    counters_in: int = 0
    late: dict[str, int] = field(default_factory=dict)
    backlog: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    changelog_records: int = 0
    changelog_bytes: int = 0
    findings: int = 0

    @classmethod
    def of(
        cls,
        batch: int,
        reports: Sequence[Mapping[str, Any]],
        labels: Sequence[str],
        *,
        seconds: float,
        findings: int,
    ) -> BatchStatistics:
        """Add up what buckets (they know events) and tasks (they know records) reported."""
        buckets = [report for report in reports if "events" in report]
        tasks = [report for report in reports if "records" in report]

        def by_window(name: str) -> dict[str, int]:
            return {
                labels[int(level)]: number
                for level, number in sorted(_added([each[name] for each in buckets]).items())
            }

        return cls(
            batch=batch,
            batch_ms=max((each["now_ms"] for each in buckets), default=0),
            seconds=round(seconds, 3),
            events=sum(each["events"] for each in buckets),
            counters_in=sum(each["counters_in"] for each in buckets),
            late=by_window("late"),
            backlog=by_window("backlog"),
            changed=by_window("changed"),
            left_out=by_window("left_out"),
            dead_letters=_added([each["dead_letters"] for each in tasks]),
            changelog_records=sum(each["records"] for each in tasks),
            changelog_bytes=sum(each["bytes"] for each in tasks),
            findings=findings,
        )

    def save(self, folder: Path) -> None:
        """Write the statistics into a batch's folder."""
        (folder / _STATISTICS_NAME).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> BatchStatistics:
        """Read what :meth:`save` wrote."""
        return cls(**json.loads((folder / _STATISTICS_NAME).read_text(encoding="utf-8")))


def _added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = sorted({name for each in counts for name in each})
    return {name: sum(each.get(name, 0) for each in counts) for name in names}


@dataclass(slots=True)
class Moments:
    """The newest moments that each bucket reported of each level; kept with every batch.

    A batch starts from those of the batch before and adds its own, so that a repeated batch
    judges by the same ones.
    """

    held: dict[tuple[int, int], pa.Table] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Moments:
        """Read what :meth:`save` wrote into a batch's folder; nothing if there is none."""
        path = folder / _MOMENTS_NAME
        if not path.exists():
            return cls()
        table = pq.read_table(path)
        keys = set(zip(table["level"].to_pylist(), table["bucket"].to_pylist(), strict=True))
        return cls({key: _of_bucket(table, *key) for key in sorted(keys)})

    def save(self, folder: Path) -> None:
        """Write the moments into a batch's folder."""
        tables = [
            table.append_column("level", pa.repeat(pa.scalar(level), table.num_rows)).append_column(
                "bucket", pa.repeat(pa.scalar(bucket), table.num_rows)
            )
            for (level, bucket), table in self.held.items()
        ]
        if tables:
            pq.write_table(pa.concat_tables(tables), folder / _MOMENTS_NAME, compression="zstd")

    def report(self, level: int, bucket: int, payload: bytes) -> None:
        """Take in what a bucket reported."""
        table = from_ipc(payload)
        if table.num_rows:
            self.held[level, bucket] = table

    def of_level(self, level: int) -> list[pa.Table]:
        """Return the buckets' moments of one level."""
        return [table for (each, _), table in self.held.items() if each == level]

    @property
    def levels(self) -> set[int]:
        """The levels of which there are moments."""
        return {level for level, _ in self.held}


def _of_bucket(table: pa.Table, level: int, bucket: int) -> pa.Table:
    chosen = pc.and_(pc.equal(table["level"], level), pc.equal(table["bucket"], bucket))
    return table.filter(chosen).drop_columns(["level", "bucket"])
