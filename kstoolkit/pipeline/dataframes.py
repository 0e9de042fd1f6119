"""How often, in anyone's Spark session: windowed counts as functions from DataFrame to DataFrame.

Each function here returns a transformation, for ``events.transform(...)``, and all of them give
the same columns: ``window_start``, ``window_end`` (timestamps), ``user``, ``action``, ``count``
(long). They need nothing but ``pyspark.sql.functions``, so they work on batch DataFrames, on
streaming ones where Spark can, and over Spark Connect.

- Windows are aligned to the Unix epoch in UTC, whatever the session's time zone; that zone only
  decides how Spark shows a timestamp.
- An event without a time, user or action is not counted (with ``action=None`` its action does not
  matter). ``events.where("user IS NULL")`` finds such events.
- The columns keep the types that they had, so that the counts join with the user's own tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Window as Rows
from pyspark.sql import functions as sf
from pyspark.sql.types import TimestampNTZType, TimestampType

from kstoolkit.errors import ColumnError, ConfigurationError
from kstoolkit.units import Duration, check_whole, format_duration, parse_duration
from kstoolkit.windows import Hop, Window, as_window, countable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_BARE_USER = re.compile(r"(?<![\w.])user(?!\s*\(|[\w.])", re.IGNORECASE)
Transformation = Callable[["DataFrame"], "DataFrame"]
"""What ``DataFrame.transform`` takes."""

_US_PER_MS = 1_000
_KEYS = ("user", "action")


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The columns to count by: names or Spark SQL expressions, read from any DataFrame.

    Without ``action`` all actions are counted as one. A timestamp without a zone is UTC.
    """

    event_time: str
    user: str
    action: str | None

    def of(self, events: DataFrame) -> DataFrame:
        """Return ``time``, ``user`` and ``action`` of those events that have what is asked for."""
        named = {"time": self.event_time, "user": self.user, "action": self.action}
        given = {name: text for name, text in named.items() if text is not None}
        # Over all actions, the column is there all the same: null, as one group.
        whole = [] if "action" in given else [sf.lit(None).cast("string").alias("action")]
        wanted = _in_utc(selected(events, given, *whole), self.event_time)
        for name in given:
            wanted = wanted.where(sf.col(name).isNotNull())
        return wanted


def selected(events: DataFrame, given: dict[str, str], *beside: Column) -> DataFrame:
    """Return columns, or SQL expressions, under the names that they are given, and some beside."""
    try:
        columns = [column_of(events, text).alias(name) for name, text in given.items()]
        found = events.select(*columns, *beside)
        _ = found.schema  # over Connect, only this makes Spark look at the expressions
    except AnalysisException as error:
        raise unreadable(error, given, events) from error
    return found


def column_of(events: DataFrame, text: str) -> Column:
    """Return the column of that name, or the SQL expression that ``text`` is."""
    if text in events.columns:
        return sf.col("`" + text.replace("`", "``") + "`")
    known = {name.casefold() for name in events.columns}
    if text.isidentifier() and text.casefold() not in known:
        raise _missing(text, events)
    # Where there is no such column, Spark takes a bare USER for the name of whoever is logged in.
    login = _BARE_USER.search(_QUOTED.sub("''", text))
    if login and "user" not in known:
        raise _missing(login[0], events)
    return sf.expr(text)


