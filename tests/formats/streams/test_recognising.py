from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.recognising import recognise
from tests.formats.streams import encoding

if TYPE_CHECKING:
    from kstoolkit.formats.streams.recognising import Place, Recognised

START_MS = 1_700_000_100_000
INTERVAL_MS = 300_000
COUNT = 40
USERS = [f"user {number}".encode() for number in range(COUNT)]
TIMES = [START_MS + number * 7_000 for number in range(COUNT)]
LONGS = [encoding.int64(number) for number in range(COUNT)]
STAMPED = [encoding.timestamped(value, at) for value, at in zip(LONGS, TIMES, strict=True)]
WITH_HEADERS = [b"\x00" + value for value in STAMPED]
PAIRS = list(zip(USERS, TIMES, strict=True))
SESSIONS = [(user, at - 9_000, at) for user, at in PAIRS]

SEGMENTS = {
    Kind.WINDOW: ([encoding.window_key(*pair) for pair in PAIRS], LONGS),
    Kind.TIMESTAMPED_WINDOW: ([encoding.window_key(*pair) for pair in PAIRS], STAMPED),
    Kind.HEADERS_WINDOW: ([encoding.window_key(*pair) for pair in PAIRS], WITH_HEADERS),
    Kind.TIME_ORDERED_WINDOW: (
        [encoding.time_first_window_key(*pair) for pair in PAIRS],
        STAMPED,
    ),
    Kind.HEADERS_TIME_ORDERED_WINDOW: (
        [encoding.time_first_window_key(*pair) for pair in PAIRS],
        WITH_HEADERS,
    ),
    Kind.SESSION: ([encoding.session_key(*each) for each in SESSIONS], LONGS),
    Kind.HEADERS_SESSION: (
        [encoding.session_key(*each) for each in SESSIONS],
        [b"\x00" + value for value in LONGS],
    ),
    Kind.TIME_ORDERED_SESSION: (
        [encoding.time_first_session_key(*each) for each in SESSIONS],
        LONGS,
    ),
    Kind.HEADERS_TIME_ORDERED_SESSION: (
        [encoding.time_first_session_key(*each) for each in SESSIONS],
        [b"\x00" + value for value in LONGS],
    ),
}
STORES = {
    Kind.KEY_VALUE: (USERS, LONGS),
    Kind.TIMESTAMPED_KEY_VALUE: (USERS, STAMPED),
    Kind.HEADERS_KEY_VALUE: (USERS, WITH_HEADERS),
    Kind.VERSIONED: (
        [encoding.int64(number % 9 - 1) + user for number, user in enumerate(USERS)],
        [
            encoding.history([at, at + 5, at + 9], [b"a", None]) if number % 9 else STAMPED[number]
            for number, at in enumerate(TIMES)
        ],
    ),
    Kind.LIST_VALUE: (
        [encoding.pending_key(user, at, left=True) for user, at in PAIRS],
        [encoding.list_value([b"\x01x"])] * COUNT,
    ),
    Kind.FOREIGN_KEY_SUBSCRIPTION: (
        [encoding.combined_key(b"c1", user) for user in USERS],
        [
            encoding.timestamped(
                encoding.subscription(user, instruction=2, hash16=bytes(16), partition=0), at
            )
            for user, at in PAIRS
        ],
    ),
}


def seen(kind: Kind, *, told: str | None = None, rows: int = COUNT) -> Recognised:
    """Return what a store of a kind is taken for."""
    place: Place = "segment" if kind in SEGMENTS else "store"
    keys, values = (SEGMENTS | STORES)[kind]
    return recognise(
        ["default", kind.live_family, "offsets"],
        ByteColumn.of(keys[:rows]),
        ByteColumn.of(values[:rows]),
        place=place,
        segment_start_ms=START_MS if place == "segment" else None,
        segment_interval_ms=INTERVAL_MS if place == "segment" else None,
        told=told,
    )


