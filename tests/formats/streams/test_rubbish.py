"""Whatever the bytes are: an answer, no row lost, and no memory taken on their word."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.recognising import recognise
from kstoolkit.formats.streams.rows import split
from tests.formats.streams import encoding

if TYPE_CHECKING:
    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.streams.recognising import Place

FAMILIES = [
    None,
    "default",
    "keyValueWithTimestamp",
    "keyValueWithTimestampAndHeaders",
    "windowKeyValueWithHeaders",
    "sessionKeyValueWithHeaders",
    "listValueWithHeaders",
]
HEADERS = encoding.header_bytes([("k", b"vv"), ("é", None)])
VALUES = [
    encoding.timestamped(b"v", 7),
    HEADERS + encoding.timestamped(b"v", 7),
    encoding.list_value([b"\x01x", None, b"\x00y"]),
    encoding.history([100, 200, 300], [b"a", None]),
    encoding.buffered(7, 1, "in", 0, headers=[("k", b"v")], values=(b"p", b"p", b"n")),
    encoding.timestamped(
        encoding.subscription(b"o1", instruction=1, hash16=bytes(16), partition=3), 7
    ),
]
KEYS = [
    encoding.window_key(b"A", 7),
    encoding.session_key(b"A", 7, 9),
    encoding.time_first_window_key(b"A", 7),
    encoding.index_session_key(b"A", 7, 9),
    encoding.pending_key(b"A", 7, left=True),
    encoding.combined_key(b"c1", b"o1"),
    encoding.int64(-1) + b"A",
    encoding.int64(3) + b"A",
]


@st.composite
def damaged(draw: st.DrawFn, whole: list[bytes]) -> bytes:
    cell = bytearray(draw(st.sampled_from(whole)))
    for _ in range(draw(st.integers(0, 2))):
        cell[draw(st.integers(0, len(cell) - 1))] = draw(st.integers(0, 255))
    return bytes(cell[: draw(st.integers(0, len(cell)))])


keys = st.binary(max_size=40) | damaged(KEYS)
values = st.none() | st.binary(max_size=60) | damaged(VALUES)
disk_rows = st.lists(st.tuples(keys, values), max_size=8)


def check(rows: RowColumns, disk: list[tuple[bytes, bytes | None]]) -> None:
    """Check that each column has each row, and that what can't be read is there whole."""
    count = len(rows)
    columns = [rows.key, rows.value, rows.record_key, rows.record_value, *rows.details.values()]
    times = (rows.window_start_ms, rows.window_end_ms, rows.timestamp_ms, rows.valid_to_ms)
    columns += [each for each in (*times, rows.headers) if each is not None]
    assert {len(column) for column in columns} == {count}
    assert (rows.row[1:] >= rows.row[:-1]).all()
    found_keys, found_values = rows.key.to_list(), rows.value.to_list()
    for at, why in rows.problems.items():
        key, value = disk[rows.row[at]]
        assert why
        assert found_keys[at] == key
        assert value is None or (found_values[at] or b"") in value
        assert all(each is None or each[at].as_py() is None for each in times)


@pytest.mark.parametrize("kind", Kind)
@given(disk=disk_rows, family=st.sampled_from(FAMILIES))
def test_rubbish_is_split_or_told(
    kind: Kind, disk: list[tuple[bytes, bytes | None]], family: str | None
) -> None:
    columns = ByteColumn.of([key for key, _ in disk]), ByteColumn.of([value for _, value in disk])
    rows = split(kind, *columns, family=family, window_size_ms=60_000)
    check(rows, disk)
    may_give_none = {Kind.VERSIONED, Kind.LIST_VALUE}
    if kind not in may_give_none:
        assert len(rows) + rows.num_left_out == len(disk)


@given(
    disk=disk_rows,
    families=st.lists(st.sampled_from([*FAMILIES[1:], "offsets", "unheard of"])),
    place=st.sampled_from(["store", "segment"]),
    start=st.none() | st.integers(-(2**63), 2**63 - 1),
    interval=st.none() | st.integers(1, 2**63 - 1),
)
def test_of_rubbish_a_kind_is_guessed(
    disk: list[tuple[bytes, bytes | None]],
    families: list[str],
    place: Place,
    start: int | None,
    interval: int | None,
) -> None:
    found = recognise(
        families,
        ByteColumn.of([key for key, _ in disk]),
        ByteColumn.of([value for _, value in disk]),
        place=place,
        segment_start_ms=start,
        segment_interval_ms=interval,
    )
    assert 0 <= found.confidence <= 1
    assert found.reasons


def headers_of(count: int) -> bytes:
    inside = encoding.varint(count) + b"\x00\x01" * count
    return encoding.varint(len(inside)) + inside


MANY = 20_000
SMALLEST = {
    Kind.LIST_VALUE: (KEYS[4], encoding.list_value([None] * MANY)),
    Kind.VERSIONED: (bytes(9), encoding.history(range(1, MANY + 2), [b""] * MANY)),
    Kind.HEADERS_KEY_VALUE: (b"A", headers_of(MANY) + bytes(8)),
    Kind.GRACE_BUFFER: (
        encoding.time_first_window_key(b"A", 7),
        encoding.buffered(7, 1, "in", 0, headers=[("", None)] * MANY, values=(None, None, b"n")),
    ),
}


@pytest.mark.parametrize("kind", SMALLEST)
def test_a_row_of_as_many_parts_as_fit_takes_a_small_multiple_of_it(kind: Kind) -> None:
    key, value = SMALLEST[kind]
    columns = ByteColumn.of([key]), ByteColumn.of([value])
    tracemalloc.start()
    try:
        rows = split(kind, *columns)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not rows.problems
    assert peak_bytes < 80 * len(value)


MOST = b"\x7f\xff\xff\xff"
CLAIMS = {
    Kind.LIST_VALUE: (encoding.pending_key(b"A", 7, left=True), b"\x01" + MOST),
    Kind.HEADERS_KEY_VALUE: (b"A", b"\xfe\xff\xff\xff\x0f" + b"\xfe\xff\xff\xff\x0f"),
    Kind.HEADERS_WINDOW: (encoding.window_key(b"A", 7), b"\x0a\xfe\xff\xff\xff\x0f" + bytes(9)),
    Kind.GRACE_BUFFER: (
        encoding.time_first_window_key(b"A", 7),
        bytes(16) + encoding.sized(b"in") + bytes(4) + MOST + bytes(40),
    ),
    Kind.FOREIGN_KEY_SUBSCRIPTION: (MOST + b"c1", VALUES[-1]),
    Kind.VERSIONED: (bytes(8), encoding.int64(9) + bytes(8) + encoding.int64(9) + MOST),
}


@pytest.mark.parametrize("kind", CLAIMS)
def test_a_length_that_is_claimed_takes_no_memory(kind: Kind) -> None:
    key, value = CLAIMS[kind]
    columns = ByteColumn.of([key]), ByteColumn.of([value])
    split(kind, *columns)
    tracemalloc.start()
    try:
        rows = split(kind, *columns)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(rows.problems) == [0]
    assert peak_bytes < 100_000
