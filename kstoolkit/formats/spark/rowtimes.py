"""The times that a row of Spark's state has: its window, and when it happened or expires.

::

    window      a struct of two timestamps, start and end, in the key; in the value of sessions
    time        __event_time          key, microseconds     a joined row's event time
                expiryTimestampMs     key, milliseconds     when a timer fires
                expirationMs          key, or value         when what it names expires
                expiresAtMicros       value                 when a key may come again
                ttlExpirationMs       value                 when a state variable's value expires
                else the column that the watermark is kept on, in the value or the key
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.formats.spark.sparktypes import Struct

if TYPE_CHECKING:
    from kstoolkit.formats.bytecolumn import ByteColumn
    from kstoolkit.formats.spark.layouts import Family


_MICROS = 1000
_TIMESTAMPS = {"timestamp", "timestamp_ntz"}
_SESSION_KEY, _TTL = "sessionStartTime", "ttlExpirationMs"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that holds a time: of the key or of the value, and how many of it are a ms."""

    name: str
    in_key: bool
    per_ms: int = 1
    is_expiry: bool = False


@dataclass(frozen=True, slots=True)
class RowTimes:
    """Which columns of a family hold its times; each is None if none does."""

    window: _Column | None
    time: _Column | None

    @classmethod
    def of(cls, family: Family) -> RowTimes:
        """Return where a family's times are."""
        return cls(_window(family), _time(family))

    @property
    def are_expiries(self) -> bool:
        """Whether a row's time is when it expires, or when its timer fires."""
        return self.time is not None and self.time.is_expiry

    def windows(
        self, family: Family, key: ByteColumn, value: ByteColumn
    ) -> tuple[pa.Array | None, pa.Array | None]:
        """Return where each row's window starts and ends, in ms; None if it has none."""
        if self.window is None:
            return None, None
        bounds = _read(self.window, family, key, value).flatten()
        start, end = (_milliseconds(bound, _MICROS) for bound in bounds)
        return start, end

    def times(self, family: Family, key: ByteColumn, value: ByteColumn) -> pa.Array | None:
        """Return each row's time in ms; None if it has none."""
        if self.time is None:
            return None
        return _milliseconds(_read(self.time, family, key, value), self.time.per_ms)


def _window(family: Family) -> _Column | None:
    for field in family.key.fields:
        if _is_window(field.type):
            return _Column(field.name, in_key=True)
    if _SESSION_KEY in family.key.names:
        for field in family.value.fields:
            if _is_window(field.type):
                return _Column(field.name, in_key=False)
    return None


def _is_window(kind: object) -> bool:
    return (
        isinstance(kind, Struct)
        and kind.names == ["start", "end"]
        and all(getattr(field.type, "name", "") in _TIMESTAMPS for field in kind.fields)
    )


def _time(family: Family) -> _Column | None:
    if family.encoder.has_timestamp:
        return _Column(family.key.names[-1], in_key=True, per_ms=_MICROS)
    key, value = _longs(family.key), _longs(family.value)
    if family.name.startswith("$"):
        for name in ("expiryTimestampMs", "expirationMs"):
            if name in key or name in value:
                return _Column(name, in_key=name in key, is_expiry=True)
    if value == family.value.names == ["expiresAtMicros"]:
        return _Column(value[0], in_key=False, per_ms=_MICROS, is_expiry=True)
    if family.value.names == ["value", _TTL] and _TTL in value:
        return _Column(_TTL, in_key=False, is_expiry=True)
    for columns, in_key in ((family.value, False), (family.key, True)):
        for field in columns.fields:
            if field.is_event_time and getattr(field.type, "name", "") in _TIMESTAMPS:
                return _Column(field.name, in_key=in_key, per_ms=_MICROS)
    return None


def _longs(columns: Struct) -> list[str]:
    """Return the columns of whole numbers: of another type, what is called so is the user's."""
    return [each.name for each in columns.fields if getattr(each.type, "name", "") == "long"]


def _read(column: _Column, family: Family, key: ByteColumn, value: ByteColumn) -> pa.Array:
    """Return one column of the rows; null of a row that can't be read."""
    cells = key if column.in_key else value
    read = family.some_of_key if column.in_key else family.some_of_value
    values = read(cells, [column.name])
    return values.flatten()[values.type.get_field_index(column.name)]


def _milliseconds(times: pa.Array, per_ms: int) -> pa.Array:
    if per_ms == 1:
        return times
    numbers = np.asarray(times.cast(pa.int64()).fill_null(0))
    # Towards the past, not towards zero: there are times before 1970.
    return pa.array(numbers // per_ms, mask=np.asarray(times.is_null()))
