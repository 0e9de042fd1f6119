"""What a log file says of the store's opening: RocksDB's version, the options, the level it shows.

Read up to the first event; RocksDB writes the same head into every file that it begins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.log.clock import NO_ZONE, WriterClock
from kstoolkit.rocksdb.log.files import text_lines
from kstoolkit.rocksdb.log.lines import lines_of
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from datetime import datetime, timedelta, tzinfo
    from pathlib import Path

    from kstoolkit.rocksdb.log.lines import LogLine


_MOST_OPTIONS = 10_000
_VERSION = "RocksDB version:"
_COMPILED = "Compile date"
_EVENT_LINE = "EVENT_LOG_v1 "
_OPTIONS_OF_FAMILY = re.compile(r"-{3,40} Options for column family \[(.{0,200})\]:")
_OPTION = re.compile(r"\s{0,80}Options\.([\w.\[\] ]{1,100}): ?(.{0,1000})")
_TABLE = re.compile(r"\s{0,80}table_factory options:")
_OF_TABLE = re.compile(r"\s{1,80}([a-z]\w{0,80}) ?: ?(.{1,1000})")
_SEVERITY = ("debug", "info", "warn", "error", "fatal")
_FIGURES = ("rocksdb_version", "compiled", "began_at", "utc_offset", "level")
_OF_LEVEL_INFO = re.compile(
    r"EVENT_LOG_v1 |\[JOB [0-9]|Creating manifest|Recovering from manifest|Level summary"
)
_HEADER_ONLY = "it holds only the header, which some versions of RocksDB write at any level"


@dataclass(frozen=True, slots=True)
class ToldOption(Record):
    """An option as the log tells it, in RocksDB's own words."""

    column_family: str | None
    name: str
    value: str = of_source(Source.LOG)


@dataclass(frozen=True, slots=True, repr=False)
class LogFile(Record):
    """One file of a log.

    Parameters
    ----------
    path, size_bytes
        Which, and how large.
    rocksdb_version, compiled
        Of the writer.
    began_at
        When its first line was written (UTC).
    utc_offset
        By how much the writer's clock is ahead of UTC.
    level
        The least severe level of which it holds a line, up to the first event: ``"info"`` means
        that the writer leaves nothing out that is read here; None that no line shows it.
    forwarded
        Whether its lines came through Spark's log.
    options
        What the writer set, as it told.
    unknown
        Why a figure is unknown, by its name.
    """

    path: str
    size_bytes: int = of_source(Source.LOG)
    rocksdb_version: str | None = of_source(Source.LOG)
    compiled: str | None = of_source(Source.LOG)
    began_at: datetime | None = of_source(Source.LOG)
    utc_offset: timedelta | None = of_source(Source.LOG)
    level: str | None = of_source(Source.LOG)
    forwarded: bool = of_source(Source.LOG)
    options: tuple[ToldOption, ...] = ()
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
    """Return what the head of a log file says.

    Parameters
    ----------
    path
        The file.
    zone
        The writer's time zone, if it is known from elsewhere.

    Raises
    ------
    InputError
        If the file can't be read.
    """
    head = _Head(zone)
    for text in text_lines(path):
        if any(head.take(line) for line in lines_of(text)):
            break
    return head.record(path)


class _Head:
    """The head of a file as far as it was read."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._clock = WriterClock(zone)
        self._first: LogLine | None = None
        self._version: str | None = None
        self._compiled: str | None = None
        self._level: str | None = None
        self._forwarded = False
        self._family: str | None = None
        self._of_table = False
        self._options: list[ToldOption] = []

    def take(self, line: LogLine) -> bool:
        """Read a line, and return whether it is the first event."""
        if line.continued:
            self._table_option(_OF_TABLE.match(line.text) if self._of_table else None)
            return False
        self._first = self._first or (line if line.written else None)
        self._forwarded |= line.native
        self._show(line)
        self._clock.learn(line)
        self._read(line.text)
        return line.text.startswith(_EVENT_LINE)

    def record(self, path: Path) -> LogFile:
        """Return what the head said."""
        began = self._clock.utc(self._first) if self._first else None
        values = {
            "rocksdb_version": self._version,
            "compiled": self._compiled,
            "began_at": began,
            "utc_offset": self._offset(began),
            "level": self._level,
        }
        whys = self._whys()
        unknown = {name: whys[name] for name, value in values.items() if value is None}
        return LogFile(
            str(path),
            path.stat().st_size,
            forwarded=self._forwarded,
            options=tuple(self._options),
            unknown=unknown,
            **values,  # type: ignore[arg-type] # by name
        )

    def _offset(self, began: datetime | None) -> timedelta | None:
        if began is None or self._first is None or self._first.written is None:
            return self._clock.offset
        return self._first.written - began.replace(tzinfo=None)

    def _whys(self) -> dict[str, str]:
        if self._first is None:
            return dict.fromkeys(_FIGURES, "the file holds no line of RocksDB")
        no_head = "the file doesn't begin with RocksDB's header"
        return {
            "rocksdb_version": no_head,
            "compiled": no_head,
            "began_at": NO_ZONE,
            "utc_offset": NO_ZONE,
            "level": _HEADER_ONLY,
        }

    def _show(self, line: LogLine) -> None:
        """Note how much the writer logs: what it logged is no more severe than its level."""
        level = line.level
        if level == "info" and not (line.native or _OF_LEVEL_INFO.match(line.text)):
            return  # a header looks the same
        if level in _SEVERITY and (
            self._level is None or _SEVERITY.index(level) < _SEVERITY.index(self._level)
        ):
            self._level = level

    def _read(self, text: str) -> None:
        family, option = _OPTIONS_OF_FAMILY.match(text), _OPTION.fullmatch(text)
        table = _TABLE.match(text)
        self._of_table = table is not None
        if family:
            self._family = family[1]
        elif table:
            self._table_option(_OF_TABLE.match(text[table.end() :]))
        elif option:
            self._keep(option[1].strip(), option[2].strip())
        elif text.startswith(_VERSION):
            self._version = text.removeprefix(_VERSION).strip()
            self._family = None
        elif text.startswith(_COMPILED):
            self._compiled = text.removeprefix(_COMPILED).strip()

    def _table_option(self, match: re.Match[str] | None) -> None:
        if match:
            self._keep(match[1], match[2].strip())

    def _keep(self, name: str, value: str) -> None:
        if len(self._options) < _MOST_OPTIONS:
            self._options.append(ToldOption(self._family, name, value))
