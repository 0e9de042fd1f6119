"""A store's log, read: flushes, compactions, stalls, statistics, and what it can't tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.rocksdb.log.jobs import Compaction, Flush, LogRows, Stall, jobs
from kstoolkit.rocksdb.log.lines import (
    NO_ZONE,
    LogFile,
    LoggedOption,
    LogLine,
    WriterClock,
    lines_of,
    log_file,
    log_files,
    logged_level,
    text_lines,
    why_untold,
)
from kstoolkit.rocksdb.log.stats import (
    StallTime,
    StatsDump,
    WriteAmplification,
    stall_time,
    stats_dumps,
    write_amplification,
)
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from datetime import timedelta, tzinfo


LogEvent = Flush | Compaction | Stall
"""What a log tells of; each has ``at``, ``kind`` and ``sentence``."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StoreLog(Record):
    """A log, whose lines are read when they are asked for, one at a time.

    Parameters
    ----------
    path
        The store's folder, or the file.
    num_files, size_bytes
        Its files, and what they take.
    rocksdb_version, compiled
        Of the last writer.
    began_at
        When the oldest line was written (UTC).
    utc_offset
        By how much the writer's clock was ahead of UTC at last.
    level
        The level that the lines show; see :class:`LogFile`.
    options_level
        The level that the newest OPTIONS file in the folder says.
    files
        Each file, oldest first.
    zone
        The writer's time zone, if it was given.

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
    zone: tzinfo | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, as ``--json`` prints them."""
        return Record.to_dict(self) | {"zone": None if self.zone is None else str(self.zone)}

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
        found = [each for each in self._jobs() if isinstance(each, Flush)]
        return LogRows(found, "flushes", self._untold("info"))

    def compactions(self) -> LogRows[Compaction]:
        """Return the compactions and trivial moves, in the order in which they ended."""
        found = [each for each in self._jobs() if isinstance(each, Compaction)]
        return LogRows(found, "compactions", self._untold("info"))

    def stalls(self) -> LogRows[Stall]:
        """Return where stalls began."""
        found = [stall for at, line in self.stamped_lines() if (stall := Stall.of_line(line, at))]
        return LogRows(found, "stalls", self._untold("warn"))

    def events(self) -> LogRows[LogEvent]:
        """Return flushes, compactions, moves and stalls in order of time; each says its kind."""
        found = [*self._jobs(), *self.stalls()]
        found.sort(key=lambda each: each.at or getattr(each, "finished_at", None) or _LONG_AGO)
        return LogRows(found, "events", self._untold("info"))

    def stats(self) -> LogRows[StatsDump]:
        """Return the dumps of statistics."""
        found = list(stats_dumps(self.stamped_lines()))
        return LogRows(found, "dumps of statistics", self._untold("info"))

    def stall_time(self) -> StallTime:
        """Return for how long writers waited in all, as the dumps of statistics tell."""
        return stall_time(stats_dumps(self.stamped_lines()), self._untold("info"))

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
        shown = self.level in {"debug", "info"}
        untold = None if shown else self._untold("info")
        return write_amplification(self._jobs(), untold, since=since, until=until)

    def summed_up(self) -> dict[str, Any]:
        """Return as plain values the log without its files, what was written, and stall time."""
        parts = [self.to_dict(), self.write_amplification().to_dict(), self.stall_time().to_dict()]
        whole = {name: value for part in parts for name, value in part.items() if name != "files"}
        whys = {name: why for part in parts for name, why in part["unknown"].items()}
        return whole | {"unknown": whys}

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


def read_log(path: str | os.PathLike[str], *, zone: tzinfo | None = None) -> StoreLog:
    """Return the log of a store.

    Parameters
    ----------
    path
        A store's folder, of which LOG and all LOG.old.* are read, in its ``db_log_dir`` too; or one
        such file; or a log of Spark, in which RocksDB's lines begin with
        ``[NativeRocksDB-<level>]``; or a folder of such, rolled and packed (``.gz``) or not.
    zone
        The writer's time zone. By default it is learned from the events in the log.

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
    files = _heads(log_files(place), zone)
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
        zone=zone,
        unknown=unknown,
        **values,  # type: ignore[arg-type] # by name
    )


def _heads(paths: list[Path], zone: tzinfo | None) -> list[LogFile]:
    """Return the heads; a file without an event is taken to be of the zone of the others."""
    files = [log_file(path, zone) for path in paths]
    offset = next((each.utc_offset for each in files if each.utc_offset is not None), None)
    if offset is None:
        return files
    others = timezone(offset)
    return [
        log_file(path, others) if each.utc_offset is None else each
        for path, each in zip(paths, files, strict=True)
    ]


def _last(files: list[LogFile], name: str) -> object:
    """Return the newest value that a file tells."""
    return next((v for file in reversed(files) if (v := getattr(file, name)) is not None), None)
