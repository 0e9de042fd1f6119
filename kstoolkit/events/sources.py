"""Where events come from: files, or anyone's DataFrame."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.event import UNITS, Columns, Limits
from kstoolkit.events.opening import FORMATS
from kstoolkit.units import Duration, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kstoolkit.events.event import TimeUnit


_PLAIN = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Files:
    """Files of events: JSON lines, CSV or Parquet.

    Parameters
    ----------
    path
        A file, folder or glob.
    columns
        Which column is what; plain names, or Spark SQL expressions.
    file_format
        ``"json"``, ``"csv"`` or ``"parquet"``; told from each file's name if ``None``.
    limits
        What an event may look like.
    """

    path: str
    columns: Columns
    file_format: str | None
    limits: Limits


@dataclass(frozen=True, slots=True)
class Frame:
    """Anyone's DataFrame of events, batch or streaming.

    Parameters
    ----------
    df
        The DataFrame.
    columns
        Which column is what; names, or Spark SQL expressions.
    limits
        What an event may look like.
    """

    df: DataFrame
    columns: Columns
    limits: Limits


def files(
    path: str | os.PathLike[str],
    *,
    event_time: str,
    user: str,
    action: str,
    format: str | None = None,  # noqa: A002 - what Spark and pandas call it
    max_future: Duration = "1 day",
    max_text_bytes: int = 1024,
    time_unit: TimeUnit | None = None,
) -> Files:
    """Return files as a source of events.

    Parameters
    ----------
    path
        A file, a folder (searched to the bottom) or a glob; plain, gzip or zstd.
    event_time, user, action
        Which column is what: a name, or a Spark SQL expression such as ``"lower(user)"``. Plain
        names are the fast way: such events never enter the JVM.
    format
        ``"json"`` (one object a line), ``"csv"`` (with a header) or ``"parquet"``; told from the
        names if not given.
    max_future
        How far in the future, by the wall clock, a time may lie.
    max_text_bytes
        How long a user or an action may be, in UTF-8.
    time_unit
        Unit of epoch times, ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``; told from their size if not
        given.

    Examples
    --------
    >>> files("data/sample", event_time="time", user="user", action="action").columns.user
    'user'
    """
    if format is not None and format not in FORMATS:
        message = f"The format {format!r} is unknown."
        raise ConfigurationError(message, hint=f"Known formats: {', '.join(FORMATS)}.")
    limits = limits_of(max_future, max_text_bytes, time_unit)
    return Files(os.fspath(path), Columns(event_time, user, action), format, limits)


def frame(
    df: DataFrame,
    *,
    event_time: str,
    user: str,
    action: str,
    max_future: Duration = "1 day",
    max_text_bytes: int = 1024,
    time_unit: TimeUnit | None = None,
) -> Frame:
    """Return a DataFrame, batch or streaming, as a source of events.

    The options are those of :func:`files`.
    """
    limits = limits_of(max_future, max_text_bytes, time_unit)
    return Frame(df, Columns(event_time, user, action), limits)


def is_plain(columns: Columns) -> bool:
    """Whether all columns are plain names, and none an SQL expression.

    Examples
    --------
    >>> is_plain(Columns("time", "user", "action")), is_plain(Columns("time", "lower(u)", "a"))
    (True, False)
    """
    return all(_PLAIN.fullmatch(name) for name in columns)


def limits_of(max_future: Duration, max_text_bytes: int, time_unit: TimeUnit | None) -> Limits:
    """Return what an event may look like.

    Raises
    ------
    ConfigurationError
        If one of them makes no sense.
    """
    if max_text_bytes < 1:
        message = f"max_text_bytes is {max_text_bytes}: no user would be short enough."
        raise ConfigurationError(message, hint="Give 1 or more; the default is 1024.")
    if time_unit not in {None, *UNITS}:
        message = f"The unit of time {time_unit!r} is unknown."
        raise ConfigurationError(message, hint=f"Known units: {', '.join(UNITS)}.")
    return Limits(parse_duration(max_future, allow_zero=True), max_text_bytes, time_unit)
