"""Whose counts, of which window: the keys of a replica, and of records in a changelog topic.

::

    replica   salt: first 4 bytes of md5(user) · user (UTF-8) · window start ms (8)
    topic     salt: first 4 bytes of md5(user) · user (UTF-8) · window start ms (8) · size ms (8)

Start and size are signed, big-endian. The salt spreads users evenly over the key space, whatever
they are called, and is a prefix of one length for blooms and hash indexes. A user's windows stand
beside each other, in order of time; windows before 1970 sort behind the others. A replica's key is
at least :data:`SHORTEST_REPLICA_KEY_BYTES` long: shorter ones are what a store says of itself.

A topic's key has the window's size behind it, as one topic holds the windows of all levels. The
user's bytes are what is left between the first four and the last sixteen, so no text is mistaken
for another. Anna's minute from 00:00 of 12 September 2015 on::

    97a9d330 416e6e61 0000014fbed9f800 000000000000ea60

A size is larger than zero. Of sessions it is 2⁶² ms and their gap, and the start is that of a
session's first event. Below zero, the key is one of a block of many users' counts
(:mod:`kstoolkit.formats.countblock`): so a record without a value, a tombstone, is told apart too.
Shorter keys are no windows of anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import md5
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError, FormatError
from kstoolkit.formats.columns import ByteColumn, fixed_cells, is_utf8, joined_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_SALT_BYTES = 4
_NUMBER_BYTES: Final = 8
SHORTEST_REPLICA_KEY_BYTES = _SALT_BYTES + _NUMBER_BYTES
"""The length of the key of a user without a name."""


def encode_replica_key(user: str, start_ms: int) -> bytes:
    """Return the key of one user's window.

    >>> encode_replica_key("Anna", 0).hex(" ", 4)
    '97a9d330 416e6e61 00000000 00000000'
    """
    text = user.encode()
    return b"%b%b%b" % (_salt(text), text, start_ms.to_bytes(_NUMBER_BYTES, "big", signed=True))


def encode_replica_keys(
    users: pa.Array, user: NDArray[np.int32], start_ms: NDArray[np.int64]
) -> pa.Array:
    """Return the keys of many windows, as Arrow binary: a code of ``users`` and a start a key."""
    texts = users.cast(pa.large_binary())
    salts = pa.array([_salt(text) for text in texts.to_pylist()], pa.large_binary())
    chosen = joined_cells(salts, texts).take(pa.array(user))
    return joined_cells(chosen, fixed_cells(start_ms.astype(">i8")))


def decode_replica_keys(keys: list[bytes]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the users and the window starts of many keys; salts are not looked at.

    One that is too short, or no UTF-8, is a FormatError.

    >>> users, starts = decode_replica_keys([encode_replica_key("Anna", 60_000)])
    >>> users, starts.tolist()
    (['Anna'], [60000])
    """
    shortest = min(keys, key=len, default=bytes(SHORTEST_REPLICA_KEY_BYTES))
    if len(shortest) < SHORTEST_REPLICA_KEY_BYTES:
        raise _no_replica_key(shortest)
    users: list[str] = []
    try:
        users += (key[_SALT_BYTES:-_NUMBER_BYTES].decode() for key in keys)
    except UnicodeDecodeError as error:
        raise _no_replica_key(keys[len(users)]) from error
    starts = np.frombuffer(b"".join(key[-_NUMBER_BYTES:] for key in keys), ">i8")
    return users, starts.astype(np.int64)


def is_of_window(key: bytes, start_ms: int) -> bool:
    """Return whether a key is one of this window."""
    ending = start_ms.to_bytes(_NUMBER_BYTES, "big", signed=True)
    return len(key) >= SHORTEST_REPLICA_KEY_BYTES and key.endswith(ending)


def _salt(text: bytes) -> bytes:
    return md5(text, usedforsecurity=False).digest()[:_SALT_BYTES]


def _no_replica_key(key: bytes) -> FormatError:
    message = f"{key[:64].hex()} is no key of a replica."
    return FormatError(message, hint="The store was written by something else, or is damaged.")


SESSIONS_MS = 1 << 62
"""What a topic's keys have in front of the gap of sessions: no window is that long."""
_SHORTEST_TOPIC_KEY_BYTES = SHORTEST_REPLICA_KEY_BYTES + _NUMBER_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class WindowKeys:
    """Users' windows, as columns.

    ``user`` has codes of ``users``, the texts, each once; ``start_ms`` is epoch ms UTC; ``size_ms``
    is how long each window is, of sessions minus their gap.
    """

    users: pa.Array
    user: NDArray[np.int32]
    start_ms: NDArray[np.int64]
    size_ms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.user)

    @property
    def names(self) -> pa.Array:
        """The user of each key, as Arrow strings."""
        return self.users.take(pa.array(self.user))

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> WindowKeys:
        """Return the chosen keys, by mask or by positions."""
        start_ms, size_ms = self.start_ms[chosen], self.size_ms[chosen]
        return WindowKeys(self.users, self.user[chosen], start_ms, size_ms)


