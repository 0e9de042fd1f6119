from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.rows import (
    _INSTRUCTIONS,
    _split_lists,
    _split_subscriptions,
    _split_versioned,
    split,
    split_buffer,
)
from kstoolkit.formats.streams.values import Wrapping
from tests.formats.streams import encoding

if TYPE_CHECKING:
    from tests.formats.streams.encoding import HeaderPairs


LATEST = encoding.int64(-1)

texts = st.binary(max_size=9)
latest_rows = st.tuples(texts, st.integers(0, 2**62), texts)


@st.composite
def history_rows(draw: st.DrawFn) -> tuple[bytes, int, list[int], list[bytes | None]]:
    starts = sorted(draw(st.sets(st.integers(0, 2**62), min_size=2, max_size=6)))
    values = draw(st.lists(st.none() | texts, min_size=len(starts) - 1, max_size=len(starts) - 1))
    return draw(texts), draw(st.integers(0, 2**40)), starts, values


def rows_of(keys: list[bytes], values: list[bytes]) -> list[tuple[Any, ...]]:
    rows = _split_versioned(ByteColumn.of(keys), ByteColumn.of(values))
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
    rows = _split_versioned(keys, values)
    assert rows.row.tolist() == [0, 1, 2, 2]
    assert list(rows.problems) == [1]
    assert why in rows.problems[1]
    assert rows.key.to_list() == [b"A", key, b"B", b"B"]
    assert rows.value.to_list() == [b"v", value, b"a", b"bb"]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [7, None, 100, 200]


LATEST_MS = 2**63 - 1


def test_the_end_of_a_window_is_unknown_without_its_size() -> None:
    keys = ByteColumn.of([encoding.window_key(b"A", 7)])
    rows = split(Kind.WINDOW, keys, keys)
    assert rows.window_end_ms is not None
    assert rows.window_end_ms.to_pylist() == [None]


@pytest.mark.parametrize(
    ("start_ms", "size_ms", "end_ms"),
    [
        (-120_000, 60_000, -60_000),
        (LATEST_MS - 1, 60_000, LATEST_MS),
        (-(2**63), LATEST_MS, -1),
        (0, 2**70, LATEST_MS),
    ],
)
def test_the_end_of_a_window_is_at_most_the_last_moment(
    start_ms: int, size_ms: int, end_ms: int
) -> None:
    keys = ByteColumn.of([encoding.window_key(b"A", start_ms)])
    rows = split(Kind.WINDOW, keys, keys, window_size_ms=size_ms)
    assert rows.window_end_ms is not None
    assert rows.window_end_ms.to_pylist() == [end_ms]


def test_rows_that_no_upgrade_has_touched_are_read_in_their_old_form() -> None:
    keys = ByteColumn.of([encoding.window_key(b"A", 7)])
    plain = split(Kind.HEADERS_WINDOW, keys, ByteColumn.of([b"v"]), family="default")
    assert plain.value.to_list() == [b"v"]
    assert plain.timestamp_ms is None
    stamped = ByteColumn.of([encoding.timestamped(b"v", 9)])
    rows = split(Kind.HEADERS_WINDOW, keys, stamped, family="keyValueWithTimestamp")
    assert rows.value.to_list() == [b"v"]
    assert rows.headers is None
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [9]


def test_one_bad_row_stays_whole_among_good_ones_and_keeps_its_place_behind_an_index() -> None:
    good = encoding.time_first_window_key(b"A", 7)
    index = encoding.index_window_key(b"A", 7)
    keys = ByteColumn.of([index, good, b"short", index, good])
    value = encoding.timestamped(b"v", 9)
    values = ByteColumn.of([b"", value, value, value, b"cut off"])
    rows = split(Kind.TIME_ORDERED_WINDOW, keys, values, window_size_ms=1)
    assert rows.row.tolist() == [1, 2, 3, 4]
    assert rows.key.to_list() == [b"A", b"short", index, good]
    assert rows.value.to_list() == [b"v", value, value, b"cut off"]
    assert rows.num_left_out == 1
    assert rows.problems == {
        1: "the key is shorter than the 13 bytes of a time-ordered window",
        2: "the key begins with 01, as an index's do, but there is a value",
        3: "the value is shorter than its timestamp of 8 bytes",
    }
    for column in (rows.window_start_ms, rows.window_end_ms, rows.timestamp_ms):
        assert column is not None
        assert column.is_null().to_pylist() == [False, True, True, True]
    assert rows.details["sequence"].to_pylist() == [0, None, None, None]


