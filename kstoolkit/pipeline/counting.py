"""Rows that Spark hands on, counted by pane before the shuffle: what ``mapInArrow`` runs.

Two kinds of rows come: the three columns of any DataFrame, which Spark evaluated, and a topic's
records, whose values are read here, in Python: as JSON with plain field names, or by the user's
function. Either way events are judged, what is none becomes a dead letter, the rest is counted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ColumnError
from kstoolkit.events.event import OF_FILES, Limits, in_columns, judge, letters
from kstoolkit.events.json import Values, read_json_values, unreadable_values
from kstoolkit.events.times import only_utf8
from kstoolkit.pipeline.shuffle import Grain, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kstoolkit.events.event import Columns
    from kstoolkit.events.topics import Reader

    _Places = np.ndarray[tuple[int], np.dtype[np.intp]]

BESIDE = ("now_ms", "raw", "file", "broken")
"""What a row brings behind its event: the clock to judge by; where it came from, or why it is none.

In front are ``time``, ``user``, and ``action`` or its parts, each under its name; and items.
"""

POISONED = "whatever counted it came to its end, time and again"
"""Why a row is broken that is on the run's skip list."""

_NO_UTF8 = "its time, user or action is no UTF-8"
_OTHER_TYPE = "a field is not of the type that was said of it, or that earlier records have"
NOW = "now_ms"
"""The column of the batch's clock, beside the record's own."""


