"""Counts joined with a table in event time: ask who did too much, unless they passed a check."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kstoolkit.counters.asks import Asks, moments
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import ConfigurationError
from kstoolkit.pipeline.dataframes import EventColumns
from kstoolkit.pipeline.datasources import ship_by_value
from kstoolkit.pipeline.operator import StateBlocks
from kstoolkit.pipeline.shuffle import spare_collector
from kstoolkit.units import Duration, check_whole, parse_duration
from kstoolkit.windows import Hop, Window, as_window, countable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession

    from kstoolkit.counters.bucket import Blocks

_BUCKETS = 16
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_DECISION_DDL = "user string, window_start_ms long, count long, asked boolean"


def ask_unless(
    passes: DataFrame,
    size: Duration | Window,
    *,
    at_least: int,
    every: Duration | None = None,
    event_time: str = "time",
    user: str = "user",
    lateness: Duration = "10 minutes",
    keep: Duration = "1 day",
    buckets: int = _BUCKETS,
) -> Callable[[DataFrame], DataFrame]:
    """Return a transformation that says whom to ask: who did it often, and has not passed since.

    The counts of each user's requests in tumbling or hopping windows are left-joined with the
    user's latest pass. A user is asked for a window of ``at_least`` requests unless they have
    passed at its start or later; a pass that comes later clears what was asked. All of it goes by
    event time: the order in which requests and passes come makes no difference.

    The columns are ``user`` (string), ``window_start``, ``window_end`` (timestamps), ``count``
    (long) and ``asked`` (boolean). There is one row when a window first has ``at_least`` requests,
    with the count then, and a second one, ``asked`` being false, if it was asked and is cleared. So
    the latest row of a user and window holds, and those with ``asked`` are whom to ask now.

    Parameters
    ----------
    passes
        When users passed, with the same columns as the requests. A stream, if these are one.
    size, every
        Length of a window, and how often one begins: by default when the last one ends. ``every``
        is no longer than ``size``. ``"5 minutes every 1 minute"`` says both.
    at_least
        So many requests are too many.
    event_time, user
        Column names or Spark SQL expressions, of both. The time is a timestamp; one without a time
        zone is in UTC. Rows without a time or user are left out.
    lateness
        How far behind the newest request or pass a stream still takes others: Spark's watermark.
        Those that are later are dropped, and the query's progress tells how many
        (``numRowsDroppedByWatermark``). A batch takes all.
    keep
        How long past window end and lateness an ask can be cleared; then it stays, forgotten.
    buckets
        Among how many groups users are spread: the most tasks that can work at once. It can't be
        changed for a query that has begun.

    Raises
    ------
    ConfigurationError
        If a duration or number makes no sense; when applied, if ``event_time`` is not a timestamp,
        Spark can't read an expression, or the session keeps no state in RocksDB.
    ColumnError
        When applied, if a DataFrame lacks a column.

    Notes
    -----
    Spark refuses an outer join with counts in update mode, and in append mode says nothing until
    the window is closed. So this is one ``transformWithState`` over both streams. It calls for
    state in groups of users, not user by user, of which Spark does some 300 a second. Spark opens
    a store for each of ``spark.sql.shuffle.partitions``: more of them than ``buckets`` are idle.
    One event dated far ahead makes all others late: filter such events out first.

    Examples
    --------
    >>> from kstoolkit.pipeline.session import spark_session
    >>> spark = spark_session("local[2]", extra={"spark.sql.shuffle.partitions": "2"})
    >>> requests = spark.sql('''
    ...     SELECT timestamp_seconds(at) AS time, user
    ...     FROM VALUES (10, 'ann'), (50, 'ann'), (20, 'bo'), (30, 'bo') AS t(at, user)''')
    >>> passes = spark.sql("SELECT timestamp_seconds(70) AS time, 'bo' AS user")
    >>> asks = requests.transform(ask_unless(passes, "1 minute", at_least=2)).sort("user")
    >>> [(row.user, row["count"], row.asked) for row in asks.collect()]
    [('ann', 2, True), ('bo', 2, False)]
    """
    length = size.size_ms if isinstance(size, Window) else size
    window = countable(as_window(size)) if every is None else Hop(length, every=every)
    for name, number in (("at_least", at_least), ("buckets", buckets)):
        check_whole(name, number, least=1, hint="Give 1 or more.")
    lateness_ms = parse_duration(lateness, allow_zero=True)
    made = partial(Asks, window, at_least, parse_duration(keep, allow_zero=True))
    columns = EventColumns(event_time, user, None)

    def ask(requests: DataFrame) -> DataFrame:
        _prepare(requests.sparkSession)
        asked, passed = columns.of(requests), columns.of(passes)
        both = _events(asked, passed=False).unionByName(_events(passed, passed=True))
        # One watermark over both: with one each, it would wait for a topic where nothing happens.
        timed = both.withWatermark("time", f"{lateness_ms} milliseconds")
        bucket = sf.pmod(sf.xxhash64("user"), sf.lit(buckets))
        decided = (
            timed.withColumns({"time_ms": sf.unix_millis("time"), "bucket": bucket})
            .groupBy("bucket")
            .transformWithStateInPandas(_AskOperator(made), _DECISION_DDL, "Append", "EventTime")
        )
        start = sf.col("window_start_ms")
        return decided.select(
            "user",
            sf.timestamp_millis(start).alias("window_start"),
            sf.timestamp_millis(start + window.size_ms).alias("window_end"),
            "count",
            "asked",
        )

    return ask


class _AskOperator(StatefulProcessor):
    """Spark's view of the asks of a bucket of users, made over its blocks."""

    def __init__(self, made: Callable[[Blocks], Asks]) -> None:
        self.made = made

    def init(self, handle: StatefulProcessorHandle) -> None:
        spare_collector()
        self.state = handle.getMapState("blocks", "key string", "block binary")

    def handleInputRows(  # type: ignore[override]  # noqa: N802 - called by keyword
        self,
        key: tuple[Any, ...],  # noqa: ARG002 - called by keyword
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803 - called by keyword
    ) -> Iterator[pd.DataFrame]:
        """Decide by a bucket's requests and passes of one micro-batch."""
        horizon_ms = timerValues.getCurrentWatermarkInMs()
        asks = self.made(StateBlocks(self.state))
        requests, passes = _taken_in(rows, asks.window.pane_ms)
        yield asks.advance(requests, passes, horizon_ms=horizon_ms).to_pandas()


