"""What Spark's Java tells Prometheus: its memory, and what its garbage collectors took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from kstoolkit.operations.java import java_memory
from kstoolkit.operations.metricsrecord import counter, gauge, labelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.operations.metricsrecord import Metric


_SECOND_MS = 1_000
_MEMORY = {
    "heap_used_bytes": "Objects in the heap, garbage among them.",
    "heap_committed_bytes": "What was asked of the system for the heap.",
    "heap_max_bytes": "What the heap may grow to.",
    "non_heap_used_bytes": "Classes and compiled code.",
    "direct_bytes": "Direct buffers that Java counts.",
    "rss_bytes": "All that Java's process has in memory.",
}


def java_metrics(*, counts_here: bool) -> list[Metric]:
    """Return the memory and the collections of the driver's Java.

    Parameters
    ----------
    counts_here
        Whether the run is counted by this process: any other Java would be somebody else's.

    Raises
    ------
    py4j.protocol.Py4JError
        If Java has ended.

    Examples
    --------
    >>> java_metrics(counts_here=False)[0].about
    'Objects in the heap, garbage among them. Unknown: only the process that counts knows.'
    """
    if not counts_here:
        return _metrics({}, None, None, "only the process that counts knows")
    context = SparkContext._active_spark_context  # noqa: SLF001 - unlike getOrCreate, starts none
    if context is None:
        why = "the session has no Java on this side, as with Spark Connect"
        return _metrics({}, None, None, why)
    jvm: Any = context._jvm  # noqa: SLF001 - the way into Java
    memory = java_memory(jvm)
    beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    collectors = {bean.getName(): bean for bean in beans}
    return _metrics(
        {name: getattr(memory, name) for name in _MEMORY},
        {name: bean.getCollectionCount() for name, bean in collectors.items()},
        {name: bean.getCollectionTime() / _SECOND_MS for name, bean in collectors.items()},
        memory.unknown.get("rss_bytes", ""),
    )


def _metrics(
    memory: Mapping[str, int | None],
    collections: Mapping[str, float] | None,
    seconds: Mapping[str, float] | None,
    why: str,
) -> list[Metric]:
    gauges = [gauge(f"jvm_{name}", said, memory.get(name), why) for name, said in _MEMORY.items()]
    about = f" Unknown: {why}." if collections is None else ""
    return [
        *gauges,
        counter(
            "jvm_gc_collections", f"Garbage collections.{about}", labelled("gc", collections or {})
        ),
        counter(
            "jvm_gc_seconds", f"Time in garbage collections.{about}", labelled("gc", seconds or {})
        ),
    ]
