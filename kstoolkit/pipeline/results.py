"""What comes out, as Spark DataFrames: the latest counts, and what one micro-batch changed.

Spark reads the files of marked batches by itself, once it is asked for rows: nothing goes through
the driver, and the session may be one of Spark Connect if it sees the folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import OnBatchFailed
from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.formats.actions import NONE, SEPARATOR, UNESCAPED
from kstoolkit.pipeline.session import set_for_a_while, spark_path
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kstoolkit.units import Duration
    from kstoolkit.windows import Window

_Parts = tuple[str, ...] | None
_FILLED_IN_LATER = {"first_seen_window", "other_levels"}  # of findings, over all batches
_FINDINGS = from_arrow_schema(
    pa.schema([each for each in FINDINGS_SCHEMA if each.name not in _FILLED_IN_LATER])
)

_NEWEST = ("count", "window_end")
_FIGURES = {"window_ms", "window_start", *_NEWEST}
_BATCHES_PER_EPOCH = 1 << 40
_LOOKS_BY_ITSELF = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def read_counts(
    spark: SparkSession, path: str | os.PathLike[str], window: Duration | Window | None = None
) -> DataFrame:
    """Return the latest counts of a changelog as a Spark DataFrame, of batches that are whole.

    Parameters
    ----------
    spark
        The session that reads them; it has to see the folder.
    path
        A run's output folder, or its changelog folder. Where the changelog is a topic,
        :meth:`kstoolkit.Run.to_spark` brings up to date what was read of it.
    window
        Only this kind: ``"1 hour"``. By default all of them, told apart by ``window_ms``.

    Returns
    -------
    pyspark.sql.DataFrame
        ``window_ms`` (the window's length), ``window_start``, ``window_end`` (timestamps),
        ``user``, ``action``, ``count``; in no order.

    Raises
    ------
    InputError
        If there is no changelog.

    Notes
    -----
    It has the batches that there are at the call. What is folded before it is read takes files
    away, and Spark then says that they do not exist: call again.
    """
    window_ms = None if window is None else as_window(window).size_ms
    return latest_counts(spark, Changelog.open(Path(path)), window_ms)


def latest_counts(
    spark: SparkSession, changelog: Changelog, window_ms: int | None = None
) -> DataFrame:
    """Return a changelog's latest counts, of windows of one length or of all."""
    told = _marked(spark, changelog)
    if window_ms is not None:
        told = told.where(sf.col("window_ms") == window_ms)
    # By a single number: of a pair, Spark would sort all rows instead of hashing them.
    number = sf.col("epoch") * _BATCHES_PER_EPOCH + sf.col("batch")
    key = [name for name in told.columns if name not in {*_NEWEST, "epoch", "batch"}]
    newest = [sf.max_by(name, number).alias(name) for name in _NEWEST]
    # A session of count 0 is one no more.
    return _spanned(told.groupBy(*key).agg(*newest)).where("count > 0 OR window_ms > 0")


def _marked(spark: SparkSession, changelog: Changelog) -> DataFrame:
    """Return all that marked batches told; once more if they are folded while Spark looks."""
    while True:
        paths = _files(changelog)
        try:
            schema = f"{_counts(changelog.parts())}, epoch long, batch long"
            return _read(spark, paths, schema, changelog.path)
        except AnalysisException:
            if paths == _files(changelog):
                raise


def _files(changelog: Changelog) -> list[Path]:
    return [path for batch in changelog.batches for path in batch.files(".parquet")]


def _counts(parts: _Parts) -> str:
    texts = ", ".join(f"`{name}` string" for name in ("user", *(parts or ["action"])))
    times = "window_start timestamp_ltz, window_end timestamp_ltz"
    return f"window_ms long, {times}, {texts}, count long"


def findings_of(spark: SparkSession, paths: Sequence[Path], parts: _Parts = None) -> DataFrame:
    """Return a batch's findings, with the fields that :mod:`kstoolkit.kafka.outputs` lists."""
    found = _read(spark, paths, _FINDINGS)
    if parts is None:
        found = found.drop("by")
    else:
        by = sf.from_json("by", "array<string>")
        told = found.withColumns({name: _part(name, by) for name in parts} | {"by": by})
        at = found.columns.index("action")
        kept = [name for name in found.columns if name != "action"]
        found = told.select(*kept[:at], *parts, *kept[at:])
    end_ms = sf.coalesce("session_end_ms", sf.col("window_start_ms") + sf.col("window_ms"))
    at = found.columns.index("window_start_ms") + 1
    names = [name for name in found.columns[at:] if name != "session_end_ms"]
    return found.select(*found.columns[:at], end_ms.alias("window_end_ms"), *names)


def _part(name: str, by: Column) -> Column:
    """Return the value of a part of each finding's action; null too where no rule looked at it."""
    place = sf.array_position(by, name).cast("int")
    text = sf.get(sf.split("action", SEPARATOR), place - 1)
    told = text
    for pair in UNESCAPED:
        told = sf.replace(told, *map(sf.lit, pair))
    return sf.when((place > 0) & (text != NONE), told)


def _read(
    spark: SparkSession, paths: Sequence[Path], schema: StructType | str, root: Path | None = None
) -> DataFrame:
    if not paths:
        return spark.createDataFrame([], schema)
    # Other tools pass a checksum over; our own readers look at it.
    read = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", value=True)
    if root is not None:  # below it, epoch and batch are columns
        read = read.option("basePath", spark_path(root))
    # Beyond so many files Spark would look for each by a task of its own: twenty times as long.
    with set_for_a_while(spark, {_LOOKS_BY_ITSELF: str(len(paths))}):
        return read.parquet(*(spark_path(path, to_read=True) for path in paths))


def _spanned(counts: DataFrame) -> DataFrame:
    # Whole microseconds: Spark would add days by the session's calendar.
    end = sf.timestamp_micros(sf.unix_micros("window_start") + sf.col("window_ms") * 1_000)
    told = sf.coalesce("window_end", end).alias("window_end")  # of sessions alone it is written
    texts = [name for name in counts.columns if name not in _FIGURES]
    return counts.select("window_ms", "window_start", told, *texts, "count")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchOutput:
    """What one micro-batch changed, for one's own function: ``Pipeline(on_batch=…)``.

    A writer that keeps ``id`` in one transaction with what it writes, and passes over batches it
    has, is exact: whatever ends the run, an unfinished batch comes again with its contents and id.

    Parameters
    ----------
    id
        The batch's number, which grows from batch to batch, over restarts and resets of the run.
    now_ms
        The batch's clock, epoch ms UTC, the same when it comes again; ``None`` is unknown.
    counts
        Latest counts of what changed, as of :func:`kstoolkit.read_counts`: each replaces what was
        told before of its ``(window_ms, window_start, user, action)``.
    findings
        What was found, with the columns of :mod:`kstoolkit.kafka.outputs`: each replaces what was
        told before of its ``(rule, user, action, window_ms, window_start_ms)``; one whose
        ``log10_probability`` is 0 is none any more.
    """

    id: int
    now_ms: int | None
    counts: DataFrame
    findings: DataFrame


def hand_over(
    function: Callable[[BatchOutput], object],
    spark: SparkSession,
    number: tuple[int, int],
    now_ms: int,
    files: tuple[Sequence[Path], Sequence[Path]],
    *,
    parts: _Parts = None,
) -> None:
    """Call a function of the user's with what a batch, of an epoch and number, changed, if it did.

    ``files`` are those of its counts and of its findings.
    """
    counts, findings = files
    if not counts and not findings:
        return
    output = BatchOutput(
        id=number[0] * _BATCHES_PER_EPOCH + number[1],
        now_ms=now_ms or None,
        counts=_spanned(_read(spark, counts, _counts(parts))),
        findings=findings_of(spark, findings, parts),
    )
    try:
        function(output)
    except BaseException as error:  # else Java would wait for an answer for ever
        raise OnBatchFailed(function, number[1], error) from error
