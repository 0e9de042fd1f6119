from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.lists import split_lists
from kstoolkit.formats.streams.values import Wrapping
from tests.formats.streams import encoding

KEY = encoding.pending_key(b"A", 1_700_000_000_000, left=True)
ONE = encoding.list_value([b"\x01x"])

rows_on_disk = st.lists(
    st.tuples(
        st.binary(max_size=9),
        st.integers(0, 2**62),
        st.booleans(),
        st.lists(st.none() | st.binary(max_size=9), max_size=4),
    ),
    max_size=5,
)


@given(rows_on_disk)
def test_each_element_comes_back_as_a_row(
    disk: list[tuple[bytes, int, bool, list[bytes | None]]],
) -> None:
    keys = [encoding.pending_key(key, at, left=left) for key, at, left, _ in disk]
    lists = [
        [None if each is None else bytes([left]) + each for each in values]
        for _, _, left, values in disk
    ]
    cells = [encoding.list_value(each) for each in lists]
    rows = split_lists(ByteColumn.of(keys), ByteColumn.of(cells), wrapping=Wrapping.NOTHING)
    flat = [(row, value) for row, (_, _, _, values) in enumerate(disk) for value in values]
    assert not rows.problems
    assert rows.row.tolist() == [row for row, _ in flat]
    assert rows.key.to_list() == [keys[row] for row, _ in flat]
    assert rows.value.to_list() == [each for values in lists for each in values]
    assert rows.record_key.to_list() == [disk[row][0] for row, _ in flat]
    assert rows.record_value.to_list() == [value for _, value in flat]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [disk[row][1] for row, _ in flat]
    sides = ["left" if disk[row][2] else "right" for row, _ in flat]
    assert rows.details["side"].to_pylist() == sides


def test_an_element_may_have_headers() -> None:
    front = encoding.header_bytes([("k", b"vv")])
    value = encoding.list_value([front + b"\x01x", b"\x00\x01y"])
    rows = split_lists(ByteColumn.of([KEY]), ByteColumn.of([value]), wrapping=Wrapping.HEADERS)
    assert rows.value.to_list() == [b"\x01x", b"\x01y"]
    assert rows.headers is not None
    assert rows.headers.to_pylist() == [[{"name": "k", "value": b"vv"}], []]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (KEY[:8], ONE, "the key is shorter than the 9 bytes of time and side"),
        (encoding.int64(1) + b"\x02A", ONE, "the key's side is neither 00 nor 01"),
        (KEY, b"", "1 byte should follow, 0 do"),
        (KEY, b"\x00" + ONE[1:], "laid out in way 0, not 1"),
        (KEY, ONE[:-1], "2 bytes should follow, 1 do"),
        (KEY, ONE + b"!", "1 byte left over"),
        (KEY, b"\x01\x7f\xff\xff\xff", "2147483647 elements in 0 bytes"),
        (KEY, b"\x01\xff\xff\xff\xff", "-1 elements in 0 bytes"),
        (KEY, encoding.list_value([b"\x07x"]), "the element begins with neither side"),
        (KEY, encoding.list_value([b""]), "the element begins with neither side"),
    ],
)
def test_what_is_wrong_with_a_list_is_said_and_its_row_shown_whole(
    key: bytes, value: bytes, why: str
) -> None:
    keys, values = ByteColumn.of([KEY, key, KEY]), ByteColumn.of([ONE, value, ONE])
    rows = split_lists(keys, values, wrapping=Wrapping.NOTHING)
    assert list(rows.problems) == [1]
    assert why in rows.problems[1]
    assert rows.key.to_list() == [KEY, key, KEY]
    assert rows.value.to_list() == [b"\x01x", value, b"\x01x"]
    assert rows.details["side"].to_pylist() == ["left", None, "left"]
