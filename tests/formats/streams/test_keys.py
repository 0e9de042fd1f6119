from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.keys import (
    session_keys,
    time_ordered_session_keys,
    time_ordered_window_keys,
    window_keys,
)
from tests.formats.streams import encoding

users = st.binary(max_size=20)
times = st.integers(-(2**63), 2**63 - 1)
windows = st.lists(st.tuples(users, times, st.integers(0, 2**31 - 1)))
sessions = st.lists(st.tuples(users, times, times))


@given(windows)
def test_windows_come_back_with_any_key_and_any_start(rows: list[tuple[bytes, int, int]]) -> None:
    parts = window_keys(ByteColumn.of([encoding.window_key(*row) for row in rows]))
    assert parts.sequence is not None
    found = zip(parts.key.to_list(), parts.start_ms.tolist(), parts.sequence.tolist(), strict=True)
    assert list(found) == rows
    assert not parts.problems
    assert not parts.is_index.any()


@given(sessions)
def test_sessions_come_back_with_their_end_before_their_start(
    rows: list[tuple[bytes, int, int]],
) -> None:
    parts = session_keys(ByteColumn.of([encoding.session_key(*row) for row in rows]))
    assert parts.end_ms is not None
    found = zip(parts.key.to_list(), parts.start_ms.tolist(), parts.end_ms.tolist(), strict=True)
    assert list(found) == rows


@given(windows, st.randoms())
def test_windows_by_time_and_their_index_say_the_same(
    rows: list[tuple[bytes, int, int]], random: st.DataObject
) -> None:
    is_index = [random.random() < 0.5 for _ in rows]  # type: ignore[attr-defined]
    ways = (encoding.time_first_window_key, encoding.index_window_key)
    cells = [ways[index](*row) for row, index in zip(rows, is_index, strict=True)]
    parts = time_ordered_window_keys(ByteColumn.of(cells))
    assert parts.sequence is not None
    found = zip(parts.key.to_list(), parts.start_ms.tolist(), parts.sequence.tolist(), strict=True)
    assert list(found) == rows
    assert parts.is_index.tolist() == is_index


@given(sessions, st.randoms())
def test_sessions_by_time_and_their_index_say_the_same(
    rows: list[tuple[bytes, int, int]], random: st.DataObject
) -> None:
    is_index = [random.random() < 0.5 for _ in rows]  # type: ignore[attr-defined]
    ways = (encoding.time_first_session_key, encoding.index_session_key)
    cells = [ways[index](*row) for row, index in zip(rows, is_index, strict=True)]
    parts = time_ordered_session_keys(ByteColumn.of(cells))
    assert parts.end_ms is not None
    found = zip(parts.key.to_list(), parts.start_ms.tolist(), parts.end_ms.tolist(), strict=True)
    assert list(found) == rows
    assert parts.is_index.tolist() == is_index


def test_a_key_one_byte_too_short_is_told_and_its_neighbours_are_read() -> None:
    whole = {
        window_keys: encoding.window_key(b"", 7),
        session_keys: encoding.session_key(b"", 7, 9),
        time_ordered_window_keys: encoding.time_first_window_key(b"", 7),
        time_ordered_session_keys: encoding.time_first_session_key(b"", 7, 9),
    }
    for read, cell in whole.items():
        parts = read(ByteColumn.of([cell, cell[:-1], cell]))
        assert list(parts.problems) == [1]
        assert f"shorter than the {len(cell)} bytes" in parts.problems[1]
        assert parts.start_ms[[0, 2]].tolist() == [7, 7]


def test_a_first_byte_that_is_neither_order_is_told() -> None:
    parts = time_ordered_window_keys(ByteColumn.of([b"\x02" + bytes(12)]))
    assert parts.problems == {0: "the key begins with neither 00 nor 01"}
