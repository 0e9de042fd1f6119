"""Which kinds of stores Kafka Streams writes, and in which column family each keeps its rows.

A newer kind keeps the column family of the older one that it came from: rows which were not written
since the upgrade still lie there, in the older form.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, guessed

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT = "default"
TIMESTAMPED = "keyValueWithTimestamp"
TIMESTAMPED_HEADERS = "keyValueWithTimestampAndHeaders"
WINDOW_HEADERS = "windowKeyValueWithHeaders"
SESSION_HEADERS = "sessionKeyValueWithHeaders"
LIST_HEADERS = "listValueWithHeaders"
OFFSETS = "offsets"
_NEWEST_FIRST = (
    TIMESTAMPED_HEADERS,
    WINDOW_HEADERS,
    SESSION_HEADERS,
    LIST_HEADERS,
    TIMESTAMPED,
    DEFAULT,
)

STREAMS_FAMILIES = frozenset(_NEWEST_FIRST) - {DEFAULT}
"""Column families that no other engine makes."""


class Kind(StrEnum):
    """A kind of store, by the name under which Kafka Streams' users know it.

    Examples
    --------
    >>> Kind.TIMESTAMPED_WINDOW, Kind.TIMESTAMPED_WINDOW.live_family
    (<Kind.TIMESTAMPED_WINDOW: 'timestamped-window'>, 'keyValueWithTimestamp')
    """

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped-key-value"
    HEADERS_KEY_VALUE = "headers-key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped-window"
    HEADERS_WINDOW = "headers-window"
    TIME_ORDERED_WINDOW = "time-ordered-window"
    HEADERS_TIME_ORDERED_WINDOW = "headers-time-ordered-window"
    SESSION = "session"
    HEADERS_SESSION = "headers-session"
    TIME_ORDERED_SESSION = "time-ordered-session"
    HEADERS_TIME_ORDERED_SESSION = "headers-time-ordered-session"
    VERSIONED = "versioned"
    LIST_VALUE = "list-value"
    FOREIGN_KEY_SUBSCRIPTION = "foreign-key-subscription"
    GRACE_BUFFER = "grace-buffer"

    @property
    def live_family(self) -> str:
        """The column family that new rows are written to, if no newer kind took it over."""
        return _LIVE.get(self, DEFAULT)


_LIVE = {
    Kind.TIMESTAMPED_KEY_VALUE: TIMESTAMPED,
    Kind.TIMESTAMPED_WINDOW: TIMESTAMPED,
    Kind.FOREIGN_KEY_SUBSCRIPTION: TIMESTAMPED,
    Kind.HEADERS_KEY_VALUE: TIMESTAMPED_HEADERS,
    Kind.HEADERS_WINDOW: TIMESTAMPED_HEADERS,
    Kind.HEADERS_TIME_ORDERED_WINDOW: WINDOW_HEADERS,
    Kind.HEADERS_SESSION: SESSION_HEADERS,
    Kind.HEADERS_TIME_ORDERED_SESSION: SESSION_HEADERS,
}

_GROUPS = {
    "key-value": (Kind.KEY_VALUE, Kind.TIMESTAMPED_KEY_VALUE, Kind.HEADERS_KEY_VALUE),
    "window": (
        Kind.TIME_ORDERED_WINDOW,
        Kind.WINDOW,
        Kind.TIMESTAMPED_WINDOW,
        Kind.HEADERS_WINDOW,
        Kind.HEADERS_TIME_ORDERED_WINDOW,
    ),
    "session": (
        Kind.TIME_ORDERED_SESSION,
        Kind.SESSION,
        Kind.HEADERS_TIME_ORDERED_SESSION,
        Kind.HEADERS_SESSION,
    ),
}


def kinds_named(name: str) -> tuple[Kind, ...]:
    """Return the kinds that a user's word can mean: one, or all of a group.

    A group is ``key-value``, ``window`` or ``session``, whose rest the column family and bytes
    tell. Blanks and underscores pass for hyphens; others are a ConfigurationError.

    >>> [str(kind) for kind in kinds_named("Key Value")]
    ['key-value', 'timestamped-key-value', 'headers-key-value']
    >>> kinds_named("versioned")
    (<Kind.VERSIONED: 'versioned'>,)
    """
    plain = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    if plain in _GROUPS:
        return _GROUPS[plain]
    if plain in set(Kind):
        return (Kind(plain),)
    guess = guessed(plain, map(str, Kind))
    message = f"There is no kind of store {name!r}."
    raise ConfigurationError(message, hint=f"{guess}Give one of {', '.join(Kind)}.")


def live_family(column_families: Iterable[str]) -> str:
    """Return the column family of a store that new rows are written to.

    >>> live_family(["default", "keyValueWithTimestamp", "offsets"])
    'keyValueWithTimestamp'
    """
    names = set(column_families)
    return next((name for name in _NEWEST_FIRST if name in names), DEFAULT)
