from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.streams.subscription import INSTRUCTIONS, split_subscriptions
from kstoolkit.formats.streams.values import Wrapping
from tests.formats.streams import encoding

KEY = encoding.combined_key(b"c1", b"o1")
WRAPPER = encoding.subscription(b"o1", instruction=1, hash16=None, partition=None)
VALUE = encoding.timestamped(WRAPPER, 7)

subscriptions = st.lists(
    st.tuples(
        st.binary(max_size=9),
        st.binary(max_size=9),
        st.integers(0, 3),
        st.none() | st.binary(min_size=16, max_size=16),
        st.none() | st.integers(0, 2**31 - 1),
    ),
    max_size=6,
)


@given(subscriptions)
def test_subscriptions_come_back(
    disk: list[tuple[bytes, bytes, int, bytes | None, int | None]],
) -> None:
    keys = [encoding.combined_key(foreign, primary) for foreign, primary, *_ in disk]
    wrappers = [
        encoding.subscription(primary, instruction=asks, hash16=hash16, partition=partition)
        for _, primary, asks, hash16, partition in disk
    ]
    values = [encoding.timestamped(each, 7) for each in wrappers]
    rows = split_subscriptions(
        ByteColumn.of(keys), ByteColumn.of(values), wrapping=Wrapping.TIMESTAMP
    )
    assert not rows.problems
    assert rows.key.to_list() == keys
    assert rows.value.to_list() == wrappers
    told = {name: column.to_pylist() for name, column in rows.details.items()}
    assert told["foreign_key"] == [each[0] for each in disk]
    assert rows.record_key.to_list() == told["subscriber_key"] == [each[1] for each in disk]
    assert told["instruction"] == [INSTRUCTIONS[each[2]] for each in disk]
    assert told["hash"] == [each[3] for each in disk]
    assert told["primary_partition"] == [each[4] for each in disk]
    assert told["version"] == [int(each[4] is not None) for each in disk]


def test_headers_may_lie_in_front() -> None:
    value = encoding.header_bytes([("k", b"v")]) + VALUE
    rows = split_subscriptions(
        ByteColumn.of([KEY]), ByteColumn.of([value]), wrapping=Wrapping.HEADERS_AND_TIMESTAMP
    )
    assert rows.value.to_list() == [WRAPPER]
    assert rows.headers is not None
    assert rows.headers.to_pylist() == [[{"name": "k", "value": b"v"}]]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (KEY[:3], VALUE, "the key is no foreign key"),
        (b"\x7f\xff\xff\xff" + b"c1o1", VALUE, "the key is no foreign key"),
        (b"\xff\xff\xff\xff" + b"c1o1", VALUE, "the key is no foreign key"),
        (KEY, VALUE[:7], "the value is shorter than its timestamp"),
        (KEY, VALUE[:9], "the value is shorter than a subscription"),
        (KEY, encoding.timestamped(b"\x00\x01" + bytes(15), 7), "shorter than a subscription"),
        (KEY, encoding.timestamped(b"\x81\x01" + bytes(3), 7), "shorter than a subscription"),
        (KEY, encoding.timestamped(b"\x82\x01o1", 7), "a subscription of an unknown version"),
        (KEY, encoding.timestamped(b"\x80\x04o1", 7), "an unknown instruction"),
    ],
)
def test_what_is_wrong_with_a_subscription_is_said_and_its_row_shown_whole(
    key: bytes, value: bytes, why: str
) -> None:
    keys, values = ByteColumn.of([KEY, key]), ByteColumn.of([VALUE, value])
    rows = split_subscriptions(keys, values, wrapping=Wrapping.TIMESTAMP)
    assert list(rows.problems) == [1]
    assert why in rows.problems[1]
    assert rows.key.to_list() == [KEY, key]
    assert rows.value.to_list() == [WRAPPER, value]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [7, None]
    assert [column.to_pylist()[1] for column in rows.details.values()] == [None] * 6
