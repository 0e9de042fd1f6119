"""Parts inside Spark that no public way leads to: each is leant on here alone.

Another Spark may call any of them otherwise. So each is looked for before it is needed, and without
it, what is slower, and right, is done:

- how Java is started: Spark does it, and what Java says goes to the terminal;
- Java's process: it is asked something, to see whether it is there, and can't be started again;
- a copy of a session: a run's query starts in the session that there is, set for that alone;
- a manager of checkpoints that renames files: Spark's own choice;
- a session's jars: they are added again;
- figures of Java's: they are unknown, and memory is that of the smallest executor.

Its logs, which are cut where a run ends, have their home in :mod:`kstoolkit.pipeline.runfolder`.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext, java_gateway
from pyspark.sql import DataFrame, SparkSession

from kstoolkit.errors import EnvironmentFault

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

NOT_THERE = (AttributeError, TypeError, Py4JError)
"""What asking for a part raises that is gone: in Python, of a Java class, of a Java method."""

_OF_JAVA = {"_gateway", "_jvm", "_active_spark_context", "_ensure_initialized", "launch_gateway"}
_RENAMING = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def _has_gateway() -> bool:
    return {*vars(SparkContext), *vars(java_gateway)} >= _OF_JAVA


def start_java(conf: SparkConf, log: BinaryIO) -> JavaGateway | None:
    """Start Spark's Java, and return the way to it if it is ours: it stays when a session stops."""
    if not _has_gateway():
        SparkContext.getOrCreate(conf)
    elif SparkContext._gateway is None:  # noqa: SLF001
        started = java_gateway.launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=started, conf=conf)  # noqa: SLF001
        return cast("JavaGateway", started)
    return None


def java_has_ended(within_seconds: float = 0) -> bool:
    """Whether Spark's Java has ended, or does so soon: its connection breaks off before it does."""
    process = getattr(getattr(SparkContext, "_gateway", None), "proc", None)
    try:
        if process is None:
            SparkSession.getActiveSession()
            return False
        process.wait(within_seconds)
    except subprocess.TimeoutExpired:
        return False
    except (Py4JError, ConnectionError):
        pass
    return True


def forget_dead_java() -> None:
    """Let a session that lost its Java, as to a lack of memory, be followed by a new one."""
    if not java_has_ended():
        return
    if not _has_gateway():
        message = "Spark's Java has ended, and this pyspark starts no other in the same process."
        raise EnvironmentFault(message, hint="Nothing is lost: run again, in a new process.")
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    context: Any = SparkContext._active_spark_context  # noqa: SLF001
    with suppress(Exception):  # as if there is none
        context._jsc = None  # noqa: SLF001 - nothing is left that it could say goodbye to
        context.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001


def jvm_of(spark: SparkSession) -> Any | None:
    """Return the way into a session's Java; ``None`` where there is none on this side."""
    return getattr(spark, "_jvm", None)


def context_in_java(spark: SparkSession) -> Any | None:
    """Return the Spark context as Java has it; ``None`` of one that was stopped."""
    context = getattr(spark.sparkContext, "_jsc", None)
    return None if context is None else context.sc()


def copied(spark: SparkSession) -> SparkSession | None:
    """Return a session with all that another has by now, from then on its own."""
    # As Spark does for each streaming query: newSession() would lack functions and settings.
    with suppress(*NOT_THERE):
        return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001
    return None


def bound_to(spark: SparkSession, df: DataFrame) -> DataFrame:
    """Return a DataFrame bound to a session, whosever it was; or as it was."""
    if df.sparkSession is spark:
        return df
    with suppress(*NOT_THERE):
        bind: Any = jvm_of(spark).org.apache.spark.sql.classic.Dataset.ofRows  # type: ignore[union-attr]
        plan = df._jdf.queryExecution().analyzed()  # noqa: SLF001
        return DataFrame(bind(spark._jsparkSession, plan), spark)  # noqa: SLF001
    return df


def file_manager(spark: SparkSession, checkpoint: str) -> dict[str, str]:
    """Return the setting by which a checkpoint of this machine moves files with a single rename.

    Spark's own choice asks a process `readlink` eight times for each file that it moves into its
    place, thirty times a micro-batch and more; elsewhere than here, it is the right one.
    """
    if checkpoint.startswith("file:"):
        with suppress(*NOT_THERE):
            jvm: Any = jvm_of(spark)
            hadoop = jvm.org.apache.hadoop
            made = reduce(getattr, _RENAMING.split("."), jvm)
            made(hadoop.fs.Path(checkpoint), hadoop.conf.Configuration())  # as Spark does
            return {"spark.sql.streaming.checkpointFileManagerClass": _RENAMING}
    return {}


def finds_class(spark: SparkSession, name: str) -> bool:
    """Whether Java finds a class among a session's jars, where this thread looks from then on."""
    with suppress(*NOT_THERE):
        # Java looks for formats by the thread's loader, not the session's where it added no jars.
        loader = spark._jsparkSession.sharedState().jarClassLoader()  # noqa: SLF001
        jvm: Any = jvm_of(spark)
        jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
        loader.loadClass(name)
        return True
    return False


def executors_memory_bytes(spark: SparkSession) -> int:
    """Return what a cluster's executors may take together, or what the smallest one would."""
    with suppress(*NOT_THERE):
        context: Any = context_in_java(spark)
        executors = max(1, int(context.getExecutorMemoryStatus().size()) - 1)  # one is the driver
        return int(context.executorMemory() << 20) * executors
    return 1 << 30  # Spark's default