def test_a_value_that_is_null_is_a_row_without_a_value() -> None:
    keys = ByteColumn.of([encoding.window_key(b"A", 7)])
    rows = split(Kind.HEADERS_WINDOW, keys, ByteColumn.of([None]))
    assert rows.value.to_list() == [None]
    assert rows.window_start_ms is not None
    assert rows.window_start_ms.to_pylist() == [7]
    assert not rows.problems


@pytest.mark.parametrize("kind", Kind)
def test_no_rows_are_no_rows(kind: Kind) -> None:
    rows = split(kind, ByteColumn.of([]), ByteColumn.of([]))
    assert len(rows) == len(rows.key) == len(rows.value) == 0
    assert not rows.problems


def test_a_key_without_its_value_is_an_error() -> None:
    with pytest.raises(FormatError, match="1 keys and 0 values"):
        split(Kind.KEY_VALUE, ByteColumn.of([b"A"]), ByteColumn.of([]))


KEY = encoding.pending_key(b"A", 1_700_000_000_000, left=True)
ONE = encoding.list_value([b"\x01x"])

rows_on_disk = st.lists(
    st.tuples(
        st.binary(max_size=9),
        st.integers(0, 2**62),
        st.booleans(),
        st.lists(st.none() | st.binary(max_size=9), max_size=4),
    ),
    max_size=5,
)


@given(rows_on_disk)
def test_each_element_comes_back_as_a_row(
    disk: list[tuple[bytes, int, bool, list[bytes | None]]],
) -> None:
    keys = [encoding.pending_key(key, at, left=left) for key, at, left, _ in disk]
    lists = [
        [None if each is None else bytes([left]) + each for each in values]
        for _, _, left, values in disk
    ]
    cells = [encoding.list_value(each) for each in lists]
    rows = _split_lists(ByteColumn.of(keys), ByteColumn.of(cells), wrapping=Wrapping.NOTHING)
    flat = [(row, value) for row, (_, _, _, values) in enumerate(disk) for value in values]
    assert not rows.problems
    assert rows.row.tolist() == [row for row, _ in flat]
    assert rows.key.to_list() == [keys[row] for row, _ in flat]
    assert rows.value.to_list() == [each for values in lists for each in values]
    assert rows.record_key.to_list() == [disk[row][0] for row, _ in flat]
    assert rows.record_value.to_list() == [value for _, value in flat]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [disk[row][1] for row, _ in flat]
    sides = ["left" if disk[row][2] else "right" for row, _ in flat]
    assert rows.details["side"].to_pylist() == sides


def test_an_element_may_have_headers() -> None:
    front = encoding.header_bytes([("k", b"vv")])
    value = encoding.list_value([front + b"\x01x", b"\x00\x01y"])
    rows = _split_lists(ByteColumn.of([KEY]), ByteColumn.of([value]), wrapping=Wrapping.HEADERS)
    assert rows.value.to_list() == [b"\x01x", b"\x01y"]
    assert rows.headers is not None
    assert rows.headers.to_pylist() == [[{"name": "k", "value": b"vv"}], []]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (KEY[:8], ONE, "the key is shorter than the 9 bytes of time and side"),
        (encoding.int64(1) + b"\x02A", ONE, "the key's side is neither 00 nor 01"),
        (KEY, b"", "1 byte should follow, 0 do"),
        (KEY, b"\x00" + ONE[1:], "laid out in way 0, not 1"),
        (KEY, ONE[:-1], "2 bytes should follow, 1 do"),
        (KEY, ONE + b"!", "1 byte left over"),
        (KEY, b"\x01\x7f\xff\xff\xff", "2147483647 elements in 0 bytes"),
        (KEY, b"\x01\xff\xff\xff\xff", "-1 elements in 0 bytes"),
        (KEY, encoding.list_value([b"\x07x"]), "the element begins with neither side"),
        (KEY, encoding.list_value([b""]), "the element begins with neither side"),
    ],
)
def test_what_is_wrong_with_a_list_is_said_and_its_row_shown_whole(
    key: bytes, value: bytes, why: str
) -> None:
    keys, values = ByteColumn.of([KEY, key, KEY]), ByteColumn.of([ONE, value, ONE])
    rows = _split_lists(keys, values, wrapping=Wrapping.NOTHING)
    assert list(rows.problems) == [1]
    assert why in rows.problems[1]
    assert rows.key.to_list() == [KEY, key, KEY]
    assert rows.value.to_list() == [b"\x01x", value, b"\x01x"]
    assert rows.details["side"].to_pylist() == ["left", None, "left"]


