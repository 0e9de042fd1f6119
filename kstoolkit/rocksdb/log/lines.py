"""Where a store's log lies, what its lines and the head of each file say, and what it can't tell.

RocksDB writes ``LOG``, and renames it to ``LOG.old.<microseconds>`` when it opens the store anew or
the file reaches its limit. With ``db_log_dir`` they lie there, called after the store's path. Spark
hands the lines on to log4j, which rolls its logs under any names, often packed with gzip::

    2026/11/21-08:08:24.435575 139868573263552 [WARN] [db/column_family.cc:987] [default] text
    local time                 thread          level  place                     family
    26/11/21 08:08:24 INFO RocksDB: [NativeRocksDB-<level>] [default] text

A line of a LOG without a level is INFO, or a header. A buffered line says in parentheses when it
was logged. Spark's are plain text or JSON; the name of the logger says which of its stores it is.
An event is ``EVENT_LOG_v1 {"time_micros": …, "job": 3, "event": …}``: it carries UTC beside the
local time of its line, and the difference, to a quarter of an hour, is the writer's zone. It is
learned anew at each event, as clocks change twice a year.

Into every file RocksDB writes the same head, its version and options; read up to the first event.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import InputError
from kstoolkit.moments import EPOCH
from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.files.finding import log_folder, logs_of, store_option
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo
    from typing import BinaryIO

_TIME = r"([0-9]{4})/([0-9]{2})/([0-9]{2})-([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]{6})"
_HEAD = re.compile(_TIME + r" [0-9a-fx]{1,32} ?(?:\[(DEBUG|INFO|WARN|ERROR|FATAL|HEADER)\] ?)?")
_MESSAGE = re.compile(
    rf"(?P<original>\(Original Log Time {_TIME}\) ?)?"
    r"(?:\[[^\[\]\s]{1,200}:[0-9]{1,9}\] ?)?"  # its place in RocksDB's code
    r"(?:\[(?P<family>(?!JOB [0-9])[^\]]{1,200})\] )?"
)
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

    The ``text`` is what it says, without what stands before; a ``continued`` one goes on with the
    message of the line before, and is as it is. It was ``written`` by the clock on the writer's
    wall (naive), or ``in_utc``, as Spark's JSON says. The ``level`` is ``"debug"``, ``"info"`` (in
    a LOG a header too), ``"warn"``, ``"error"``, ``"fatal"`` or ``"header"``. No ``column_family``:
    it is of the store as a whole. A ``native`` one Spark handed on; ``store`` is which, if told.
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

    >>> [line] = lines_of("26/11/21 08:08:24 INFO RocksDB: [NativeRocksDB-2] [default] Stopping")
    >>> line.level, line.column_family, line.text
    ('warn', 'default', 'Stopping')
    >>> lines_of("26/11/21 08:08:24 INFO DAGScheduler: Job 1 finished")
    []
    """
    if head := _HEAD.match(text):
        level = (head[8] or "info").lower()
        return [_of_message(text[head.end() :], _moment(head.groups()[:7]), level)]
    if _NATIVE_MARK in text:
        return _of_spark(text)
    foreign = _LOG4J_TIME.match(text) or text.startswith('{"ts"')
    return [] if foreign else [LogLine(text, continued=True)]


def _time_of(text: str) -> datetime | None:
    """Return when a line was written, whoever wrote it; None if it does not begin with a time."""
    begins, _ = _begin_and_message(text)
    found = _HEAD.match(begins) or _LOG4J_TIME.match(begins)
    return _moment(found.groups()[:7]) if found else None


def _of_message(text: str, written: datetime | None, level: str, **more: Any) -> LogLine:
    """Return a line by its message: of a buffered one, with when it was logged itself."""
    begin = next(_MESSAGE.finditer(text))  # all of it may be absent, so it always matches
    original = _moment(begin.groups()[1:8]) if begin["original"] else None
    if original is not None:
        written, more["in_utc"] = original, False
    return LogLine(text[begin.end() :], written, level, begin["family"], **more)


