"""Events of any DataFrame, counted by pane before the shuffle: what ``mapInArrow`` runs.

Records of a topic, counted by pane before the shuffle: what ``mapInArrow`` runs.

A value is read here, in Python, when it is JSON whose fields are named plainly, or when a function
of the user's reads it. Columns that are SQL expressions go by :mod:`kstoolkit.pipeline.counting`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.counters.counters import Counters
from kstoolkit.errors import ColumnError
from kstoolkit.events.event import Limits, judge, letters
from kstoolkit.events.json import Values, read_json_values, unreadable_values
from kstoolkit.pipeline.feeds import panes
from kstoolkit.pipeline.parcels import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kstoolkit.events.event import Columns
    from kstoolkit.events.topics import Reader


COLUMNS = ("time", "user", "action", "now_ms", "raw", "file", "broken")
"""What a row brings: the event; the clock to judge by; where it came from, or why it is none."""


POISONED = "whatever counted it came to its end, time and again"
"""Why a row is broken that is on the run's skip list."""

_NO_UTF8 = "its time, user or action is no UTF-8"
_OTHER_TYPE = "a field is not of the type that was said of it, or that earlier records have"


def counting(
    pane_ms: int, buckets: int, limits: Limits, *, processing_time: bool, is_json: bool = False
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``: rows of :data:`COLUMNS` in, parcels out.

    With ``is_json``, the raw texts are judged as those that Python reads: Spark's parser takes more
    than JSON.
    """

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally(buckets)
        for batch in batches:
            broken = _broken(batch, is_json=is_json)
            if broken:
                tally.add(Counters.empty(), [_unreadable(batch, broken, is_json=is_json)])
            good = np.ones(batch.num_rows, bool)
            good[list(broken)] = False
            readable = batch.filter(pa.array(good)) if broken else batch
            if readable.num_rows:
                _count_columns(readable, tally, pane_ms, limits, processing_time=processing_time)
        yield from tally.parcels()

    return count


def _broken(batch: pa.RecordBatch, *, is_json: bool) -> dict[int, str]:
    """Return why rows can't be read, by their places."""
    found: dict[int, str] = {}
    for name in COLUMNS[:3]:
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
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return [n for n, each in enumerate(_bytes(column)) if each is not None and _is_none(each)]
    return []


def _is_none(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return True
    return False


def _count_columns(
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
    return "unparseable" if raw else "broken_file"


def _raw(rows: pa.RecordBatch) -> list[str]:
    """Return the raw text, or where there is none, the three columns as JSON."""
    three = {name: _shown(rows.column(name)) for name in COLUMNS[:3]}
    told = [dict(zip(three, each, strict=True)) for each in zip(*three.values(), strict=True)]
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
