"""Which rows of a store are asked for, and which have to be read for that: the fewest.

Asked is a key, a window, a time span, a number of rows. What RocksDB reads goes by its keys' form::

    key-value     key                      one key is got
    window        key | start | sequence   one key's rows lie from its first start to its last
    session       key | end | start        the same, by ends
    versioned     segment | key            one key is got from each segment in turn

(``WindowKeySchema``, ``SessionKeySchema`` and ``RocksDBVersionedStore`` of Kafka Streams.) What is
read may be more than what is asked; it is never less.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import except_at, numbers_of
from kstoolkit.formats.streams.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.rocksdb.store import Store


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rows are wanted; what is None leaves all in.

    A ``key`` is the application's bytes, or where a store's keys are more than those, as in a
    foreign-key join, also what they are. ``window_start_ms`` is that of a window or session. Rows
    from ``since_ms`` on, and before ``until_ms``, are so by the start of their window, or in a
    store without windows by their own time. Times are epoch ms UTC.
    """

    key: bytes | None = None
    prefix: bytes | None = None
    window_start_ms: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def starts_ms(self) -> tuple[int | None, int | None]:
        """From when on windows start that are wanted, and before when."""
        if self.window_start_ms is None:
            return self.since_ms, self.until_ms
        return self.window_start_ms, self.window_start_ms + 1

    @property
    def is_all(self) -> bool:
        """Whether every row is wanted."""
        return self == Asked()

    def chosen(self, rows: RowColumns) -> NDArray[np.bool_]:
        """Return which of some rows are wanted; rows that can't be taken apart never are.

        >>> from kstoolkit.formats.columns import ByteColumn
        >>> from kstoolkit.formats.columns import RowColumns
        >>> keys = ByteColumn.of([b"an", b"ann", b"bo"])
        >>> Asked(prefix=b"an").chosen(RowColumns.whole(keys, keys)).tolist()
        [True, True, False]
        """
        if self.is_all:
            return np.ones(len(rows), dtype=bool)
        wanted = except_at(rows.problems, len(rows))
        if self.key is not None:
            has_key = rows.record_key.equal_to(self.key)
            wanted &= has_key if rows.inner_key is None else has_key | rows.key.equal_to(self.key)
        if self.prefix is not None:
            wanted &= rows.record_key.part(end=len(self.prefix)).equal_to(self.prefix)
        if self.window_start_ms is not None:
            start, known = numbers_of(rows.window_start_ms, len(rows))
            wanted &= known & (start == self.window_start_ms)
        return wanted & self._in_span(rows)

    def _in_span(self, rows: RowColumns) -> NDArray[np.bool_]:
        within = np.ones(len(rows), dtype=bool)
        if self.since_ms is None and self.until_ms is None:
            return within
        windowed = rows.window_start_ms is not None
        time, known = numbers_of(rows.window_start_ms if windowed else rows.timestamp_ms, len(rows))
        if self.since_ms is not None:
            within &= time >= self.since_ms
        if self.until_ms is not None:
            within &= time < self.until_ms
        return within & known


_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*")


def typed_key(
    text: str, *, in_columns: bool = False, hint: str = 'Write it as {"user": "anna"}.'
) -> Any:
    """Return the key, or the beginning of keys, that a person has typed.

    Bytes in hex, as ``0x00ff``; columns in JSON; or what the keys' serde writes. Text in braces is
    JSON, if ``in_columns``, as Spark's keys are; bad JSON is a ConfigurationError, with ``hint``.

    >>> typed_key("an"), typed_key("0x616e"), typed_key('{"user": "an"}', in_columns=True)
    ('an', b'an', {'user': 'an'})
    """
    if _HEX.fullmatch(text):
        return bytes.fromhex(text[2:])
    if not in_columns or not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        message = f"The key {text!r} is no JSON: {error}."
        raise ConfigurationError(message, hint=hint) from None


