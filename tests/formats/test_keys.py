from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError, FormatError
from kstoolkit.formats.countblock import _LENGTH_BYTES, BlockKey
from kstoolkit.formats.keys import (
    SHORTEST_REPLICA_KEY_BYTES,
    WindowKeys,
    decode_replica_keys,
    decode_topic_keys,
    encode_replica_key,
    encode_replica_keys,
    encode_topic_keys,
    is_block_key,
    is_of_window,
)

INT32, INT64 = 2**31 - 1, 2**63 - 1
USERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["", "\0", "\0" * 16, "a\0b", "😀", "Čeněk", "x" * 1024, "\xff" * 8]
)
STARTS = st.integers(-(2**63), INT64)
SIZES = st.integers(1, 2**62) | st.integers(1 - 2**62, -1)  # of windows and of sessions
ROWS = st.lists(st.tuples(USERS, STARTS, SIZES), max_size=12)
BLOCKS = st.builds(
    BlockKey,
    st.integers(0, INT32),
    st.integers(0, INT32),
    st.integers(0, INT64),
    st.integers(0, INT32),
    SIZES,
)
Rows = list[tuple[str, int, int]]


def encoded(rows: Rows) -> pa.Array:
    users = pa.array([user for user, _, _ in rows], pa.string()).dictionary_encode()
    return encode_topic_keys(
        users.dictionary,
        np.asarray(users.indices, np.int32),
        np.array([start for _, start, _ in rows], np.int64),
        np.array([size for _, _, size in rows], np.int64),
    )


def as_rows(keys: WindowKeys) -> Rows:
    starts, sizes = keys.start_ms.tolist(), keys.size_ms.tolist()
    return list(zip(keys.names.to_pylist(), starts, sizes, strict=True))


def test_a_key_is_salt_user_start_and_size() -> None:
    salt = hashlib.md5("Čeněk".encode()).digest()[:4]  # noqa: S324 - the format says md5
    numbers = bytes.fromhex("0000014fbed9f800 000000000000ea60")
    [key] = encoded([("Čeněk", 1_442_016_000_000, 60_000)]).to_pylist()
    assert key == salt + "Čeněk".encode() + numbers
    assert key[:-8] == encode_replica_key("Čeněk", 1_442_016_000_000)


def test_the_key_that_the_format_draws_stays_readable() -> None:
    golden = bytes.fromhex("97a9d330 416e6e61 0000014fbed9f800 000000000000ea60")
    assert as_rows(decode_topic_keys([golden])) == [("Anna", 1_442_016_000_000, 60_000)]


@given(ROWS)
def test_keys_come_back_and_none_is_taken_for_another(rows: Rows) -> None:
    keys = encoded(rows)
    assert as_rows(decode_topic_keys(keys)) == rows
    assert as_rows(decode_topic_keys(keys.to_pylist())) == rows
    assert as_rows(decode_topic_keys(keys.cast(pa.binary()))) == rows
    assert len(set(keys.to_pylist())) == len(set(rows))


@given(ROWS)
def test_users_are_coded_once(rows: Rows) -> None:
    users = decode_topic_keys(encoded(rows)).users.to_pylist()
    assert sorted(users) == sorted({user for user, _, _ in rows})


@given(ROWS, st.data())
def test_chosen_keys_are_those_asked_for(rows: Rows, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
    taken = decode_topic_keys(encoded(rows)).take(np.array(chosen, np.intp))
    assert as_rows(taken) == [rows[place] for place in chosen]
    assert len(taken) == len(chosen)


def test_keys_in_the_middle_of_a_longer_column_are_read() -> None:
    keys = encoded([("Anna", 0, 1), ("Bo", 2, 3), ("", 4, 5)]).slice(1, 1)
    assert as_rows(decode_topic_keys(keys)) == [("Bo", 2, 3)]


def test_one_size_is_that_of_all_keys() -> None:
    keys = encode_topic_keys(pa.array(["a"]), np.array([0, 0]), np.array([0, 9]), 60_000)
    assert decode_topic_keys(keys).size_ms.tolist() == [60_000, 60_000]


def test_a_window_that_takes_no_time_has_no_key() -> None:
    with pytest.raises(ConfigurationError, match="A window of 0 ms"):
        encode_topic_keys(pa.array(["a"]), np.array([0]), np.array([0]), 0)


def test_keys_of_sessions_have_their_gap_behind_the_64th_power_but_two() -> None:
    [key] = encoded([("Anna", 1_442_016_000_000, -1_800_000)]).to_pylist()
    assert key.hex(" ", 4) == "97a9d330 416e6e61 0000014f bed9f800 40000000 001b7740"
    block = BlockKey(5, 1, 7, 1, -1_800_000).encode()
    assert block[-8:].hex() == "bfffffffffe488c0"


ANNA = encoded([("Anna", 0, 60_000)])[0].as_py()


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"short",
        ANNA[:-1],
        ANNA[1:],
        b"\0" + ANNA,
        ANNA[:-8] + bytes(8),  # a window of no length
        BlockKey(1, 2, 3, 4, 60_000).encode(),
        hashlib.md5(b"\xff").digest()[:4] + b"\xff" + ANNA[-16:],  # noqa: S324 - the format says md5
    ],
)
def test_other_bytes_are_told(key: bytes) -> None:
    with pytest.raises(FormatError, match=f"key {key.hex()} is not of a user's window"):
        decode_topic_keys([ANNA, key, ANNA])


