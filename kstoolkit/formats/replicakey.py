"""The key of a replica: whose counts, of which window.

::

    salt: first 4 bytes of md5(user) · user (UTF-8) · window start ms (8 bytes, big-endian)

The salt spreads users evenly over the key space, whatever they are called, and is a prefix of one
length for blooms and hash indexes. A user's windows stand beside each other, in order of time. The
start is a signed number: windows before 1970 sort behind the others. A key is at least
:data:`SHORTEST_REPLICA_KEY_BYTES` long, so shorter ones are free for what a store says of itself.
"""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SALT_BYTES, _START_BYTES = 4, 8
SHORTEST_REPLICA_KEY_BYTES = _SALT_BYTES + _START_BYTES
"""The length of the key of a user without a name."""


def encode_replica_key(user: str, start_ms: int) -> bytes:
    """Return the key of one user's window.

    Examples
    --------
    >>> encode_replica_key("Anna", 0).hex(" ", 4)
    '97a9d330 416e6e61 00000000 00000000'
    """
    text = user.encode()
    return b"%b%b%b" % (_salt(text), text, start_ms.to_bytes(_START_BYTES, "big", signed=True))


def encode_replica_keys(
    users: pa.Array, user: NDArray[np.int32], start_ms: NDArray[np.int64]
) -> pa.Array:
    """Return the keys of many windows, as Arrow binary.

    Parameters
    ----------
    users
        The texts that the codes stand for.
    user
        Codes, one a key.
    start_ms
        Window starts, epoch ms UTC, one a key.

    Examples
    --------
    >>> keys = encode_replica_keys(pa.array(["Anna"]), np.array([0]), np.array([0]))
    >>> keys[0].as_py() == encode_replica_key("Anna", 0)
    True
    """
    texts = users.cast(pa.large_binary())
    salts = pa.array([_salt(text) for text in texts.to_pylist()], pa.large_binary())
    nothing = pa.scalar(b"", pa.large_binary())
    prefixes = pc.binary_join_element_wise(salts, texts, nothing)
    starts = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_START_BYTES), len(start_ms), [None, pa.py_buffer(start_ms.astype(">i8"))]
    )
    chosen = prefixes.take(pa.array(user))
    return pc.binary_join_element_wise(chosen, starts.cast(pa.large_binary()), nothing)


def decode_replica_key(key: bytes) -> tuple[str, int]:
    """Return the user and the window start.

    Raises
    ------
    FormatError
        If the bytes are no such key: too short, no UTF-8, or with another user's salt.

    Examples
    --------
    >>> decode_replica_key(encode_replica_key("Anna", -60_000))
    ('Anna', -60000)
    """
    text = key[_SALT_BYTES:-_START_BYTES]
    if len(key) < SHORTEST_REPLICA_KEY_BYTES or key[:_SALT_BYTES] != _salt(text):
        raise _no_replica_key(key)
    try:
        return text.decode(), int.from_bytes(key[-_START_BYTES:], "big", signed=True)
    except UnicodeDecodeError as error:
        raise _no_replica_key(key) from error


def decode_replica_keys(keys: list[bytes]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the users and the window starts of many keys; salts are not looked at.

    Raises
    ------
    FormatError
        If one of them is too short, or no UTF-8.

    Examples
    --------
    >>> users, starts = decode_replica_keys([encode_replica_key("Anna", 60_000)])
    >>> users, starts.tolist()
    (['Anna'], [60000])
    """
    shortest = min(keys, key=len, default=bytes(SHORTEST_REPLICA_KEY_BYTES))
    if len(shortest) < SHORTEST_REPLICA_KEY_BYTES:
        raise _no_replica_key(shortest)
    users: list[str] = []
    try:
        users += (key[_SALT_BYTES:-_START_BYTES].decode() for key in keys)
    except UnicodeDecodeError as error:
        raise _no_replica_key(keys[len(users)]) from error
    starts = np.frombuffer(b"".join(key[-_START_BYTES:] for key in keys), ">i8")
    return users, starts.astype(np.int64)


def is_of_window(key: bytes, start_ms: int) -> bool:
    """Return whether a key is one of this window.

    Examples
    --------
    >>> is_of_window(encode_replica_key("Anna", 60_000), 60_000)
    True
    """
    ending = start_ms.to_bytes(_START_BYTES, "big", signed=True)
    return len(key) >= SHORTEST_REPLICA_KEY_BYTES and key.endswith(ending)


def _salt(text: bytes) -> bytes:
    return md5(text, usedforsecurity=False).digest()[:_SALT_BYTES]


def _no_replica_key(key: bytes) -> FormatError:
    message = f"{key[:64].hex()} is no key of a replica."
    return FormatError(message, hint="The store was written by something else, or is damaged.")
