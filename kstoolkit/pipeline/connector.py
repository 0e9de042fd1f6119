"""Spark's connector to Kafka, in any session: also in one that was started without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from kstoolkit.kafka.jars import connector_jars, to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def with_connector(spark: SparkSession, tell: Callable[[str], object] = to_stderr) -> SparkSession:
    """Return the session, which then has the format ``kafka`` in the thread that asks.

    Raises
    ------
    EnvironmentFault
        If the connector can't be had.
    """
    # Java looks for formats by the thread's own loader: a thread that did not add jars has another
    # one than the session.
    loader = spark._jsparkSession.sharedState().jarClassLoader()  # noqa: SLF001 - no public way
    jvm: Any = spark._jvm  # noqa: SLF001
    jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
    try:
        loader.loadClass(_PROVIDER)
    except Py4JJavaError:
        for jar in connector_jars(spark.version, tell=tell):
            spark.sql("ADD JAR '{}'".format(str(jar).replace("'", r"\'")))
    return spark
