"""Keys and values as people read them: what has parts as JSON, bytes in hex, times as text."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from kstoolkit.formats.columns import Undecoded

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def value_text(value: Any) -> str:
    r"""Return a value in one line; texts in quotes, times in UTC without a zone.

    Bytes are in hex, as the command line takes them: ``0x00ff``. What could not be decoded is so
    too, and says why.

    Examples
    --------
    >>> from datetime import datetime, UTC
    >>> noon = datetime(2026, 3, 3, 12, tzinfo=UTC)
    >>> print(value_text({"user": "zoë", "window": {"start": noon}}))
    {"user": "zoë", "window": {"start": "2026-03-03 12:00:00"}}
    >>> print(value_text("zoë"), value_text(b"\x00\xff"), value_text(3.0), value_text(None))
    'zoë' 0x00ff 3.0 null
    >>> print(value_text(Undecoded(b"?", "1 byte, not 8")))
    0x3f (1 byte, not 8)
    """
    match value:
        case str():
            return repr(value)
        case Undecoded():
            return f"{hex_text(value.raw)} ({value.why})"
        case bytes() | bytearray() | memoryview():
            return hex_text(bytes(value))
        case datetime() | date() | time():
            return _time_text(value)
        case None | bool() | dict() | list() | tuple():
            return _json_text(value)
    return str(value)


def hex_text(raw: bytes | None) -> str:
    r"""Return bytes in hex; ``null`` if there are none.

    Examples
    --------
    >>> hex_text(b"\x00\xff"), hex_text(None)
    ('0x00ff', 'null')
    """
    return "null" if raw is None else f"0x{raw.hex()}"


def moment_text(time_ms: int) -> str:
    """Return a moment, epoch ms UTC, as text without a zone.

    Examples
    --------
    >>> moment_text(60_000), moment_text(2**62)
    ('1970-01-01 00:01:00.000', '4611686018427387904 ms')
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:  # there are times beyond the year 9999, as ends of windows
        return f"{time_ms} ms"
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_part_text)
    except (TypeError, ValueError, RecursionError):  # as of keys that are no text
        return repr(value)


def _part_text(value: Any) -> Any:
    """Return what stands for a value within JSON."""
    if isinstance(value, set | frozenset):
        return list(value)
    return value_text(value) if isinstance(value, _WITH_TEXT) else str(value)


def _time_text(value: date | datetime | time) -> str:
    if isinstance(value, datetime):
        in_utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return in_utc.isoformat(sep=" ")
    return value.isoformat()


_WITH_TEXT = (Undecoded, bytes, bytearray, memoryview, date, time)