def _of_spark(text: str) -> list[LogLine]:
    begins, message = _begin_and_message(text)
    mark = _NATIVE.search(message)
    if mark is None:
        return []
    first, *others = message[mark.end() :].rstrip("\n").split("\n")
    time, store = _LOG4J_TIME.match(begins), _STORE.search(begins)
    line = _of_message(
        first,
        _moment(time.groups()[:7]) if time else None,
        _level_name(mark[1]),
        native=True,
        in_utc=bool(time and time[8]),
        store=store[1] if store else None,
    )
    return [line, *(LogLine(each, continued=True) for each in others)]


def _begin_and_message(text: str) -> tuple[str, str]:
    """Return where a line's time and logger stand, and its message: in JSON, each apart."""
    if not text.startswith("{"):
        return text, text
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


def _moment(parts: tuple[str | None, ...]) -> datetime | None:
    year, month, day, hour, minute, second = (int(part or 0) for part in parts[:6])
    full_year = year + _CENTURY if year < _TWO_DIGITS else year
    try:
        whole = datetime(full_year, month, day, hour, minute, second)  # noqa: DTZ001 - local time
    except ValueError:
        return None
    return whole + timedelta(microseconds=int((parts[6] or "").ljust(6, "0")))


NO_ZONE = "the log has no event line, which alone tells the writer's zone (in Python: zone=...)"
_LAST_MICROS = 253_402_300_800_000_000
_MICROS = re.compile(r'"time_micros": ?([0-9]{1,18})')
_EVENT = "EVENT_LOG_v1 "
_STEP = timedelta(minutes=15)
_WIDEST = timedelta(hours=26)


def of_micros(micros: int | None) -> datetime | None:
    """Return the moment of microseconds since 1970 UTC; None outside of what dates can say."""
    if micros is None or not 0 <= micros < _LAST_MICROS:
        return None
    return EPOCH + timedelta(microseconds=micros)


@dataclass(slots=True)
class WriterClock:
    """Turns the writer's local times into UTC, by a zone that is given or the offset it learns.

    >>> clock = WriterClock()
    >>> clock.learn(LogLine('EVENT_LOG_v1 {"time_micros": 3600000000}', datetime(1970, 1, 1, 3)))
    >>> clock.utc(LogLine("", datetime(1970, 1, 1, 4))).hour
    2
    """

    zone: tzinfo | None = None
    offset: timedelta | None = None

    def learn(self, line: LogLine) -> None:
        """Take the zone from a line, if it is an event's."""
        if self.zone is not None or line.written is None or line.in_utc or _EVENT not in line.text:
            return
        match = _MICROS.search(line.text)
        moment = of_micros(int(match[1])) if match else None
        if moment is None:
            return
        ahead = line.written.replace(tzinfo=UTC) - moment
        if abs(ahead) <= _WIDEST:  # else the text is not what it seems
            self.offset = round(ahead / _STEP) * _STEP

    def utc(self, line: LogLine) -> datetime | None:
        """Return when a line was logged; None if it or the zone doesn't tell."""
        if line.written is None:
            return None
        if line.in_utc:
            return line.written.replace(tzinfo=UTC)
        try:
            if self.zone is not None:
                return line.written.replace(tzinfo=self.zone).astimezone(UTC)
            if self.offset is not None:
                return line.written.replace(tzinfo=UTC) - self.offset
        except OverflowError:  # the first day of year 1, east of Greenwich
            return None
        return None


_LONGEST_LINE_BYTES = 1 << 20
"""What is kept of a line: RocksDB's own are shorter, and a file without line ends is no log."""

_OLD = r"\.old\.([0-9]{1,20})"
_OF_SPARK = re.compile(r"(?![0-9]+\.log$).+\.log([._-].*)?|(stderr|stdout)([._-].*)?")
_GZIP = b"\x1f\x8b"
_LINES_TO_A_TIME = 1_000
_WHAT = (
    "Give the folder of a store, a LOG file, or a log of Spark with [NativeRocksDB-...] lines or a "
    "folder of such."
)


