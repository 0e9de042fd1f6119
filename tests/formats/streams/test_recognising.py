from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.recognising import Place, Recognised, _hint_of, recognise
from tests.formats.streams import encoding

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
    Kind.TIME_ORDERED_WINDOW: ([encoding.time_first_window_key(*pair) for pair in PAIRS], STAMPED),
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


SUBSCRIPTIONS = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000037"
PENDING = "KSTREAM-OUTERSHARED-0000000012-store"
COUNTS = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"
NAMES = {
    SUBSCRIPTIONS: Kind.FOREIGN_KEY_SUBSCRIPTION,
    "orders-subscription-store": Kind.FOREIGN_KEY_SUBSCRIPTION,
    PENDING: Kind.LIST_VALUE,
    "click-imp-left-left-shared-join-store": Kind.LIST_VALUE,
    "click-imp-outer-shared-join-store": Kind.LIST_VALUE,
    "KSTREAM-JOINTHIS-0000000004-store": Kind.WINDOW,
    "KSTREAM-OUTEROTHER-0000000005-store": Kind.WINDOW,
    "click-imp-left-outer-other-join-store": Kind.WINDOW,
    "click-imp-this-join-store": Kind.WINDOW,
    "KSTREAM-LEFTJOIN-0000000009-Buffer": Kind.GRACE_BUFFER,
    "price-join-Buffer": Kind.GRACE_BUFFER,
    COUNTS: Kind.TIMESTAMPED_KEY_VALUE,
    "KTABLE-REDUCE-STATE-STORE-0000000003": Kind.TIMESTAMPED_KEY_VALUE,
    "customers-STATE-STORE-0000000000": Kind.TIMESTAMPED_KEY_VALUE,
}


def names_seen(
    name: str | None,
    rows: dict[bytes, bytes] | None = None,
    *,
    family: str = "default",
    place: Place = "store",
    told: str | None = None,
) -> Recognised:
    keys, values = ByteColumn.of([*(rows or {})]), ByteColumn.of([*(rows or {}).values()])
    families = ["default", family, "offsets"]
    return recognise(families, keys, values, place=place, store=name, told=told)


@pytest.mark.parametrize("name", NAMES)
def test_names_that_kafka_streams_gives_say_what_they_are_for(name: str) -> None:
    hint = _hint_of(name)
    assert hint is not None
    assert hint.kinds[0] is NAMES[name]
    assert hint.is_generated == name.startswith(("K", "customers"))


@pytest.mark.parametrize(
    "name",
    [
        "counts",
        "KSTREAM-AGGREGATE",
        "KSTREAM-OUTERSHARED-12-store",
        "my-KSTREAM-OUTERSHARED-0000000012-store",
        "KTABLE-SUPPRESS-STATE-STORE-0000000003",
        "Buffer",
        "",
    ],
)
def test_other_names_say_nothing(name: str) -> None:
    assert _hint_of(name) is None


def test_an_empty_store_of_subscriptions_is_told_by_its_name() -> None:
    family = "keyValueWithTimestamp"
    assert names_seen(None, family=family).kind is Kind.TIMESTAMPED_KEY_VALUE
    found = names_seen(SUBSCRIPTIONS, family=family)
    assert (found.kind, found.confidence) == (Kind.FOREIGN_KEY_SUBSCRIPTION, 0.95)
    assert SUBSCRIPTIONS in found.reasons[-1]
    assert names_seen(SUBSCRIPTIONS, family="keyValueWithTimestampAndHeaders").kind is found.kind


def test_an_empty_list_of_a_join_is_told_by_its_name() -> None:
    assert names_seen(None).confidence < 0.5
    assert (names_seen(PENDING).kind, names_seen(PENDING).confidence) == (Kind.LIST_VALUE, 0.95)
    by_ending = names_seen("a-left-shared-join-store")
    assert (by_ending.kind, by_ending.confidence) == (Kind.LIST_VALUE, 0.8)


def test_an_empty_segment_is_told_by_its_name() -> None:
    windows = names_seen("KSTREAM-JOINTHIS-0000000004-store", place="segment")
    assert (windows.kind, windows.confidence) == (Kind.WINDOW, 0.95)
    assert names_seen("price-join-Buffer", place="segment").kind is Kind.GRACE_BUFFER


def test_an_empty_segment_of_an_aggregation_is_one_of_several_kinds() -> None:
    found = names_seen(COUNTS, place="segment")
    assert (found.kind, found.confidence) == (Kind.SESSION, 0.5)
    windows = names_seen(COUNTS, place="segment", family="keyValueWithTimestamp")
    assert (windows.kind, windows.confidence) == (Kind.TIMESTAMPED_WINDOW, 0.95)


PENDING_ROWS = {
    encoding.pending_key(b"a", 1_700_000_000_000, left=True): encoding.list_value([b"\x01x"]),
    encoding.pending_key(b"b", 1_700_000_000_001, left=True): encoding.list_value([b"\x00y"]),
}


def test_a_name_that_says_the_same_as_the_rows_makes_surer() -> None:
    without, found = names_seen(None, PENDING_ROWS), names_seen(PENDING, PENDING_ROWS)
    assert without.kind is found.kind is Kind.LIST_VALUE
    assert without.confidence < found.confidence == 0.99


def test_damaged_rows_of_the_kind_that_the_name_says_are_of_that_kind() -> None:
    rows = PENDING_ROWS | {b"?": b"?"}
    assert names_seen(None, rows).kind is Kind.KEY_VALUE
    found = names_seen(PENDING, rows)
    assert found.kind is Kind.LIST_VALUE
    assert 0.5 < found.confidence < 0.6
    assert found.reasons[-2].startswith("66.7% of the rows are so: ")


def test_rows_are_believed_before_a_name_and_less_than_without_it() -> None:
    rows = {b"user": b"7", b"other": b"8"}
    without, found = names_seen(None, rows), names_seen(PENDING, rows)
    assert without.kind is found.kind is Kind.KEY_VALUE
    assert found.confidence < without.confidence
    assert found.reasons[-1].startswith("against the name ")


def test_a_name_of_what_can_not_lie_there_says_nothing() -> None:
    family = "keyValueWithTimestamp"
    rows = {b"user": encoding.timestamped(b"7", 1_700_000_000_000)}
    assert names_seen("my-Buffer", rows, family=family) == names_seen(None, rows, family=family)
    assert names_seen("my-Buffer", family=family) == names_seen(None, family=family)


def test_what_the_user_says_goes_before_the_name() -> None:
    assert names_seen(PENDING, told="versioned").kind is Kind.VERSIONED
    assert names_seen(PENDING, told="key-value").kind is Kind.KEY_VALUE


@given(
    st.text(max_size=30) | st.sampled_from(sorted(NAMES)),
    st.sampled_from([None, PENDING_ROWS, {b"user": b"7"}]),
    st.sampled_from(["default", "keyValueWithTimestamp", "sessionKeyValueWithHeaders"]),
    st.sampled_from(["store", "segment"]),
)
def test_whatever_the_name_a_kind_is_found_and_how_sure_that_is(
    name: str, rows: dict[bytes, bytes] | None, family: str, place: Place
) -> None:
    found = names_seen(name, rows, family=family, place=place)
    assert 0 <= found.confidence <= 1
    assert names_seen(name, rows, family=family, place=place, told=found.kind).kind is found.kind
