# ruff: noqa: RUF002 - a range of numbers is written with an en dash, in the examples too
"""A finding as one plain sentence, for any action."""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING

from kstoolkit.findings.prior import FEWEST_WINDOWS
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from datetime import datetime

    from kstoolkit.findings.finding import Finding


_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_TO = "\N{EN DASH}"
_PLAIN_EXPONENT = 6
_MANTISSA_OVERFLOW = 10


def sentence(finding: Finding) -> str:
    """Return who did what, how often and when, what was to be expected, and on what evidence.

    Examples
    --------
    >>> from kstoolkit.findings.finding import Finding
    >>> seen = {"user": "ClueBot NG", "action": "Main", "count": 61, "window": "1 hour"}
    >>> when = {"window_ms": 3_600_000, "window_start_ms": 1_442_052_000_000}
    >>> usual = {"expected_low": 2, "expected_high": 14, "baseline_windows": 19, "peers": 4112}
    >>> rule = {"rule": "Unusual 1 hour, 5 false alarms a day", "kind": "Unusual"}
    >>> print(sentence(Finding(**seen, **when, **usual, **rule, log10_probability=-8.5)))
    ClueBot NG did “Main” 61 times between 10:00 and 11:00 UTC on 12 September 2015; it usually
    does 2–14 in an hour (19 earlier hours, 4,112 peers); chance of this or more: 3 in 10⁹.
    """
    often = "once" if finding.count == 1 else f"{format_count(finding.count)} times"
    parts: list[str | None] = [f"{finding.user} did “{finding.action}” {often} {_when(finding)}"]
    if finding.ceiling is not None:
        parts.append(f"more than the ceiling of {format_count(finding.ceiling)} {_per(finding)}")
    parts.append(_usual(finding))
    if finding.log10_probability is not None:
        parts.append(f"chance of this or more: {chance(finding.log10_probability)}")
    if finding.first_seen_window is not None:
        parts.append(f"first seen in a window of {finding.first_seen_window}")
    return "; ".join(part for part in parts if part) + "."


def expected(low: int | None, high: int | None) -> str | None:
    """Return a range of counts for people; ``None`` where it is not known.

    Examples
    --------
    >>> expected(2, 14), expected(0, 0), expected(None, None)
    ('2–14', '0', None)
    """
    if low is None or high is None:
        return None
    return format_count(low) if low == high else f"{format_count(low)}{_TO}{format_count(high)}"


def chance(log10_probability: float | None) -> str:
    """Return a probability for people, given its decimal logarithm.

    Examples
    --------
    >>> chance(-8.5), chance(-2.7), chance(-400.0), chance(None)
    ('3 in 10⁹', '2 in 1,000', '1 in 10⁴⁰⁰', 'unknown')
    """
    if log10_probability is None:
        return "unknown"
    exponent = ceil(-log10_probability)
    mantissa = round(10 ** (log10_probability + exponent))
    if mantissa >= _MANTISSA_OVERFLOW:
        mantissa, exponent = 1, exponent - 1
    if exponent <= _PLAIN_EXPONENT:
        return f"{mantissa} in {10**exponent:,}"
    return f"{mantissa} in 10{str(exponent).translate(_SUPERSCRIPTS)}"


def _usual(finding: Finding) -> str | None:
    """Say what this user usually does, or, where that is not known yet, what its peers do."""
    between = expected(finding.expected_low, finding.expected_high)
    if between is None or finding.baseline_windows is None:
        return None if finding.ceiling is not None else "what is usual is unknown (too few peers)"
    peers = f"{format_count(finding.peers)} peers"
    n = finding.baseline_windows
    if n >= FEWEST_WINDOWS:
        own = f"it usually does {between} in {_one(finding)}"
        return f"{own} ({format_count(n)} earlier {_many(finding, n)}, {peers})"
    history = "no history" if not n else f"too little history ({n} {_many(finding, n)})"
    return (
        f"{history} of its own to compare with yet; 95 % of {peers} do {between} in {_one(finding)}"
    )


def _when(finding: Finding) -> str:
    start, end = finding.window_start, finding.window_end
    length = timedelta(milliseconds=finding.window_ms)
    if length == timedelta(days=1) and start.hour == start.minute == start.second == 0:
        return f"on {_day(start)} (UTC)"
    last = end - timedelta(milliseconds=1)
    if start.date() == last.date():
        return f"between {_clock(start)} and {_clock(end)} UTC on {_day(start)}"
    return f"between {_clock(start)} on {_day(start)} and {_clock(end)} on {_day(end)} UTC"


def _clock(time: datetime) -> str:
    if time.microsecond:
        return f"{time:%H:%M:%S}.{time.microsecond // 1000:03d}"
    return f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"


def _day(time: datetime) -> str:
    # Not %B: a sentence does not change with the machine's locale.
    return f"{time.day} {_MONTHS[time.month - 1]} {time.year}"


def _one(finding: Finding) -> str:
    length = _length(finding)
    number, unit = length.split(" ", 1)
    if number != "1":
        return length
    return f"an {unit}" if unit.startswith("h") else f"a {unit}"


def _per(finding: Finding) -> str:
    one = _one(finding)
    return one if one.startswith("a") else f"in {one}"


def _many(finding: Finding, n: int) -> str:
    length = _length(finding)
    number, unit = length.split(" ", 1)
    plural = "" if n == 1 else "s"
    return f"{unit}{plural}" if number == "1" else f"window{plural} of {length}"


def _length(finding: Finding) -> str:
    return finding.window.split(" every ", 1)[0]
