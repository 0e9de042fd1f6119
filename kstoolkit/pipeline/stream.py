"""The streaming query: a feed, the ticks beside it, the operator over both.

A tick is one row for every bucket, so that a bucket nobody writes to still gets its turn: without
rows in a micro-batch it is not called at all, and in a live run it may still hold counters that
wait for their flush. There is one as the query starts, and whenever a flush is due by what the sink
wrote down of the batch before (:class:`~kstoolkit.pipeline.datasources.Due`); nothing else forces a
micro-batch. A run that has an end and can't tell it from what comes (files can) has one due after
each batch, so that the last one brings ticks alone: that is the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructType

from kstoolkit.events.files import BROKEN, FILE, NOW, RAW
from kstoolkit.pipeline.counting import BESIDE, counting
from kstoolkit.pipeline.dataframes import selected
from kstoolkit.pipeline.datasources import SHUFFLE_DDL, FileFeed, LineFeed, StillFeed, TickFeed
from kstoolkit.pipeline.operator import OUTPUT_DDL, CascadeOperator, Plan
from kstoolkit.pipeline.session import spark_path
from kstoolkit.pipeline.shuffle import Grain, shuffle_keys
from kstoolkit.pipeline.sparkinside import bound_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from kstoolkit.events.event import Columns, Limits
    from kstoolkit.pipeline.datasources import Due
    from kstoolkit.pipeline.feeds import FileFeedPlan

    Counting = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

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


def staged_feed(spark: SparkSession, folder: Path) -> DataFrame:
    """Return what was written to a folder for the shuffle as a stream, each file once."""
    staged = spark.readStream.schema(SHUFFLE_DDL).option("recursiveFileLookup", value=True)
    return staged.parquet(spark_path(folder, to_read=True))


def still_feed(spark: SparkSession) -> DataFrame:
    """Return a stream for the shuffle that takes nothing in of the feed that it stands for."""
    spark.dataSource.register(StillFeed)
    return spark.readStream.format(StillFeed.name()).load()


def ticking(
    feed: DataFrame, spark: SparkSession, buckets: int, due: Due, *, kind: str, at_once: bool
) -> DataFrame:
    """Return the feed with one row of a kind for each bucket beside it, as often as is due.

    Whosever session the feed is bound to, the two are bound to this one where that can be.
    """
    feed = bound_to(spark, feed)
    spark = feed.sparkSession
    spark.dataSource.register(TickFeed)
    told = {"buckets": str(buckets), "due": str(due.path), "kind": kind, "at_once": str(at_once)}
    return feed.unionByName(spark.readStream.format(TickFeed.name()).options(**told).load())


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
    items = (f"item {number}, {name}" for number, name in enumerate(columns.items))
    names = ("time", "user", *(columns.parts or ["action"]), *items)
    given = dict(zip(names, columns, strict=True))
    aliased = [column.alias(name) for column, name in zip(beside, BESIDE, strict=True)]
    return selected(df, given, *aliased).mapInArrow(count, SHUFFLE_DDL)
