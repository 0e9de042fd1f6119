"""Where events come from: files, or anyone's DataFrame."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.event import Columns, Limits, limits_of, storable
from kstoolkit.events.opening import format_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kstoolkit.events.times import TimeUnit
    from kstoolkit.units import Duration

_LONGEST_NAME_BYTES = 60  # as part of a folder's name, each may become three


@dataclass(frozen=True, slots=True)
class Files:
    """Files of events: JSON lines, CSV or Parquet; the fields are as :func:`files` takes them."""

    path: str
    columns: Columns
    file_format: str | None
    limits: Limits


@dataclass(frozen=True, slots=True)
class Frame:
    """Anyone's DataFrame of events, batch or streaming; its fields are as of :func:`frame`."""

    df: DataFrame
    columns: Columns
    limits: Limits
    name: str = "frame"


def files(
    path: str | os.PathLike[str],
    *,
    event_time: str,
    user: str,
    action: str | Sequence[str],
    format: str | None = None,  # noqa: A002 - what Spark and pandas call it
    max_future: Duration | None = None,
    max_text_bytes: int = 1024,
    time_unit: TimeUnit | None = None,
    input_timezone: str | None = None,
) -> Files:
    """Return files as a source of events.

    Parameters
    ----------
    path
        A file, a folder (searched to the bottom) or a glob; plain, gzip or zstd.
    event_time, user, action
        Which column is what: a name, or a Spark SQL expression such as ``"lower(user)"``. Plain
        names are the fast way: such events never enter the JVM. An action may have several parts:
        a list of them, expressions with their names, as ``["region", "lower(op) AS operation"]``;
        a part that is null counts as none.
    format
        ``"json"`` (one object a line), ``"csv"`` (with a header) or ``"parquet"``; told from the
        names if not given.
    max_future
        How far ahead of the wall clock a time may be; by default five minutes live, a day bounded.
    max_text_bytes
        How long a user or an action may be, in UTF-8.
    time_unit
        Unit of epoch times, ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``; else told from their size.
    input_timezone
        The zone of times that have none, such as ``"Europe/Prague"``; UTC by default.

    Examples
    --------
    >>> files("data/sample", event_time="time", user="user", action="action").columns.user
    'user'
    """
    if format is not None:
        format_of("", format)
    limits = limits_of(max_future, max_text_bytes, time_unit, input_timezone)
    return Files(os.fspath(path), Columns.of(event_time, user, action), format, limits)


def frame(
    df: DataFrame,
    *,
    event_time: str,
    user: str,
    action: str | Sequence[str],
    max_future: Duration | None = None,
    max_text_bytes: int = 1024,
    time_unit: TimeUnit | None = None,
    input_timezone: str | None = None,
    name: str = "frame",
) -> Frame:
    """Return a DataFrame, batch or streaming, as a source of events.

    Parameters
    ----------
    name
        What a run knows a batch DataFrame by: one of a name is taken in once, and goes on if it was
        not to its end; one of another name is added. A streaming one goes on by its checkpoint.
    event_time, user, action, max_future, max_text_bytes, time_unit, input_timezone
        As of :func:`files`.
    """
    size_bytes = len(name.encode(errors="replace"))
    if not 0 < size_bytes <= _LONGEST_NAME_BYTES or storable(name) != name:
        message = f"The frame's name has {size_bytes} bytes of UTF-8, or some that are none."
        raise ConfigurationError(message, hint=f"Give 1 to {_LONGEST_NAME_BYTES}.")
    limits = limits_of(max_future, max_text_bytes, time_unit, input_timezone)
    return Frame(df, Columns.of(event_time, user, action), limits, name)
