"""A store's log, read: flushes, compactions, stalls, errors, statistics, and what it can't tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kstoolkit.moments import moment_ms, moment_of
from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.rocksdb.log.jobs import Compaction, Flush, LoggedError, LogRows, Stall, jobs
from kstoolkit.rocksdb.log.lines import (
    NO_ZONE,
    WriterClock,
    lines_of,
    log_file,
    log_files,
    logged_level,
    text_lines,
    why_untold,
)
from kstoolkit.rocksdb.log.stats import stall_time, stats_dumps, write_amplification
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from datetime import timedelta, tzinfo

    from kstoolkit.moments import Moment
    from kstoolkit.rocksdb.log.lines import LogFile, LoggedOption, LogLine
    from kstoolkit.rocksdb.log.stats import StallTime, StatsDump, WriteAmplification

LogEvent = Flush | Compaction | Stall | LoggedError
"""What a log tells of; each has ``at``, ``kind`` and ``sentence``."""

_Row = TypeVar("_Row", bound=Record)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_SPAN = ("path", "size_bytes", "began_at", "ended_at")


@dataclass(frozen=True, slots=True)
class StoreLog(Record):
    """A log, whose lines are read when they are asked for, one at a time.

    Parameters
    ----------
    path, num_files, size_bytes
        The store's folder, or the file; its files, and what they take.
    rocksdb_version, compiled, utc_offset
        Of the last writer, and by how much its clock was ahead of UTC.
    began_at
        When the oldest line was written (UTC).
    level, options_level
        The level that the lines show (see :class:`LogFile`), and what the newest OPTIONS file says.
    files, rotated
        Each file that is read, oldest first; each ``LOG.old.*`` that is not: nobody asked for it.
    read_since, zone
        From when on (UTC; None: all of the LOG written to), and the writer's time zone, if given.

    Notes
    -----
    In a log of Spark's the lines of all stores of a process stand together. The name of the logger
    tells them apart, if the log's pattern keeps it (``%c``); else figures are of all of them, and
    jobs with the same number may be mistaken for one another.
    """

    path: str
    num_files: int = of_source(Source.LOG)
    size_bytes: int = of_source(Source.LOG)
    rocksdb_version: str | None = of_source(Source.LOG)
    compiled: str | None = of_source(Source.LOG)
    began_at: datetime | None = of_source(Source.LOG)
    utc_offset: timedelta | None = of_source(Source.LOG)
    level: str | None = of_source(Source.LOG)
    options_level: str | None = of_source(Source.OPTIONS)
    files: Records[LogFile] = field(default_factory=lambda: Records([], "files"))
    rotated: Records[LogFile] = field(default_factory=lambda: Records([], "files"))
    read_since: datetime | None = None
    zone: tzinfo | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, as ``--json`` prints them."""
        spans = [{name: each[name] for name in _SPAN} for each in self.rotated.to_dicts()]
        zone = None if self.zone is None else str(self.zone)
        return Record.to_dict(self) | {"rotated": spans, "zone": zone}

    def stamped_lines(self) -> Iterator[tuple[datetime | None, LogLine]]:
        """Yield each line with when it was logged (UTC; None: unknown), in bounded memory."""
        clock = WriterClock(self.zone)
        for file in self.files:
            clock.offset = clock.offset if file.utc_offset is None else file.utc_offset
            for text in text_lines(Path(file.path)):
                for line in lines_of(text):
                    clock.learn(line)
                    yield clock.utc(line), line

    def options(self) -> Records[LoggedOption]:
        """Return what the last writer set, as it told when it opened the store."""
        told = [file.options for file in self.files if file.options]
        return Records(told[-1] if told else (), "options")

    def flushes(self) -> LogRows[Flush]:
        """Return the flushes, in the order in which they ended."""
        found = [each for each in self._kept(self._jobs()) if isinstance(each, Flush)]
        return LogRows(found, "flushes", self._untold("info"))

    def compactions(self) -> LogRows[Compaction]:
        """Return the compactions and trivial moves, in the order in which they ended."""
        found = [each for each in self._kept(self._jobs()) if isinstance(each, Compaction)]
        return LogRows(found, "compactions", self._untold("info"))

    def stalls(self) -> LogRows[Stall]:
        """Return where stalls began."""
        found = (Stall.of_line(line, at) for at, line in self.stamped_lines())
        return LogRows(self._kept(filter(None, found)), "stalls", self._untold("warn"))

    def errors(self) -> LogRows[LoggedError]:
        """Return the errors: a writer at level ERROR, as Kafka Streams, logs nothing else.

        A disk that is full to the last byte takes no line either.
        """
        found = (LoggedError.of_line(line, at) for at, line in self.stamped_lines())
        return LogRows(self._kept(filter(None, found)), "errors", self._untold("error"))

    def events(self) -> LogRows[LogEvent]:
        """Return jobs, moves, stalls and errors in order of time; each says its kind."""
        found: list[LogEvent] = [*self._kept(self._jobs()), *self.stalls(), *self.errors()]
        found.sort(key=lambda each: each.at or getattr(each, "finished_at", None) or _LONG_AGO)
        return LogRows(found, "events", self._untold("info"))

    def stats(self) -> LogRows[StatsDump]:
        """Return the dumps of statistics."""
        found = self._kept(stats_dumps(self.stamped_lines()))
        return LogRows(found, "dumps of statistics", self._untold("info"))

    def stall_time(self) -> StallTime:
        """Return for how long writers waited in all, as the dumps of statistics tell."""
        return stall_time(self.stats(), self._untold("info"))

    def write_amplification(
        self, *, since: datetime | None = None, until: datetime | None = None
    ) -> WriteAmplification:
        """Return how often a flushed byte was written, over what ended in a span.

        Parameters
        ----------
        since, until
            Aware times; ``until`` is outside. None: as far as the log goes.

        Raises
        ------
        ConfigurationError
            If a time has no zone.
        """
        untold = None if self.level in {"debug", "info"} else self._untold("info")
        return write_amplification(self._kept(self._jobs()), untold, since=since, until=until)

    def summed_up(self) -> dict[str, Any]:
        """Return as plain values the log without its files, and what its lines come to."""
        parts = [self.to_dict(), self.write_amplification().to_dict(), self.stall_time().to_dict()]
        whole = {name: value for part in parts for name, value in part.items() if name != "files"}
        whys = {name: why for part in parts for name, why in part["unknown"].items()}
        errors = self.errors()
        if not errors and errors.unknown:
            return whole | {"errors": None, "unknown": whys | {"errors": errors.unknown}}
        return whole | {"errors": len(errors), "unknown": whys}

    def _kept(self, rows: Iterable[_Row]) -> list[_Row]:
        """Return those of the time that is asked for; and those of which that is unknown."""
        since = self.read_since
        return [each for each in rows if since is None or (_when(each) or since) >= since]

    def _jobs(self) -> Iterator[Flush | Compaction]:
        return jobs(line for _, line in self.stamped_lines())

    def _untold(self, needed: str) -> str | None:
        return why_untold(needed, self.files, self.options_level)

    def __repr__(self) -> str:
        began = self.began_at
        return (
            f"StoreLog(RocksDB {self.rocksdb_version or 'of unknown version'}, "
            f"{self.num_files} file{'s' if self.num_files > 1 else ''}, "
            f"{format_bytes(self.size_bytes)}, "
            f"level {(self.level or self.options_level or 'unknown').upper()}, "
            f"since {'an unknown time' if began is None else f'{began:%F %T} UTC'})"
        )


