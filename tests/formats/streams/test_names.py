from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.names import hint_of
from kstoolkit.formats.streams.recognising import Place, Recognised, recognise
from tests.formats.streams import encoding

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


def seen(
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
    hint = hint_of(name)
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
    assert hint_of(name) is None


def test_an_empty_store_of_subscriptions_is_told_by_its_name() -> None:
    family = "keyValueWithTimestamp"
    assert seen(None, family=family).kind is Kind.TIMESTAMPED_KEY_VALUE
    found = seen(SUBSCRIPTIONS, family=family)
    assert (found.kind, found.confidence) == (Kind.FOREIGN_KEY_SUBSCRIPTION, 0.95)
    assert SUBSCRIPTIONS in found.reasons[-1]
    assert seen(SUBSCRIPTIONS, family="keyValueWithTimestampAndHeaders").kind is found.kind


def test_an_empty_list_of_a_join_is_told_by_its_name() -> None:
    assert seen(None).confidence < 0.5
    assert (seen(PENDING).kind, seen(PENDING).confidence) == (Kind.LIST_VALUE, 0.95)
    by_ending = seen("a-left-shared-join-store")
    assert (by_ending.kind, by_ending.confidence) == (Kind.LIST_VALUE, 0.8)


def test_an_empty_segment_is_told_by_its_name() -> None:
    windows = seen("KSTREAM-JOINTHIS-0000000004-store", place="segment")
    assert (windows.kind, windows.confidence) == (Kind.WINDOW, 0.95)
    assert seen("price-join-Buffer", place="segment").kind is Kind.GRACE_BUFFER


def test_an_empty_segment_of_an_aggregation_is_one_of_several_kinds() -> None:
    found = seen(COUNTS, place="segment")
    assert (found.kind, found.confidence) == (Kind.SESSION, 0.5)
    windows = seen(COUNTS, place="segment", family="keyValueWithTimestamp")
    assert (windows.kind, windows.confidence) == (Kind.TIMESTAMPED_WINDOW, 0.95)


PENDING_ROWS = {
    encoding.pending_key(b"a", 1_700_000_000_000, left=True): encoding.list_value([b"\x01x"]),
    encoding.pending_key(b"b", 1_700_000_000_001, left=True): encoding.list_value([b"\x00y"]),
}


def test_a_name_that_says_the_same_as_the_rows_makes_surer() -> None:
    without, found = seen(None, PENDING_ROWS), seen(PENDING, PENDING_ROWS)
    assert without.kind is found.kind is Kind.LIST_VALUE
    assert without.confidence < found.confidence == 0.99


def test_damaged_rows_of_the_kind_that_the_name_says_are_of_that_kind() -> None:
    rows = PENDING_ROWS | {b"?": b"?"}
    assert seen(None, rows).kind is Kind.KEY_VALUE
    found = seen(PENDING, rows)
    assert found.kind is Kind.LIST_VALUE
    assert 0.5 < found.confidence < 0.6
    assert found.reasons[-2].startswith("66.7% of the rows are so: ")


def test_rows_are_believed_before_a_name_and_less_than_without_it() -> None:
    rows = {b"user": b"7", b"other": b"8"}
    without, found = seen(None, rows), seen(PENDING, rows)
    assert without.kind is found.kind is Kind.KEY_VALUE
    assert found.confidence < without.confidence
    assert found.reasons[-1].startswith("against the name ")


def test_a_name_of_what_can_not_lie_there_says_nothing() -> None:
    family = "keyValueWithTimestamp"
    rows = {b"user": encoding.timestamped(b"7", 1_700_000_000_000)}
    assert seen("my-Buffer", rows, family=family) == seen(None, rows, family=family)
    assert seen("my-Buffer", family=family) == seen(None, family=family)


def test_what_the_user_says_goes_before_the_name() -> None:
    assert seen(PENDING, told="versioned").kind is Kind.VERSIONED
    assert seen(PENDING, told="key-value").kind is Kind.KEY_VALUE


@given(
    st.text(max_size=30) | st.sampled_from(sorted(NAMES)),
    st.sampled_from([None, PENDING_ROWS, {b"user": b"7"}]),
    st.sampled_from(["default", "keyValueWithTimestamp", "sessionKeyValueWithHeaders"]),
    st.sampled_from(["store", "segment"]),
)
def test_whatever_the_name_a_kind_is_found_and_how_sure_that_is(
    name: str, rows: dict[bytes, bytes] | None, family: str, place: Place
) -> None:
    found = seen(name, rows, family=family, place=place)
    assert 0 <= found.confidence <= 1
    assert seen(name, rows, family=family, place=place, told=found.kind).kind is found.kind
