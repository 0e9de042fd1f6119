from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.values import Wrapping, cut_values, wrapping_of
from tests.formats.streams import encoding

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
