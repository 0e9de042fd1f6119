"""Events of any DataFrame, counted by pane before the shuffle: what ``mapInArrow`` runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.counters.counters import Counters
from kstoolkit.events.event import Limits, judge, letters
from kstoolkit.events.json import unreadable_values
from kstoolkit.pipeline.feeds import panes
from kstoolkit.pipeline.parcels import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


COLUMNS = ("time", "user", "action", "now_ms", "raw", "file", "broken")
"""What a row brings: the event; the clock to judge by; where it came from, or why it is none."""


POISONED = "whatever counted it came to its end, time and again"
"""Why a row is broken that is on the run's skip list."""

NO_UTF8 = "its time, user or action is no UTF-8"
OTHER_TYPE = "a field is not of the type that was said of it, or that earlier records have"


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
        found |= dict.fromkeys(_without_utf8(batch.column(name)), NO_UTF8)
    told = batch.column("broken")
    if is_json:
        found |= dict(unreadable_values(batch.column("raw").cast(pa.binary())))
    if told.null_count < len(told):
        (rows,) = np.nonzero(np.array(told.is_valid()))
        whys, raws = (_bytes(each.take(pa.array(rows))) for each in (told, batch.column("raw")))
        triples = list(zip(rows.tolist(), whys, raws, strict=True))
        spoken = {n: _text(why or b"") for n, why, raw in triples if why != raw}
        # Of a text that is not of the schema, Spark just gives the text.
        found = dict.fromkeys(rows.tolist(), OTHER_TYPE) | found | spoken
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
    shown = _raw(rows) if NO_UTF8 in broken.values() else [_text(raw or b"") for raw in raws]
    return letters(reasons, shown, file=files, details=list(broken.values()))


def _reason(raw: bytes | None, file: str | None, why: str, *, is_json: bool) -> str:
    if why == POISONED:
        return "poison"
    if is_json or why == NO_UTF8:
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
