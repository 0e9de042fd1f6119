"""When an event was: epoch milliseconds UTC, read from whatever records have for it.

Timestamps and dates; epoch numbers, as numbers or as text; and texts as logs have them::

    2025-03-01T10:00:00.5+01:00   2025-03-01 10:00   2025-03-01   2025-03-01T24:00:00Z    ISO 8601
    2025-03-01 10:00:00,123 Europe/Prague   2025-03-01T10:00+01:00[Europe/Prague]   zones by name
    01/Mar/2025:10:00:00 +0100   [01/Mar/2025:10:00:00 +0100]                  nginx and Apache
    Sat, 01 Mar 2025 10:00:00 +0100 (CET)   Sat, 1 Mar 2025 09:00 GMT          RFC 2822

What has no zone is of the one that the run was told, else UTC. Of an hour twice, it is the first.

The unit of an epoch number is told from its size: up to 10¹¹ it is seconds (year 5138), up to 10¹⁴
milliseconds, up to 10¹⁷ microseconds, beyond that nanoseconds. So milliseconds before March 1973
would be misread: give these as text, or say the unit.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError, guessed
from kstoolkit.moments import EPOCH

if TYPE_CHECKING:
    from numpy.typing import NDArray


def only_utf8(texts: pa.Array) -> pa.Array:
    r"""Return texts with null in place of those that are not UTF-8, which Arrow lets pass.

    >>> texts = pa.array([b"Zo\xc3\xab", b"Zo\xeb"]).view(pa.string())
    >>> only_utf8(texts).to_pylist()
    ['Zoë', None]
    """
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_decoded(each) for each in texts.cast(pa.binary())], pa.string())
    return texts


def _decoded(value: pa.Scalar) -> str | None:
    try:
        return None if value.as_py() is None else value.as_py().decode()
    except UnicodeDecodeError:
        return None


TimeUnit = Literal["s", "ms", "us", "ns"]
_Number = TypeVar("_Number", np.int64, np.float64)

_PER_MS: dict[TimeUnit, float] = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}
_LARGEST = (1e11, 1e14, 1e17)
UNITS: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")
_FARTHEST = 10**15
"""No calendar holds so many seconds, and a thousand times as many still fit 64 bits."""

_ZONED = r"[Tt ].*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)\s*$"
_WHOLE = r"^-?(?:\d{1,18}|[1-8]\d{18})$"
_NUMBER = r"^[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?$"
_OF_LOGS = (
    r"^\[?(?:[A-Za-z]{3},? )?(?P<day>\d{1,2})[/ ](?P<month>[A-Za-z]{3})[/ ](?P<year>\d{4})[: ]"
    r"(?P<clock>\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(?P<zone>[+-]\d{2}:?\d{2}|[A-Za-z]*)"
    r"\]?(?: \([^()]*\))?$"
)
_MONTHS = (*("Jan", "Feb", "Mar", "Apr", "May", "Jun"), *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"))
_MIDNIGHT = r"^(?P<day>\d{4}-\d{2}-\d{2})[Tt ]24(?P<rest>:00(?::00(?:[.,]0+)?)?(?:[^\d:.,].*)?)$"
_COMMA = r"^(\d{4}-.*:\d{2}),(\d+.*)$"
_APART = r"^(\d{4}-.*\d) ([+-]\d{2}:?\d{2})$"
_NAMED = r"^(?P<time>\d{4}-[\dTt:., Zz+-]*[\dZz]) ?\[?(?P<name>[A-Za-z]{2,}(?:[/_+-][\w+-]+)*)\]?$"
_OF_MAILS = dict.fromkeys(("UT", "UTC", "GMT"), "UTC") | {
    name: f"Etc/GMT+{hours}"
    for hours, names in {4: "EDT", 5: "EST CDT", 6: "CST MDT", 7: "MST PDT", 8: "PST"}.items()
    for name in names.split()
}
"""Zones as RFC 2822 means them; others go by their names in the IANA's database."""
_ZONES: set[str] = set()
_QUARTER_MS = 900_000
_FEW = 64
_YEAR_9999_MS = 253_402_300_799_999
_YEAR_1_MS = -62_135_596_800_000

Read = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]
"""Epoch milliseconds, and which of them could be read."""
_ReadBy = Callable[[pa.StringArray, TimeUnit | None, ZoneInfo | None], Read]


def zone_of(name: str) -> ZoneInfo:
    """Return the zone of a name, such as ``Europe/Prague``; an unknown one: ConfigurationError.

    >>> zone_of("Europe/Prag")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: The time zone 'Europe/Prag' is unknown.
    Hint: Did you mean 'Europe/Prague'? Give a name such as Europe/Prague, or UTC.
    """
    zone = _zone_named(name)
    if zone is None:
        hint = f"{guessed(name, _known_zones())}Give a name such as Europe/Prague, or UTC."
        message = f"The time zone {name!r} is unknown."
        raise ConfigurationError(message, hint=hint)
    return zone


