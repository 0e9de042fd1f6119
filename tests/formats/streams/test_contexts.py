from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.contexts import split_buffer
from tests.formats.streams import encoding

if TYPE_CHECKING:
    from tests.formats.streams.encoding import HeaderPairs

KEY = encoding.time_first_window_key(b"A", 7, 1)
VALUE = encoding.buffered(7, 41, "in", 3, headers=[], values=(None, None, b"new"))
BEFORE_HEADERS = 8 + 8 + 4 + 2 + 4

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
cells = st.none() | st.binary(max_size=9)
records = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        st.integers(0, 2**62),
        texts,
        st.integers(0, 2**31 - 1),
        st.lists(st.tuples(texts, cells), max_size=3),
        st.tuples(cells, cells, cells),
    ),
    max_size=5,
)


@given(records)
def test_records_that_wait_come_back(
    disk: list[tuple[int, int, str, int, HeaderPairs, tuple[Any, Any, Any]]],
) -> None:
    keys = [encoding.time_first_window_key(b"A", at, row) for row, (at, *_) in enumerate(disk)]
    values = [
        encoding.buffered(at, offset, topic, partition, headers=headers, values=held)
        for at, offset, topic, partition, headers, held in disk
    ]
    rows = split_buffer(ByteColumn.of(keys), ByteColumn.of(values))
    assert not rows.problems
    assert rows.key.to_list() == [b"A"] * len(disk)
    assert rows.value.to_list() == [held[2] for *_, held in disk]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [each[0] for each in disk]
    assert rows.headers is not None
    found = [[(each["name"], each["value"]) for each in row] for row in rows.headers.to_pylist()]
    assert found == [each[4] for each in disk]
    told = {name: column.to_pylist() for name, column in rows.details.items()}
    assert told["offset"] == [each[1] for each in disk]
    assert told["topic"] == [each[2] for each in disk]
    assert told["partition"] == [each[3] for each in disk]
    assert told["prior"] == [held[0] for *_, held in disk]
    assert told["old"] == [held[1] for *_, held in disk]
    assert told["sequence"] == list(range(len(disk)))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (KEY[:12], VALUE, "the key is shorter than the 13 bytes"),
        (b"\x01" + KEY[1:], VALUE, "the key begins with 01"),
        (KEY, VALUE[:-1], "3 bytes should follow, 2 do"),
        (KEY, VALUE + b"!", "1 byte left over"),
        (KEY, bytes(16) + b"\xff\xff\xff\xff" + bytes(20), "a name is missing"),
        (KEY, VALUE[:BEFORE_HEADERS] + b"\x7f\xff\xff\xff" + bytes(9), "2147483647 headers in 9"),
    ],
)
def test_what_is_wrong_with_a_record_is_said_and_its_row_shown_whole(
    key: bytes, value: bytes, why: str
) -> None:
    rows = split_buffer(ByteColumn.of([KEY, key]), ByteColumn.of([VALUE, value]))
    assert list(rows.problems) == [1]
    assert why in rows.problems[1]
    assert rows.key.to_list() == [b"A", key]
    assert rows.value.to_list() == [b"new", value]
    assert rows.headers is not None
    assert rows.headers.to_pylist() == [[], None]


def test_no_headers_may_be_written_as_of_old() -> None:
    value = VALUE[:BEFORE_HEADERS] + encoding.int32(-1) + encoding.int32(-1) * 3
    rows = split_buffer(ByteColumn.of([KEY]), ByteColumn.of([value]))
    assert not rows.problems
    assert rows.value.to_list() == [None]
