from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.columns import ByteColumn

cells = st.lists(st.none() | st.binary(max_size=20), max_size=20)
indexes = st.integers(-25, 25)


@given(cells)
def test_rows_come_out_as_they_went_in(rows: list[bytes | None]) -> None:
    column = ByteColumn.of(rows)
    assert column.to_list() == rows
    assert column.lengths.tolist() == [len(row or b"") for row in rows]
    assert column.is_null.tolist() == [row is None for row in rows]


@given(cells, indexes, st.none() | indexes)
def test_a_part_is_what_a_slice_is(rows: list[bytes | None], start: int, end: int | None) -> None:
    parts = ByteColumn.of(rows).part(start, end)
    assert parts.to_list() == [None if row is None else row[start:end] for row in rows]


@given(cells, st.data())
def test_parts_may_differ_by_row(rows: list[bytes | None], data: st.DataObject) -> None:
    many = st.lists(indexes, min_size=len(rows), max_size=len(rows))
    start, end = data.draw(many), data.draw(many)
    parts = ByteColumn.of(rows).part(np.array(start, np.int64), np.array(end, np.int64))
    expected = [
        None if row is None else row[first:last]
        for row, first, last in zip(rows, start, end, strict=True)
    ]
    assert parts.to_list() == expected


@given(st.lists(st.binary(min_size=8, max_size=12), min_size=1), st.sampled_from([1, 2, 4, 8]))
def test_integers_are_signed_and_big_endian(rows: list[bytes], width: int) -> None:
    column = ByteColumn.of(rows)
    first = [int.from_bytes(row[:width], "big", signed=True) for row in rows]
    last = [int.from_bytes(row[-width:], "big", signed=True) for row in rows]
    assert column.integers(width, at=0).tolist() == first  # type: ignore[arg-type]
    assert column.integers(width, at=-width).tolist() == last  # type: ignore[arg-type]


def test_a_row_too_short_for_a_number_is_an_error_and_not_its_neighbours_bytes() -> None:
    column = ByteColumn.of([b"12345678", b"1234567", b"12345678"])
    for at in (0, -8):
        with pytest.raises(IndexError, match="no 8 bytes"):
            column.integers(8, at=at)


@given(cells, st.data())
def test_a_slice_of_an_arrow_array_is_taken_as_it_is(
    rows: list[bytes | None], data: st.DataObject
) -> None:
    skipped = data.draw(st.integers(0, len(rows)))
    for kind in (pa.binary(), pa.large_binary()):
        assert (
            ByteColumn.from_arrow(pa.array(rows, kind).slice(skipped)).to_list() == rows[skipped:]
        )


@given(cells)
def test_first_bytes_are_unsigned_and_absent_where_there_are_none(rows: list[bytes | None]) -> None:
    expected = [row[0] if row else -1 for row in rows]
    assert ByteColumn.of(rows).first_bytes().tolist() == expected


@given(cells)
def test_taking_by_mask_and_by_position_agree(rows: list[bytes | None]) -> None:
    column = ByteColumn.of(rows)
    mask = column.lengths % 2 == 0
    assert column.take(mask).to_list() == column.take(np.flatnonzero(mask)).to_list()


@given(cells, st.binary(max_size=3))
def test_equal_are_the_same_bytes_and_no_others(rows: list[bytes | None], sought: bytes) -> None:
    expected = [row == sought for row in rows]
    assert ByteColumn.of(rows).equal_to(sought).tolist() == expected
    for row in rows:
        if row is not None:
            assert ByteColumn.of(rows).equal_to(row).tolist() == [each == row for each in rows]


@given(cells, st.data())
def test_rows_may_come_out_in_any_order_and_more_than_once(
    rows: list[bytes | None], data: st.DataObject
) -> None:
    count = len(rows)
    chosen = data.draw(st.lists(st.integers(0, count - 1)) if count else st.just([]))
    start, end = data.draw(indexes), data.draw(st.none() | indexes)
    found = ByteColumn.of(rows).take(np.array(chosen, dtype=np.intp)).part(start, end)
    wanted = [rows[at] for at in chosen]
    assert found.to_list() == [None if row is None else row[start:end] for row in wanted]
    assert found.to_arrow().null_count == wanted.count(None)
    found.to_arrow().validate(full=True)


@given(st.binary(max_size=9), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_rows_may_lie_in_each_other(data: bytes, places: list[tuple[int, int]]) -> None:
    inside = [(min(a, b, len(data)), min(max(a, b), len(data))) for a, b in places]
    bounds = np.array(inside, dtype=np.int64).reshape(-1, 2)
    is_null = np.zeros(len(inside), dtype=bool)
    column = ByteColumn(np.frombuffer(data, np.uint8), bounds[:, 0], bounds[:, 1], is_null)
    assert column.to_list() == [data[start:end] for start, end in inside]


def test_to_take_rows_out_takes_nothing_beside_them() -> None:
    """To name each byte's place takes 16 times as much as the rows are."""
    raw = pa.array([bytes(1 << 20)] * 8, pa.large_binary())
    column = ByteColumn.from_arrow(raw).part(1)
    for rows in (column, column.take(np.arange(7, -1, -1))):
        tracemalloc.start()
        found = rows.to_arrow()
        _, most = tracemalloc.get_traced_memory()  # of numpy's and Python's: not of Arrow's result
        tracemalloc.stop()
        assert found.nbytes > 8_000_000
        assert most < 100_000
