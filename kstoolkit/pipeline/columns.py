"""Which columns of anyone's DataFrame are the time, the user and the action of its events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql.types import TimestampNTZType, TimestampType

from kstoolkit.errors import ColumnError, ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_BARE_USER = re.compile(r"(?<![\w.])user(?!\s*\(|[\w.])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The columns to count by: names or Spark SQL expressions, read from any DataFrame.

    Parameters
    ----------
    event_time
        A timestamp; one without a time zone is taken as UTC.
    user, action
        Who and what, of any type that Spark groups by. ``action=None`` is over all actions.

    Examples
    --------
    >>> from kstoolkit.pipeline.session import spark_session
    >>> logins = spark_session().sql("SELECT timestamp_seconds(5) AS at, 'Ann' AS name")
    >>> EventColumns("at", "lower(name)", None).of(logins).select("user", "action").collect()
    [Row(user='ann', action=None)]
    """

    event_time: str
    user: str
    action: str | None

    def of(self, events: DataFrame) -> DataFrame:
        """Return ``time``, ``user`` and ``action`` of those events that have what is asked for.

        Raises
        ------
        ColumnError
            If ``events`` lacks a column.
        ConfigurationError
            If Spark can't read an expression, or the event time is not a timestamp.
        """
        selected = _in_utc(self._select(events), self.event_time)
        for name in self._given():
            selected = selected.where(sf.col(name).isNotNull())
        return selected

    def _given(self) -> dict[str, str]:
        named = {"time": self.event_time, "user": self.user, "action": self.action}
        return {name: text for name, text in named.items() if text is not None}

    def _select(self, events: DataFrame) -> DataFrame:
        given = self._given()
        try:
            columns = {name: column_of(events, text) for name, text in given.items()}
            # Over all actions, the column is there all the same: null, as one group.
            columns.setdefault("action", sf.lit(None).cast("string"))
            selected = events.select(*(column.alias(name) for name, column in columns.items()))
            _ = selected.schema  # over Connect, only this makes Spark look at the expressions
        except AnalysisException as error:
            raise unreadable(error, given, events) from error
        return selected


def column_of(events: DataFrame, text: str) -> Column:
    """Return the column of that name, or the SQL expression that ``text`` is.

    Raises
    ------
    ColumnError
        If it is a bare name that ``events`` lacks, or names a ``user`` that it lacks.
    """
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
