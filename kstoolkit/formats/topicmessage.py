"""A CountBundle of a changelog topic by itself, as protobuf's own runtime reads it.

:mod:`kstoolkit.formats.topicbundle` draws the format, and reads and writes many at once.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # ships no types

from kstoolkit.errors import FormatError
from kstoolkit.formats import countblock
from kstoolkit.formats.protomessage import message_class

VERSION = 2
"""The first byte of a bundle in a topic."""

BLOCK_VERSION = countblock.VERSION
"""The first byte of a block of many users' counts in a topic."""

_NAME = "CountBundle"


class ActionBundle(NamedTuple):
    """One bundle: actions, the count of each, and when one last changed (epoch ms UTC)."""

    actions: list[str]
    counts: list[int]
    updated_at_ms: int


_MESSAGE = message_class(
    _NAME,
    [
        ("action_id", "repeated uint32"),
        ("count", "repeated uint64"),
        ("updated_at_ms", "int64"),
        ("action", "repeated string"),
    ],
)


def decode(value: bytes | None) -> ActionBundle:
    """Return one bundle, with its fields in any order.

    Raises
    ------
    FormatError
        If the version is another, or the bytes are no bundle. None is none either: leave
        tombstones out.

    Examples
    --------
    >>> decode(bytes.fromhex("02 12 02 3d 07 18 05 22 04 72656164 22 04 65646974"))
    ActionBundle(actions=['read', 'edit'], counts=[61, 7], updated_at_ms=5)
    """
    if not value or value[0] != VERSION:
        raise _of_another_version(value)
    try:
        message = _MESSAGE.FromString(value[1:])
    except DecodeError as error:
        raise _damaged(value) from error
    bundle = ActionBundle(list(message.action), list(message.count), message.updated_at_ms)
    if len(bundle.actions) != len(bundle.counts):
        raise _damaged(value)
    return bundle


def _of_another_version(value: bytes | None) -> FormatError:
    if value and value[0] > VERSION:
        return FormatError.version(_NAME, value[0], VERSION)
    if value and value[0] == BLOCK_VERSION:
        message = f"{len(value):,} bytes that are a block of many users' counts, no {_NAME}."
        return FormatError(message, hint="Their key says so too: read them as blocks.")
    if value is None:
        message = f"A record without a value is a tombstone, and no {_NAME}."
        return FormatError(message, hint="Leave it out.")
    return _damaged(value)


def _damaged(value: bytes) -> FormatError:
    message = f"{len(value):,} bytes that are no {_NAME}: {value[:32].hex()}."
    hint = "Give a topic that only kstoolkit writes to; or count its events again into another."
    return FormatError(message, hint=hint)
