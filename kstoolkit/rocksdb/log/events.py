"""RocksDB's events as values: ``EVENT_LOG_v1 {"time_micros": …, "job": 3, "event": …}``."""

from __future__ import annotations

import json
from typing import Any

Event = dict[str, Any]
"""The fields of an event as they were logged; versions of RocksDB differ in which there are."""

_MARK = "EVENT_LOG_v1 "
_TOO_LARGE = 1 << 64  # RocksDB's own numbers have 64 bits


def event_of(text: str) -> Event | None:
    """Return the event that a line tells; None if it tells none, or is torn.

    Examples
    --------
    >>> event_of('EVENT_LOG_v1 {"time_micros": 7, "job": 3, "event": "flush_started"}')["job"]
    3
    >>> event_of('EVENT_LOG_v1 {"time_micros": 7, "jo')
    """
    if not text.startswith(_MARK):
        return None
    try:
        event = json.loads(text[len(_MARK) :])
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def number_in(event: Event, name: str) -> int | None:
    """Return a whole number of an event; None if it has none of that name."""
    value = event.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _TOO_LARGE:
        return None
    return value


def text_in(event: Event, name: str) -> str | None:
    """Return a text of an event; None if it has none of that name."""
    value = event.get(name)
    return value if isinstance(value, str) else None


def list_in(event: Event, name: str) -> list[Any]:
    """Return a list of an event; an empty one if it has none of that name."""
    value = event.get(name)
    return value if isinstance(value, list) else []