@pytest.mark.parametrize("kind", [*SEGMENTS, *STORES])
def test_each_kind_is_seen_for_what_it_is(kind: Kind) -> None:
    found = seen(kind)
    assert found.kind is kind
    assert found.confidence >= 0.8
    assert found.reasons[0] == f"the column family {kind.live_family}"
    assert seen(kind, rows=1).kind is kind


def test_a_buffer_is_seen_in_its_one_segment_from_zero() -> None:
    keys = [encoding.time_first_window_key(*pair) for pair in PAIRS]
    held = (None, None, b"new")
    values = [encoding.buffered(at, 1, "in", 0, headers=[], values=held) for at in TIMES]
    columns = ByteColumn.of(keys), ByteColumn.of(values)
    found = recognise(["default"], *columns, place="segment", segment_start_ms=0)
    assert found.kind is Kind.GRACE_BUFFER


def test_subscriptions_with_headers_are_seen_as_subscriptions() -> None:
    keys, values = STORES[Kind.FOREIGN_KEY_SUBSCRIPTION]
    columns = ByteColumn.of(keys), ByteColumn.of([b"\x00" + value for value in values])
    found = recognise(["default", "keyValueWithTimestampAndHeaders"], *columns, place="store")
    assert found.kind is Kind.FOREIGN_KEY_SUBSCRIPTION


@pytest.mark.parametrize("kind", SEGMENTS)
def test_the_name_of_a_group_is_made_precise_by_the_bytes(kind: Kind) -> None:
    group = "window" if kind.endswith("window") else "session"
    assert seen(kind, told=group).kind is kind


def test_the_name_of_a_kind_is_believed_whatever_the_bytes() -> None:
    found = seen(Kind.KEY_VALUE, told="versioned")
    assert (found.kind, found.confidence) == (Kind.VERSIONED, 1.0)


def test_a_group_that_the_column_family_can_not_hold_is_believed_all_the_same() -> None:
    assert seen(Kind.TIMESTAMPED_KEY_VALUE, told="session").kind.endswith("session")
    assert seen(Kind.TIMESTAMPED_KEY_VALUE, told="window").kind is Kind.TIMESTAMPED_WINDOW


def test_an_unknown_name_is_an_error_of_the_user() -> None:
    with pytest.raises(ConfigurationError, match="no kind of store 'windwo'"):
        seen(Kind.WINDOW, told="windwo")


@pytest.mark.parametrize("kind", [Kind.WINDOW, Kind.SESSION, Kind.KEY_VALUE])
def test_without_rows_a_plain_column_family_says_little(kind: Kind) -> None:
    found = seen(kind, rows=0)
    assert found.confidence < 0.5
    assert found.reasons[-1] == "no rows to look at"


def test_without_rows_a_column_family_of_its_own_says_much() -> None:
    found = seen(Kind.HEADERS_TIME_ORDERED_WINDOW, rows=0)
    assert found.kind is Kind.HEADERS_TIME_ORDERED_WINDOW
    assert found.confidence >= 0.9


def test_windows_of_another_time_than_the_segment_are_doubted() -> None:
    columns = [ByteColumn.of(cells) for cells in SEGMENTS[Kind.WINDOW]]
    found = recognise(
        ["default"],
        *columns,
        place="segment",
        segment_start_ms=START_MS + INTERVAL_MS,
        segment_interval_ms=INTERVAL_MS,
    )
    assert found.confidence < 0.1


def test_a_few_damaged_rows_change_nothing_and_are_told() -> None:
    keys, values = SEGMENTS[Kind.SESSION]
    keys = [b"?", *keys]
    columns = ByteColumn.of(keys), ByteColumn.of([b"", *values])
    found = recognise(
        ["default"],
        *columns,
        place="segment",
        segment_start_ms=START_MS,
        segment_interval_ms=INTERVAL_MS,
    )
    assert found.kind is Kind.SESSION
    assert found.reasons[-1].startswith("97.6% of the rows are so: ")