def unreadable(
    error: AnalysisException, given: dict[str, str], events: DataFrame
) -> ColumnError | ConfigurationError:
    """Return what Spark has against columns, as an error that names the culprit."""
    missing = (error.getMessageParameters() or {}).get("objectName", "").replace("`", "")
    if missing and (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return _missing(missing, events)
    texts = ", ".join(f"{name}={text!r}" for name, text in given.items())
    message = f"Spark can't read {texts}: {str(error).strip().splitlines()[0]}"
    return ConfigurationError(message, hint="Give column names or Spark SQL expressions.")


def _missing(column: str, events: DataFrame) -> ColumnError:
    return ColumnError.missing(column, events.columns, "the DataFrame")


def _in_utc(selected: DataFrame, event_time: str) -> DataFrame:
    kind = selected.schema["time"].dataType
    if isinstance(kind, TimestampType):
        return selected
    if isinstance(kind, TimestampNTZType):
        # A plain cast would read it in the session's time zone, which may skip or repeat an hour.
        zoned = sf.concat(sf.col("time").cast("string"), sf.lit("Z"))
        return selected.withColumn("time", zoned.cast("timestamp"))
    message = f"The event time {event_time!r} is of type {kind.simpleString()}, not a timestamp."
    raise ConfigurationError(
        message,
        hint=f"Convert it, as in event_time='try_to_timestamp({event_time})' for text or "
        f"'timestamp_millis({event_time})' for milliseconds since 1970.",
    )


def count_windows(
    size: Duration,
    *,
    every: Duration | None = None,
    event_time: str = "time",
    user: str = "user",
    action: str | None = "action",
    lateness: Duration | None = None,
    min_count: int | None = None,
) -> Transformation:
    """Return a transformation that counts each user's actions in tumbling or hopping windows.

    A window holds the events with ``window_start <= time < window_end``.

    Parameters
    ----------
    size, every
        Length of a window, and how often one begins: ``size`` at most and by default.
    event_time
        Column name or Spark SQL expression of a timestamp; one without a time zone is in UTC.
    user, action
        Column names or Spark SQL expressions. ``action=None`` counts over all, its column null.
    lateness
        How far behind the newest event a stream still takes events: Spark's watermark, which
        append mode needs. Spark drops events that are later, and tells how many in the query's
        progress (``numRowsDroppedByWatermark``). Leave it out for a stream that has a watermark
        already: Spark refuses a second one. A batch counts every event, whatever is given here.
    min_count
        Leave out counts below this.

    Raises
    ------
    ConfigurationError
        If a duration or ``min_count`` makes no sense; when applied, if ``event_time`` is not a
        timestamp or Spark can't read an expression.
    ColumnError
        When applied, if the DataFrame lacks a column.

    Notes
    -----
    A batch sums hopping windows from panes, as long as the greatest common divisor of ``size`` and
    ``every``, so an event is read once and not ``size / every`` times. A stream lets Spark copy
    each event into all of its windows: panes would be a second aggregation, which rules out update
    mode. In a stream one event dated far ahead makes all others late: filter such out first.

    Examples
    --------
    >>> from kstoolkit.pipeline.session import spark_session
    >>> events = spark_session().sql('''
    ...     SELECT timestamp_seconds(at) AS time, 'ann' AS user, 'edit' AS action
    ...     FROM VALUES (10), (50), (70) AS t(at)''')
    >>> counts = events.transform(count_windows("1 minute")).sort("window_start")
    >>> [(row.window_start.timestamp(), row.user, row["count"]) for row in counts.collect()]
    [(0.0, 'ann', 2), (60.0, 'ann', 1)]
    """
    window = countable(as_window(size)) if every is None else Hop(size, every=every)

    def count(events: DataFrame) -> DataFrame:
        if window.is_tumbling or events.isStreaming:
            spans = sf.window("time", _interval(window.size_ms), _interval(window.every_ms))
            counted = events.groupBy(spans.alias("span"), *_KEYS).agg(_number("count"))
            return _spanned(counted, sf.col("span.start"), sf.col("span.end"))
        return _pane_sums(events, window)

    return _counting(EventColumns(event_time, user, action), count, lateness, min_count)


def count_sessions(
    gap: Duration,
    *,
    event_time: str = "time",
    user: str = "user",
    action: str | None = "action",
    lateness: Duration | None = None,
    min_count: int | None = None,
) -> Transformation:
    """Return a transformation that counts the events of each session of a user and action.

    A session ends after more than ``gap`` without an event. ``window_start`` is its first event,
    ``window_end`` its last plus ``gap``. With ``action=None`` sessions are the user's, over all.

    Spark streams sessions in append and complete mode, not in update mode. The other parameters
    and the errors are those of :func:`count_windows`.

    Examples
    --------
    >>> from kstoolkit.pipeline.session import spark_session
    >>> events = spark_session().sql('''
    ...     SELECT timestamp_seconds(at) AS time, 'ann' AS user, 'edit' AS action
    ...     FROM VALUES (10), (50), (170) AS t(at)''')
    >>> sessions = events.transform(count_sessions(gap="1 minute")).sort("window_start")
    >>> [(row.window_end.timestamp(), row["count"]) for row in sessions.collect()]
    [(110.0, 2), (230.0, 1)]
    """
    gap_ms = parse_duration(gap)

    def count(events: DataFrame) -> DataFrame:
        session = sf.session_window("time", _interval(gap_ms)).alias("session")
        counted = events.groupBy(session, *_KEYS).agg(_number("count"))
        return _spanned(counted, sf.col("session.start"), sf.col("session.end"))

    return _counting(EventColumns(event_time, user, action), count, lateness, min_count)


def count_sliding(
    size: Duration,
    *,
    event_time: str = "time",
    user: str = "user",
    action: str | None = "action",
    min_count: int | None = None,
) -> Transformation:
    """Return a transformation that counts, at each event, what the user did in the ``size`` before.

    Exact sliding windows: one row for each user, action and distinct event time ``t``, with
    ``window_end = t``, ``window_start = t - size`` and the number of that user's events of that
    action with ``window_start < time <= window_end``. No window of this length, wherever it lies,
    holds more events than the largest of these counts. For that maximum, go on with
    ``.groupBy("user", "action").agg(functions.max("count"))``.

    For batches only. The other parameters and errors are those of :func:`count_windows`.

    Raises
    ------
    ConfigurationError
        When applied to a stream, which Spark can't count like this.

    Notes
    -----
    The count is the running total at ``t`` less that at ``t - size``, so the work after one shuffle
    and one sort grows with the events, not with how many a window holds. All events of one user and
    action pass through one task, which spills to disk what memory can't hold.

    Examples
    --------
    >>> from kstoolkit.pipeline.session import spark_session
    >>> events = spark_session().sql('''
    ...     SELECT timestamp_seconds(at) AS time, 'ann' AS user, 'edit' AS action
    ...     FROM VALUES (10), (50), (70) AS t(at)''')
    >>> counts = events.transform(count_sliding("1 minute")).sort("window_end")
    >>> [(row.window_end.timestamp(), row["count"]) for row in counts.collect()]
    [(10.0, 1), (50.0, 2), (70.0, 2)]
    """
    size_ms = parse_duration(size)

    def count(events: DataFrame) -> DataFrame:
        if events.isStreaming:
            message = f"Exact sliding windows of {format_duration(size_ms)} can't follow a stream."
            hint = "Take hopping windows: count_windows('5 minutes', every='10 seconds')."
            raise ConfigurationError(message, hint=hint)
        return _running_differences(events, size_ms * _US_PER_MS)

    return _counting(EventColumns(event_time, user, action), count, None, min_count)


def _counting(
    columns: EventColumns, count: Transformation, lateness: Duration | None, min_count: int | None
) -> Transformation:
    """Return a transformation that counts events by their columns, as ``count`` does."""
    lateness_ms = None if lateness is None else parse_duration(lateness, allow_zero=True)
    if min_count is not None:
        check_whole("min_count", min_count, least=1, hint="Give 1 or more, or None for all counts.")

    def counted(events: DataFrame) -> DataFrame:
        wanted = columns.of(events)
        if lateness_ms is not None:
            wanted = wanted.withWatermark("time", _interval(lateness_ms))
        found = count(wanted)
        return found if min_count is None else found.where(sf.col("count") >= min_count)

    return counted


def _pane_sums(events: DataFrame, window: Window) -> DataFrame:
    size, every = window.size_ms * _US_PER_MS, window.every_ms * _US_PER_MS
    time, pane, start = sf.unix_micros("time"), sf.col("pane"), sf.col("start")
    panes = events.groupBy(_floor(time, window.pane_ms * _US_PER_MS).alias("pane"), *_KEYS)
    # Whole microseconds, since Spark steps from timestamp to timestamp by the session's calendar.
    first, last = _floor(pane - size, every) + every, _floor(pane, every)
    starts = sf.explode(sf.sequence(first, last, sf.lit(every))).alias("start")
    windows = panes.agg(_number("count")).select(starts, *_KEYS, "count").groupBy("start", *_KEYS)
    counted = windows.agg(sf.sum("count").alias("count"))
    return _spanned(counted, sf.timestamp_micros(start), sf.timestamp_micros(start + size))


def _floor(time: Column, step: int) -> Column:
    return time - sf.pmod(time, sf.lit(step))


def _running_differences(events: DataFrame, size_us: int) -> DataFrame:
    moments = events.groupBy(sf.unix_micros("time").alias("end"), *_KEYS).agg(_number("number"))
    rows = Rows.partitionBy(*_KEYS).orderBy("end")
    # Two frames that only grow: Spark adds up a frame from -size to 0 anew for each of its rows.
    until = sf.sum("number").over(rows.rangeBetween(Rows.unboundedPreceding, Rows.currentRow))
    before = sf.sum("number").over(rows.rangeBetween(Rows.unboundedPreceding, -size_us))
    counted = moments.withColumn("count", until - sf.coalesce(before, sf.lit(0)))
    end = sf.col("end")
    return _spanned(counted, sf.timestamp_micros(end - size_us), sf.timestamp_micros(end))


def _number(name: str) -> Column:
    return sf.count("*").alias(name)


def _spanned(counted: DataFrame, start: Column, end: Column) -> DataFrame:
    return counted.select(start.alias("window_start"), end.alias("window_end"), *_KEYS, "count")


def _interval(milliseconds: int) -> str:
    return f"{milliseconds} milliseconds"
