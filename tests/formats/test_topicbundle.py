from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats import topicbundle
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.topicbundle import ActionBundle, ActionBundles, _BundleLayout

INT64, UINT64 = 2**63, 2**64 - 1
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(
    ["", "\0", "\x22\x01", "😀", "read", "x" * 127, "x" * 128, "x" * 1024]
)
COUNTS = st.integers(0, UINT64) | st.sampled_from([0, 1, 127, 128, 2**63, UINT64])
TIMES = st.integers(-INT64, INT64 - 1) | st.just(1_442_016_000_000)


@st.composite
def bundles(draw: st.DrawFn) -> ActionBundle:
    pairs = draw(st.lists(st.tuples(TEXTS, COUNTS), max_size=4))
    return ActionBundle([text for text, _ in pairs], [count for _, count in pairs], draw(TIMES))


ROWS = st.lists(bundles(), max_size=5) | st.lists(bundles(), min_size=16, max_size=20)
"""Few bundles, whose actions are found one by one, and enough for whole columns."""


def encoded(rows: list[ActionBundle]) -> list[bytes]:
    values: list[bytes] = topicbundle.encode_many(ActionBundles.of(rows)).to_pylist()
    return values


def as_rows(columns: ActionBundles) -> list[ActionBundle]:
    texts = columns.actions.take(pa.array(columns.action)).to_pylist()
    counts, times = columns.count.tolist(), columns.updated_at_ms.tolist()
    edges = [0, *np.cumsum(columns.size).tolist()]
    spans = zip(edges[:-1], edges[1:], times, strict=True)
    lasted = None if columns.lasted_ms is None else columns.lasted_ms.tolist()
    return [
        ActionBundle(
            texts[a:b], counts[a:b], when, lasted_ms=None if lasted is None else lasted[a:b]
        )
        for a, b, when in spans
    ]


def message(bundle: ActionBundle) -> Any:
    return topicbundle._MESSAGE(
        count=bundle.counts, updated_at_ms=bundle.updated_at_ms, action=bundle.actions
    )


@given(ROWS)
def test_bundles_come_back_from_columns(rows: list[ActionBundle]) -> None:
    values = topicbundle.encode_many(ActionBundles.of(rows))
    for given_as in (values.to_pylist(), values.cast(pa.binary()), values):
        read = topicbundle.decode_many(given_as)
        assert as_rows(read) == rows
    texts = {text for row in rows for text in row.actions}
    assert sorted(read.actions.to_pylist()) == sorted(texts)  # each once
    assert _BundleLayout(ByteColumn.from_arrow(values)).is_ours.all()  # none one by one


@given(ROWS)
def test_protobuf_reads_and_writes_the_same_bytes(rows: list[ActionBundle]) -> None:
    for value, row in zip(encoded(rows), rows, strict=True):
        assert topicbundle._decode(value) == row
        if row.actions and row.updated_at_ms:  # protobuf leaves out what is empty
            assert value == b"\x02" + message(row).SerializeToString(deterministic=True)


GOLDEN = bytes.fromhex("02 12 02 3d 07 18 80 80 b2 fd fb 29 22 04 72 65 61 64 22 04 65 64 69 74")


def test_the_bundle_that_the_format_draws_stays_readable_and_written() -> None:
    bundle = ActionBundle(["read", "edit"], [61, 7], 1_442_029_797_376)
    assert topicbundle._decode(GOLDEN) == bundle
    assert as_rows(topicbundle.decode_many([GOLDEN])) == [bundle]
    assert encoded([bundle]) == [GOLDEN]


def test_values_in_the_middle_of_a_longer_column_are_read() -> None:
    values = pa.array([b"\x02junk", GOLDEN, None, b"junk"], pa.binary()).slice(1, 1)
    assert as_rows(topicbundle.decode_many(values)) == [topicbundle._decode(GOLDEN)]


