"""A look-up as a column of anyone's DataFrame, and what Spark's workers counted of it."""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 - Spark looks at the hints of what it calls
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # noqa: TC002 - as above
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.lookupcolumn import FAILURE, VALUE, as_type
from kstoolkit.operations.lookupfigures import newest
from kstoolkit.operations.lookupprocess import kept_in_process, live
from kstoolkit.pipeline.dataframes import column_of, unreadable

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import Column, DataFrame

    from kstoolkit.operations.lookup import Lookup

    Told = dict[str, dict[str, float]]


BROKEN = "_broken"
"""The column that says why a row is to be a dead letter; a pipeline's source reads it."""

_ANSWER = "_kstoolkit_answer"


class NewestOfEach(AccumulatorParam[dict[str, dict[str, float]]]):
    """Keeps the newest counts of each process: tasks tell them whole, and more than once."""

    def zero(self, value: Told) -> Told:  # noqa: ARG002 - Spark's signature
        """Return what is known before any task has ended."""
        return {}

    def addInPlace(self, value1: Told, value2: Told) -> Told:  # noqa: N802 - Spark's name
        """Return both, for processes in both the newer."""
        for process, counts in value2.items():
            value1[process] = newest(counts, value1.get(process, {}))
        return value1


def with_looked_up(lookup: Lookup, df: DataFrame, *, key: str, column: str, ddl: str) -> DataFrame:
    """Return the DataFrame with a column more; see :meth:`Lookup.add_to`.

    Only keys and answers go through Python. The other columns stay where they are, a watermark on
    them too.
    """
    _check_new(df, column)
    kind = _spark_type(ddl)
    answers = _answering(lookup, df, kind)
    try:
        asked = df.withColumn(_ANSWER, answers(column_of(df, key)))
        _ = asked.schema  # over Connect, only this makes Spark look at the expression
    except AnalysisException as error:
        raise unreadable(error, {"key": key}, df) from error
    value, failure = sf.col(_ANSWER)[VALUE], sf.col(_ANSWER)[FAILURE]
    if lookup.on_error == "skip":
        asked = asked.where(failure.isNull())
    looked_up = asked.withColumn(column, value)
    if lookup.on_error == "dead_letter":
        looked_up = looked_up.withColumn(BROKEN, _broken(df, column, failure))
    return looked_up.drop(_ANSWER)


def told_by_workers(lookup: Lookup) -> Told:
    """Return what Spark's workers have counted of a look-up, as far as their tasks have ended."""
    told: Told = {}
    for name, accumulator in list(kept_in_process().items()):
        if isinstance(name, tuple) and name[0] == lookup.identity:
            told |= accumulator.value
    return told


def workers_are_silent(lookup: Lookup) -> bool:
    """Whether the look-up was given to workers that can't tell what they count."""
    return bool(kept_in_process().get(f"silent {lookup.identity}"))


def _check_new(df: DataFrame, column: str) -> None:
    taken = {name.casefold() for name in df.columns}
    for name in (column, _ANSWER):
        if name.casefold() in taken or name == BROKEN:
            message = f"The name {name!r} is taken."
            raise ConfigurationError(message, hint="Give the column another name.")


def _spark_type(ddl: str) -> DataType:
    try:
        return DataType.fromDDL(ddl)
    except PySparkException as error:
        message = f"Spark can't read the type {ddl!r}."
        raise ConfigurationError(
            message, hint="Write it as in a CREATE TABLE: 'string', 'bigint', 'city string, …'."
        ) from error


def _arrow_type(kind: DataType) -> pa.DataType:
    try:
        return to_arrow_type(kind, timezone="UTC")
    except PySparkException as error:
        message = f"Values of type {kind.simpleString()} can't be looked up."
        raise ConfigurationError(message, hint="Look up a text, and cast the column.") from error


def _answering(lookup: Lookup, df: DataFrame, kind: DataType) -> Any:
    """Return the function of Spark's that answers a column of keys."""
    values = _arrow_type(kind)
    as_type(lookup.default, values, "The default")
    counts = _accumulator(lookup, df)

    def answer(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
        try:
            for keys in columns:
                yield lookup.answers(keys, values)
        finally:
            if counts is not None:
                at_work = live(lookup.options)
                counts.add({at_work.process: at_work.told()})

    told = StructType([StructField(VALUE, kind), StructField(FAILURE, StringType())])
    # Not deterministic: the optimizer may neither repeat it nor run it for rows it would not keep.
    spark_function = sf.arrow_udf(answer, told)  # type: ignore[attr-defined] # its stub lacks it
    return spark_function.asNondeterministic()


def _accumulator(lookup: Lookup, df: DataFrame) -> Accumulator[Told] | None:
    """Return where workers tell what they count; Spark Connect has no such place."""
    kept = kept_in_process()
    if type(df).__module__.startswith("pyspark.sql.connect"):
        kept[f"silent {lookup.identity}"] = True
        return None
    context = df.sparkSession.sparkContext
    name = (lookup.identity, context.applicationId)
    if name not in kept:
        kept[name] = context.accumulator({}, NewestOfEach())
    found: Accumulator[Told] = kept[name]
    return found


def _broken(df: DataFrame, column: str, failure: Column) -> Column:
    """Return why a row is to be a dead letter: the first reason that anyone gave."""
    told = sf.concat(sf.lit(f"look-up of {column!r}: "), failure)
    return sf.coalesce(sf.col(BROKEN), told) if BROKEN in df.columns else told
