"""Times as people's data has them, read as epoch milliseconds UTC.

Timestamps and dates, ISO-8601 text with or without a zone (without: UTC), and epoch numbers, as
numbers or as text, in seconds, milliseconds, microseconds or nanoseconds. The unit of an epoch
number is told from its size: up to 10¹¹ it is seconds (year 5138), up to 10¹⁴ milliseconds, up to
10¹⁷ microseconds, beyond that nanoseconds. So milliseconds before March 1973 would be misread:
give these as text, or say the unit.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.events.texts import only_utf8

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


TimeUnit = Literal["s", "ms", "us", "ns"]
_Number = TypeVar("_Number", np.int64, np.float64)

_PER_MS: dict[TimeUnit, float] = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}
_LARGEST = (1e11, 1e14, 1e17)
UNITS: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")
_FARTHEST = 10**15
"""No calendar holds so many seconds, and a thousand times as many still fit 64 bits."""

_ZONED = r"[Tt ].*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)\s*$"
_WHOLE = r"^-?\d{1,18}$"
_NUMBER = r"^[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?$"
_FEW = 64
_YEAR_9999_MS = 253_402_300_799_999
_YEAR_1_MS = -62_135_596_800_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Read = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]
"""Epoch milliseconds, and which of them could be read."""


def to_epoch_ms(times: pa.Array, unit: TimeUnit | None = None) -> Read:
    """Return the times in epoch milliseconds, rounded down, and which of them could be read.

    Parameters
    ----------
    times
        Timestamps, dates, text or numbers, also as a dictionary; nulls can't be read.
    unit
        The unit of epoch numbers; told from their size if not given.

    Returns
    -------
    tuple
        Milliseconds (0 where unreadable), and a mask of what was readable.

    Examples
    --------
    >>> texts = ["1970-01-01T00:00:01Z", "1970-01-01 01:00:02+01:00", "1970-01-01", "noon", "1.5"]
    >>> milliseconds, readable = to_epoch_ms(pa.array(texts))
    >>> milliseconds.tolist(), readable.tolist()
    ([1000, 2000, 0, 0, 1500], [True, True, True, False, True])
    >>> to_epoch_ms(pa.array([1442018818, 1442018818771]))[0].tolist()
    [1442018818000, 1442018818771]
    """
    kind = times.type
    if pa.types.is_dictionary(kind):
        return _looked_up(times, *to_epoch_ms(times.dictionary, unit))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _of_timestamps(times)
    if pa.types.is_decimal(kind):
        return _of_numbers(times.cast(pa.float64()), unit)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _of_numbers(times, unit)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _of_texts(times.cast(pa.string()), unit)
    return _of_texts(times, unit) if pa.types.is_string(kind) else _unread(len(times))


def _unread(number: int) -> Read:
    return np.zeros(number, dtype=np.int64), np.zeros(number, dtype=bool)


def _looked_up(
    times: pa.DictionaryArray, milliseconds: NDArray[np.int64], readable: NDArray[np.bool_]
) -> Read:
    codes = pc.fill_null(times.indices.cast(pa.int64()), len(milliseconds))
    places = codes.to_numpy(zero_copy_only=False)
    return np.append(milliseconds, 0)[places], np.append(readable, values=False)[places]


def _of_timestamps(times: pa.Array) -> Read:
    # Without a zone the clock is taken for UTC; with one, Arrow holds UTC already.
    if not pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms"))
    ticks = _filled(times.cast(pa.int64())).to_numpy(zero_copy_only=False)
    return _bounded(_whole_ms(ticks, times.type.unit), np.array(times.is_valid()))


def _of_numbers(times: pa.Array, unit: TimeUnit | None) -> Read:
    readable = np.array(times.is_valid())
    numbers = _filled(times).to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":
        return _bounded(_scaled(numbers.astype(np.float64), unit, _fraction_ms), readable)
    if numbers.dtype == np.uint64:
        readable &= numbers <= np.uint64(np.iinfo(np.int64).max)
    return _bounded(_scaled(numbers.astype(np.int64), unit, _whole_ms), readable)


def _filled(numbers: pa.Array) -> pa.Array:
    """Return numbers with 0 for null; Arrow would copy them all even where there is none."""
    return pc.fill_null(numbers, 0) if numbers.null_count else numbers


def _scaled(
    numbers: NDArray[_Number],
    unit: TimeUnit | None,
    in_ms: Callable[[NDArray[_Number], TimeUnit], NDArray[_Number]],
) -> NDArray[_Number]:
    """Return numbers as milliseconds, by the given unit or each by the one that its size tells."""
    if unit is not None:
        return in_ms(numbers, unit)
    chosen = np.searchsorted(_LARGEST, np.abs(numbers.astype(np.float64)), side="right")
    milliseconds = np.zeros_like(numbers)
    for place, each in enumerate(UNITS):
        here = chosen == place
        milliseconds[here] = in_ms(numbers[here], each)
    return milliseconds


def _whole_ms(numbers: NDArray[np.int64], unit: TimeUnit) -> NDArray[np.int64]:
    if unit == "s":
        return np.clip(numbers, -_FARTHEST, _FARTHEST) * 1_000
    return numbers // int(_PER_MS[unit])


def _fraction_ms(numbers: NDArray[np.float64], unit: TimeUnit) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.round(numbers / _PER_MS[unit], 3)  # a float's own error is not a fraction of 1 ms


def _bounded(milliseconds: NDArray[Any], readable: NDArray[np.bool_]) -> Read:
    """Refuse what no calendar holds, and round down."""
    readable = readable & (milliseconds >= _YEAR_1_MS) & (milliseconds <= _YEAR_9999_MS)
    kept = milliseconds if readable.all() else np.where(readable, milliseconds, 0)
    return np.floor(kept).astype(np.int64) if kept.dtype.kind == "f" else kept, readable


def _of_texts(times: pa.StringArray, unit: TimeUnit | None) -> Read:
    read = _of_like_texts(times)
    if read is not None:
        return read
    trimmed = pc.ascii_trim_whitespace(only_utf8(times))
    whole, number, zoned = (_matches(trimmed, each) for each in (_WHOLE, _NUMBER, _ZONED))
    kinds = np.select([whole, number, zoned], [0, 1, 2], default=3)
    if (kinds == 0).all():
        return _of_numbers(trimmed.cast(pa.int64()), unit)
    if (kinds == 1).all():
        return _of_numbers(trimmed.cast(pa.float64()), unit)
    if (kinds == kinds[0]).all():  # all alike, but some of them are wrong: narrow these down
        kinds = np.arange(len(times)) >= len(times) // 2
        if len(times) <= _FEW:
            return _one_by_one(trimmed)
    milliseconds, readable = _unread(len(times))
    for kind in np.unique(kinds):
        here = np.flatnonzero(kinds == kind)
        milliseconds[here], readable[here] = _of_texts(trimmed.take(pa.array(here)), unit)
    return milliseconds, readable


def _of_like_texts(times: pa.StringArray) -> Read | None:
    """Read texts that all have a zone, or all none; ``None`` if any of them can't be read so."""
    for zone in ("UTC", None):
        kind = pa.timestamp("ns", tz=zone)
        try:
            times[:1].cast(kind)  # each text that does not fit costs Arrow ten that do
            return _of_timestamps(times.cast(kind))
        except pa.ArrowInvalid:
            continue
    return None


def _matches(texts: pa.StringArray, pattern: str) -> NDArray[np.bool_]:
    found = pc.fill_null(pc.match_substring_regex(texts, pattern), fill_value=False)
    return np.array(found)


def _one_by_one(times: pa.StringArray) -> Read:
    milliseconds, readable = _unread(len(times))
    for place, text in enumerate(times.to_pylist()):
        one = _one_iso(text or "")
        if one is not None:
            milliseconds[place], readable[place] = one, True
    return _bounded(milliseconds, readable)


def _one_iso(text: str) -> int | None:
    """Read one time the slow way: only texts that Arrow refused, and neighbours, come here."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)
