"""Rows of every layout, computed by hand: key A, at 1700000000000, value 42 as a long."""

from __future__ import annotations

from typing import Any

import pytest

from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.rows import split

AT = 1_700_000_000_000
LONG = (42).to_bytes(8)
STAMPED = bytes.fromhex("0000018bcfe56800") + LONG

WINDOWS = {
    Kind.WINDOW: ("41 0000018bcfe56800 00000000", LONG),
    Kind.TIMESTAMPED_WINDOW: ("41 0000018bcfe56800 00000000", STAMPED),
    Kind.HEADERS_WINDOW: ("41 0000018bcfe56800 00000000", b"\x00" + STAMPED),
    Kind.TIME_ORDERED_WINDOW: ("00 0000018bcfe56800 41 00000000", STAMPED),
    Kind.HEADERS_TIME_ORDERED_WINDOW: ("00 0000018bcfe56800 41 00000000", b"\x00" + STAMPED),
}
SESSIONS = {
    Kind.SESSION: ("41 0000018bcfe65260 0000018bcfe56800", LONG),
    Kind.HEADERS_SESSION: ("41 0000018bcfe65260 0000018bcfe56800", b"\x00" + LONG),
    Kind.TIME_ORDERED_SESSION: ("00 0000018bcfe65260 0000018bcfe56800 41", LONG),
    Kind.HEADERS_TIME_ORDERED_SESSION: ("00 0000018bcfe65260 0000018bcfe56800 41", b"\x00" + LONG),
}
INDEXES = {
    Kind.TIME_ORDERED_WINDOW: "01 41 0000018bcfe56800 00000000",
    Kind.HEADERS_TIME_ORDERED_WINDOW: "01 41 0000018bcfe56800 00000000",
    Kind.TIME_ORDERED_SESSION: "01 41 0000018bcfe65260 0000018bcfe56800",
    Kind.HEADERS_TIME_ORDERED_SESSION: "01 41 0000018bcfe65260 0000018bcfe56800",
}


def one(kind: Kind, key: str, value: bytes) -> dict[str, Any]:
    keys, values = ByteColumn.of([bytes.fromhex(key)]), ByteColumn.of([value])
    rows = split(kind, keys, values, window_size_ms=60_000)
    assert not rows.problems
    assert len(rows) == 1
    columns = {
        "start": rows.window_start_ms,
        "end": rows.window_end_ms,
        "timestamp": rows.timestamp_ms,
        "valid to": rows.valid_to_ms,
        "headers": rows.headers,
    }
    told = {name: column.to_pylist()[0] for name, column in columns.items() if column is not None}
    return {"key": rows.key.to_list()[0], "value": rows.value.to_list()[0]} | told


@pytest.mark.parametrize("kind", [*WINDOWS, *SESSIONS])
def test_windows_and_sessions_of_a_minute(kind: Kind) -> None:
    found = one(kind, *(WINDOWS | SESSIONS)[kind])
    assert found.pop("timestamp", AT) == AT
    assert found.pop("headers", []) == []
    assert found == {"key": b"A", "value": LONG, "start": AT, "end": AT + 60_000}


@pytest.mark.parametrize("kind", INDEXES)
def test_rows_of_an_index_are_counted_and_left_out(kind: Kind) -> None:
    base, value = (WINDOWS | SESSIONS)[kind]
    keys = ByteColumn.of([bytes.fromhex(base), bytes.fromhex(INDEXES[kind])])
    rows = split(kind, keys, ByteColumn.of([value, b""]))
    assert rows.row.tolist() == [0]
    assert rows.num_left_out == 1
    assert not rows.problems


def test_a_value_with_a_timestamp() -> None:
    found = one(Kind.TIMESTAMPED_KEY_VALUE, "41", STAMPED)
    assert found == {"key": b"A", "value": LONG, "timestamp": AT}


def test_a_value_with_a_header() -> None:
    value = bytes.fromhex("0c 02 026b 047676") + STAMPED
    found = one(Kind.HEADERS_KEY_VALUE, "41", value)
    headers = [{"name": "k", "value": b"vv"}]
    assert found == {"key": b"A", "value": LONG, "timestamp": AT, "headers": headers}


def test_versions_before_the_latest() -> None:
    value = bytes.fromhex(
        "000000000000012c 0000000000000064 00000000000000c8 00000002 0000000000000064 00000001"
        "61 6262"
    )
    keys = ByteColumn.of([bytes.fromhex("0000000000000007 41"), bytes.fromhex("ff" * 8 + "41")])
    rows = split(Kind.VERSIONED, keys, ByteColumn.of([value, bytes.fromhex("000000000000012c")]))
    assert rows.key.to_list() == [b"A", b"A", b"A"]
    assert rows.value.to_list() == [b"a", b"bb", b""]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [100, 200, 300]
    assert rows.valid_to_ms is not None
    assert rows.valid_to_ms.to_pylist() == [200, 300, None]


def test_a_result_that_waits() -> None:
    key, value = "0000018bcfe56800 01 41", bytes.fromhex("01 00000001 00000002 0178")
    found = one(Kind.LIST_VALUE, key, value)
    assert found == {"key": bytes.fromhex(key), "value": b"\x01x", "timestamp": AT}
