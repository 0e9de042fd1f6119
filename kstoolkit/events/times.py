"""Times as people's data has them, read as epoch milliseconds UTC.

Timestamps and dates, ISO-8601 text with or without a zone (without: UTC), and epoch numbers, as
numbers or as text, in seconds, milliseconds, microseconds or nanoseconds. The unit of an epoch
number is told from its size: up to 10¹¹ it is seconds (year 5138), up to 10¹⁴ milliseconds, up to
10¹⁷ microseconds, beyond that nanoseconds. So milliseconds before March 1973 would be misread:
give these as text, or say the unit.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TimeUnit", "to_epoch_ms"]

TimeUnit = Literal["s", "ms", "us", "ns"]

_PER_MS: dict[TimeUnit, float] = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}
_LARGEST: tuple[tuple[float, TimeUnit], ...] = ((1e11, "s"), (1e14, "ms"), (1e17, "us"))
_ZONED = r"[Tt ].*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"
_NUMBER = r"^\s*[+-]?\d+(?:\.\d+)?\s*$"
_YEAR_9999_MS = 253_402_300_799_999
_YEAR_1_MS = -62_135_596_800_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_epoch_ms(
    times: pa.Array, unit: TimeUnit | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the times in epoch milliseconds, rounded down, and which of them could be read.

    Parameters
    ----------
    times
        Timestamps, dates, text or numbers; nulls can't be read.
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
        milliseconds, readable = to_epoch_ms(times.dictionary, unit)
        return _looked_up(times, milliseconds, readable)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _of_timestamps(times)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _of_numbers(times, unit)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_texts(times, unit)
    return np.zeros(len(times), dtype=np.int64), np.zeros(len(times), dtype=bool)


def _looked_up(
    times: pa.Array, milliseconds: NDArray[np.int64], readable: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    codes = pc.fill_null(times.indices, len(milliseconds)).to_numpy(zero_copy_only=False)
    return np.append(milliseconds, 0)[codes], np.append(readable, False)[codes]


def _of_timestamps(times: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    # Without a zone the clock is taken for UTC; with one, Arrow holds UTC already.
    if not pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms"))
    unit = times.type.unit
    ticks = pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    readable = np.array(times.is_valid())
    if unit == "s":
        return _bounded(ticks.astype(np.float64) * 1e3, readable)
    return _bounded(ticks // int(_PER_MS[unit]), readable)


def _of_numbers(
    times: pa.Array, unit: TimeUnit | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    readable = np.array(times.is_valid())
    numbers = pc.fill_null(times, 0).to_numpy(zero_copy_only=False)
    if unit is not None:
        return _bounded(_in_ms(numbers, unit), readable)
    size = np.abs(numbers.astype(np.float64))
    chosen = np.searchsorted([limit for limit, _ in _LARGEST], size, side="right")
    milliseconds = np.zeros(len(numbers), dtype=np.float64 if numbers.dtype.kind == "f" else np.int64)
    for place, each in enumerate((*(name for _, name in _LARGEST), "ns")):
        here = chosen == place
        milliseconds[here] = _in_ms(numbers[here], each)  # type: ignore[arg-type]
    return _bounded(milliseconds, readable & np.isfinite(size))


def _in_ms(numbers: NDArray[np.generic], unit: TimeUnit) -> NDArray[np.generic]:
    """Scale, exactly where the numbers are whole."""
    if numbers.dtype.kind == "f":
        return np.round(numbers / _PER_MS[unit], 3)
    if unit == "s":
        return numbers.astype(np.int64) * 1_000
    return numbers.astype(np.int64) // int(_PER_MS[unit])


def _bounded(
    milliseconds: NDArray[np.generic], readable: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Refuse what no calendar holds, and round down."""
    with np.errstate(invalid="ignore"):
        readable = readable & (milliseconds >= _YEAR_1_MS) & (milliseconds <= _YEAR_9999_MS)
    return np.floor(np.where(readable, milliseconds, 0)).astype(np.int64), readable


def _of_texts(
    times: pa.Array, unit: TimeUnit | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    zoned = pc.match_substring_regex(times, _ZONED)
    zoned = np.array(pc.fill_null(zoned, False))
    milliseconds = np.zeros(len(times), dtype=np.int64)
    readable = np.zeros(len(times), dtype=bool)
    for mask, zone in ((zoned, "UTC"), (~zoned, None)):
        chosen = np.flatnonzero(mask)
        if chosen.size:
            part = times if chosen.size == len(times) else times.take(pa.array(chosen))
            milliseconds[chosen], readable[chosen] = _of_iso(part, zone, unit)
    return milliseconds, readable


def _of_iso(
    times: pa.Array, zone: str | None, unit: TimeUnit | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    try:
        return _of_timestamps(times.cast(pa.timestamp("ns", tz=zone)))
    except pa.ArrowInvalid:  # some of them are something else: numbers, longer years, rubbish
        pass
    milliseconds = np.zeros(len(times), dtype=np.int64)
    readable = np.zeros(len(times), dtype=bool)
    numeric = np.array(pc.fill_null(pc.match_substring_regex(times, _NUMBER), False))
    if numeric.any():
        texts = times.filter(pa.array(numeric))
        whole = pc.cast(pc.utf8_trim_whitespace(texts), pa.float64())
        milliseconds[numeric], readable[numeric] = _of_numbers(_whole(whole), unit)
    for place in np.flatnonzero(~numeric):
        one = _one_iso(times[place].as_py())
        if one is not None:
            milliseconds[place], readable[place] = one, True
    return milliseconds, readable


def _whole(numbers: pa.Array) -> pa.Array:
    """Return whole numbers as integers where all are: floats can't hold nanoseconds."""
    try:
        return numbers.cast(pa.int64())
    except pa.ArrowInvalid:
        return numbers


def _one_iso(text: str | None) -> int | None:
    """Read one time the slow way; only rows that Arrow refused come here."""
    try:
        moment = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    difference = moment - _EPOCH
    return (difference.days * 86_400 + difference.seconds) * 1_000 + difference.microseconds // 1_000
