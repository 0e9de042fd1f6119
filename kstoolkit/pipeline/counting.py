"""Events of any DataFrame, counted by pane before the shuffle: what ``mapInArrow`` runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.counters.counters import Counters
from kstoolkit.events.dead_letters import letters
from kstoolkit.events.judging import Limits, judge
from kstoolkit.pipeline.feeds import panes
from kstoolkit.pipeline.parcels import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["COLUMNS", "counting"]

COLUMNS = ("time", "user", "action", "now_ms", "raw", "file", "broken")
"""What a row brings: the event; the clock to judge by; where it came from, or why it is none."""


def counting(
    pane_ms: int, buckets: int, limits: Limits, *, processing_time: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``: rows of :data:`COLUMNS` in, parcels out."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally(buckets)
        for batch in batches:
            whole = batch.column("broken").null_count == batch.num_rows
            readable = batch if whole else batch.filter(pc.is_null(batch.column("broken")))
            if not whole:
                tally.add(Counters.empty(), [_unreadable(batch)])
            if readable.num_rows:
                _count(readable, tally, pane_ms, limits, processing_time=processing_time)
        yield from tally.parcels()

    return count


def _count(
    batch: pa.RecordBatch, tally: Tally, pane_ms: int, limits: Limits, *, processing_time: bool
) -> None:
    times, users, actions, now_ms = batch.columns[:4]
    judged = judge(times, users, actions, now_ms=pc.max(now_ms).as_py(), limits=limits)
    starts = panes(judged.time_ms, pane_ms, processing_time=processing_time)
    dead = []
    if judged.bad.size:
        chosen = batch.take(pa.array(judged.bad))
        dead.append(letters(judged.reasons, _raw(chosen), file=chosen.column("file").to_pylist()))
    tally.add(Counters.of(starts, judged.users, judged.actions), dead)


def _unreadable(batch: pa.RecordBatch) -> pa.RecordBatch:
    rows = batch.filter(pc.is_valid(batch.column("broken")))
    details = rows.column("broken").to_pylist()
    files = rows.column("file").to_pylist()
    raws = rows.column("raw").to_pylist()
    reasons = [_reason(raw, file) for raw, file in zip(raws, files, strict=True)]
    return letters(reasons, [raw or "" for raw in raws], file=files, details=details)


def _reason(raw: str | None, file: str | None) -> str:
    if file is None:  # a row of anyone's DataFrame
        return "marked_broken"
    # A row with a reason and no text of its own stands for its whole file.
    return "unparseable" if raw else "broken_file"


def _raw(rows: pa.RecordBatch) -> list[str]:
    """Return the raw text, or where there is none, the three columns as JSON."""
    told = rows.select(["time", "user", "action"]).to_pylist()
    return [
        raw if raw is not None else json.dumps(row, default=str, ensure_ascii=False)
        for raw, row in zip(rows.column("raw").to_pylist(), told, strict=True)
    ]
