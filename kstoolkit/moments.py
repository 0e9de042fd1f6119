"""Moments: as people give them, as milliseconds since 1970, and as they are printed, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from numbers import Integral

from kstoolkit.errors import ConfigurationError

Moment = str | int | datetime
"""ISO 8601 text (UTC if it names no zone), epoch ms UTC, or an aware datetime.

Text without a zone is what people type, and all that is printed here is UTC. A datetime without
one is refused: Python takes it for local time, so it may well have been meant so.
"""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MS = timedelta(milliseconds=1)
_FIRST_MS = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // _ONE_MS
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _ONE_MS


def moment_ms(value: Moment) -> int:
    """Return a moment in epoch ms UTC.

    Text that names no zone is in UTC; a datetime has to have one. Whatever is no such moment, nor a
    whole number, is a ConfigurationError.

    >>> moment_ms("1970-01-01T01:00Z"), moment_ms("1970-01-01 01:00"), moment_ms(5)
    (3600000, 3600000, 5)
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            message = f"{value!r} is not a time."
            raise ConfigurationError(message, hint="Write it as 2015-09-12T10:00Z.") from error
        return _aware_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return _aware_ms(value) if isinstance(value, datetime) else _whole_ms(value)


def moment_of(milliseconds: int) -> datetime:
    """Return epoch ms as an aware datetime.

    >>> moment_of(3_600_000).isoformat()
    '1970-01-01T01:00:00+00:00'
    """
    return EPOCH + timedelta(milliseconds=milliseconds)


def _whole_ms(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        message = f"{value!r} is no time."
        hint = "Give text such as 2015-09-12T10:00Z, whole milliseconds since 1970, or a datetime."
        raise ConfigurationError(message, hint=hint)
    whole = int(value)
    if not _FIRST_MS <= whole <= _LAST_MS:
        message = f"{whole} is no time in epoch ms: it is outside the years 1 to 9999."
        raise ConfigurationError(message, hint="Give milliseconds since 1970, or text.")
    return whole


def _aware_ms(moment: datetime) -> int:
    if moment.tzinfo is None:
        message = f"The time {moment.isoformat()} has no time zone."
        hint = "Python takes it for local time. Give datetime(..., tzinfo=UTC), or text: that is "
        hint += "in UTC if it names no zone."
        raise ConfigurationError(message, hint=hint)
    return _whole_ms((moment - EPOCH) // _ONE_MS)


def moment_text(time_ms: int) -> str:
    """Return a moment in UTC, as short as it can be said.

    >>> moment_text(1_700_002_800_000), moment_text(1_700_002_800_001), moment_text(2**62)
    ('2023-11-14 23:00 UTC', '2023-11-14 23:00:00.001 UTC', '4611686018427387904 ms')
    """
    try:
        moment = moment_of(time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    precision = "milliseconds" if time_ms % 1000 else "seconds" if moment.second else "minutes"
    text = moment.isoformat(sep=" ", timespec=precision)
    return f"{text.removesuffix('+00:00')} UTC"