def test_a_record_without_a_key_is_told() -> None:
    with pytest.raises(FormatError, match="without a key"):
        decode_topic_keys([ANNA, None])


@given(ROWS, st.lists(BLOCKS, max_size=5))
def test_keys_of_blocks_are_told_from_those_of_users(rows: Rows, blocks: list[BlockKey]) -> None:
    keys = [*encoded(rows).to_pylist(), *(block.encode() for block in blocks)]
    assert is_block_key(keys).tolist() == [False] * len(rows) + [True] * len(blocks)


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_are_keys_or_told(keys: list[bytes]) -> None:
    is_block_key(keys)
    try:
        read = decode_topic_keys(keys)
    except FormatError:
        return
    assert encoded(as_rows(read)).to_pylist() == keys


@given(BLOCKS)
def test_keys_of_blocks_come_back(block: BlockKey) -> None:
    key = block.encode()
    assert BlockKey.decode(key) == block
    assert len(key) == _LENGTH_BYTES


def test_the_key_of_a_block_that_the_format_draws_stays_readable() -> None:
    golden = bytes.fromhex("00000005 00000001 0000000000000007 00000001 ffffffffffff15a0")
    assert BlockKey.decode(golden) == BlockKey(bucket=5, epoch=1, batch=7, part=1, size_ms=60_000)


@pytest.mark.parametrize(
    "block",
    [
        BlockKey(-1, 0, 0, 0, 1),
        BlockKey(0, 2**31, 0, 0, 1),
        BlockKey(0, 0, 2**63, 0, 1),
        BlockKey(0, 0, 0, 0, 0),
        BlockKey(0, 0, 0, 0, -(2**62)),
    ],
)
def test_numbers_that_do_not_fit_have_no_key(block: BlockKey) -> None:
    with pytest.raises(ConfigurationError, match="has no key"):
        block.encode()


@given(st.binary(max_size=40) | st.binary(min_size=_LENGTH_BYTES, max_size=_LENGTH_BYTES))
def test_any_bytes_are_the_key_of_a_block_or_told(key: bytes) -> None:
    try:
        block = BlockKey.decode(key)
    except FormatError:
        return
    assert block.encode() == key


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ANY_STARTS = st.integers(-(2**63), 2**63 - 1)


def test_a_key_is_salt_user_and_start() -> None:
    salt = hashlib.md5("Čeněk".encode()).digest()[:4]  # noqa: S324 - the format says md5
    start = bytes.fromhex("000001 4fb9a0f800")
    assert encode_replica_key("Čeněk", 0x14FB9A0F800) == salt + "Čeněk".encode() + start


@given(st.lists(st.tuples(NAMES, ANY_STARTS), min_size=1))
def test_keys_come_back_and_many_are_as_one(rows: list[tuple[str, int]]) -> None:
    users = pa.array([user for user, _ in rows], pa.string())
    starts = np.array([start for _, start in rows], np.int64)
    keys = encode_replica_keys(users, np.arange(len(rows), dtype=np.int32), starts).to_pylist()
    assert keys == [encode_replica_key(*row) for row in rows]
    names, read = decode_replica_keys(keys)
    assert list(zip(names, read.tolist(), strict=True)) == rows


@given(NAMES, ANY_STARTS, ANY_STARTS)
def test_a_key_is_of_its_own_window_alone(user: str, start: int, other: int) -> None:
    assert is_of_window(encode_replica_key(user, start), other) == (start == other)


@given(NAMES, st.integers(0, 2**62), st.integers(0, 2**62))
def test_windows_of_a_user_stand_in_order_of_time(user: str, one: int, other: int) -> None:
    first, second = encode_replica_key(user, one), encode_replica_key(user, other)
    assert (first < second) == (one < other)


def test_a_user_without_a_name_has_the_shortest_key() -> None:
    assert len(encode_replica_key("", 0)) == SHORTEST_REPLICA_KEY_BYTES


@pytest.mark.parametrize(
    "key", [b"", b"short", b"position", bytes(11), b"salt\xff\xfe\xfd" + bytes(8), b"\xff" * 20]
)
def test_bytes_that_are_no_keys_are_told_among_many(key: bytes) -> None:
    with pytest.raises(FormatError, match=f"^{key.hex()} is no key of a replica"):
        decode_replica_keys([encode_replica_key("Anna", 0), key, encode_replica_key("", 0)])


@given(st.lists(st.binary(max_size=30)))
def test_any_bytes_are_keys_of_a_replica_or_told_of(keys: list[bytes]) -> None:
    try:
        users, starts = decode_replica_keys(keys)
    except FormatError:
        return
    assert [len(user.encode()) + 12 for user in users] == [len(key) for key in keys]
    assert len(starts) == len(keys)
    assert [user.encode() for user in users] == [key[4:-8] for key in keys]
