"""What rows are asked for by, as a shell passes it on: keys, beginnings of keys, moments."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from kstoolkit.stores.opening import OpenedStore


_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_EPOCH_MS = re.compile(r"-?\d+")
_DATE_DIGITS = 8  # 20260303 is a day


def key_given(text: str | None, store: OpenedStore) -> Any:
    """Return the key that a text stands for in a store.

    Parameters
    ----------
    text
        The bytes in hex, as ``0x00ff``; of Spark's stores, columns in JSON; else what the serde of
        the store's keys writes.
    store
        Whose key it is.

    Raises
    ------
    ConfigurationError
        If it is no JSON, of Spark's stores, and begins as an object.
    """
    from kstoolkit.stores.spark.sparkstore import SparkStore  # noqa: PLC0415 - loads RocksDB

    if text is None:
        return None
    if _HEX.fullmatch(text):
        return bytes.fromhex(text[2:])
    if not isinstance(store, SparkStore) or not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        message = f"The key {text!r} is no JSON: {error}."
        hint = """Write it as '{"user": "anna"}', in quotes of the shell's."""
        raise ConfigurationError(message, hint=hint) from None


def prefix_given(text: str | None) -> str | bytes | None:
    """Return the beginning of keys that a text stands for.

    Examples
    --------
    >>> prefix_given("an"), prefix_given("0x616e")
    ('an', b'an')
    """
    if text is None or not _HEX.fullmatch(text):
        return text
    return bytes.fromhex(text[2:])


def moment_given(text: str | None) -> str | int | None:
    """Return a moment as :data:`kstoolkit.replica.records.Moment`: digits are epoch ms.

    Eight digits are a day, as in ISO 8601.

    Examples
    --------
    >>> moment_given("1772539920000"), moment_given("20260303"), moment_given("2026-03-03T12:00Z")
    (1772539920000, '20260303', '2026-03-03T12:00Z')
    """
    if text is None or not _EPOCH_MS.fullmatch(text) or len(text) == _DATE_DIGITS:
        return text
    return int(text)
