"""Durations, bytes and counts: how people write them, how we print them.

Examples
--------
>>> parse_duration("5 minutes"), format_duration(3_600_000)
(300000, '1 hour')
>>> parse_bytes("6GiB"), format_bytes(3 << 20), format_count(2_828_425)
(6442450944, '3.0 MiB', '2,828,425')
"""

from __future__ import annotations

import re
from datetime import timedelta
from numbers import Integral

from kstoolkit.errors import ConfigurationError

Duration = str | int | timedelta
"""What users may give for a length of time: ``"5 minutes"``, milliseconds, or a timedelta."""

_WRITTEN_MS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000}
_WRITTEN_MS |= {"millisecond": 1}
_UNIT_MS = _WRITTEN_MS | {"week": 604_800_000, "w": 604_800_000, "d": 86_400_000, "h": 3_600_000}
_UNIT_MS |= {"year": 31_536_000_000, "min": 60_000, "m": 60_000, "sec": 1_000, "s": 1_000, "ms": 1}
_ENDLESS_MS = 2**62  # such a length and a moment are no int64 together
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)?\s*([a-z]+)\s*", re.IGNORECASE)
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def parse_duration(value: Duration, *, allow_zero: bool = False) -> int:
    """Return a length of time in whole milliseconds.

    Text is such as ``"1 minute"``, ``"90 s"`` or ``"1.5 hours"``. What is no duration, or none
    above zero where that is not allowed, is a ConfigurationError.

    >>> parse_duration("1 minute"), parse_duration("1.5 hours"), parse_duration("day")
    (60000, 5400000, 86400000)
    """
    milliseconds = _milliseconds(value)
    if milliseconds < 0 or (milliseconds == 0 and not allow_zero):
        message = f"The duration {value!r} is not positive."
        raise ConfigurationError(message, hint="Give a length of time such as '1 minute'.")
    if milliseconds >= _ENDLESS_MS:
        message = f"The duration {value!r} is longer than all of time until the year 10000."
        raise ConfigurationError(message, hint="Give a length of time such as '1 day'.")
    return milliseconds


def _milliseconds(value: Duration) -> int:
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, int):
        return value
    match = _DURATION.fullmatch(str(value))
    unit = match[2].lower() if match else ""
    factor = _UNIT_MS.get(unit) or _UNIT_MS.get(unit.removesuffix("s"))
    if match is None or factor is None:
        message = f"{value!r} is not a duration."
        hint = "Write a number and a unit: '30 seconds', '5 minutes', '1 hour', '1 day'."
        raise ConfigurationError(message, hint=hint)
    return round(min(float(match[1] or 1) * factor, _ENDLESS_MS))


def format_duration(milliseconds: int) -> str:
    """Return a duration as people write it, in the largest unit that divides it.

    >>> format_duration(60_000), format_duration(7_200_000), format_duration(90_000)
    ('1 minute', '2 hours', '90 seconds')
    """
    for name, length in _WRITTEN_MS.items():
        if milliseconds >= length and milliseconds % length == 0:
            number = milliseconds // length
            return f"{number} {name}" + ("" if number == 1 else "s")
    return "0 seconds"


def format_span(seconds: float) -> str:
    """Return about how long that is, for people.

    >>> format_span(4), format_span(600), format_span(100_000)
    ('4.0 s', '10 minutes', '28 hours')
    """
    for unit in ("day", "hour", "minute"):
        if (number := seconds * 1_000 / _WRITTEN_MS[unit]) >= 2:  # noqa: PLR2004 - not in ones
            return f"{number:,.0f} {unit}s"
    return f"{seconds:,.1f} s"


def format_share(part: float, whole: float = 1) -> str:
    """Return a share in percent, which is neither 0 nor 100 unless it is exactly that.

    >>> format_share(1, 3), format_share(1, 1000), format_share(999, 1000), format_share(3, 3)
    ('33 %', 'under 1 %', 'over 99 %', '100 %')
    """
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"  # noqa: PLR2004 - percents


def format_bytes(size_bytes: float | None) -> str:
    """Return a size for people, in binary units; ``None`` is ``"unknown"``.

    >>> format_bytes(512), format_bytes(1536), format_bytes(None)
    ('512 B', '1.5 KiB', 'unknown')
    """
    if size_bytes is None:
        return "unknown"
    size, unit = float(size_bytes), 0
    while abs(size) >= _STEP and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / _STEP, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.1f} {_BYTE_UNITS[unit]}"


_SIZE = re.compile(r"([\d_,]{,20}\.?\d{1,20})\s*([kmgtp]?)(?:ib?|b(?:ytes)?)?", re.IGNORECASE)


def parse_bytes(text: str | int) -> int:
    """Return a size in bytes, as people write it: a number, with or without a unit of 1024.

    What is none, or not above zero, is a ConfigurationError.

    >>> parse_bytes("512MiB"), parse_bytes("1.5 GB"), parse_bytes("6g"), parse_bytes("4096")
    (536870912, 1610612736, 6442450944, 4096)
    """
    match = _SIZE.fullmatch(str(text).strip())
    number = float(match[1].replace(",", "").replace("_", "")) if match else 0
    if match is None or number <= 0:
        message = f"{text!r} is no size."
        raise ConfigurationError(message, hint="Give one such as 512MiB or 6GiB.")
    return int(number * _STEP ** " kmgtp".index(match[2].lower() or " "))


_NUMBER = re.compile(r"(\d[\d_,]{0,20}(?:\.\d{1,20})?(?:e\d{1,2})?)\s*([kmg]?)", re.IGNORECASE)


def parse_count(text: str | float) -> float:
    """Return a number as people write it, with or without k, M or G, which are thousands.

    What is none, or not above zero, is a ConfigurationError.

    >>> parse_count("50M"), parse_count("7.5k"), parse_count("1e9"), parse_count("12,000")
    (50000000.0, 7500.0, 1000000000.0, 12000.0)
    """
    match = _NUMBER.fullmatch(str(text).strip())
    number = float(re.sub("[_,]", "", match[1])) if match else 0
    if match is None or number <= 0:
        message = f"{text!r} is no number above zero."
        raise ConfigurationError(message, hint="Give one such as 7500, 50M or 1e9.")
    return number * 1_000.0 ** " kmg".index(match[2].lower() or " ")


def check_whole(name: str, value: object, *, least: int, hint: str) -> int:
    """Return what is a whole number, and not less than it may be; ``hint`` says what to give."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        message = f"{name} is {value!r}, which is no whole number."
        raise ConfigurationError(message, hint=hint)
    if value < least:
        message = f"{name} is {value}: it has to be {least} or more."
        raise ConfigurationError(message, hint=hint)
    return int(value)


def format_count(count: float | None) -> str:
    """Return a count with thousands separated; ``None`` is ``"unknown"``.

    >>> format_count(1234567), format_count(None)
    ('1,234,567', 'unknown')
    """
    return "unknown" if count is None else f"{count:,.0f}"