def counting(
    grain: Grain, limits: Limits, *, is_json: bool = False
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``: rows with :data:`BESIDE` in, the shuffle's records out.

    With ``is_json``, raw texts are judged as Python's JSON: Spark's parser takes more than that.
    """

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally(grain)
        for batch in batches:
            broken = _broken(batch, items=len(grain.names), is_json=is_json)
            if broken:
                tally.set_aside(_unreadable(batch, broken, is_json=is_json))
            good = np.ones(batch.num_rows, bool)
            good[list(broken)] = False
            readable = batch.filter(pa.array(good)) if broken else batch
            if readable.num_rows:
                now_ms = pc.max(readable.column("now_ms")).as_py()
                event = in_columns(readable.columns[: -len(BESIDE)])
                judged = judge(*event, now_ms=now_ms, limits=limits, items=len(grain.names))
                if judged.bad.size:
                    rows = readable.take(pa.array(judged.bad))
                    files = rows.column("file").to_pylist()
                    tally.set_aside(letters(judged.reasons, _raw(rows), file=files))
                tally.count(judged.time_ms, judged.users, judged.actions, judged.items)
        yield from tally.records()

    return count


def _broken(batch: pa.RecordBatch, *, items: int, is_json: bool) -> dict[int, str]:
    """Return why rows can't be read, by their places."""
    found: dict[int, str] = {}
    for name in batch.schema.names[: -len(BESIDE) - items]:
        found |= dict.fromkeys(_without_utf8(batch.column(name)), _NO_UTF8)
    told = batch.column("broken")
    if is_json:
        found |= dict(unreadable_values(batch.column("raw").cast(pa.binary())))
    if told.null_count < len(told):
        (rows,) = np.nonzero(np.array(told.is_valid()))
        whys, raws = (_bytes(each.take(pa.array(rows))) for each in (told, batch.column("raw")))
        triples = list(zip(rows.tolist(), whys, raws, strict=True))
        spoken = {n: _text(why or b"") for n, why, raw in triples if why != raw}
        # Of a text that is not of the schema, Spark just gives the text.
        found = dict.fromkeys(rows.tolist(), _OTHER_TYPE) | found | spoken
    return dict(sorted(found.items()))


def _without_utf8(column: pa.Array) -> list[int]:
    """Return the places of texts that are none: Spark takes any bytes for a string."""
    if not pa.types.is_string(column.type):
        return []
    lost = pc.and_not(column.is_valid(), only_utf8(column).is_valid())
    return np.flatnonzero(lost).tolist()


def _unreadable(batch: pa.RecordBatch, broken: dict[int, str], *, is_json: bool) -> pa.RecordBatch:
    rows = batch.take(pa.array(list(broken)))
    files = rows.column("file").to_pylist()
    raws = _bytes(rows.column("raw"))
    told = zip(raws, files, broken.values(), strict=True)
    reasons = [_reason(raw, file, why, is_json=is_json) for raw, file, why in told]
    shown = _raw(rows) if _NO_UTF8 in broken.values() else [_text(raw or b"") for raw in raws]
    return letters(reasons, shown, file=files, details=list(broken.values()))


def _reason(raw: bytes | None, file: str | None, why: str, *, is_json: bool) -> str:
    if why == POISONED:
        return "poison"
    if is_json or why == _NO_UTF8:
        return "unparseable"
    if file is None:  # a row of anyone's DataFrame
        return "marked_broken"
    # A row with a reason and no text of its own stands for its whole file.
    if not raw and why in OF_FILES:
        return why
    return "unparseable" if raw else "broken_file"


def _raw(rows: pa.RecordBatch) -> list[str]:
    """Return the raw text, or where there is none, the event's columns as JSON."""
    event = {name: _shown(rows.column(name)) for name in rows.schema.names[: -len(BESIDE)]}
    told = [dict(zip(event, each, strict=True)) for each in zip(*event.values(), strict=True)]
    return [
        _text(raw) if raw is not None else json.dumps(row, default=str, ensure_ascii=False)
        for raw, row in zip(_bytes(rows.column("raw")), told, strict=True)
    ]


def _shown(column: pa.Array) -> list[object]:
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    return [None if each is None else _text(each) for each in _bytes(column)]


def _bytes(column: pa.Array) -> list[bytes | None]:
    """Return texts as they are: what Spark calls a string need not be UTF-8."""
    return list(column.cast(pa.binary()).to_pylist())


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """How records are counted: ``reader`` reads values, which are JSON where there is none.

    ``skipped`` has by partition the offsets of records that are dead letters, whatever they hold.
    """

    topic: str
    columns: Columns
    limits: Limits
    reader: Reader | None
    grain: Grain
    skipped: Mapping[int, Sequence[int]] = field(default_factory=dict)


def counting_records(
    plan: RecordPlan,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``: a topic's records in, the shuffle's out."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally(plan.grain)
        types = dict.fromkeys(plan.columns, pa.string())
        for records in batches:
            batch = _without_skipped(records, plan, tally)
            if not batch.num_rows:
                continue
            if plan.reader is None:
                parts = read_json_values(batch.column("value"), plan.columns, types)
            else:
                parts = _read(batch, 0, plan.reader, plan.columns)
            for part in parts:
                _count_values(batch, part, plan, tally)
        yield from tally.records()

    return count


def place_of(topic: str, partition: int, offset: int) -> str:
    """Return a record's place in words.

    >>> place_of("actions", 3, 42)
    'topic actions, partition 3, offset 42'
    """
    return f"topic {topic}, partition {partition}, offset {offset}"


def _without_skipped(batch: pa.RecordBatch, plan: RecordPlan, tally: Tally) -> pa.RecordBatch:
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
    reasons, details = ["poison"] * rows.size, [POISONED] * rows.size
    tally.set_aside(_rejected_records(plan.topic, batch, rows, reasons, details))
    return batch.filter(pa.array(~out))


def _count_values(batch: pa.RecordBatch, part: Values, plan: RecordPlan, tally: Tally) -> None:
    now_ms = pc.max(batch.column(NOW)).as_py()
    event, items = (part.times, part.users, part.actions), len(plan.columns.items)
    judged = judge(*event, now_ms=now_ms, limits=plan.limits, items=items)
    if judged.bad.size:
        bad = part.rows[judged.bad]
        tally.set_aside(_rejected_records(plan.topic, batch, bad, judged.reasons))
    tally.count(judged.time_ms, judged.users, judged.actions, judged.items)
    if part.unreadable:
        rows, details = zip(*part.unreadable, strict=True)
        reasons = ["unparseable"] * len(rows)
        tally.set_aside(_rejected_records(plan.topic, batch, np.array(rows), reasons, details))


def _rejected_records(
    topic: str,
    batch: pa.RecordBatch,
    rows: _Places,
    reasons: Sequence[str],
    details: Sequence[str | None] | None = None,
) -> pa.RecordBatch:
    chosen = batch.take(pa.array(rows)).select(["partition", "offset", "value"])
    places, raws = [], []
    for row in chosen.to_pylist():  # the bad ones: few
        places.append(place_of(topic, row["partition"], row["offset"]))
        raws.append(_text(row["value"] or b""))
    return letters(reasons, raws, file=places, details=details)


def _read(batch: pa.RecordBatch, first: int, reader: Reader, columns: Columns) -> Iterator[Values]:
    """Read records by the user's function: at once; else each half; one's own failure tells."""
    try:
        given = reader(batch)
    except Exception as error:  # noqa: BLE001 - whatever a function of the user's raises
        if batch.num_rows == 1:
            nothing, why = pa.array([], pa.string()), f"{type(error).__name__}: {error}"
            none = in_columns(nothing for _ in columns)
            yield Values(*none, np.zeros(0, np.intp), [(first, why)])
            return
        middle = batch.num_rows // 2
        yield from _read(batch.slice(0, middle), first, reader, columns)
        yield from _read(batch.slice(middle), first + middle, reader, columns)
        return
    if given.num_rows != batch.num_rows:
        message = f"The function of value= gave {given.num_rows} rows for {batch.num_rows} records."
        raise ColumnError(message, hint="Give a row for each, with nulls where there is nothing.")
    rows = np.arange(first, first + batch.num_rows)
    yield Values(*in_columns(_column(given, name) for name in columns), rows)


def _column(given: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    if name not in given.schema.names:
        raise ColumnError.missing(name, given.schema.names, "what the function of value= gives")
    column = given.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