def _taken_in(rows: Iterator[pd.DataFrame], pane_ms: int) -> tuple[Counters, Counters]:
    """Return the requests by pane, and the passes by their own time."""
    requests, passes = [], []
    for frame in rows:
        passed = frame["passed"].to_numpy(dtype=bool)
        time_ms = frame["time_ms"].to_numpy(dtype=np.int64)
        users = pa.array(frame["user"], pa.string())
        requests.append(
            moments((time_ms - time_ms % pane_ms)[~passed], users.filter(pa.array(~passed)))
        )
        passes.append(moments(time_ms[passed], users.filter(pa.array(passed))))
    return Counters.merge(requests), Counters.merge(passes)


def _events(events: DataFrame, *, passed: bool) -> DataFrame:
    who: Column = sf.col("user").cast("string").alias("user")
    return events.select("time", who, sf.lit(passed).alias("passed"))


def _prepare(spark: SparkSession) -> None:
    """See that the session can keep such state, and that its workers get our code."""
    provider = spark.conf.get(_PROVIDER, None) or ""
    if not provider.endswith("RocksDBStateStoreProvider"):
        message = f"This Spark session keeps its state in {provider or 'memory'}, not in RocksDB."
        hint = "Give spark.conf.set() what kstoolkit.pipeline.session.streaming_conf() has."
        raise ConfigurationError(message, hint=hint)
    if not (spark.conf.get("spark.master", None) or "").startswith("local"):
        ship_by_value()