def encode_topic_keys(
    users: pa.Array,
    user: NDArray[np.int32],
    start_ms: NDArray[np.int64],
    size_ms: NDArray[np.int64] | int,
) -> pa.Array:
    """Return the keys of many windows, as Arrow large binary: as of :class:`WindowKeys`.

    A size may be one for all; a size of zero is a ConfigurationError.

    >>> [key] = encode_topic_keys(pa.array(["Anna"]), np.array([0]), np.array([0]), 60_000)
    >>> key.as_py().hex(" ", 4)
    '97a9d330 416e6e61 00000000 00000000 00000000 0000ea60'
    """
    sizes = np.broadcast_to(np.asarray(size_ms, dtype=">i8"), (len(user),))
    if (sizes == 0).any():
        message = "A window of 0 ms has no key: windows are longer than that."
        raise ConfigurationError(message)
    sizes = np.where(sizes < 0, SESSIONS_MS - sizes, sizes).astype(">i8")
    return joined_cells(encode_replica_keys(users, user, start_ms), fixed_cells(sizes))


def decode_topic_keys(keys: Sequence[bytes | None] | pa.Array) -> WindowKeys:
    """Return whose windows the keys are of, and which.

    A key that is missing, too short, of a block, no UTF-8, or of another salt is a FormatError.

    >>> users, starts = pa.array(["Anna", "Bo"]), np.array([0, 9])
    >>> keys = encode_topic_keys(users, np.array([1, 0]), starts, 60_000)
    >>> read = decode_topic_keys(keys)
    >>> read.names.to_pylist(), read.start_ms.tolist(), read.size_ms.tolist()
    (['Bo', 'Anna'], [0, 9], [60000, 60000])
    """
    column = ByteColumn.of(keys)
    _check_topic_keys(column, column.lengths >= _SHORTEST_TOPIC_KEY_BYTES)
    size_ms = column.integers(_NUMBER_BYTES, at=-_NUMBER_BYTES)
    _check_topic_keys(column, size_ms > 0)
    size_ms = np.where(size_ms > SESSIONS_MS, SESSIONS_MS - size_ms, size_ms)
    start_ms = column.integers(_NUMBER_BYTES, at=-2 * _NUMBER_BYTES)
    salted = column.part(end=-2 * _NUMBER_BYTES).to_arrow().dictionary_encode()
    users = pa.array([_name_of(each) for each in salted.dictionary.to_pylist()], pa.string())
    user = np.asarray(salted.indices, dtype=np.int32)
    _check_topic_keys(column, users.is_valid().to_numpy(zero_copy_only=False)[user])
    return WindowKeys(users, user, start_ms, size_ms)


def is_block_key(keys: Sequence[bytes | None] | pa.Array) -> NDArray[np.bool_]:
    r"""Return which keys are those of blocks, and not of one user's window.

    >>> keys = encode_topic_keys(pa.array(["Anna"]), np.array([0]), np.array([0]), 60_000)
    >>> is_block_key([keys[0].as_py(), bytes(20) + b"\xff" * 8, b"short"]).tolist()
    [False, True, False]
    """
    column = ByteColumn.of(keys)
    found: NDArray[np.bool_] = column.lengths >= _SHORTEST_TOPIC_KEY_BYTES
    found[found] = column.take(found).integers(_NUMBER_BYTES, at=-_NUMBER_BYTES) < 0
    return found


def _name_of(salted: bytes) -> str | None:
    """Return the user behind a salt; None if it is not this user's salt, or no UTF-8."""
    text = salted[_SALT_BYTES:]
    is_whole = salted[:_SALT_BYTES] == _salt(text) and is_utf8(text)
    return text.decode() if is_whole else None


def _check_topic_keys(column: ByteColumn, is_key: NDArray[np.bool_]) -> None:
    wrong = np.flatnonzero(~is_key)
    if not wrong.size:
        return
    [key] = column.take(wrong[:1]).to_list()
    told = "A record without a key" if key is None else f"The key {key[:64].hex()}"
    hint = "Give a topic that holds a changelog of kstoolkit's, and no more."
    message = f"{told} is not of a user's window."
    raise FormatError(message, hint=hint)