OTHERS = [
    "22 01 61 18 05 12 01 07",  # another order
    "12 01 07 22 01 61",  # no time
    "10 07 18 05 22 01 61",  # counts that are not packed
    "12 81 00 07 18 05 22 01 61",  # a length that is longer than it need be
    "12 02 87 00 18 05 22 01 61",  # so is a count
    "12 01 07 18 85 00 22 01 61",  # or a time
    "12 01 07 18 05 22 81 00 61",  # or the length of an action
    "12 01 07 18 05 22 01 61 2a 01 62",  # a field of a later version
    "2a 01 62 12 01 07 18 05 22 01 61",
    "12 01 07 18 04 18 05 22 01 61",  # the last time counts
    "18 05 22 01 61 12 01 07",
]


@pytest.mark.parametrize("hexed", OTHERS)
@pytest.mark.parametrize("many", [0, 30])
def test_bundles_that_others_wrote_are_read_among_ours(hexed: str, many: int) -> None:
    value = b"\x02" + bytes.fromhex(hexed)
    theirs = topicbundle._decode(value)
    assert (theirs.actions, theirs.counts) == (["a"], [7])
    read = as_rows(topicbundle.decode_many([*[GOLDEN] * many, value, GOLDEN]))
    ours = topicbundle._decode(GOLDEN)
    assert read == [*[ours] * many, theirs, ours]


DAMAGED = [
    "12",
    "12 ff",
    "12 02 3d",  # cut short
    "12 01 80 18 05 22 01 61",  # a count that doesn't end
    "12 02 3d 07 18 05 22 01 61",  # more counts than actions
    "12 01 07 18 05",
    "12 01 07 18 05 22 01 61 22 01 62",  # fewer
    "12 01 07 18 05 22 02 61",  # an action that ends behind the end
    "12 01 07 18 05 22 01",
    "12 01 07 18 05 22 ff ff ff ff 07 61",
    "12 01 07 18 05 22 ff ff ff ff ff 61",
    "12 01 07 18 05 22 01 ff",  # no UTF-8
    "12 01 07 18 05 22 03 ed a0 80",  # a lone surrogate
    "12 0b ff ff ff ff ff ff ff ff ff ff 01 18 05 22 01 61",  # a count of eleven bytes
    "12 01 07 18 ff ff ff ff ff ff ff ff ff ff 01 22 01 61",
    "ff ff ff ff ff ff ff ff ff ff ff",
]


