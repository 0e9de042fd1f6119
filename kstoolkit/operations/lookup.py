"""Look-ups in a service outside, for whole columns of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.operations.lookupcolumn import FAILURE, VALUE, answer_column
from kstoolkit.operations.lookupframe import told_by_workers, with_looked_up, workers_are_silent
from kstoolkit.operations.lookupoptions import LookupOptions, OnError
from kstoolkit.operations.lookupprocess import live
from kstoolkit.operations.lookupstatistics import lookup_statistics
from kstoolkit.units import Duration, format_duration, parse_duration

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kstoolkit.operations.lookupoptions import Ask
    from kstoolkit.operations.lookupstatistics import LookupStatistics


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
        Takes a list of different keys, at most ``batch_size`` of them, and returns a mapping of
        values by key. A key that it leaves out, or whose value is None, is unknown; an exception in
        place of a value says that this key failed. Called from several threads at once, if it is
        not an ``async`` function. Python can't end a thread: give the client in it a time limit of
        its own, below ``timeout``.
    batch_size
        How many keys a call may have.
    pool
        How many calls may be under way at once, in each process. A call that hangs counts until it
        really ends.
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
        What becomes of rows whose look-up failed. ``"dead_letter"``: they go on with null, and the
        reason in the column ``_broken``, which makes dead letters of them in a pipeline.
        ``"skip"``: they are left out, and counted in :meth:`statistics`. ``"default"``: they get
        ``default``.
    default
        With ``on_error="default"``: the value of each row that has none, keys unknown and null
        included.

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

        A key that is unknown, or whose look-up failed, gives null or the default; which of the two
        it was, :meth:`answers` tells.

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
        return self.answers(keys, kind).field(VALUE)

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
        column = answer_column(keys, at_work.answers, kind=kind, default=self.default)
        at_work.count_rows(len(column), len(column) - column.field(FAILURE).null_count)
        return column

    def add_to(self, df: DataFrame, *, key: str, column: str, ddl: str = "string") -> DataFrame:
        """Return a DataFrame, batch or streaming, with a column of what was looked up.

        Parameters
        ----------
        df
            Any, of Spark Connect too.
        key
            What to look up: a column, or a Spark SQL expression.
        column
            The name of the new column.
        ddl
            Its type, as Spark writes it; of several fields, for values that are dicts, as in
            ``"city string, population bigint"``.

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
        return with_looked_up(self, df, key=key, column=column, ddl=ddl)

    def statistics(self) -> LookupStatistics:
        """Return what was done so far in this process, and in Spark's workers as tasks ended."""
        at_work = live(self.options)
        told = told_by_workers(self) | {at_work.process: at_work.told()}
        return lookup_statistics(
            {name: each for name, each in told.items() if any(each.values())},
            why_unknown=_SILENT if workers_are_silent(self) else None,
        )

    def __repr__(self) -> str:
        given = self.options
        name = getattr(given.ask, "__name__", type(given.ask).__name__)
        return (
            f"Lookup({name}, batch_size={given.batch_size}, pool={given.pool}, "
            f"timeout={format_duration(given.timeout_ms)!r}, "
            f"cache={format_duration(given.cache_ms)!r}, on_error={given.on_error!r})"
        )
