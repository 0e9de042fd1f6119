"""A Spark session whose Java can be asked."""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kstoolkit.errors import ConfigurationError, EnvironmentFault


def session_with_java(spark: SparkSession | None = None) -> SparkSession:
    """Return a session that has a Java, and one that runs: the given one, or the active one.

    Raises
    ------
    ConfigurationError
        If there is no session, it has been stopped, or it is one of Spark Connect.
    EnvironmentFault
        If its Java has ended.

    Examples
    --------
    >>> from kstoolkit.pipeline.session import spark_session
    >>> spark = spark_session("local[2]")
    >>> session_with_java() is spark
    True
    """
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - as pyspark asks itself
    if process is not None and process.poll() is not None:
        message = "Spark's Java has ended."
        raise EnvironmentFault(message, hint="Start another session; the usual cause is memory.")
    session = _active() if spark is None else spark
    if session is None:
        message = "There is no Spark session in this process."
        raise ConfigurationError(message, hint="Start one, or give the one that you have.")
    if type(session).__module__.startswith("pyspark.sql.connect"):
        message = "A Spark Connect session has no Java on this side whose memory could be read."
        raise ConfigurationError(message, hint="Ask in the process that its server runs in.")
    if session.sparkContext._jsc is None:  # noqa: SLF001 - what stopping leaves of it
        message = "This Spark session has been stopped."
        raise ConfigurationError(message, hint="Start another one.")
    return session


def _active() -> SparkSession | None:
    session = SparkSession.getActiveSession()
    if session is None and SparkContext._active_spark_context is not None:  # noqa: SLF001
        # Started in another thread. A builder without options changes nothing of it.
        return SparkSession.builder.getOrCreate()
    return session
