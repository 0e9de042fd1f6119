"""Moments, shares and amounts, as the sentences of a verdict say them."""

from __future__ import annotations

from kstoolkit.replica.records import moment_of
from kstoolkit.units import format_bytes, format_count


def moment_text(time_ms: int) -> str:
    """Return a moment in UTC, as short as it can be said.

    Examples
    --------
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


def share_text(part: float, whole: float) -> str:
    """Return a share in percent, which is neither 0 nor 100 unless it is exactly that.

    Examples
    --------
    >>> share_text(1, 3), share_text(1, 1000), share_text(999, 1000), share_text(3, 3)
    ('33 %', 'under 1 %', 'over 99 %', '100 %')
    """
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"  # noqa: PLR2004 - percents


def amount(num_rows: int, data_bytes: int, error_rows: int = 0, noun: str = "row") -> str:
    """Return how many rows there are, and their bytes; with an error, as at least so many.

    Examples
    --------
    >>> amount(1, 512), amount(1200, 4096, 30)
    ('1 row (512 B)', 'at least 1,200 rows (4.0 KiB), and at most 30 more')
    """
    nouns = noun if num_rows == 1 else f"{noun}s"
    text = f"{format_count(num_rows)} {nouns} ({format_bytes(data_bytes)})"
    return f"at least {text}, and at most {format_count(error_rows)} more" if error_rows else text
