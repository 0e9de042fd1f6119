from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats import countbundle
from kstoolkit.formats.countbundle import Bundle, Bundles

INT32, INT64, UINT64 = 2**31 - 1, 2**63, 2**64 - 1
ACTIONS = st.lists(st.tuples(st.integers(0, INT32), st.integers(0, UINT64)), min_size=1, max_size=9)
ROWS = st.lists(st.tuples(ACTIONS, st.integers(-INT64, INT64 - 1)), min_size=1, max_size=9)
TOO_LARGE = bytes([0x80, 0x80, 0x80, 0x80, 0x08])  # 2**31
Rows = list[tuple[list[tuple[int, int]], int]]


def columns(rows: Rows) -> Bundles:
    pairs = [pair for actions, _ in rows for pair in actions]
    return Bundles(
        np.array([len(actions) for actions, _ in rows], np.int64),
        np.array([action for action, _ in pairs], np.int32),
        np.array([count for _, count in pairs], np.uint64),
        np.array([updated for _, updated in rows], np.int64),
    )


def as_rows(bundles: Bundles) -> Rows:
    pairs = list(zip(bundles.action_id.tolist(), bundles.count.tolist(), strict=True))
    ends = np.cumsum(bundles.size).tolist()
    begins = [0, *ends[:-1]]
    times = bundles.updated_at_ms.tolist()
    return [(pairs[a:b], time) for a, b, time in zip(begins, ends, times, strict=True)]


@given(ROWS)
def test_bundles_come_back_from_columns(rows: Rows) -> None:
    values = countbundle.encode_many(columns(rows)).to_pylist()
    assert as_rows(countbundle.decode_many(values)) == rows


@given(ROWS)
def test_protobuf_reads_and_writes_the_same_bytes(rows: Rows) -> None:
    values = countbundle.encode_many(columns(rows)).to_pylist()
    for value, (actions, updated) in zip(values, rows, strict=True):
        ids, counts = [a for a, _ in actions], [c for _, c in actions]
        assert countbundle.decode(value) == Bundle(ids, counts, updated)
        if updated:  # protobuf leaves a zero out
            message = countbundle._MESSAGE(action_id=ids, count=counts, updated_at_ms=updated)
            assert value == b"\x01" + message.SerializeToString(deterministic=True)


def test_a_bundle_of_version_one_stays_readable() -> None:
    golden = bytes.fromhex("01 0a 03 00 ac 02 12 03 3d 80 01 18 80 80 b2 fd fb 29")
    assert countbundle.decode(golden) == Bundle([0, 300], [61, 128], 1_442_029_797_376)
    assert as_rows(countbundle.decode_many([golden])) == [
        ([(0, 61), (300, 128)], 1_442_029_797_376)
    ]


@given(ROWS)
def test_bundles_that_others_wrote_are_read_among_ours(rows: Rows) -> None:
    ours = countbundle.encode_many(columns(rows)).to_pylist()
    fields_in_another_order = bytes([1, 0x18, 5, 0x12, 1, 7, 0x0A, 1, 3])
    read = countbundle.decode_many([*ours, fields_in_another_order])
    assert as_rows(read) == [*rows, ([(3, 7)], 5)]


@pytest.mark.parametrize(
    "value",
    [
        bytes([1, 0x0A, 2, 0, 3, 0x12, 2, 61]),  # cut short
        bytes([1, 0x0A, 2, 0, 3, 0x12, 1, 61, 0x18, 5]),  # more ids than counts
        bytes([1, 0xFF]),
        bytes([1]) + b"\xff" * 11,
        bytes([1, 0x0A, 5, 0, 0x12, 1, 7, 0x18, 5]),  # a length that lies
        bytes([1, 0x0A, 5, *TOO_LARGE, 0x12, 1, 7, 0x18, 5]),  # an id that is no place
        bytes([1, 0x12, 1, 7, 0x0A, 5, *TOO_LARGE, 0x18, 5]),  # the same, in another order
    ],
)
def test_damaged_bundles_are_told(value: bytes) -> None:
    with pytest.raises(FormatError, match="no CountBundle"):
        countbundle.decode(value)
    with pytest.raises(FormatError, match="no CountBundle"):
        countbundle.decode_many([value])


@pytest.mark.parametrize("value", [b"", b"\x02abc"])
def test_an_unknown_version_is_told_with_both_versions(value: bytes) -> None:
    for read in (countbundle.decode, lambda one: countbundle.decode_many([one])):
        with pytest.raises(FormatError, match="up to version 9"):
            read(value)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    value = bytearray(countbundle.encode_many(columns(draw(ROWS)))[0].as_py())
    for _ in range(draw(st.integers(0, 2))):
        value[draw(st.integers(0, len(value) - 1))] = draw(st.integers(0, 255))
    return bytes(value[: draw(st.integers(0, len(value)))])


@given(st.lists(st.binary(max_size=30) | damaged(), max_size=5))
def test_any_bytes_are_read_or_told(values: list[bytes]) -> None:
    try:
        read = countbundle.decode_many(values)
    except FormatError:
        return
    assert len(read.size) == len(values)
    singly = [countbundle.decode(value) for value in values]
    assert read.updated_at_ms.tolist() == [each.updated_at_ms for each in singly]
    assert read.action_id.tolist() == [action for each in singly for action in each.action_ids]
    assert read.count.tolist() == [count for each in singly for count in each.counts]


@given(ROWS, st.sampled_from([7, 9]), st.data())
def test_bundles_of_sessions_say_how_long_each_lasted(
    rows: Rows, version: int, data: st.DataObject
) -> None:
    plain = columns(rows)
    times = st.lists(
        st.integers(0, 2**64 - 1), min_size=len(plain.count), max_size=len(plain.count)
    )
    lasted = np.array(data.draw(times), np.uint64)
    values = countbundle.encode_many(replace(plain, version=version, lasted_ms=lasted)).to_pylist()
    read = countbundle.decode_many(values)
    assert (as_rows(read), read.version) == (rows, version)
    assert read.lasted_ms is not None
    assert read.lasted_ms.tolist() == lasted.tolist()
    singly = [countbundle.decode(value) for value in values]
    assert [each for one in singly for each in one.lasted_ms or ()] == lasted.tolist()
    message = countbundle._MESSAGE.FromString(values[0][1:])
    assert list(message.count) == singly[0].counts + (singly[0].lasted_ms or [])
    written = values[0][:1] + bytes([0x18, 0]) + message.SerializeToString()  # another order
    assert countbundle.decode_many([written]).count.tolist() == singly[0].counts


@given(ROWS)
def test_bundles_in_parts_differ_by_their_version_alone(rows: Rows) -> None:
    plain = countbundle.encode_many(columns(rows)).to_pylist()
    in_parts = countbundle.encode_many(replace(columns(rows), version=4)).to_pylist()
    assert [bytes([4]) + value[1:] for value in plain] == in_parts
    read = countbundle.decode_many(in_parts)
    assert (as_rows(read), read.version) == (rows, 4)
    assert countbundle.decode(in_parts[0]) == countbundle.decode(plain[0])
