"""What is to be sent: the records of files or of a simulation, and whether they will do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.files import check_columns, list_files
from kstoolkit.events.records import read_raw_records, simulated_records
from kstoolkit.events.simulator import Simulation
from kstoolkit.events.sources import Files, files, is_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.events.event import TimeUnit
    from kstoolkit.events.records import RawRecords


Events = Files | Simulation | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""What can be sent: files, a path or several, or a simulation."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Records to send: of a simulation, or of files in their order."""

    simulation: Simulation | None
    source: Files | None
    paths: tuple[str, ...] = ()

    def records(self) -> Iterator[RawRecords]:
        """Yield the records.

        Raises
        ------
        InputError
            If a file can't be read to its end; the ones before that are sent by then.
        """
        if self.simulation is not None:
            yield from simulated_records(self.simulation)
        if self.source is not None:
            for path in self.paths:
                yield from _of_file(path, self.source)


def outgoing(
    events: Events,
    *,
    event_time: str | None,
    user: str | None,
    file_format: str | None,
    time_unit: TimeUnit | None,
) -> Outgoing:
    """Return what is to be sent, after a look at it.

    Raises
    ------
    ConfigurationError
        If a column is not named where it must be, or is an expression; or this can't be sent.
    InputError
        If there are no events.
    ColumnError
        If none of the first records has a column.
    """
    if isinstance(events, Simulation | Files):
        if any(each is not None for each in (event_time, user, file_format, time_unit)):
            message = f"{type(events).__name__} say by themselves which columns are what."
            raise ConfigurationError(message, hint="Say it there alone.")
        if isinstance(events, Files):
            return _of_files(events, [events.path])
        return Outgoing(events, None)
    if event_time is None or user is None:
        message = "Of files it must be said which columns are the event time and the user."
        raise ConfigurationError(message, hint="Give event_time= and user=.")
    given = _paths(events)
    source = files(
        given[0],
        event_time=event_time,
        user=user,
        action=user,
        format=file_format,
        time_unit=time_unit,
    )
    return _of_files(source, given)


def _paths(events: object) -> list[str]:
    paths = [events] if isinstance(events, str | os.PathLike) else events
    if not isinstance(paths, Sequence) or not paths:
        message = f"{type(events).__name__} can't be sent."
        raise ConfigurationError(message, hint="Give files, a path or several, or a simulation.")
    return [os.fspath(path) for path in paths]


def _of_files(source: Files, given: list[str]) -> Outgoing:
    if not is_plain(source.columns):
        named = ", ".join(map(repr, dict.fromkeys(source.columns)))
        message = f"Not all of these columns are plain names: {named}."
        raise ConfigurationError(message, hint="Name columns of the files: no Spark is asked here.")
    found = [path for each in given for path in list_files(each, source.file_format)]
    paths = tuple(dict.fromkeys(found))
    if not any(Path(path).stat().st_size for path in paths):
        why = "all files are empty" if paths else "no file there has a known format"
        message = f"No events in {', '.join(map(repr, given))}: {why}."
        hint = "Files end in .json, .jsonl, .csv or .parquet (and .gz, .zst)."
        raise InputError(message, hint=hint)
    check_columns(paths, source.columns, source.file_format)
    return Outgoing(None, source, paths)


def _of_file(path: str, source: Files) -> Iterator[RawRecords]:
    columns, limits = source.columns, source.limits
    read = read_raw_records(
        path, columns, file_format=source.file_format, time_unit=limits.time_unit
    )
    try:
        yield from read
    except OSError as error:
        message = f"{path} can't be read to its end: {error.strerror or error}."
        raise InputError(message, hint="Mend it, or leave it out.") from error
