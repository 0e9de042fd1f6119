"""The streaming query: a feed, the ticks, the operator."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyspark.sql.functions as F  # noqa: N812 - as everyone who writes PySpark does
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, ParseException

import kstoolkit
from kstoolkit.errors import ColumnError, ConfigurationError
from kstoolkit.pipeline.feeds import PARCEL_DDL, FileFeed, FileFeedPlan, TickFeed, counting
from kstoolkit.pipeline.operator import OUTPUT_DDL, CascadeOperator, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from kstoolkit.events.judging import Limits
    from kstoolkit.events.pieces import Columns

__all__ = [
    "cascade",
    "file_parcels",
    "frame_parcels",
    "settings_of",
    "ship_by_value",
    "staged_parcels",
    "ticking",
]


def file_parcels(spark: SparkSession, plan: FileFeedPlan) -> DataFrame:
    """Return files as a stream of parcels; their events never enter the JVM."""
    spark.dataSource.register(FileFeed)
    return spark.readStream.format(FileFeed.name()).option("plan", plan.to_json()).load()


def frame_parcels(
    df: DataFrame,
    columns: Columns,
    limits: Limits,
    *,
    pane_ms: int,
    buckets: int,
    processing_time: bool = False,
) -> DataFrame:
    """Return anyone's DataFrame as parcels.

    Raises
    ------
    ColumnError
        If a column is missing.
    ConfigurationError
        If an expression is none.
    """
    count = counting(pane_ms, buckets, limits, processing_time=processing_time)
    return _selected(df, columns).mapInArrow(count, PARCEL_DDL)


def staged_parcels(spark: SparkSession, folder: str) -> DataFrame:
    """Return parcels that were written to a folder as a stream, each file once."""
    return spark.readStream.schema(PARCEL_DDL).parquet(folder)


def ticking(feed: DataFrame, buckets: int, *, live: bool) -> DataFrame:
    """Return the feed with one row for each bucket beside it, in every micro-batch if ``live``."""
    spark = feed.sparkSession
    spark.dataSource.register(TickFeed)
    ticks = spark.readStream.format(TickFeed.name()).option("buckets", str(buckets))
    return feed.unionByName(ticks.option("live", str(live)).load())


def cascade(parcels: DataFrame, plan: Plan) -> DataFrame:
    """Return the operator's output over a stream of parcels."""
    # Spark fixes the batch's clock in its offset log, so a repeated batch reads the same time.
    timed = parcels.withColumn("now_ms", F.unix_millis(F.current_timestamp()))
    return timed.groupBy("bucket").transformWithStateInPandas(
        CascadeOperator(plan), OUTPUT_DDL, "Append", "None"
    )


@contextmanager
def settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Give a session some settings for a while: a query keeps those that it was started with."""
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def ship_by_value() -> None:
    """Have our code travel with each task, so that a cluster's nodes need nothing of ours."""
    cloudpickle.register_pickle_by_value(kstoolkit)


def _selected(df: DataFrame, columns: Columns) -> DataFrame:
    chosen = zip(("time", "user", "action"), columns, strict=True)
    try:
        return df.select(
            *(_column(df, given).alias(name) for name, given in chosen),
            F.unix_millis(F.current_timestamp()).alias("now_ms"),
        )
    except ParseException as error:
        message = f"One of {', '.join(map(repr, columns))} is no SQL expression: {_first(error)}"
        raise ConfigurationError(message, hint="Give column names or Spark SQL.") from error
    except AnalysisException as error:
        missing = [name for name in columns if name not in df.columns]
        raise ColumnError.missing(missing[0] if missing else columns.user, df.columns, "the DataFrame") from error


def _column(df: DataFrame, given: str) -> Column:
    quoted = given.replace("`", "``")
    return F.col(f"`{quoted}`") if given in df.columns else F.expr(given)


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
