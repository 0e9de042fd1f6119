from __future__ import annotations

import pytest

from kstoolkit.errors import FormatError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.layouts import split
from tests.formats.streams import encoding

LATEST_MS = 2**63 - 1


def test_the_end_of_a_window_is_unknown_without_its_size() -> None:
    keys = ByteColumn.of([encoding.window_key(b"A", 7)])
    rows = split(Kind.WINDOW, keys, keys)
    assert rows.window_end_ms is not None
    assert rows.window_end_ms.to_pylist() == [None]


@pytest.mark.parametrize(
    ("start_ms", "size_ms", "end_ms"),
    [
        (-120_000, 60_000, -60_000),
        (LATEST_MS - 1, 60_000, LATEST_MS),
        (-(2**63), LATEST_MS, -1),
        (0, 2**70, LATEST_MS),
    ],
)
def test_the_end_of_a_window_is_at_most_the_last_moment(
    start_ms: int, size_ms: int, end_ms: int
) -> None:
    keys = ByteColumn.of([encoding.window_key(b"A", start_ms)])
    rows = split(Kind.WINDOW, keys, keys, window_size_ms=size_ms)
    assert rows.window_end_ms is not None
    assert rows.window_end_ms.to_pylist() == [end_ms]


def test_rows_that_no_upgrade_has_touched_are_read_in_their_old_form() -> None:
    keys = ByteColumn.of([encoding.window_key(b"A", 7)])
    plain = split(Kind.HEADERS_WINDOW, keys, ByteColumn.of([b"v"]), family="default")
    assert plain.value.to_list() == [b"v"]
    assert plain.timestamp_ms is None
    stamped = ByteColumn.of([encoding.timestamped(b"v", 9)])
    rows = split(Kind.HEADERS_WINDOW, keys, stamped, family="keyValueWithTimestamp")
    assert rows.value.to_list() == [b"v"]
    assert rows.headers is None
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [9]


def test_one_bad_row_stays_whole_among_good_ones_and_keeps_its_place_behind_an_index() -> None:
    good = encoding.time_first_window_key(b"A", 7)
    index = encoding.index_window_key(b"A", 7)
    keys = ByteColumn.of([index, good, b"short", index, good])
    value = encoding.timestamped(b"v", 9)
    values = ByteColumn.of([b"", value, value, value, b"cut off"])
    rows = split(Kind.TIME_ORDERED_WINDOW, keys, values, window_size_ms=1)
    assert rows.row.tolist() == [1, 2, 3, 4]
    assert rows.key.to_list() == [b"A", b"short", index, good]
    assert rows.value.to_list() == [b"v", value, value, b"cut off"]
    assert rows.num_left_out == 1
    assert rows.problems == {
        1: "the key is shorter than the 13 bytes of a time-ordered window",
        2: "the key begins with 01, as an index's do, but there is a value",
        3: "the value is shorter than its timestamp of 8 bytes",
    }
    for column in (rows.window_start_ms, rows.window_end_ms, rows.timestamp_ms):
        assert column is not None
        assert column.is_null().to_pylist() == [False, True, True, True]
    assert rows.details["sequence"].to_pylist() == [0, None, None, None]


def test_a_value_that_is_null_is_a_row_without_a_value() -> None:
    keys = ByteColumn.of([encoding.window_key(b"A", 7)])
    rows = split(Kind.HEADERS_WINDOW, keys, ByteColumn.of([None]))
    assert rows.value.to_list() == [None]
    assert rows.window_start_ms is not None
    assert rows.window_start_ms.to_pylist() == [7]
    assert not rows.problems


@pytest.mark.parametrize("kind", Kind)
def test_no_rows_are_no_rows(kind: Kind) -> None:
    rows = split(kind, ByteColumn.of([]), ByteColumn.of([]))
    assert len(rows) == len(rows.key) == len(rows.value) == 0
    assert not rows.problems


def test_a_key_without_its_value_is_an_error() -> None:
    with pytest.raises(FormatError, match="1 keys and 0 values"):
        split(Kind.KEY_VALUE, ByteColumn.of([b"A"]), ByteColumn.of([]))
