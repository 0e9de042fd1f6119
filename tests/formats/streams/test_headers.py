from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.headers import cut_headers
from tests.formats.streams import encoding

if TYPE_CHECKING:
    from tests.formats.streams.encoding import HeaderPairs

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
pairs = st.lists(st.tuples(texts, st.none() | st.binary(max_size=80)), max_size=4)


def read(cells: list[bytes | None]) -> tuple[list[bytes | None], list[HeaderPairs | None]]:
    parts = cut_headers(ByteColumn.of(cells))
    assert not parts.problems
    assert parts.headers is not None
    headers = [
        None if row is None else [(each["name"], each["value"]) for each in row]
        for row in parts.headers.to_pylist()
    ]
    return parts.rest.to_list(), headers


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
    many = cut_headers(ByteColumn.of(cells * times))
    assert many.headers is not None
    headers, rest = many.headers.to_pylist(), many.rest.to_list()
    for at, cell in enumerate(cells):
        alone = cut_headers(ByteColumn.of([cell]))
        assert alone.headers is not None
        for place in range(at, len(cells) * times, len(cells)):
            assert headers[place] == alone.headers.to_pylist()[0]
            assert rest[place] == alone.rest.to_list()[0]
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
    parts = cut_headers(ByteColumn.of([b"\x00fine", cell]))
    assert list(parts.problems) == [1]
    assert why in parts.problems[1]
    assert parts.headers is not None
    assert parts.headers.to_pylist() == [[], None]
    assert parts.rest.to_list()[0] == b"fine"
