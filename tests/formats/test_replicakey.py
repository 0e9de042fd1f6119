from __future__ import annotations

import hashlib
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.replicakey import (
    SHORTEST_REPLICA_KEY_BYTES,
    decode_replica_key,
    decode_replica_keys,
    encode_replica_key,
    encode_replica_keys,
    is_of_window,
)

USERS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
STARTS = st.integers(-(2**63), 2**63 - 1)


def test_a_key_is_salt_user_and_start() -> None:
    salt = hashlib.md5("Čeněk".encode()).digest()[:4]  # noqa: S324 - the format says md5
    start = bytes.fromhex("000001 4fb9a0f800")
    assert encode_replica_key("Čeněk", 0x14FB9A0F800) == salt + "Čeněk".encode() + start


@given(st.lists(st.tuples(USERS, STARTS), min_size=1))
def test_keys_come_back_and_many_are_as_one(rows: list[tuple[str, int]]) -> None:
    users = pa.array([user for user, _ in rows], pa.string())
    starts = np.array([start for _, start in rows], np.int64)
    keys = encode_replica_keys(users, np.arange(len(rows), dtype=np.int32), starts).to_pylist()
    assert keys == [encode_replica_key(*row) for row in rows]
    assert [decode_replica_key(key) for key in keys] == rows
    names, read = decode_replica_keys(keys)
    assert list(zip(names, read.tolist(), strict=True)) == rows


@given(USERS, STARTS, STARTS)
def test_a_key_is_of_its_own_window_alone(user: str, start: int, other: int) -> None:
    assert is_of_window(encode_replica_key(user, start), other) == (start == other)


@given(USERS, st.integers(0, 2**62), st.integers(0, 2**62))
def test_windows_of_a_user_stand_in_order_of_time(user: str, one: int, other: int) -> None:
    first, second = encode_replica_key(user, one), encode_replica_key(user, other)
    assert (first < second) == (one < other)


def test_a_user_without_a_name_has_the_shortest_key() -> None:
    assert len(encode_replica_key("", 0)) == SHORTEST_REPLICA_KEY_BYTES


@pytest.mark.parametrize(
    "key", [b"", b"position", b"\0" * 12, encode_replica_key("Anna", 0)[:-1], b"\xff" * 20]
)
def test_other_bytes_are_no_key(key: bytes) -> None:
    with pytest.raises(FormatError, match="no key of a replica"):
        decode_replica_key(key)


@pytest.mark.parametrize("key", [b"short", b"position", bytes(11), b"salt\xff\xfe\xfd" + bytes(8)])
def test_bytes_that_are_no_keys_are_told_among_many(key: bytes) -> None:
    with pytest.raises(FormatError, match=f"^{key.hex()} is no key of a replica"):
        decode_replica_keys([encode_replica_key("Anna", 0), key, encode_replica_key("", 0)])


@given(st.lists(st.binary(max_size=30)))
def test_any_bytes_are_keys_or_told(keys: list[bytes]) -> None:
    try:
        users, starts = decode_replica_keys(keys)
    except FormatError:
        return
    assert [len(user.encode()) + 12 for user in users] == [len(key) for key in keys]
    assert len(starts) == len(keys)
    for key, user in zip(keys, users, strict=True):
        with suppress(FormatError):
            assert decode_replica_key(key)[0] == user
