"""The streaming query: a feed, the ticks beside it, the operator over both.

A tick is one row for every bucket, so that a bucket nobody writes to still gets its turn: without
rows in a micro-batch it is not called at all, and in a live run it may still hold counters that
wait for their flush.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructType

import kstoolkit
from kstoolkit.events.files import BROKEN, FILE, NOW, RAW
from kstoolkit.pipeline.counting import COLUMNS, counting
from kstoolkit.pipeline.dataframes import column_of, unreadable
from kstoolkit.pipeline.feeds import FileFeed, FileFeedPlan, LineFeed
from kstoolkit.pipeline.operator import OUTPUT_DDL, CascadeOperator, Plan
from kstoolkit.pipeline.shuffle import SHUFFLE_DDL, TICK, Grain, shuffle_keys, shuffle_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit

    from kstoolkit.events.event import Columns, Limits

    Counting = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _TickFeed(DataSource):
    """One row for every bucket, each time that a micro-batch is asked for."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kstoolkit_ticks"

    def schema(self) -> str:
        """Return the columns of the shuffle."""
        return SHUFFLE_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - called by keyword
        """Return the reader of one query."""
        return _TickReader(int(self.options["buckets"]), live=self.options["live"] == "True")


class _TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are the clock's milliseconds, later ones where it goes back; still unless live.

    Under availableNow there is one tick and no more.
    """

    def __init__(self, buckets: int, *, live: bool) -> None:
        self.buckets, self.live = buckets, live
        self._target_ms: int | None = None
        self._is_last = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"tick_ms": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._is_last = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        if not self.live:
            return start
        if self._target_ms is None or not self._is_last:
            self._target_ms = max(time.time_ns() // 1_000_000, start["tick_ms"] + 1)
        return {"tick_ms": max(self._target_ms, start["tick_ms"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        for bucket in range(self.buckets):
            yield shuffle_record(bucket, TICK, b"")


_PARSED = "_parsed"
_KEY = "lane"
"""The shuffle key's column: its name is in checkpoints, with the schema of the state."""


def file_feed(spark: SparkSession, plan: FileFeedPlan) -> DataFrame:
    """Return files as a stream for the shuffle; their events never enter the JVM."""
    spark.dataSource.register(FileFeed)
    return spark.readStream.format(FileFeed.name()).option("plan", plan.to_json()).load()


def line_feed(spark: SparkSession, plan: FileFeedPlan) -> DataFrame:
    """Return files as a stream for the shuffle, their columns being SQL expressions."""
    spark.dataSource.register(LineFeed)
    rows = spark.readStream.format(LineFeed.name()).option("plan", plan.to_json()).load()
    broken = sf.col(BROKEN)
    if plan.file_format == "json":
        rows = _parsed(rows, plan.row_type)
        broken = sf.coalesce(sf.col(BROKEN), sf.col(f"{_PARSED}.{BROKEN}"))
    beside = [sf.col(NOW), sf.col(RAW), sf.col(FILE), broken]
    count = counting(plan.grain, plan.limits)
    return counted_columns(rows, plan.columns, beside, count)


def frame_feed(df: DataFrame, columns: Columns, limits: Limits, grain: Grain) -> DataFrame:
    """Return anyone's DataFrame, counted for the shuffle."""
    nothing = sf.lit(None).cast("string")
    clock = sf.unix_millis(sf.current_timestamp())
    broken, raw = _marked(df) if BROKEN in df.columns else (nothing, nothing)
    count = counting(grain, limits)
    return counted_columns(df, columns, [clock, raw, nothing, broken], count)


def _marked(df: DataFrame) -> tuple[Column, Column]:
    """Return why a row is a dead letter (a look-up beside it failed, say), and the row as JSON."""
    broken = sf.col(BROKEN).cast("string")
    names = [name for name in df.columns if name != BROKEN]
    row = sf.to_json(sf.struct(*(sf.col("`" + name.replace("`", "``") + "`") for name in names)))
    return broken, sf.when(broken.isNotNull(), row)


def staged_feed(spark: SparkSession, folder: str) -> DataFrame:
    """Return what was written to a folder for the shuffle as a stream, each file once."""
    staged = spark.readStream.schema(SHUFFLE_DDL).option("recursiveFileLookup", value=True)
    return staged.parquet(folder)


def ticking(feed: DataFrame, buckets: int, *, live: bool) -> DataFrame:
    """Return the feed with one row for each bucket beside it, in every micro-batch if ``live``."""
    spark = feed.sparkSession
    spark.dataSource.register(_TickFeed)
    ticks = spark.readStream.format(_TickFeed.name()).option("buckets", str(buckets))
    return feed.unionByName(ticks.option("live", str(live)).load())


def cascade(feed: DataFrame, plan: Plan, partitions: int) -> DataFrame:
    """Return the operator's output over a stream of the shuffle's records.

    The query has so many ``partitions``: ``spark.sql.shuffle.partitions`` as it starts.
    """
    keys = sf.array(*map(sf.lit, shuffle_keys(plan.buckets, partitions)))
    key = sf.element_at(keys, sf.col("bucket") + 1)
    # Spark fixes the batch's clock in its offset log, so a repeated batch reads the same time.
    clock = sf.unix_millis(sf.current_timestamp())
    timed = feed.select(key.alias(_KEY), "kind", "payload", clock.alias("now_ms"))
    return timed.groupBy(_KEY).transformWithStateInPandas(
        CascadeOperator(plan), OUTPUT_DDL, "Append", "None"
    )


def json_schema(spark: SparkSession, lines: Sequence[str]) -> StructType:
    """Return the schema that Spark sees in lines of JSON."""
    return spark.read.json(spark.sparkContext.parallelize(lines, 1)).schema


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session some settings for a while: a query keeps those that it was started with."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)


def ship_by_value() -> None:
    """Have our code travel with each task, so that a cluster's nodes need nothing of ours."""
    cloudpickle.register_pickle_by_value(kstoolkit)  # type: ignore[no-untyped-call]


def _parsed(rows: DataFrame, schema: StructType) -> DataFrame:
    """Parse lines by the schema; its columns stand beside ours, and one says what is no JSON."""
    parsed = rows.withColumn(_PARSED, json_fields(sf.col(RAW), schema))
    fields = [sf.col(f"{_PARSED}.`{name}`") for name in schema.names if name != BROKEN]
    return parsed.select(*rows.columns, _PARSED, *fields)


def json_fields(text: Column, schema: StructType) -> Column:
    """Return JSON texts as structs: the fields of a schema, and one that has what is no JSON."""
    told = (
        schema if BROKEN in schema.names else StructType([*schema.fields]).add(BROKEN, StringType())
    )
    return sf.from_json(text, told, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN})


def counted_columns(
    df: DataFrame, columns: Columns, beside: list[Column], count: Counting
) -> DataFrame:
    """Return what expressions over a DataFrame's columns give, counted for the shuffle."""
    given = dict(zip(COLUMNS, columns, strict=False))
    try:
        chosen = [column_of(df, text).alias(name) for name, text in given.items()]
        aliased = [column.alias(name) for column, name in zip(beside, COLUMNS[3:], strict=True)]
        rows = df.select(*chosen, *aliased)
        _ = rows.schema  # over Connect, only this makes Spark look at the expressions
    except AnalysisException as error:
        raise unreadable(error, given, df) from error
    return rows.mapInArrow(count, SHUFFLE_DDL)
