"""What Spark's executors said of their memory, as far as the driver was told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.units import format_bytes

_METRICS = {
    "peak_heap_bytes": "JVMHeapMemory",
    "peak_non_heap_bytes": "JVMOffHeapMemory",
    "peak_direct_bytes": "DirectPoolMemory",
    "peak_mapped_bytes": "MappedPoolMemory",
}
_OF_PROCESSES = {
    "peak_java_rss_bytes": "ProcessTreeJVMRSSMemory",
    "peak_workers_rss_bytes": "ProcessTreePythonRSSMemory",
}
"""Where each figure stands among ``ExecutorMetricType`` of Spark 4.3."""

_NOT_TOLD = "it has told nothing yet: it does each spark.executor.heartbeatInterval"
_NOT_ASKED = "spark.executor.processTreeMetrics.enabled is not true"
_NOT_SEEN = "its system has no /proc, or no such process has run yet"


@dataclass(frozen=True, slots=True, repr=False)
class ExecutorMemory(Record):
    """The most that one executor has taken so far, by its own account.

    Parameters
    ----------
    executor, place
        Its number, and its host and port.
    peak_heap_bytes, peak_non_heap_bytes
        Used heap; classes and compiled code.
    peak_direct_bytes, peak_mapped_bytes
        Direct buffers that Java counts, which netty's and Arrow's are not; mapped files.
    peak_java_rss_bytes, peak_workers_rss_bytes
        What its Java, and its Python workers, have in memory, if
        ``spark.executor.processTreeMetrics.enabled`` is true. RocksDB lies inside the first.
        Workers are forks that share most of the second, where it counts once a fork.
    unknown
        Why a figure is unknown, by its name.
    """

    executor: str
    place: str
    peak_heap_bytes: int | None = of_source(Source.METRICS)
    peak_non_heap_bytes: int | None = of_source(Source.METRICS)
    peak_direct_bytes: int | None = of_source(Source.METRICS)
    peak_mapped_bytes: int | None = of_source(Source.METRICS)
    peak_java_rss_bytes: int | None = of_source(Source.METRICS)
    peak_workers_rss_bytes: int | None = of_source(Source.METRICS)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        heap, rss = format_bytes(self.peak_heap_bytes), format_bytes(self.peak_java_rss_bytes)
        return (
            f"ExecutorMemory({self.executor!r} at {self.place}, peak heap {heap}, peak RSS {rss})"
        )


def executors_memory(context: Any) -> Records[ExecutorMemory]:
    """Return what each executor that is up said; the driver, which is one if local, left out.

    Spark tells the peaks since an executor started, not what it takes now, and tells them whether
    or not its web page is on.

    Parameters
    ----------
    context
        The session's ``SparkContext``.
    """
    asked = context.getConf().get("spark.executor.processTreeMetrics.enabled", "false") == "true"
    listed = context._jsc.sc().statusStore().executorList(True)  # noqa: FBT003, SLF001 - active ones; the way into Java
    up = context._jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed)  # noqa: SLF001
    told = [_executor_figures(each, asked=asked) for each in up if each.id() != "driver"]
    return Records(told, "executors")


def _executor_figures(summary: Any, *, asked: bool) -> ExecutorMemory:
    peaks = summary.peakMemoryMetrics()
    values: dict[str, int | None] = dict.fromkeys(_METRICS | _OF_PROCESSES)
    whys = dict.fromkeys(values, _NOT_TOLD)
    if peaks.isDefined():
        metric = peaks.get().getMetricValue
        values |= {name: metric(key) for name, key in _METRICS.items()}
        # Spark says 0 of what it was not asked for, or can't know.
        values |= {name: metric(key) or None for name, key in _OF_PROCESSES.items()}
        whys |= dict.fromkeys(_OF_PROCESSES, _NOT_SEEN)
    if not asked:
        whys |= dict.fromkeys(_OF_PROCESSES, _NOT_ASKED)
    unknown = {name: whys[name] for name, value in values.items() if value is None}
    return ExecutorMemory(summary.id(), summary.hostPort(), **values, unknown=unknown)