def _zone_named(name: str) -> ZoneInfo | None:
    name = _OF_MAILS.get(name.upper(), name)
    return ZoneInfo(name) if name in _known_zones() else None


def _known_zones() -> set[str]:
    if not _ZONES:  # not by functools: what it makes does not travel to a cluster's nodes
        _ZONES.update(available_timezones())
    return _ZONES


def lack_zone(times: pa.Array) -> bool:
    """Whether any of the times is told without a zone, and no epoch number.

    >>> lack_zone(pa.array(["2025-03-01 10:00", "1740823200"])), lack_zone(pa.array([1740823200]))
    (True, False)
    """
    if pa.types.is_dictionary(times.type):
        times = times.dictionary
    here, _ = to_epoch_ms(times)
    there, _ = to_epoch_ms(times, zone=ZoneInfo("Etc/GMT+12"))
    return bool((here != there).any())


def to_epoch_ms(
    times: pa.Array, unit: TimeUnit | None = None, zone: ZoneInfo | None = None
) -> Read:
    """Return the times in epoch milliseconds, rounded down, and which of them could be read.

    Times are timestamps, dates, text or numbers, also as a dictionary. What can't be read is 0.
    Those without a zone are of ``zone``, or of UTC.

    >>> texts = ["1970-01-01T00:00:01Z", "1970-01-01 01:00:02+01:00", "1970-01-01", "noon", "1.5"]
    >>> milliseconds, readable = to_epoch_ms(pa.array(texts))
    >>> milliseconds.tolist(), readable.tolist()
    ([1000, 2000, 0, 0, 1500], [True, True, True, False, True])
    >>> to_epoch_ms(pa.array([1442018818, 1442018818771]))[0].tolist()
    [1442018818000, 1442018818771]
    """
    kind = times.type
    if pa.types.is_dictionary(kind):
        milliseconds, readable = to_epoch_ms(times.dictionary, unit, zone)
        codes = pc.fill_null(times.indices.cast(pa.int64()), len(milliseconds))
        places = codes.to_numpy(zero_copy_only=False)
        return np.append(milliseconds, 0)[places], np.append(readable, values=False)[places]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _of_timestamps(times, zone)
    if pa.types.is_decimal(kind):
        return _of_numbers(times.cast(pa.float64()), unit)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _of_numbers(times, unit)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _of_texts(times.cast(pa.string()), unit, zone)
    return _of_texts(times, unit, zone) if pa.types.is_string(kind) else _unread(len(times))


def _unread(number: int) -> Read:
    return np.zeros(number, dtype=np.int64), np.zeros(number, dtype=bool)


def _of_timestamps(times: pa.Array, zone: ZoneInfo | None) -> Read:
    if not pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms"))
    ticks = _filled(times.cast(pa.int64())).to_numpy(zero_copy_only=False)
    read = _bounded(_whole_ms(ticks, times.type.unit), np.array(times.is_valid()))
    # With a zone, Arrow holds UTC already.
    return read if zone is None or times.type.tz is not None else _from_zone(*read, zone)


