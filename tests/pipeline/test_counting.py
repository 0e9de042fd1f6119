"""Rows that Spark hands on, told apart from events before they are counted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kstoolkit.events.event import Limits
from kstoolkit.pipeline.counting import BESIDE, POISONED, counting
from kstoolkit.pipeline.shuffle import DEAD_LETTERS, Grain, from_ipc

GOOD = b'{"t": 1}'


def batch(*rows: tuple[bytes, bytes | None, str | None, str | None]) -> pa.RecordBatch:
    """Return rows as Spark gives them, whose texts need not be UTF-8: user, raw, file, broken."""
    users, raws, files, whys = zip(*rows, strict=True)
    number = len(rows)
    columns = [
        pa.array(["2026-03-01T00:00:00Z"] * number),
        pa.array(users, pa.binary()).view(pa.string()),
        pa.array(["read"] * number),
        pa.array([1_800_000_000_000] * number),
        pa.array(raws, pa.binary()),
        pa.array(files, pa.string()),
        pa.array(whys, pa.string()),
    ]
    return pa.record_batch(columns, names=["time", "user", "action", *BESIDE])


def told(given: pa.RecordBatch, **options: Any) -> list[tuple[str, str, str | None]]:
    """Return (reason, raw text, detail) of the dead letters that come of some rows."""
    count = counting(Grain(60_000, 1), Limits(), **options)
    records = [row for out in count(iter([given])) for row in out.to_pylist()]
    kept = [from_ipc(row["payload"]) for row in records if row["kind"] == DEAD_LETTERS]
    rows = [row for table in kept for row in table.to_pylist()]
    return [(row["reason"], row["raw"], row["detail"]) for row in rows]


def test_a_topics_values_are_judged_by_their_bytes_whatever_spark_made_of_them() -> None:
    place = "topic t, partition 0, offset 0"
    found = told(
        batch(
            (b"Ann", GOOD, place, None),
            (b"A\xff", b'{"t": "A\xff"}', place, None),
            (b"Bo", GOOD, place, POISONED),
            (b"Cy", GOOD, place, GOOD.decode()),
            (b"Di", b"", place, None),
            (b"Ed", b"{'t': 1}", place, None),
        ),
        is_json=True,
    )
    assert [each[:2] for each in found] == [
        ("unparseable", '{"t": "A\\xff"}'),
        ("poison", GOOD.decode()),
        ("unparseable", GOOD.decode()),
        ("unparseable", ""),
        ("unparseable", "{'t': 1}"),
    ]
    assert [str(detail).split(maxsplit=3)[:3] for *_, detail in found] == [
        ["'utf-8'", "codec", "can't"],
        ["whatever", "counted", "it"],
        ["a", "field", "is"],
        ["the", "record", "has"],
        ["Expecting", "property", "name"],
    ]


def test_a_row_whose_user_is_no_utf8_is_a_dead_letter_among_others_of_its_dataframe() -> None:
    found = told(
        batch(
            (b"A\xff", None, None, None), (b"Bo", b"{}", None, "refused"), (b"", None, None, None)
        )
    )
    assert [(reason, detail) for reason, _, detail in found] == [
        ("unparseable", "its time, user or action is no UTF-8"),
        ("marked_broken", "refused"),
        ("no_user", None),
    ]
    assert '"user": "A\\\\xff"' in found[0][1]
