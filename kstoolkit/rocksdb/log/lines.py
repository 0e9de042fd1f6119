"""Lines of RocksDB's log taken apart, from its own LOG or as Spark hands them on to log4j.

A LOG has ``2026/11/21-08:08:24.435575 139868573263552 [WARN] [db/column_family.cc:987] [default]
text``: local time, thread, level (none: INFO or a header), place, column family. A buffered line
says in parentheses when it was logged. Spark's log has ``... [NativeRocksDB-<level>] [default]
text`` in the middle of its own lines, as plain text or as JSON; the name of the logger says which
of Spark's stores it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_TIME = r"([0-9]{4})/([0-9]{2})/([0-9]{2})-([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]{6})"
_HEAD = re.compile(_TIME + r" ([0-9a-fx]{1,32}) ?")
_ORIGINAL = re.compile(r"\(Original Log Time " + _TIME + r"\) ?")
_LEVEL = re.compile(r"\[(DEBUG|INFO|WARN|ERROR|FATAL|HEADER)\] ?")
_PLACE = re.compile(r"\[[^\[\]\s]{1,200}:[0-9]{1,9}\] ?")
_FAMILY = re.compile(r"\[((?!JOB [0-9])[^\]]{1,200})\] ")
_NATIVE = re.compile(r"\[NativeRocksDB-(\w{1,20})\] ?")
_NATIVE_MARK = "[NativeRocksDB-"
_STORE = re.compile(r"StateStoreId\[ ?([^\[\]]{1,200}?) ?\]")
_LOG4J_TIME = re.compile(
    r"\W?((?:[0-9]{2})?[0-9]{2})[/-]([0-9]{2})[/-]([0-9]{2})[ T]"
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,6}))?(Z)?"
)
_LEVELS = ("debug", "info", "warn", "error", "fatal", "header")
_TWO_DIGITS = 100
_CENTURY = 2000


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log, taken apart.

    Parameters
    ----------
    text
        What it says, without what stands before; of a continued message the line as it is.
    written
        When, by the clock on the writer's wall (naive); None if the line doesn't say.
    level
        ``"debug"``, ``"info"`` (in a LOG a header too), ``"warn"``, ``"error"``, ``"fatal"`` or
        ``"header"``.
    column_family
        None if it is of the store as a whole.
    native
        Whether Spark handed it on.
    continued
        Whether it goes on with the message of the line before.
    in_utc
        Whether ``written`` is UTC, which Spark's JSON says.
    store
        Which of Spark's stores; None in a LOG, and where Spark's logger doesn't say it.
    """

    text: str
    written: datetime | None = None
    level: str = "info"
    column_family: str | None = None
    native: bool = False
    continued: bool = False
    in_utc: bool = False
    store: str | None = None


def lines_of(text: str) -> list[LogLine]:
    """Return a line taken apart; none if it is one of Spark's own, several if it is JSON.

    Examples
    --------
    >>> [line] = lines_of("2026/11/21-08:08:24.435575 7f7e [WARN] [db/a.cc:9] [default] Stopping")
    >>> line.level, line.column_family, line.text
    ('warn', 'default', 'Stopping')
    >>> [line] = lines_of("26/11/21 08:08:24 INFO RocksDB: [NativeRocksDB-2] [default] Stopping")
    >>> line.level
    'warn'
    >>> lines_of("26/11/21 08:08:24 INFO DAGScheduler: Job 1 finished")
    []
    """
    head = _HEAD.match(text)
    if head:
        return [_of_rocksdb(text[head.end() :], _moment(head.groups()[:7]))]
    if _NATIVE_MARK in text:
        return _of_spark(text)
    foreign = _LOG4J_TIME.match(text) or text.startswith('{"ts"')
    return [] if foreign else [_continued(text)]


def time_of(text: str) -> datetime | None:
    """Return when a line was written, whoever wrote it; None if it does not begin with a time.

    Examples
    --------
    >>> print(time_of("26/11/21 08:08:24 INFO DAGScheduler: Job 1 finished"))
    2026-11-21 08:08:24
    >>> time_of("  at java.lang.Thread.run")
    """
    begins = _json_parts(text)[0] if text.startswith("{") else text
    found = _HEAD.match(begins) or _LOG4J_TIME.match(begins)
    return _moment(found.groups()[:7]) if found else None


def _continued(text: str) -> LogLine:
    return LogLine(text, continued=True)


def _of_rocksdb(rest: str, written: datetime | None) -> LogLine:
    level, rest = _taken(_LEVEL, rest)
    original, rest = _original(rest)
    _, rest = _taken(_PLACE, rest)
    family, rest = _taken(_FAMILY, rest)
    return LogLine(rest, original or written, (level or "info").lower(), family)


def _of_spark(text: str) -> list[LogLine]:
    begins, message = text, text
    if text.startswith("{"):
        begins, message = _json_parts(text)
    mark = _NATIVE.search(message)
    if mark is None:
        return []
    first, *others = message[mark.end() :].rstrip("\n").split("\n")
    time, store = _LOG4J_TIME.match(begins), _STORE.search(begins)
    written = _moment(time.groups()[:7]) if time else None
    original, rest = _original(first)
    _, rest = _taken(_PLACE, rest)
    family, rest = _taken(_FAMILY, rest)
    line = LogLine(
        rest,
        original or written,
        _level_name(mark[1]),
        family,
        native=True,
        in_utc=original is None and bool(time and time[8]),
        store=store[1] if store else None,
    )
    return [line, *map(_continued, others)]


def _original(text: str) -> tuple[datetime | None, str]:
    """Return when a buffered line was logged, by the writer's own clock, and what follows."""
    match = _ORIGINAL.match(text)
    return (_moment(match.groups()), text[match.end() :]) if match else (None, text)


def _json_parts(text: str) -> tuple[str, str]:
    """Return the time with the logger, and the message, of a line of structured logging."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return "", text
    return f"{row.get('ts', '')} {row.get('logger', '')}", str(row.get("msg", ""))


def _level_name(level: str) -> str:
    """Return the level that Spark writes as RocksDB's number, or a reader of it as a name."""
    if level in {"0", "1", "2", "3", "4", "5"}:
        level = _LEVELS[int(level)]
    name = level.lower().removesuffix("_level")
    return name if name in _LEVELS else "info"


def _taken(pattern: re.Pattern[str], text: str) -> tuple[str | None, str]:
    """Return the first group of what a text begins with, and the rest of the text."""
    match = pattern.match(text)
    if match is None:
        return None, text
    return (match[1] if match.re.groups else match[0]), text[match.end() :]


def _moment(parts: tuple[str | None, ...]) -> datetime | None:
    year, month, day, hour, minute, second = (int(part or 0) for part in parts[:6])
    full_year = year + _CENTURY if year < _TWO_DIGITS else year
    try:
        whole = datetime(full_year, month, day, hour, minute, second)  # noqa: DTZ001 - local time
    except ValueError:
        return None
    return whole + timedelta(microseconds=int((parts[6] or "").ljust(6, "0")))