def _from_zone(local_ms: NDArray[np.int64], readable: NDArray[np.bool_], zone: ZoneInfo) -> Read:
    """Return when clocks of a zone show these times; they are set at quarters of an hour."""
    quarters, which = np.unique(local_ms // _QUARTER_MS, return_inverse=True)
    offsets = [_offset_ms(quarter, zone) for quarter in quarters.tolist()]
    return _bounded(local_ms - np.array(offsets, np.int64)[which], readable)


def _offset_ms(quarter: int, zone: ZoneInfo) -> int:
    moment = (EPOCH + timedelta(milliseconds=quarter * _QUARTER_MS)).replace(tzinfo=zone)
    return (moment.utcoffset() or timedelta()) // timedelta(milliseconds=1)


def _of_numbers(times: pa.Array, unit: TimeUnit | None) -> Read:
    readable = np.array(times.is_valid())
    numbers = _filled(times).to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":  # also whole numbers, if there is one that no int64 holds
        readable &= np.abs(numbers) < 1 << 63
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


def _of_texts(times: pa.StringArray, unit: TimeUnit | None, zone: ZoneInfo | None) -> Read:
    read = _of_like_texts(times, zone)
    if read is not None:
        return read
    trimmed = pc.ascii_trim_whitespace(only_utf8(times))
    read = _of_logs(trimmed, unit, zone)
    if read is not None:
        return read
    found = [
        np.array(pc.fill_null(pc.match_substring_regex(trimmed, each), fill_value=False))
        for each in _READ_BY
    ]
    kinds = np.select(found, range(len(found)), default=len(found))
    if (kinds == kinds[0]).all():
        read_by: _ReadBy = [*_READ_BY.values(), _in_halves][kinds[0]]
        return read_by(trimmed, unit, zone)
    milliseconds, readable = _unread(len(times))
    for kind in np.unique(kinds):
        here = np.flatnonzero(kinds == kind)
        of_kind = trimmed.take(pa.array(here))
        milliseconds[here], readable[here] = _of_texts(of_kind, unit, zone)
    return milliseconds, readable


def _of_cast(kind: pa.DataType) -> _ReadBy:
    return lambda texts, unit, _: _of_numbers(texts.cast(kind), unit)


def _of_rewritten(pattern: str, by: str) -> _ReadBy:
    def read(texts: pa.StringArray, unit: TimeUnit | None, zone: ZoneInfo | None) -> Read:
        return _of_texts(pc.replace_substring_regex(texts, pattern, by), unit, zone)

    return read


def _in_halves(texts: pa.StringArray, unit: TimeUnit | None, zone: ZoneInfo | None) -> Read:
    """Read texts of which some are wrong: narrow these down."""
    if len(texts) <= _FEW:
        milliseconds, readable = _unread(len(texts))
        for place, text in enumerate(texts.to_pylist()):
            one = _one_iso(text or "", zone)
            if one is not None:
                milliseconds[place], readable[place] = one, True
        return _bounded(milliseconds, readable)
    middle = len(texts) // 2
    parts = [
        _of_like_texts(each, zone) or _in_halves(each, unit, zone)
        for each in (texts[:middle], texts[middle:])
    ]
    return np.concatenate([ms for ms, _ in parts]), np.concatenate([good for _, good in parts])


def _after_midnight(texts: pa.StringArray, unit: TimeUnit | None, zone: ZoneInfo | None) -> Read:
    """Read the end of a day, 24:00, which is the start of the next, however long that day was."""
    parts = pc.extract_regex(texts, _MIDNIGHT)
    days = pc.dictionary_encode(parts.field(0))
    next_days = pa.array([_next_day(day) for day in days.dictionary.to_pylist()], pa.string())
    begun = pc.binary_join_element_wise(next_days.take(days.indices), parts.field(1), " 00")
    return _of_texts(begun, unit, zone)


def _next_day(day: str) -> str | None:
    try:
        return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return None


def _of_logs(texts: pa.StringArray, unit: TimeUnit | None, zone: ZoneInfo | None) -> Read | None:
    """Read times of web servers' logs and of mails; ``None`` if any of them is none."""
    for some in (texts[:1], texts):  # a pattern with parts takes long
        parts = pc.extract_regex(some, _OF_LOGS)
        if parts.null_count or not len(some):
            return None
    day, month, year, clock, name = (parts.field(n) for n in range(5))
    number = pc.index_in(pc.utf8_capitalize(month), value_set=pa.array(_MONTHS))
    month = pc.cast(pc.add(number, 1), pa.string())  # null where there is no such month
    padded = [pc.utf8_lpad(each, 2, "0") for each in (month, day)]
    written = pc.binary_join_element_wise(year, *padded, "-")
    apart = pc.if_else(pc.match_substring_regex(name, r"^[A-Za-z]"), " ", "")
    clock = pc.binary_join_element_wise(clock, apart, name, "")
    return _of_texts(pc.binary_join_element_wise(written, clock, " "), unit, zone)


def _of_zones(texts: pa.StringArray, unit: TimeUnit | None, _zone: ZoneInfo | None) -> Read:
    """Read times that name their zone; one that has its distance from UTC, too, is told by that."""
    parts = pc.extract_regex(texts, _NAMED)
    times, names = parts.field(0), pc.dictionary_encode(parts.field(1))
    milliseconds, readable = _unread(len(texts))
    for place, name in enumerate(names.dictionary.to_pylist()):
        named = _zone_named(name)
        here = np.flatnonzero(np.asarray(names.indices) == place)
        if named is not None:
            of_zone = times.take(pa.array(here))
            milliseconds[here], readable[here] = _of_texts(of_zone, unit, named)
    return milliseconds, readable


def _of_like_texts(times: pa.StringArray, zone: ZoneInfo | None) -> Read | None:
    """Read texts that all have a zone, or all none; ``None`` if any of them can't be read so."""
    for name in ("UTC", None):
        kind = pa.timestamp("ns", tz=name)
        try:
            times[:1].cast(kind)  # each text that does not fit costs Arrow ten that do
            return _of_timestamps(times.cast(kind), zone)
        except pa.ArrowInvalid:
            continue
    return None


def _one_iso(text: str, zone: ZoneInfo | None) -> int | None:
    """Read one time the slow way: only texts that Arrow refused, and neighbours, come here."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=zone or UTC)
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):  # of the first or last day that there is, say
        return None


_READ_BY: dict[str, _ReadBy] = {
    _WHOLE: _of_cast(pa.int64()),
    _NUMBER: _of_cast(pa.float64()),
    _OF_LOGS: _in_halves,
    _MIDNIGHT: _after_midnight,
    _APART: _of_rewritten(_APART, r"\1\2"),
    _NAMED: _of_zones,
    _COMMA: _of_rewritten(_COMMA, r"\1.\2"),
    _ZONED: _in_halves,
}
"""What reads texts that are all of one kind; those of no other kind are read in halves, too."""