def log_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a log, oldest first.

    Those of a store, in its folder and ``db_log_dir``; of Spark in another folder; or the file.
    """
    place = Path(path)
    try:
        is_file, is_folder = place.is_file(), place.is_dir()
    except OSError as error:  # its name is too long, or it may not be looked at
        message = f"The log {place} can't be read: {error.strerror}."
        raise InputError(message, hint=_WHAT) from error
    if is_file:
        # An empty file is a log that is silent.
        if place.stat().st_size and not any(map(_begins, text_lines(place))):
            message = f"{place} is no log of RocksDB, nor one of Spark: no line of it is a log's."
            raise InputError(message, hint=_WHAT)
        return [place]
    if not is_folder:
        message = f"There is no log at {place}."
        raise InputError(message, hint=_WHAT)
    found = [*_rotated(place, "LOG"), *_logs_elsewhere(place)]
    if not found and not (place / "CURRENT").exists():
        found = _logs_of_spark(place)
    if not found:
        message = f"The folder {place} has no LOG."
        hint = f"{_WHAT} Spark writes no LOG: its lines go to the logs of its executors."
        raise InputError(message, hint=hint)
    return found


def text_lines(file: Path) -> Iterator[str]:
    """Yield a file's lines one by one, unpacked, in bounded memory; odd bytes become U+FFFD."""
    try:
        with _unpacked(file) as log:
            while piece := log.readline(_LONGEST_LINE_BYTES):
                yield piece.decode("utf-8", "replace").rstrip("\r\n")
                while piece and not piece.endswith(b"\n"):
                    piece = log.readline(_LONGEST_LINE_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"{file} can't be unpacked: {error}."
        raise InputError(message, hint="Is it still being packed? Then read it later.") from error
    except OSError as error:
        message = f"{file} can't be read: {error.strerror}."
        hint = "Its owner may have rotated it: read the log again."
        raise InputError(message, hint=hint) from error


def _unpacked(file: Path) -> BinaryIO:
    with file.open("rb") as log:
        packed = log.read(len(_GZIP)) == _GZIP
    return gzip.open(file) if packed else file.open("rb")  # type: ignore[return-value] # it reads alike


def _rotated(folder: Path, name: str) -> list[Path]:
    numbered = [
        (int(match[1]), file)
        for file in folder.iterdir()
        if (match := re.fullmatch(re.escape(name) + _OLD, file.name)) and file.is_file()
    ]
    newest = [folder / name] if (folder / name).is_file() else []
    return [file for _, file in sorted(numbered)] + newest


def _logs_elsewhere(folder: Path) -> list[Path]:
    """Return the files of a store's log in its ``db_log_dir``, if it has one."""
    try:
        elsewhere = log_folder(folder)
        names = [] if elsewhere is None else logs_of(folder, elsewhere)
    except OSError as error:
        message = f"The log of the store {folder} can't be read: {error}."
        hint = "Its OPTIONS file says where the log is (db_log_dir); give the LOG file itself."
        raise InputError(message, hint=hint) from error
    if elsewhere is None:
        return []
    found = [file for name in names for file in _rotated(elsewhere, name)]
    if not found:
        message = f"No log of the store {folder} in {elsewhere} (db_log_dir)."
        there = ", ".join(sorted(each.name for each in elsewhere.glob("*_LOG"))[:3])
        raise InputError(message, hint=f"Give the LOG file itself; it has {there or 'none'}.")
    return found


def _logs_of_spark(folder: Path) -> list[Path]:
    """Return the logs in a folder by the first time that each tells: names are anyone's.

    Spark's times are of whole seconds; in the same one, what was changed last comes last.
    """
    found = [each for each in folder.iterdir() if _OF_SPARK.fullmatch(each.name) and each.is_file()]
    return sorted(found, key=lambda each: (_first_time(each), each.stat().st_mtime_ns))


def _begins(text: str) -> bool:
    """Return whether a line of a log begins here, whoever wrote it."""
    return _time_of(text) is not None or any(not line.continued for line in lines_of(text))


def _first_time(file: Path) -> str:
    head = islice(text_lines(file), _LINES_TO_A_TIME)
    return next((str(time) for line in head if (time := _time_of(line))), "")


def logged_level(folder: Path) -> str | None:
    """Return the log level that the newest OPTIONS file of a folder says; None if there is none."""
    with suppress(OSError):
        return store_option(folder, "info_log_level").removesuffix("_LEVEL").lower() or None
    return None


Event = dict[str, Any]
"""The fields of an event as they were logged; versions of RocksDB differ in which there are."""

_TOO_LARGE = 1 << 64  # RocksDB's own numbers have 64 bits


def event_of(text: str) -> Event | None:
    """Return the event that a line tells; None if it tells none, or is torn."""
    if not text.startswith(_EVENT):
        return None
    try:
        event = json.loads(text[len(_EVENT) :])
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


_SETTER = (
    "in Kafka Streams, a RocksDBConfigSetter with "
    "options.setInfoLogLevel(InfoLogLevel.INFO_LEVEL); changes that"
)
_SPARK = (
    "Spark hands on what the logger org.apache.spark.sql.execution.streaming.state takes: "
    "INFO for stalls, DEBUG for events"
)


def why_untold(needed: str, files: Sequence[LogFile], options_level: str | None) -> str | None:
    """Return why a log can't tell all that is logged at a level; None if it can.

    A line that is there proves the level; else the OPTIONS file beside the log says it.
    """
    silent = [file for file in files if not _reaches(file.level, needed)]
    if files and not silent:
        return None
    if len(silent) < len(files):
        names = ", ".join(file.path.rpartition("/")[2] for file in silent)
        return f"nothing in {names} shows that the writer's level was {needed.upper()} then"
    if any(file.forwarded for file in files):
        return f"no line of level {needed.upper()} was handed on; {_SPARK}"
    if options_level is None:
        is_telling = any(file.rocksdb_version or file.level for file in files)
        is_empty = not any(file.size_bytes for file in files)
        way = _SETTER if is_telling or is_empty else _SPARK
        return f"the log shows no line of level {needed.upper()}, nor its level; {way}"
    if _reaches(options_level, needed):
        return None
    return f"the writer logs at level {options_level.upper()}, which leaves them out; {_SETTER}"


def _reaches(level: str | None, needed: str) -> bool:
    return level in _LEVELS and _LEVELS.index(level) <= _LEVELS.index(needed)


_MOST_OPTIONS = 10_000
_VERSION = "RocksDB version:"
_COMPILED = "Compile date"
_OPTIONS_OF_FAMILY = re.compile(r"-{3,40} Options for column family \[(.{0,200})\]:")
_OPTION = re.compile(r"\s{0,80}Options\.([\w.\[\] ]{1,100}): ?(.{0,1000})")
_TABLE = re.compile(r"\s{0,80}table_factory options:")
_OF_TABLE = re.compile(r"\s{1,80}([a-z]\w{0,80}) ?: ?(.{1,1000})")
_OF_LEVEL_INFO = re.compile(
    r"EVENT_LOG_v1 |\[JOB [0-9]|Creating manifest|Recovering from manifest|Level summary"
)
_NOT_ENDED = "it is no LOG.old.<microseconds>: it may still be written to"
_NO_HEAD = "the file doesn't begin with RocksDB's header"
_WHY_UNKNOWN = {
    "rocksdb_version": _NO_HEAD,
    "compiled": _NO_HEAD,
    "began_at": NO_ZONE,
    "utc_offset": NO_ZONE,
    "level": "it holds only the header, which some versions of RocksDB write at any level",
}


@dataclass(frozen=True, slots=True)
class LoggedOption(Record):
    """An option as the log tells it, in RocksDB's own words."""

    column_family: str | None
    name: str
    value: str = of_source(Source.LOG)


@dataclass(frozen=True, slots=True, repr=False)
class LogFile(Record):
    """One file of a log.

    Parameters
    ----------
    path, size_bytes, rocksdb_version, compiled
        Which, how large, and who wrote it.
    began_at, ended_at
        When its first line was written (UTC), and when RocksDB set it aside, as its name
        ``LOG.old.<microseconds>`` tells; None of the one that is written to.
    utc_offset
        By how much the writer's clock is ahead of UTC.
    level
        The least severe level of which it holds a line, up to the first event: ``"info"`` means
        that the writer leaves nothing out that is read here; None that no line shows it.
    forwarded
        Whether its lines came through Spark's log.
    options
        What the writer set, as it told.
    """

    path: str
    size_bytes: int = of_source(Source.LOG)
    rocksdb_version: str | None = of_source(Source.LOG)
    compiled: str | None = of_source(Source.LOG)
    began_at: datetime | None = of_source(Source.LOG)
    ended_at: datetime | None = of_source(Source.STORE)
    utc_offset: timedelta | None = of_source(Source.LOG)
    level: str | None = of_source(Source.LOG)
    forwarded: bool = of_source(Source.LOG)
    options: tuple[LoggedOption, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        began = self.began_at
        return (
            f"LogFile({self.path!r}, {format_bytes(self.size_bytes)}, "
            f"RocksDB {self.rocksdb_version or 'of unknown version'}, "
            f"level {(self.level or 'unknown').upper()}, "
            f"since {'an unknown time' if began is None else f'{began:%F %T} UTC'})"
        )


def log_file(path: Path, zone: tzinfo | None = None) -> LogFile:
    """Return what the head of a log file says."""
    head = _LogHead(zone)
    for text in text_lines(path):
        if any(head.take(line) for line in lines_of(text)):
            break
    return head.record(path)


class _LogHead:
    """The head of a file as far as it was read."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._clock = WriterClock(zone)
        self._first: LogLine | None = None
        self._told: dict[str, Any] = dict.fromkeys(_WHY_UNKNOWN)
        self._forwarded = False
        self._family: str | None = None
        self._of_table = False
        self._options: list[LoggedOption] = []

    def take(self, line: LogLine) -> bool:
        """Read a line, and return whether it is the first event."""
        if line.continued:
            self._keep(_OF_TABLE.match(line.text) if self._of_table else None)
            return False
        self._first = self._first or (line if line.written else None)
        self._forwarded |= line.native
        self._show(line)
        self._clock.learn(line)
        self._read(line.text)
        return line.text.startswith(_EVENT)

    def record(self, path: Path) -> LogFile:
        began = self._clock.utc(self._first) if self._first else None
        told = self._told | {"began_at": began, "utc_offset": self._offset(began)}
        nothing = None if self._first else "the file holds no line of RocksDB"
        unknown = {each: nothing or _WHY_UNKNOWN[each] for each in told if told[each] is None}
        aside = re.search(f"LOG{_OLD}$", path.name)  # in microseconds since 1970 UTC
        told["ended_at"] = of_micros(int(aside[1])) if aside else None
        unknown |= {} if told["ended_at"] else {"ended_at": _NOT_ENDED}
        return LogFile(
            str(path),
            path.stat().st_size,
            forwarded=self._forwarded,
            options=tuple(self._options),
            unknown=unknown,
            **told,
        )

    def _offset(self, began: datetime | None) -> timedelta | None:
        if began is None or self._first is None or self._first.written is None:
            return self._clock.offset
        return self._first.written - began.replace(tzinfo=None)

    def _show(self, line: LogLine) -> None:
        """Note how much the writer logs: what it logged is no more severe than its level."""
        if line.level == "info" and not (line.native or _OF_LEVEL_INFO.match(line.text)):
            return  # a header looks the same
        if line.level != "header":
            least = self._told["level"] or line.level
            self._told["level"] = min(line.level, least, key=_LEVELS.index)

    def _read(self, text: str) -> None:
        family, option = _OPTIONS_OF_FAMILY.match(text), _OPTION.fullmatch(text)
        table = _TABLE.match(text)
        self._of_table = table is not None
        if family:
            self._family = family[1]
        elif table:
            self._keep(_OF_TABLE.match(text[table.end() :]))
        elif option:
            self._keep(option)
        elif text.startswith(_VERSION):
            self._told["rocksdb_version"] = text.removeprefix(_VERSION).strip()
            self._family = None
        elif text.startswith(_COMPILED):
            self._told["compiled"] = text.removeprefix(_COMPILED).strip()

    def _keep(self, option: re.Match[str] | None) -> None:
        if option and len(self._options) < _MOST_OPTIONS:
            told = LoggedOption(self._family, option[1].strip(), option[2].strip())
            self._options.append(told)
