"""What a Spark application takes in memory, process by process, beside RocksDB's formula."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.executors import ExecutorMemory, executors_memory
from kstoolkit.operations.java import JavaMemory, java_memory
from kstoolkit.operations.querystate import QueryState, query_state
from kstoolkit.operations.sessions import session_with_java
from kstoolkit.operations.storeprofile import profile_of_settings
from kstoolkit.operations.workers import WorkersMemory, workers_memory
from kstoolkit.pipeline.run import Run
from kstoolkit.records import Figure, Record, Records, Source, of_source
from kstoolkit.rocksdb.memory.measured import ProcessMemory, process_memory
from kstoolkit.rocksdb.memory.planning import MemoryPlan, plan_memory
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.rocksdb.profiles.profile import Profile


_MAIN_TERMS = ("memtables", "block cache")
_NO_STORES = "these queries keep no state in RocksDB"


@dataclass(frozen=True, slots=True, repr=False)
class SparkMemory(Record):
    """What each of Spark's processes on this machine takes, and what its state stores may take.

    Each part is a record of its own, whose docstring says what is measured, what is Spark's
    estimate, and what lies inside what.

    Parameters
    ----------
    application
        The name of the application.
    java
        The driver's Java; if Spark runs locally, all stores are in it.
    state
        What the queries reported of their state, at the end of their last micro-batch: if Spark
        runs locally, memory that ``java`` has too, at another moment. Never add the two.
    python
        This process.
    workers
        The Python workers that the driver's Java started.
    executors
        What executors in processes of their own said; none if Spark runs locally.
    python_arrow_bytes
        What Arrow has in its pool in this process: inside ``python``. Those of the workers are
        inside ``workers``, and known to nobody else.
    total_pss_bytes
        What ``java``, ``python`` and ``workers`` take together.
    formula_bytes
        What RocksDB needs at most for the stores that the queries reported: ``plan``, with what
        the stores of a Java share once for each executor.
    plan
        The formula's terms; None without stores.
    unknown
        Why a figure is unknown, by its name.
    """

    application: str
    java: JavaMemory
    state: QueryState
    python: ProcessMemory
    workers: WorkersMemory
    executors: Records[ExecutorMemory]
    python_arrow_bytes: int = of_source(Source.OPENER)
    total_pss_bytes: int | None = of_source(Source.SYSTEM)
    formula_bytes: int | None = of_source(Source.FORMULA)
    plan: MemoryPlan | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def not_accounted_for_bytes(self) -> int | None:
        """What the driver's Java has in memory and none of its parts counts."""
        return self.java.not_accounted_for_bytes

    def figures(self) -> list[Figure]:
        """Return the figures of all parts, named as they are reached: ``java.heap_used_bytes``."""
        parts = {
            "java": self.java,
            "state": self.state,
            "python": self.python,
            "workers": self.workers,
        }
        inside = [
            Figure(f"{part}.{each.name}", each.value, each.source, each.why_unknown)
            for part, record in parts.items()
            for each in record.figures()
        ]
        return [*inside, *super(SparkMemory, self).figures()]

    def __repr__(self) -> str:
        return (
            f"SparkMemory({self.application!r}, Java {format_bytes(self.java.rss_bytes)} "
            f"(not accounted for {format_bytes(self.not_accounted_for_bytes)}), "
            f"Python {format_bytes(self.python.rss_bytes)}, "
            f"workers {format_bytes(self.workers.pss_bytes)}, "
            f"RocksDB {format_bytes(self.state.rocksdb_bytes)} by Spark's estimate, "
            f"{format_bytes(self.formula_bytes)} by the formula)"
        )

    def _repr_html_(self) -> str:
        html = super(SparkMemory, self)._repr_html_()
        html += self.plan._repr_html_() if self.plan is not None else ""
        return html + (self.executors._repr_html_() if self.executors else "")


def spark_memory(
    spark: SparkSession | None = None,
    *,
    query: StreamingQuery | Run | None = None,
    profile: Profile | str | os.PathLike[str] | None = None,
) -> SparkMemory:
    """Return what a Spark application takes in memory now, and what its state stores may take.

    Parameters
    ----------
    spark
        The session; None: the active one.
    query
        Whose state: a streaming query or a live run; None: all queries of the session that run.
    profile
        What the state stores are opened with, as :func:`~kstoolkit.plan_memory` takes it; None:
        Spark's own options, with the session's settings as they are now. A query keeps those that
        it was started with.

    Raises
    ------
    ConfigurationError
        If there is no session, or none with a Java on this side, or the run has no query.
    EnvironmentFault
        If Spark's Java has ended.

    Examples
    --------
    >>> from kstoolkit.pipeline.session import spark_session
    >>> memory = spark_memory(spark_session("local[2]"))
    >>> memory.java.heap_used_bytes <= memory.java.heap_committed_bytes
    True
    >>> memory.state.unknown["num_stores"]
    'no streaming query is running'
    """
    session = session_with_java(spark)
    context = session.sparkContext
    state = query_state(_progress(session, query))
    plan = None
    if state.num_stores:
        opened_with = profile_of_settings(session.conf.getAll) if profile is None else profile
        plan = plan_memory(opened_with, partitions=state.num_stores)
    java = java_memory(context._jvm)  # noqa: SLF001 - the way into Java
    return _record(
        str(context.appName),
        java=java,
        state=state,
        python=process_memory(),
        workers=workers_memory(java.pid),
        executors=executors_memory(context),
        plan=plan,
    )


def _progress(session: SparkSession, query: StreamingQuery | Run | None) -> dict[str, Any]:
    """Return what each query reported last, by its name or id."""
    if isinstance(query, Run):
        if query.query is None:
            message = f"{query!r} is not live: it has no streaming query."
            raise ConfigurationError(message, hint="Give what Pipeline.start() returned.")
        query = query.query
    queries = session.streams.active if query is None else [query]
    return {each.name or str(each.id): each.lastProgress for each in queries}


def _record(name: str, *, plan: MemoryPlan | None, **parts: Any) -> SparkMemory:
    """Put the parts together, with what follows from them."""
    java, state = parts["java"], parts["state"]
    formula_bytes, no_formula = _formula(plan, state, len(parts["executors"]))
    together_bytes, no_sum = _together(java, parts["python"], parts["workers"])
    whys = {"formula_bytes": no_formula, "total_pss_bytes": no_sum}
    return SparkMemory(
        name,
        **parts,
        python_arrow_bytes=pa.total_allocated_bytes(),
        total_pss_bytes=together_bytes,
        formula_bytes=formula_bytes,
        plan=plan,
        unknown={figure: why for figure, why in whys.items() if why},
    )


def _formula(
    plan: MemoryPlan | None, state: QueryState, executors: int
) -> tuple[int | None, str | None]:
    """Return the formula's sum for all executors, or why there is none."""
    if plan is None:
        return None, state.unknown.get("num_stores", _NO_STORES)
    lacking = [f"{term}: {plan.unknown[term]}" for term in _MAIN_TERMS if term in plan.unknown]
    if lacking:
        return None, "; ".join(lacking)
    javas = max(1, executors)
    return sum((term.total_bytes or 0) * (javas if term.shared else 1) for term in plan.terms), None


def _together(
    *parts: JavaMemory | ProcessMemory | WorkersMemory,
) -> tuple[int | None, str | None]:
    """Return the sum of what may be added up, or why it can't be."""
    why = next((part.unknown["pss_bytes"] for part in parts if part.pss_bytes is None), None)
    return (None, why) if why else (sum(part.pss_bytes or 0 for part in parts), None)
