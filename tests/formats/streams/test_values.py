from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.values import Wrapping, _cut_headers, cut_values, wrapping_of
from tests.formats.streams import encoding

if TYPE_CHECKING:
    from tests.formats.streams.encoding import HeaderPairs


stamped = st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 2**63 - 1)))


@given(stamped)
def test_values_and_their_times_come_back(rows: list[tuple[bytes, int]]) -> None:
    cells = [encoding.timestamped(*row) for row in rows]
    parts = cut_values(ByteColumn.of(cells), Wrapping.TIMESTAMP)
    assert parts.timestamp_ms is not None
    times = parts.timestamp_ms.to_pylist()
    assert list(zip(parts.value.to_list(), times, strict=True)) == rows
    assert parts.headers is None


@given(stamped)
def test_headers_lie_in_front_of_the_time(rows: list[tuple[bytes, int]]) -> None:
    front = encoding.header_bytes([("k", b"vv")])
    cells = [front + encoding.timestamped(*row) for row in rows]
    parts = cut_values(ByteColumn.of(cells), Wrapping.HEADERS_AND_TIMESTAMP)
    assert parts.timestamp_ms is not None
    times = parts.timestamp_ms.to_pylist()
    assert list(zip(parts.value.to_list(), times, strict=True)) == rows
    assert parts.headers is not None
    assert parts.headers.to_pylist() == [[{"name": "k", "value": b"vv"}]] * len(rows)


def test_a_value_from_before_timestamps_has_none() -> None:
    parts = cut_values(ByteColumn.of([encoding.timestamped(b"v", -1)]), Wrapping.TIMESTAMP)
    assert parts.timestamp_ms is not None
    assert parts.timestamp_ms.to_pylist() == [None]
    assert parts.value.to_list() == [b"v"]
    assert not parts.problems


def test_a_value_too_short_for_its_time_is_told() -> None:
    parts = cut_values(ByteColumn.of([bytes(7), bytes(8), None]), Wrapping.TIMESTAMP)
    assert parts.problems == {0: "the value is shorter than its timestamp of 8 bytes"}
    assert parts.value.to_list()[1:] == [b"", None]


@pytest.mark.parametrize(
    ("kind", "family", "wrapping"),
    [
        # What was written before an upgrade lies where it lay, in the form it had.
        (Kind.TIMESTAMPED_KEY_VALUE, "default", Wrapping.NOTHING),
        (Kind.HEADERS_WINDOW, "keyValueWithTimestamp", Wrapping.TIMESTAMP),
        (Kind.HEADERS_SESSION, "default", Wrapping.NOTHING),
        (Kind.HEADERS_TIME_ORDERED_WINDOW, "default", Wrapping.TIMESTAMP),
        (Kind.TIME_ORDERED_WINDOW, "default", Wrapping.TIMESTAMP),
        (Kind.HEADERS_SESSION, "sessionKeyValueWithHeaders", Wrapping.HEADERS),
        (Kind.LIST_VALUE, "listValueWithHeaders", Wrapping.HEADERS),
    ],
)
def test_the_column_family_says_what_lies_in_front(
    kind: Kind, family: str, wrapping: Wrapping
) -> None:
    assert wrapping_of(kind, family) is wrapping


def test_a_column_family_without_rows_is_an_error() -> None:
    with pytest.raises(FormatError, match="no rows in a column family 'offsets'"):
        wrapping_of(Kind.KEY_VALUE, "offsets")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
pairs = st.lists(st.tuples(texts, st.none() | st.binary(max_size=80)), max_size=4)


def read(cells: list[bytes | None]) -> tuple[list[bytes | None], list[HeaderPairs | None]]:
    parts = _cut_headers(ByteColumn.of(cells))
    assert not parts.problems
    assert parts.headers is not None
    headers = [
        None if row is None else [(each["name"], each["value"]) for each in row]
        for row in parts.headers.to_pylist()
    ]
    return parts.value.to_list(), headers


@given(st.lists(st.tuples(pairs, st.binary(max_size=9))))
def test_headers_and_values_come_back(rows: list[tuple[HeaderPairs, bytes]]) -> None:
    cells = [encoding.header_bytes(headers) + value for headers, value in rows]
    assert read([*cells]) == ([value for _, value in rows], [headers for headers, _ in rows])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    cell = bytearray(encoding.header_bytes(draw(pairs)) + draw(st.binary(max_size=4)))
    for _ in range(draw(st.integers(0, 2))):
        cell[draw(st.integers(0, len(cell) - 1))] = draw(st.integers(0, 255))
    return bytes(cell[: draw(st.integers(0, len(cell)))])


@given(st.lists(damaged() | st.binary(max_size=9) | st.none(), min_size=1, max_size=6))
def test_of_many_rows_each_is_read_as_it_would_be_alone(cells: list[bytes | None]) -> None:
    """Many are read all at once, few one by one."""
    times = 100
    many = _cut_headers(ByteColumn.of(cells * times))
    assert many.headers is not None
    headers, rest = many.headers.to_pylist(), many.value.to_list()
    for at, cell in enumerate(cells):
        alone = _cut_headers(ByteColumn.of([cell]))
        assert alone.headers is not None
        for place in range(at, len(cells) * times, len(cells)):
            assert headers[place] == alone.headers.to_pylist()[0]
            assert rest[place] == alone.value.to_list()[0]
            assert many.problems.get(place) == alone.problems.get(0)


def test_names_may_repeat_and_values_may_be_null() -> None:
    headers: HeaderPairs = [("trace", b"1"), ("trace", None), ("üser", b"")]
    assert read([encoding.header_bytes(headers) + b"v"]) == ([b"v"], [headers])


def test_a_value_that_is_null_has_no_headers_and_no_problem() -> None:
    assert read([None, b"\x00v"]) == ([None, b"v"], [None, []])


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (b"", "1 byte should follow, 0 do"),
        (b"\x0c\x02", "6 bytes should follow, 1 do"),
        (b"\x01", "a length of -1"),
        (b"\xff" * 6, "a varint of more than 5 bytes"),
        (bytes.fromhex("0c02026b067676"), "3 bytes should follow, 2 do"),
        (bytes.fromhex("060201ff"), "a name is missing"),
        (bytes.fromhex("080202ff00"), "a name is no UTF-8"),
        (bytes.fromhex("0a00000000ff00"), "4 bytes left over"),
    ],
)
def test_what_is_wrong_with_headers_is_said(cell: bytes, why: str) -> None:
    parts = _cut_headers(ByteColumn.of([b"\x00fine", cell]))
    assert list(parts.problems) == [1]
    assert why in parts.problems[1]
    assert parts.headers is not None
    assert parts.headers.to_pylist() == [[], None]
    assert parts.value.to_list()[0] == b"fine"
