"""Look-ups in a service outside, for whole columns of keys.

A column is looked up as a whole: each different key once, its answer taken to every row that has
it. Spark's workers do so batch by batch, and tell the driver what they counted as their tasks end.
The calls themselves are :mod:`kstoolkit.operations.lookupcalls`'.
"""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 - Spark looks at the hints of what it calls
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.lookupcalls import (
    Answer,
    LookupOptions,
    kept_in_process,
    live,
    lookup_statistics,
    newest,
)
from kstoolkit.pipeline.dataframes import column_of, unreadable
from kstoolkit.units import Duration, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from pyspark.accumulators import Accumulator
    from pyspark.sql import Column, DataFrame

    from kstoolkit.operations.lookupcalls import Ask, LookupStatistics, OnError

    Asked = Callable[[Sequence[Hashable]], Mapping[Any, Answer]]
    Told = dict[str, dict[str, float]]

_VALUE, _FAILURE = "value", "failure"  # the fields of a column of answers
_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What Arrow raises of a value that is not of a type."""

_LONGEST_VALUE = 60


def _answer_column(
    keys: pa.Array | pa.ChunkedArray, ask: Asked, *, kind: pa.DataType | None, default: Any = None
) -> pa.StructArray:
    """Return a value for each row, and why there is none, if the look-up failed.

    A null or NaN is nobody's key, and is not asked for. Without a ``kind``, the values tell it.
    """
    encoded = _flat(keys).dictionary_encode()
    answers = _answers(encoded.dictionary, ask)
    values, failures = _typed(answers, kind, default)
    # The last of the answers is that of rows without a key.
    rows = pc.fill_null(encoded.indices, len(answers))
    return pa.StructArray.from_arrays(
        [values.take(rows), failures.take(rows)], names=[_VALUE, _FAILURE]
    )


def _check_default(value: Any, kind: pa.DataType) -> None:
    try:
        pa.scalar(value, kind)
    except _MISFITS as error:
        message = f"The default is {value!r}, which is no {kind}."
        raise ConfigurationError(message, hint="Give a value of the column's type.") from error


def _flat(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    kind = keys.type
    if isinstance(keys, pa.ChunkedArray):
        return _flat(keys.combine_chunks())
    if pa.types.is_dictionary(kind):
        return _flat(keys.dictionary_decode())
    if pa.types.is_nested(kind):
        message = f"Keys of type {kind} can't be looked up."
        raise ConfigurationError(message, hint="Look up a text, a number, a time or bytes.")
    if pa.types.is_null(kind):
        return keys.cast(pa.string())
    if pa.types.is_floating(kind):  # not equal to itself, NaN would never be found again
        return pc.if_else(pc.is_nan(keys), pa.scalar(None, kind), keys)
    return keys


def _answers(distinct: pa.Array, ask: Asked) -> list[Answer]:
    keys: list[Hashable]
    try:
        keys = distinct.to_pylist()
    except UnicodeDecodeError:  # of text that is none, which Spark lets pass
        keys = [_text(raw) for raw in distinct.cast(pa.large_binary()).to_pylist()]
    told = ask([key for key in keys if key is not None])
    broken = Answer(failure="the key is not valid UTF-8")
    return [broken if key is None else told[key] for key in keys]


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _typed(
    answers: list[Answer], kind: pa.DataType | None, default: Any
) -> tuple[pa.Array, pa.Array]:
    """Return values and failures, and behind the last of them those of rows without a key."""
    if kind is not None:
        _check_default(default, kind)
    try:
        values = _values(answers, kind, default)
    except _MISFITS as error:
        if kind is None:
            message = f"The values have no type in common: {error}"
            raise ConfigurationError(message, hint="Say which type they are to have.") from error
        answers = [_fitting(answer, kind) for answer in answers]
        values = _values(answers, kind, default)
    return values, pa.array([*(answer.failure for answer in answers), None], pa.string())


def _values(answers: list[Answer], kind: pa.DataType | None, default: Any) -> pa.Array:
    found = [default if answer.value is None else answer.value for answer in answers]
    return pa.array([*found, default], kind)


def _fitting(answer: Answer, kind: pa.DataType) -> Answer:
    """Return the answer, or if its value is of another type, that this is why it failed."""
    try:
        pa.scalar(answer.value, kind)
    except _MISFITS:
        value = repr(answer.value)[:_LONGEST_VALUE]
        return Answer(failure=f"the answer {value} is no {kind}")
    return answer


_BROKEN = "_broken"
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


def _check_new(df: DataFrame, column: str) -> None:
    taken = {name.casefold() for name in df.columns}
    for name in (column, _ANSWER):
        if name.casefold() in taken or name == _BROKEN:
            message = f"The name {name!r} is taken."
            raise ConfigurationError(message, hint="Give the column another name.")


def _spark_type(ddl: str) -> DataType:
    try:
        return DataType.fromDDL(ddl)
    except PySparkException as error:
        message = f"Spark can't read the type {ddl!r}."
        hint = "Write it as in a CREATE TABLE: 'string', 'bigint', 'city string, …'."
        raise ConfigurationError(message, hint=hint) from error


def _answering(lookup: Lookup, df: DataFrame, kind: DataType) -> Any:
    """Return the function of Spark's that answers a column of keys."""
    try:
        values = to_arrow_type(kind, timezone="UTC")
    except PySparkException as error:
        message = f"Values of type {kind.simpleString()} can't be looked up."
        raise ConfigurationError(message, hint="Look up a text, and cast the column.") from error
    _check_default(lookup.default, values)
    counts = _accumulator(lookup, df)

    def answer(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
        try:
            for keys in columns:
                yield lookup.answers(keys, values)
        finally:
            if counts is not None:
                at_work = live(lookup.options)
                counts.add({at_work.process: at_work.told()})

    told = StructType([StructField(_VALUE, kind), StructField(_FAILURE, StringType())])
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
    return sf.coalesce(sf.col(_BROKEN), told) if _BROKEN in df.columns else told


_LONGEST_UNKNOWN_MS = 60_000
_SILENT = "over Spark Connect, workers can't tell what they count; this is this process alone"


class Lookup:
    """Values for keys, from a service outside: few calls, bounded, cached, and tried again.

    Each process that looks up (a Python worker of Spark's, or this one) has one pool of calls and
    one cache for all of its tasks and threads. Keys are asked for in batches, each key once: if it
    is being asked for already, others wait for that answer.

    Parameters
    ----------
    ask
        Takes a list of different keys, at most ``batch_size``, and returns a mapping of values by
        key. A key left out, or with value None, is unknown; an exception for a value says that its
        key failed. Called from several threads at once, if it is not an ``async`` function. Python
        can't end a thread: give the client in it a time limit of its own, below ``timeout``.
    batch_size
        How many keys a call may have.
    pool
        How many calls may be under way at once, in each process; one that hangs is, to its end.
    timeout
        How long a call may take.
    cache, cache_unknown, cache_keys
        How long an answer is good for; how long one that a key is unknown, by default as long, but
        one minute at most; how many answers are kept. 0 keeps none.
    retries, backoff, max_backoff
        How often a call that failed is tried again; how long to wait before the first time; each
        wait is twice the one before, up to the longest, less up to half of it at random. A batch
        that still fails is asked in halves, down to the key at fault.
    pause_after, pause
        After so many failed calls in a row nobody is asked for a while.
    on_error
        What becomes of rows whose look-up failed. ``"dead_letter"``: they go on with null, the
        reason in the column ``_broken``, which makes them a pipeline's dead letters. ``"skip"``:
        they are left out, counted in :meth:`statistics`. ``"default"``: they get ``default``.
    default
        With ``on_error="default"``: the value of each row without one, of unknown keys and null.

    Raises
    ------
    ConfigurationError
        If something makes no sense.

    Examples
    --------
    >>> import pyarrow as pa
    >>> countries = {"ann": "SE", "bob": "FR"}
    >>> lookup = Lookup(lambda names: {name: countries.get(name) for name in names})
    >>> lookup.values(pa.array(["ann", "bob", "ann", "eve"])).to_pylist()
    ['SE', 'FR', 'SE', None]
    >>> lookup.statistics()
    LookupStatistics(4 rows, 0 failed; 1 call, at most 1 at once)
    """

    def __init__(
        self,
        ask: Ask,
        *,
        batch_size: int = 100,
        pool: int = 8,
        timeout: Duration = "5 seconds",
        cache: Duration = "10 minutes",
        cache_unknown: Duration | None = None,
        cache_keys: int = 100_000,
        retries: int = 3,
        backoff: Duration = "200 ms",
        max_backoff: Duration = "10 seconds",
        pause_after: int = 50,
        pause: Duration = "10 seconds",
        on_error: OnError = "dead_letter",
        default: Any = None,
    ) -> None:
        cache_ms = parse_duration(cache, allow_zero=True)
        unknown = min(cache_ms, _LONGEST_UNKNOWN_MS) if cache_unknown is None else cache_unknown
        self.options = LookupOptions(
            ask=ask,
            batch_size=batch_size,
            pool=pool,
            timeout_ms=parse_duration(timeout),
            cache_ms=cache_ms,
            cache_unknown_ms=parse_duration(unknown, allow_zero=True),
            cache_keys=cache_keys,
            retries=retries,
            backoff_ms=parse_duration(backoff, allow_zero=True),
            max_backoff_ms=parse_duration(max_backoff, allow_zero=True),
            pause_after=pause_after,
            pause_ms=parse_duration(pause),
            on_error=on_error,
            default=default,
        )

    @property
    def identity(self) -> str:
        """What all copies of this look-up have in common, and no other has."""
        return self.options.identity

    @property
    def on_error(self) -> OnError:
        """What becomes of rows whose look-up failed."""
        return self.options.on_error

    @property
    def default(self) -> Any:
        """The value of rows that have none; None if they stay without."""
        return self.options.default

    def values(self, keys: pa.Array | pa.ChunkedArray, kind: pa.DataType | None = None) -> pa.Array:
        """Return a value for each key, in the order of the keys.

        An unknown or failed key gives null or the default; which it was, :meth:`answers` tells.

        Parameters
        ----------
        keys
            Any flat type, in one piece or several. Nulls and NaN are not asked for.
        kind
            The type of the values; told from them if not given.

        Raises
        ------
        ConfigurationError
            If the keys can't be looked up, or the values are not of one type.
        """
        return self.answers(keys, kind).field(_VALUE)

    def answers(
        self, keys: pa.Array | pa.ChunkedArray, kind: pa.DataType | None = None
    ) -> pa.StructArray:
        """Return ``value`` and ``failure`` for each key: why there is no answer, null if there is.

        The parameters and errors are those of :meth:`values`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> def failing(keys):
        ...     raise ConnectionError("refused")
        >>> Lookup(failing, retries=0).answers(pa.array(["ann"])).to_pylist()
        [{'value': None, 'failure': 'ConnectionError: refused'}]
        """
        at_work = live(self.options)
        column = _answer_column(keys, at_work.answers, kind=kind, default=self.default)
        at_work.count_rows(len(column), len(column) - column.field(_FAILURE).null_count)
        return column

    def add_to(self, df: DataFrame, *, key: str, column: str, ddl: str = "string") -> DataFrame:
        """Return a DataFrame, batch or streaming, with a column of what was looked up.

        Parameters
        ----------
        df, key
            Any, of Spark Connect too; and what to look up: a column, or a Spark SQL expression.
        column, ddl
            The name of the new column, and its type as Spark writes it; of several fields, for
            values that are dicts, as in ``"city string, population bigint"``.

        Raises
        ------
        ColumnError
            If ``df`` has no such key.
        ConfigurationError
            If ``df`` has such a column already, the type is none, or the default is of another.

        Examples
        --------
        >>> from kstoolkit.pipeline.session import spark_session
        >>> logins = spark_session("local[2]").sql("SELECT 'ann' AS user")
        >>> lookup = Lookup(lambda names: dict.fromkeys(names, "SE"), on_error="skip")
        >>> lookup.add_to(logins, key="user", column="country").collect()
        [Row(user='ann', country='SE')]
        """
        _check_new(df, column)
        answers = _answering(self, df, _spark_type(ddl))
        try:
            # Only keys and answers go through Python; the other columns stay, watermarks too.
            asked = df.withColumn(_ANSWER, answers(column_of(df, key)))
            _ = asked.schema  # over Connect, only this makes Spark look at the expression
        except AnalysisException as error:
            raise unreadable(error, {"key": key}, df) from error
        value, failure = sf.col(_ANSWER)[_VALUE], sf.col(_ANSWER)[_FAILURE]
        if self.on_error == "skip":
            asked = asked.where(failure.isNull())
        looked_up = asked.withColumn(column, value)
        if self.on_error == "dead_letter":
            looked_up = looked_up.withColumn(_BROKEN, _broken(df, column, failure))
        return looked_up.drop(_ANSWER)

    def statistics(self) -> LookupStatistics:
        """Return what was done so far in this process, and in Spark's workers as tasks ended."""
        at_work = live(self.options)
        told: Told = {}
        for name, accumulator in list(kept_in_process().items()):  # as far as tasks have ended
            if isinstance(name, tuple) and name[0] == self.identity:
                told |= accumulator.value
        told |= {at_work.process: at_work.told()}
        return lookup_statistics(
            {name: each for name, each in told.items() if any(each.values())},
            why_unknown=_SILENT if f"silent {self.identity}" in kept_in_process() else None,
        )

    def __repr__(self) -> str:
        given = self.options
        name = getattr(given.ask, "__name__", type(given.ask).__name__)
        return (
            f"Lookup({name}, batch_size={given.batch_size}, pool={given.pool}, "
            f"timeout={format_duration(given.timeout_ms)!r}, "
            f"cache={format_duration(given.cache_ms)!r}, on_error={given.on_error!r})"
        )
