"""Times and windows as a report prints them: UTC, and no finer than they need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kstoolkit.markup import Html, element, text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_ms: int | None, *, unknown: str = "unknown", zone: str = " UTC") -> Html:
    """Return a time as a ``time`` element, or ``unknown``; a column may say the zone.

    Examples
    --------
    >>> moment(1_442_052_000_000)
    '<time datetime="2015-09-12T10:00:00+00:00">2015-09-12 10:00 UTC</time>'
    >>> moment(None, unknown="unknown (no events)")
    'unknown (no events)'
    """
    if time_ms is None:
        return text(unknown)
    time = _utc(time_ms)
    if time is None:
        return text(_far(time_ms))
    return element("time", f"{time:%Y-%m-%d} {_clock(time)}{zone}", datetime=time.isoformat())


def period(start_ms: int, end_ms: int) -> Html:
    """Return the time from ``start_ms`` to ``end_ms``; the day is said once if it is one.

    Examples
    --------
    >>> period(1_442_052_000_000, 1_442_055_600_000)
    '<span class="time">2015-09-12 10:00 to 11:00 UTC</span>'
    """
    start, end = _utc(start_ms), _utc(end_ms)
    if start is None or end is None:
        return element("span", f"{_far(start_ms)} to {_far(end_ms)}", class_="time")
    day = "" if start.date() == end.date() else f"{end:%Y-%m-%d} "
    said = f"{start:%Y-%m-%d} {_clock(start)} to {day}{_clock(end)} UTC"
    return element("span", said, class_="time")


def _utc(time_ms: int) -> datetime | None:
    """Return a moment as a date; ``None`` for a year that there is no date of."""
    try:
        return EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def _far(time_ms: int) -> str:
    return f"{time_ms:,} ms after 1970"


def _clock(time: datetime) -> str:
    if time.microsecond:
        return time.isoformat(timespec="milliseconds")[11:23]
    return f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"