BUFFERED_KEY = encoding.time_first_window_key(b"A", 7, 1)
BUFFERED_VALUE = encoding.buffered(7, 41, "in", 3, headers=[], values=(None, None, b"new"))
BEFORE_HEADERS = 8 + 8 + 4 + 2 + 4

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
cells = st.none() | st.binary(max_size=9)
records = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        st.integers(0, 2**62),
        words,
        st.integers(0, 2**31 - 1),
        st.lists(st.tuples(words, cells), max_size=3),
        st.tuples(cells, cells, cells),
    ),
    max_size=5,
)


@given(records)
def test_records_that_wait_come_back(
    disk: list[tuple[int, int, str, int, HeaderPairs, tuple[Any, Any, Any]]],
) -> None:
    keys = [encoding.time_first_window_key(b"A", at, row) for row, (at, *_) in enumerate(disk)]
    values = [
        encoding.buffered(at, offset, topic, partition, headers=headers, values=held)
        for at, offset, topic, partition, headers, held in disk
    ]
    rows = split_buffer(ByteColumn.of(keys), ByteColumn.of(values))
    assert not rows.problems
    assert rows.key.to_list() == [b"A"] * len(disk)
    assert rows.value.to_list() == [held[2] for *_, held in disk]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [each[0] for each in disk]
    assert rows.headers is not None
    found = [[(each["name"], each["value"]) for each in row] for row in rows.headers.to_pylist()]
    assert found == [each[4] for each in disk]
    told = {name: column.to_pylist() for name, column in rows.details.items()}
    assert told["offset"] == [each[1] for each in disk]
    assert told["topic"] == [each[2] for each in disk]
    assert told["partition"] == [each[3] for each in disk]
    assert told["prior"] == [held[0] for *_, held in disk]
    assert told["old"] == [held[1] for *_, held in disk]
    assert told["sequence"] == list(range(len(disk)))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (BUFFERED_KEY[:12], BUFFERED_VALUE, "the key is shorter than the 13 bytes"),
        (b"\x01" + BUFFERED_KEY[1:], BUFFERED_VALUE, "the key begins with 01"),
        (BUFFERED_KEY, BUFFERED_VALUE[:-1], "3 bytes should follow, 2 do"),
        (BUFFERED_KEY, BUFFERED_VALUE + b"!", "1 byte left over"),
        (BUFFERED_KEY, bytes(16) + b"\xff\xff\xff\xff" + bytes(20), "a name is missing"),
        (
            BUFFERED_KEY,
            BUFFERED_VALUE[:BEFORE_HEADERS] + b"\x7f\xff\xff\xff" + bytes(9),
            "2147483647 headers in 9",
        ),
    ],
)
def test_what_is_wrong_with_a_record_is_said_and_its_row_shown_whole(
    key: bytes, value: bytes, why: str
) -> None:
    rows = split_buffer(ByteColumn.of([BUFFERED_KEY, key]), ByteColumn.of([BUFFERED_VALUE, value]))
    assert list(rows.problems) == [1]
    assert why in rows.problems[1]
    assert rows.key.to_list() == [b"A", key]
    assert rows.value.to_list() == [b"new", value]
    assert rows.headers is not None
    assert rows.headers.to_pylist() == [[], None]


