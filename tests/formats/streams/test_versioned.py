from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.versioned import split_versioned
from tests.formats.streams import encoding

LATEST = encoding.int64(-1)

texts = st.binary(max_size=9)
latest_rows = st.tuples(texts, st.integers(0, 2**62), texts)


@st.composite
def history_rows(draw: st.DrawFn) -> tuple[bytes, int, list[int], list[bytes | None]]:
    starts = sorted(draw(st.sets(st.integers(0, 2**62), min_size=2, max_size=6)))
    values = draw(st.lists(st.none() | texts, min_size=len(starts) - 1, max_size=len(starts) - 1))
    return draw(texts), draw(st.integers(0, 2**40)), starts, values


def rows_of(keys: list[bytes], values: list[bytes]) -> list[tuple[Any, ...]]:
    rows = split_versioned(ByteColumn.of(keys), ByteColumn.of(values))
    assert not rows.problems
    assert rows.timestamp_ms is not None
    assert rows.valid_to_ms is not None
    columns = (rows.row, rows.key.to_list(), rows.value.to_list())
    times = (rows.timestamp_ms.to_pylist(), rows.valid_to_ms.to_pylist())
    segments = rows.details["segment_id"].to_pylist()
    return list(zip(*columns, *times, segments, strict=True))


@given(st.lists(latest_rows | history_rows(), max_size=6))
def test_versions_come_back_in_the_order_on_disk(disk: list[Any]) -> None:
    keys, values, expected = [], [], []
    for row, (key, number, *rest) in enumerate(disk):
        if len(rest) == 1:
            keys.append(LATEST + key)
            values.append(encoding.timestamped(rest[0], number))
            expected.append((row, key, rest[0], number, None, -1))
        else:
            starts, held = rest
            keys.append(encoding.int64(number) + key)
            values.append(encoding.history(starts, held))
            times = zip(held, starts, starts[1:], strict=False)
            expected += [(row, key, value, begin, end, number) for value, begin, end in times]
    assert rows_of(keys, values) == expected


def test_a_row_that_only_holds_its_place_gives_no_version() -> None:
    assert rows_of([encoding.int64(3) + b"A"], [encoding.history([100, 100], [None])]) == []


def test_a_deletion_is_a_version_without_a_value() -> None:
    [row] = rows_of([encoding.int64(3) + b"A"], [encoding.history([100, 200], [None])])
    assert row == (0, b"A", None, 100, 200, 3)


GOOD = encoding.history([100, 200, 300], [b"a", b"bb"])
NEWEST = encoding.int64(9) + encoding.int32(0)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (LATEST[:7], b"", "the key is shorter than the 8 bytes of a segment"),
        (encoding.int64(-2) + b"A", b"", "the key's segment is below -1"),
        (LATEST + b"A", bytes(7), "the value is shorter than its 8 bytes of time"),
        (bytes(8) + b"A", GOOD[:-1], "2 bytes should follow, 1 do"),
        (bytes(8) + b"A", GOOD + b"!", "1 byte left over"),
        (bytes(8) + b"A", GOOD[:30], "8 bytes should follow, 2 do"),
        (bytes(8) + b"A", encoding.int64(5) * 2 + encoding.int64(6) + bytes(4), "from 6 to 5"),
        (bytes(8) + b"A", encoding.int64(5) * 3 + encoding.int32(-2), "of -2 bytes"),
        # The oldest time is never reached: the row ends first.
        (bytes(8), encoding.int64(9) + encoding.int64(1) + NEWEST * 9, "8 bytes should follow"),
    ],
)
def test_what_is_wrong_with_a_version_is_said_and_its_row_shown_whole(
    key: bytes, value: bytes, why: str
) -> None:
    keys = ByteColumn.of([LATEST + b"A", key, bytes(8) + b"B"])
    values = ByteColumn.of([encoding.timestamped(b"v", 7), value, GOOD])
    rows = split_versioned(keys, values)
    assert rows.row.tolist() == [0, 1, 2, 2]
    assert list(rows.problems) == [1]
    assert why in rows.problems[1]
    assert rows.key.to_list() == [b"A", key, b"B", b"B"]
    assert rows.value.to_list() == [b"v", value, b"a", b"bb"]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [7, None, 100, 200]