@pytest.mark.parametrize("many", [0, 30])
@pytest.mark.parametrize("hexed", DAMAGED)
def test_damaged_bundles_are_told_wherever_they_stand(hexed: str, many: int) -> None:
    value = b"\x02" + bytes.fromhex(hexed)
    with pytest.raises(FormatError, match="no CountBundle"):
        topicbundle._decode(value)
    for values in ([value, *[GOLDEN] * many], [*[GOLDEN] * many, value]):
        with pytest.raises(FormatError, match="no CountBundle"):
            topicbundle.decode_many(values)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"\x06abc", "a block of many users' counts"),
        (b"\xffabc", "version 255.*up to version 8"),
        (b"\x01abc", "a block of many users' counts"),
        (b"\x03abc", "a block of many users' counts"),
        (b"\x00abc", "4 bytes that are no CountBundle"),
        (b"\x05\x08\x00\x12\x00", "5 bytes that are no CountBundle"),  # of several parts, with none
        (b"", "0 bytes that are no CountBundle"),
        (None, "is a tombstone"),
    ],
)
def test_what_is_no_bundle_of_this_version_is_told_for_what_it_is(
    value: bytes | None, told: str
) -> None:
    with pytest.raises(FormatError, match=told):
        topicbundle._decode(value)
    with pytest.raises(FormatError, match=told):
        topicbundle.decode_many([GOLDEN, value])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    value = bytearray(encoded([draw(bundles())])[0])
    for _ in range(draw(st.integers(0, 2))):
        value[draw(st.integers(0, len(value) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.none() | st.integers(0, len(value)))
    return bytes(value[:cut])


JUNK = (
    st.binary(max_size=30)
    | st.binary(max_size=9).map(lambda junk: b"\x08\x12" + junk)
    | st.binary(max_size=30).map(lambda junk: b"\x02\x12" + junk)
)


@given(st.lists(JUNK | damaged(), max_size=5), st.sampled_from([0, 30]))
def test_any_bytes_are_read_as_protobuf_reads_them_or_told(values: list[bytes], many: int) -> None:
    values = [*[GOLDEN] * many, *values]
    try:
        singly = [topicbundle._decode(value) for value in values]
    except FormatError:
        singly = None
    kinds = {(each.parts, each.lasted_ms is None) for each in singly or ()}
    if singly is None or len(kinds) > 1:
        with pytest.raises(FormatError):
            topicbundle.decode_many(values)
        return
    assert as_rows(topicbundle.decode_many(values)) == singly


def test_one_bundle_of_very_many_actions_takes_no_time_to_speak_of() -> None:
    count = 200_000
    long = ActionBundle([""] * count, [1] * count, 5)
    began = time.monotonic()
    rows = as_rows(topicbundle.decode_many([*[GOLDEN] * 99, *encoded([long])]))
    assert time.monotonic() - began < 5
    assert rows[-1] == long


PARTS = ("region", "op")


@given(ROWS, st.integers(0, 3))
def test_bundles_in_parts_come_back_with_the_parts_names(
    rows: list[ActionBundle], others: int
) -> None:
    """Some as other programs write them, with the fields in their own order."""
    told = [row._replace(parts=PARTS) for row in rows]
    values = encoded(told)
    for place, row in list(enumerate(told))[:others]:
        written = message(row)
        written.part.extend(PARTS)
        values[place] = bytes([5]) + written.SerializeToString()
    read = topicbundle.decode_many(values)
    assert as_rows(read) == rows
    assert read.parts == (PARTS if rows else None)


@given(ROWS, st.sampled_from([None, PARTS]), st.data())
def test_bundles_of_sessions_come_back_with_how_long_each_lasted(
    rows: list[ActionBundle], parts: tuple[str, ...] | None, data: st.DataObject
) -> None:
    told = [
        row._replace(parts=parts, lasted_ms=[data.draw(COUNTS) for _ in row.counts]) for row in rows
    ]
    values = encoded(told)
    read = topicbundle.decode_many(values)
    assert as_rows(read) == [row._replace(parts=None) for row in told]
    assert read.parts == (parts if rows else None)
    assert [topicbundle._decode(value) for value in values] == told
    assert _BundleLayout(ByteColumn.of(values), 8, topicbundle._ending(parts)).is_ours.all()


def test_sessions_and_windows_are_not_mixed() -> None:
    rows = [ActionBundle(["a"], [1], 0), ActionBundle(["a"], [1], 0, lasted_ms=[5])]
    for some in (rows, rows[::-1]):
        with pytest.raises(FormatError, match="other parts of an action"):
            topicbundle.decode_many([*encoded(some[:1]), *encoded(some[1:])])


def test_records_of_other_parts_are_not_mixed() -> None:
    rows = [ActionBundle(["a\x1fb"], [1], 0, parts) for parts in (PARTS, ("place", "op"))]
    values = [encoded([row])[0] for row in rows]
    with pytest.raises(FormatError, match="count by other parts of an action"):
        topicbundle.decode_many(values)
    with pytest.raises(FormatError, match="count by other parts of an action"):
        topicbundle.decode_many([values[0], *encoded([ActionBundle(["a"], [1], 0)])])


def test_a_bundle_in_parts_is_as_it_is_drawn() -> None:
    (value,) = encoded([ActionBundle(["eu\x1fdelete"], [61], 5, PARTS)])
    drawn = "05 12013d 1805 2209 65751f64656c657465 2a06726567696f6e 2a026f70"
    assert value == bytes.fromhex(drawn)