_KEY_VALUES = {Kind.KEY_VALUE, Kind.TIMESTAMPED_KEY_VALUE, Kind.HEADERS_KEY_VALUE}
_WINDOWS = {Kind.WINDOW, Kind.TIMESTAMPED_WINDOW, Kind.HEADERS_WINDOW}
_KEY_FIRST_SESSIONS = {Kind.SESSION, Kind.HEADERS_SESSION}
_KEY_FIRST = _KEY_VALUES | _WINDOWS | _KEY_FIRST_SESSIONS

SESSIONS = _KEY_FIRST_SESSIONS | {Kind.TIME_ORDERED_SESSION, Kind.HEADERS_TIME_ORDERED_SESSION}
"""Kinds whose rows lie where the session ends, however long ago it began."""

_LONG_BYTES = 8
_LAST_MS = (1 << 63) - 1

Row = tuple[bytes, bytes]


def rows_sought(
    store: Store, family: str, kind: Kind, asked: Asked, span_ms: range | None = None
) -> Iterator[Row]:
    """Yield the rows of a column family that may be asked for.

    A segment's ``span_ms`` is when its windows begin, or its sessions end, epoch ms UTC.
    """
    key, sought = asked.key, asked.prefix if asked.key is None else asked.key
    if key is not None and kind in _KEY_VALUES:
        return _of_one(store, family, key)
    if key is not None and kind in _WINDOWS | _KEY_FIRST_SESSIONS:
        return _of_key(store, family, key, _times_of(kind, asked, span_ms))
    if sought and kind in _KEY_FIRST:
        return store.iter_rows(cf=family, prefix=sought)
    if sought and kind is Kind.VERSIONED:
        return _versions(store, family, sought, whole=key is not None)
    return store.iter_rows(cf=family)


def _of_one(store: Store, family: str, key: bytes) -> Iterator[Row]:
    value = store.get(key, cf=family)
    if value is not None:
        yield key, value


def _times_of(kind: Kind, asked: Asked, span_ms: range | None) -> tuple[int | None, int | None]:
    """Return the first time that keys may have behind the application's, and the last one."""
    since, until = asked.starts_ms
    if kind in SESSIONS:
        until = None
    begin, end = (None, None) if span_ms is None else (span_ms.start, span_ms.stop)
    firsts = [each for each in (since, begin) if each is not None]
    ends = [each for each in (until, end) if each is not None]
    return max(firsts, default=None), min(ends) - 1 if ends else None


def _of_key(
    store: Store, family: str, key: bytes, times_ms: tuple[int | None, int | None]
) -> Iterator[Row]:
    """Yield the rows whose keys begin with a key and a time between two, both included.

    Longer keys of the application's begin with it too, and stand among its rows: but few of them
    go on with bytes that are such a time.
    """
    first, last = times_ms
    if first is None or first < 0:  # a negative time comes after all others
        return store.iter_rows(cf=family, prefix=key)
    begin = key + min(first, _LAST_MS).to_bytes(_LONG_BYTES, "big")
    rows = store.iter_rows(cf=family, prefix=key, start=begin)
    if last is None or last < 0:
        return rows
    end = key + min(last, _LAST_MS).to_bytes(_LONG_BYTES, "big")
    return takewhile(lambda row: row[0][: len(end)] <= end, rows)


def _versions(store: Store, family: str, sought: bytes, *, whole: bool) -> Iterator[Row]:
    """Yield the rows of a key, or of a prefix of keys, from each of the store's segments in turn.

    A row's key begins with its segment's number: from one segment the way leads to the next.
    """
    start = b""
    while first := next(store.iter_rows(cf=family, start=start), None):
        segment = first[0][:_LONG_BYTES]
        if whole:
            yield from _of_one(store, family, segment + sought)
        else:
            yield from store.iter_rows(cf=family, prefix=segment + sought)
        if segment == b"\xff" * _LONG_BYTES:
            return
        start = (int.from_bytes(segment, "big") + 1).to_bytes(_LONG_BYTES, "big")