def test_no_headers_may_be_written_as_of_old() -> None:
    value = BUFFERED_VALUE[:BEFORE_HEADERS] + encoding.int32(-1) + encoding.int32(-1) * 3
    rows = split_buffer(ByteColumn.of([BUFFERED_KEY]), ByteColumn.of([value]))
    assert not rows.problems
    assert rows.value.to_list() == [None]


SUBSCRIPTION_KEY = encoding.combined_key(b"c1", b"o1")
WRAPPER = encoding.subscription(b"o1", instruction=1, hash16=None, partition=None)
SUBSCRIPTION_VALUE = encoding.timestamped(WRAPPER, 7)

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
    rows = _split_subscriptions(
        ByteColumn.of(keys), ByteColumn.of(values), wrapping=Wrapping.TIMESTAMP
    )
    assert not rows.problems
    assert rows.key.to_list() == keys
    assert rows.value.to_list() == wrappers
    told = {name: column.to_pylist() for name, column in rows.details.items()}
    assert told["foreign_key"] == [each[0] for each in disk]
    assert rows.record_key.to_list() == told["subscriber_key"] == [each[1] for each in disk]
    assert told["instruction"] == [_INSTRUCTIONS[each[2]] for each in disk]
    assert told["hash"] == [each[3] for each in disk]
    assert told["primary_partition"] == [each[4] for each in disk]
    assert told["version"] == [int(each[4] is not None) for each in disk]


def test_headers_may_lie_in_front() -> None:
    value = encoding.header_bytes([("k", b"v")]) + SUBSCRIPTION_VALUE
    rows = _split_subscriptions(
        ByteColumn.of([SUBSCRIPTION_KEY]),
        ByteColumn.of([value]),
        wrapping=Wrapping.HEADERS_AND_TIMESTAMP,
    )
    assert rows.value.to_list() == [WRAPPER]
    assert rows.headers is not None
    assert rows.headers.to_pylist() == [[{"name": "k", "value": b"v"}]]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (SUBSCRIPTION_KEY[:3], SUBSCRIPTION_VALUE, "the key is no foreign key"),
        (b"\x7f\xff\xff\xff" + b"c1o1", SUBSCRIPTION_VALUE, "the key is no foreign key"),
        (b"\xff\xff\xff\xff" + b"c1o1", SUBSCRIPTION_VALUE, "the key is no foreign key"),
        (SUBSCRIPTION_KEY, SUBSCRIPTION_VALUE[:7], "the value is shorter than its timestamp"),
        (SUBSCRIPTION_KEY, SUBSCRIPTION_VALUE[:9], "the value is shorter than a subscription"),
        (
            SUBSCRIPTION_KEY,
            encoding.timestamped(b"\x00\x01" + bytes(15), 7),
            "shorter than a subscription",
        ),
        (
            SUBSCRIPTION_KEY,
            encoding.timestamped(b"\x81\x01" + bytes(3), 7),
            "shorter than a subscription",
        ),
        (
            SUBSCRIPTION_KEY,
            encoding.timestamped(b"\x82\x01o1", 7),
            "a subscription of an unknown version",
        ),
        (SUBSCRIPTION_KEY, encoding.timestamped(b"\x80\x04o1", 7), "an unknown instruction"),
    ],
)
def test_what_is_wrong_with_a_subscription_is_said_and_its_row_shown_whole(
    key: bytes, value: bytes, why: str
) -> None:
    keys, values = (
        ByteColumn.of([SUBSCRIPTION_KEY, key]),
        ByteColumn.of([SUBSCRIPTION_VALUE, value]),
    )
    rows = _split_subscriptions(keys, values, wrapping=Wrapping.TIMESTAMP)
    assert list(rows.problems) == [1]
    assert why in rows.problems[1]
    assert rows.key.to_list() == [SUBSCRIPTION_KEY, key]
    assert rows.value.to_list() == [WRAPPER, value]
    assert rows.timestamp_ms is not None
    assert rows.timestamp_ms.to_pylist() == [7, None]
    assert [column.to_pylist()[1] for column in rows.details.values()] == [None] * 6
