from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.changelogrecords import (
    OPEN_END,
    recognise_records,
    restored_values,
    split_records,
    version_keys,
)
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.values import Wrapping, cut_values

START_MS = 1_700_000_000_000
TIME = START_MS.to_bytes(8, "big")

headers = st.none() | st.lists(st.tuples(st.text(max_size=200), st.none() | st.binary()))


def columns(key: bytes, value: bytes) -> tuple[ByteColumn, ByteColumn]:
    return ByteColumn.of([key]), ByteColumn.from_arrow(restored_values([value], [5], [None]))


@given(st.lists(st.tuples(st.binary(), st.integers(-1, 2**62), headers), min_size=1, max_size=5))
def test_what_stands_beside_a_record_is_read_back(
    records: list[tuple[bytes, int, list[tuple[str, bytes | None]] | None]],
) -> None:
    values, times, told = ([*column] for column in zip(*records, strict=True))
    column = ByteColumn.from_arrow(restored_values(values, times, told))
    parts = cut_values(column, Wrapping.HEADERS_AND_TIMESTAMP)
    assert parts.problems == {}
    assert parts.value.to_list() == values
    assert parts.timestamp_ms is not None
    assert parts.timestamp_ms.to_pylist() == [None if each == -1 else each for each in times]
    assert parts.headers is not None
    found = [[(one["name"], one["value"]) for one in each] for each in parts.headers.to_pylist()]
    assert found == [each or [] for each in told]


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**40))))
def test_versions_of_a_key_lie_together_in_the_order_of_time(rows: list[tuple[bytes, int]]) -> None:
    made = version_keys([key for key, _ in rows], [at for _, at in rows]).to_pylist()
    by_bytes = [row for _, row in sorted(zip(made, rows, strict=True))]
    assert by_bytes == sorted(rows, key=lambda row: (len(row[0]), row))


def test_a_version_tells_until_when_it_was_valid() -> None:
    keys = version_keys([b"a", b"a"], [5, 9]).to_pylist()
    values = restored_values([b"x", b"y"], [5, 9], [None, None]).to_pylist()
    ends = [(9).to_bytes(8, "big"), OPEN_END]
    column = ByteColumn.of([end + value for end, value in zip(ends, values, strict=True)])
    rows = split_records(Kind.VERSIONED, ByteColumn.of(keys), column)
    assert rows.key.to_list() == [b"a", b"a"]
    assert rows.value.to_list() == [b"x", b"y"]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [5, 9]
    assert rows.valid_to_ms is not None
    assert rows.valid_to_ms.to_pylist() == [9, None]


@pytest.mark.parametrize(
    "kind", [Kind.WINDOW, Kind.TIME_ORDERED_WINDOW, Kind.HEADERS_TIME_ORDERED_WINDOW]
)
def test_windows_have_plain_keys_however_the_store_orders_them(kind: Kind) -> None:
    rows = split_records(kind, *columns(b"Anna" + TIME + bytes(4), b"1"), window_size_ms=60_000)
    assert rows.key.to_list() == [b"Anna"]
    assert rows.value.to_list() == [b"1"]
    assert rows.window_end_ms is not None
    assert rows.window_end_ms.to_pylist() == [START_MS + 60_000]


def test_what_waits_in_a_grace_buffer_is_read() -> None:
    nothing = (-1).to_bytes(4, "big", signed=True)
    context = TIME + (7).to_bytes(8, "big") + bytes.fromhex("00000002696e") + bytes(8)
    waits = context + nothing * 2 + bytes.fromhex("000000017a")
    rows = split_records(Kind.GRACE_BUFFER, *columns(b"Anna" + TIME + bytes(4), waits))
    assert (rows.key.to_list(), rows.value.to_list(), rows.problems) == ([b"Anna"], [b"z"], {})
    found = recognise_records(*columns(b"Anna" + TIME + bytes(4), waits))
    assert found.kind is Kind.GRACE_BUFFER


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (b"Anna", Kind.KEY_VALUE),
        (b"", Kind.KEY_VALUE),
        (b"a text of many letters", Kind.KEY_VALUE),
        (b"Anna" + TIME + bytes(4), Kind.WINDOW),
        (b"Anna" + TIME + TIME, Kind.SESSION),
    ],
)
def test_the_keys_tell_the_kind(key: bytes, kind: Kind) -> None:
    found = recognise_records(*columns(key, b"1"))
    assert found.kind is kind
    assert 0 < found.confidence < 1


def test_no_records_tell_next_to_nothing() -> None:
    found = recognise_records(ByteColumn.of([]), ByteColumn.of([]))
    assert found.confidence < 0.5


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=60)), min_size=1))
def test_rubbish_is_told_as_such_whatever_kind_it_is_said_to_be(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    keys = ByteColumn.of([key for key, _ in pairs])
    values = [value for _, value in pairs]
    restored = restored_values(values, [5] * len(pairs), [None] * len(pairs))
    column = ByteColumn.from_arrow(restored)
    recognise_records(keys, column)
    for kind in set(Kind) - {Kind.VERSIONED}:
        rows = split_records(kind, keys, column)
        for at in rows.problems:
            assert rows.value.to_list()[at] == values[rows.row[at]]