def _when(event: object) -> datetime | None:
    """Return when something ended, or else began."""
    return getattr(event, "finished_at", None) or getattr(event, "at", None)


def read_log(
    path: str | os.PathLike[str], *, zone: tzinfo | None = None, since: Moment | None = None
) -> StoreLog:
    """Return the log of a store.

    Parameters
    ----------
    path
        A store's folder, of which LOG is read, in its ``db_log_dir`` too; or one such file; or a
        log of Spark, in which RocksDB's lines begin with ``[NativeRocksDB-<level>]``; or a folder
        of such, rolled and packed (``.gz``) or not.
    zone
        The writer's time zone. By default it is learned from the events in the log.
    since
        Read from then on, also what RocksDB set aside as LOG.old.*, as it does whenever a store is
        opened; by default those are only named.

    Raises
    ------
    InputError
        If there is no log, or it can't be read.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> line = "2026/11/21-08:08:24.4 7f [WARN] [default] Stopping writes because"
    >>> _ = Path(folder, "LOG").write_text(line)
    >>> log = read_log(folder)
    >>> log.num_files, log.level
    (1, None)
    """
    place = Path(path)
    begins = None if since is None else moment_of(moment_ms(since))
    heads = _heads(log_files(place), zone)
    since_then = begins or datetime.max.replace(tzinfo=UTC)
    files = [f for f in heads if f.ended_at is None or f.ended_at >= since_then] or heads[-1:]
    names = ("rocksdb_version", "compiled", "began_at", "utc_offset", "level")
    values = {name: _last(files, name) for name in names}
    values["began_at"] = next((file.began_at for file in files if file.began_at), None)
    whys = files[-1].unknown
    unknown = {name: whys.get(name, NO_ZONE) for name, value in values.items() if value is None}
    level = logged_level(place if place.is_dir() else place.parent)
    if level is None:
        unknown["options_level"] = "there is no OPTIONS file beside the log"
    return StoreLog(
        str(place),
        len(files),
        sum(file.size_bytes for file in files),
        options_level=level,
        files=Records(files, "files"),
        rotated=Records([each for each in heads if each not in files], "files"),
        read_since=begins,
        zone=zone,
        unknown=unknown,
        **values,  # type: ignore[arg-type] # by name
    )


_MARKED = re.compile(rb"\[(?:WARN|ERROR|FATAL)\]")


def count_errors(file: Path) -> int:
    """Return how many lines of a LOG tell of errors: no others are parsed."""
    with file.open("rb") as lines:
        marked = (each.decode("utf-8", "replace") for each in lines if _MARKED.search(each))
        told = (line for text in marked for line in lines_of(text))
        return sum(bool(LoggedError.of_line(line, None)) for line in told)


def _heads(paths: list[Path], zone: tzinfo | None) -> list[LogFile]:
    """Return the heads; a file without an event is taken to be of the zone of the others."""
    files = [log_file(path, zone) for path in paths]
    offset = next((each.utc_offset for each in files if each.utc_offset is not None), None)
    if offset is not None:
        others = timezone(offset)
        told = zip(paths, files, strict=True)
        files = [log_file(path, others) if f.utc_offset is None else f for path, f in told]
    return [_begun(file, before) for file, before in zip(files, [None, *files], strict=False)]


def _begun(file: LogFile, before: LogFile | None) -> LogFile:
    """Return a head with when it began: at the latest when RocksDB set the one before aside."""
    if file.began_at or before is None or before.ended_at is None:
        return file
    whys = {name: why for name, why in file.unknown.items() if name != "began_at"}
    return replace(file, began_at=before.ended_at, unknown=whys)


def _last(files: list[LogFile], name: str) -> object:
    """Return the newest value that a file tells."""
    return next((v for file in reversed(files) if (v := getattr(file, name)) is not None), None)
