"""Records of a topic, counted by pane before the shuffle: what ``mapInArrow`` runs.

A value is read here, in Python, when it is JSON whose fields are named plainly, or when a function
of the user's reads it. Columns that are SQL expressions go by :mod:`kstoolkit.pipeline.counting`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.counters.counters import Counters
from kstoolkit.errors import ColumnError
from kstoolkit.events.event import judge, letters
from kstoolkit.events.json import Values, read_json_values
from kstoolkit.pipeline.counting import POISONED
from kstoolkit.pipeline.feeds import panes
from kstoolkit.pipeline.parcels import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kstoolkit.events.event import Columns, Limits
    from kstoolkit.events.topics import Reader


NOW = "now_ms"
"""The column of the batch's clock, beside the record's own."""


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """How records are counted.

    Parameters
    ----------
    topic
        Whose records they are.
    columns, limits
        What is what, and what an event may look like.
    reader
        What reads values; ``None`` where they are JSON.
    pane_ms, buckets, processing_time
        As of :class:`kstoolkit.pipeline.feeds.FileFeedPlan`.
    skipped
        By partition, offsets of records that are dead letters, whatever they hold.
    """

    topic: str
    columns: Columns
    limits: Limits
    reader: Reader | None
    pane_ms: int
    buckets: int
    processing_time: bool
    skipped: Mapping[int, Sequence[int]] = field(default_factory=dict)


def counting_records(
    plan: RecordPlan,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``: a topic's records in, parcels out."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally(plan.buckets)
        types = dict.fromkeys(plan.columns, pa.string())
        for records in batches:
            batch = _without(records, plan, tally)
            if not batch.num_rows:
                continue
            if plan.reader is None:
                parts = read_json_values(batch.column("value"), plan.columns, types)
            else:
                parts = _read(batch, 0, plan.reader, plan.columns)
            for part in parts:
                _count_values(batch, part, plan, tally)
        yield from tally.parcels()

    return count


def place_of(topic: str, partition: int, offset: int) -> str:
    """Return a record's place in words.

    Examples
    --------
    >>> place_of("actions", 3, 42)
    'topic actions, partition 3, offset 42'
    """
    return f"topic {topic}, partition {partition}, offset {offset}"


def _without(batch: pa.RecordBatch, plan: RecordPlan, tally: Tally) -> pa.RecordBatch:
    """Return the records without those to skip, which become dead letters."""
    if not plan.skipped or not batch.num_rows:
        return batch
    partitions, offsets = (batch.column(name).to_numpy() for name in ("partition", "offset"))
    out = np.zeros(batch.num_rows, bool)
    for partition, each in plan.skipped.items():
        out |= (partitions == partition) & np.isin(offsets, each)
    (rows,) = np.nonzero(out)
    if not rows.size:
        return batch
    told = [POISONED] * rows.size
    poison = _letters(plan.topic, batch, rows, ["poison"] * rows.size, told)
    tally.add(Counters.empty(), [poison])
    return batch.filter(pa.array(~out))


def _count_values(batch: pa.RecordBatch, part: Values, plan: RecordPlan, tally: Tally) -> None:
    now_ms = pc.max(batch.column(NOW)).as_py()
    judged = judge(part.times, part.users, part.actions, now_ms=now_ms, limits=plan.limits)
    starts = panes(judged.time_ms, plan.pane_ms, processing_time=plan.processing_time)
    dead = []
    if judged.bad.size:
        dead.append(_letters(plan.topic, batch, part.rows[judged.bad], judged.reasons, None))
    if part.unreadable:
        rows, details = zip(*part.unreadable, strict=True)
        reasons = ["unparseable"] * len(rows)
        dead.append(_letters(plan.topic, batch, np.array(rows), reasons, list(details)))
    tally.add(Counters.of(starts, judged.users, judged.actions), dead)


def _letters(
    topic: str,
    batch: pa.RecordBatch,
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
    reasons: Sequence[str],
    details: Sequence[str | None] | None,
) -> pa.RecordBatch:
    told = batch.take(pa.array(rows)).select(["partition", "offset", "value"])
    places, raws = [], []
    for row in told.to_pylist():  # the bad ones: few
        places.append(place_of(topic, row["partition"], row["offset"]))
        raws.append((row["value"] or b"").decode(errors="backslashreplace"))
    return letters(reasons, raws, file=places, details=details)


def _read(batch: pa.RecordBatch, first: int, reader: Reader, columns: Columns) -> Iterator[Values]:
    """Read records by the user's function: at once; else each half; a single one's failure tells.

    Raises
    ------
    ColumnError
        If what it gives lacks a column, or has not a row for each record.
    """
    try:
        given = reader(batch)
    except Exception as error:  # noqa: BLE001 - whatever a function of the user's raises
        if batch.num_rows == 1:
            yield _none([(first, f"{type(error).__name__}: {error}")])
            return
        middle = batch.num_rows // 2
        yield from _read(batch.slice(0, middle), first, reader, columns)
        yield from _read(batch.slice(middle), first + middle, reader, columns)
        return
    if given.num_rows != batch.num_rows:
        message = f"The function of value= gave {given.num_rows} rows for {batch.num_rows} records."
        raise ColumnError(message, hint="Give a row for each, with nulls where there is nothing.")
    rows = np.arange(first, first + batch.num_rows)
    times, users, actions = (_column(given, name) for name in columns)
    yield Values(times, users, actions, rows)


def _column(given: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    if name not in given.schema.names:
        raise ColumnError.missing(name, given.schema.names, "what the function of value= gives")
    column = given.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _none(unreadable: list[tuple[int, str]]) -> Values:
    nothing = pa.array([], pa.string())
    return Values(nothing, nothing, nothing, np.zeros(0, np.intp), unreadable)
