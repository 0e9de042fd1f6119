from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn, Undecoded
from kstoolkit.formats.serdes import SERDE_NAMES, serde_of
from kstoolkit.formats.streams.keys import (
    session_keys,
    time_ordered_session_keys,
    time_ordered_window_keys,
    window_keys,
)
from tests.formats.streams import encoding

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def read(serde: str, cells: Sequence[bytes | None]) -> list[Any]:
    column = ByteColumn.of(cells)
    return serde_of(serde).decode(column).to_list(column)


@given(st.lists(st.tuples(st.text(), times)))
def test_keys_of_windows_come_back(keys: list[tuple[str, int]]) -> None:
    cells = [key.encode() + encoding.int64(start) for key, start in keys]
    found = read("time-windowed(string)", [*cells, None])
    assert found == [*({"key": key, "window_start_ms": start} for key, start in keys), None]


@given(st.lists(st.tuples(times, times, times)))
def test_keys_of_sessions_come_back(keys: list[tuple[int, int, int]]) -> None:
    cells = [encoding.session_key(encoding.int64(key), start, end) for key, start, end in keys]
    found = read("session-windowed(long)", [*cells, None])
    wanted = [
        {"key": key, "window_start_ms": start, "window_end_ms": end} for key, start, end in keys
    ]
    assert found == [*wanted, None]


def test_the_key_of_the_table_of_vectors_is_read() -> None:
    session = bytes.fromhex("410000018bcfe652600000018bcfe56800")
    window = bytes.fromhex("410000018bcfe56800")
    start, end = 1_700_000_000_000, 1_700_000_060_000
    assert read("time-windowed(string)", [window]) == [{"key": "A", "window_start_ms": start}]
    told = {"key": "A", "window_start_ms": start, "window_end_ms": end}
    assert read("session-windowed(string)", [session]) == [told]


def test_a_key_inside_may_be_anything() -> None:
    cell = b'{"a":1}' + encoding.int64(7)
    assert read("time-windowed(json)", [cell, None]) == [
        {"key": {"a": 1}, "window_start_ms": 7},
        None,
    ]
    assert isinstance(serde_of("time-windowed(long)").decode(ByteColumn.of([])).values, pa.Array)


def test_what_is_wrong_with_a_key_is_said() -> None:
    cells = [b"1234567", b"\xff" + encoding.int64(7), b"a" + encoding.int64(7)]
    short, no_text, good = read("time-windowed(string)", cells)
    assert short == Undecoded(cells[0], "the key is shorter than the 8 bytes of its window's start")
    assert no_text == Undecoded(cells[1], "no UTF-8 at byte 0")
    assert good == {"key": "a", "window_start_ms": 7}
    [session] = read("session-windowed(long)", [cells[2]])
    assert session.why == "the key is shorter than the 16 bytes of a session"


@pytest.mark.parametrize("window", ["time", "session"])
@pytest.mark.parametrize("inner", SERDE_NAMES)
@given(cells=st.lists(st.none() | st.binary(max_size=40), max_size=9))
def test_of_rubbish_every_key_is_read_or_said_to_be_wrong(
    window: str, inner: str, cells: list[bytes | None]
) -> None:
    for cell, value in zip(cells, read(f"{window}-windowed({inner})", cells), strict=True):
        if isinstance(value, Undecoded):
            assert value.raw == cell
            assert value.why
        else:
            assert (value is None) == (cell is None)


@pytest.mark.parametrize("name", ["Time-Windowed(String)", " time windowed ( string ) "])
def test_the_name_may_be_written_in_other_ways(name: str) -> None:
    assert serde_of(name).name == "time-windowed(string)"


@pytest.mark.parametrize("name", ["time-windowed", "time-windowed()", "session-windowed(lng)"])
def test_a_windowed_key_of_nothing_known_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match="There is no serde"):
        serde_of(name)
