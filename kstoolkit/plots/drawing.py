"""Which function draws which record."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

_DRAWN_BY: dict[str, str] = {
    "Records[Records]": "axes.plot_nothing",
    "Finding": "users.plot_finding",
    "UserHistory": "users.plot_history",
    "UserStory": "users.plot_story",
    "Findings": "users.plot_findings",
    "Incidents": "users.plot_incidents",
    "Incident": "users.plot_incident",
    "WhatIf": "users.plot_what_if",
    "Evaluation": "users.plot_evaluation",
    "Records[Point]": "users.plot_curve",
    "Run": "run.plot_run",
    "Batches": "run.plot_batches",
    "RunStatus": "run.plot_status",
    "DeadLetters": "run.plot_dead_letters",
    "RunSummary": "run.plot_summary",
    "FoundStores": "stores.plot_found_stores",
    "FoundStore": "stores.plot_found_store",
    "Records[FoundStore]": "stores.plot_found_stores",
    "Growth": "stores.plot_growth",
    "Rows": "stores.plot_rows",
    "StoreDiff": "stores.plot_store_diff",
    "WindowReader": "stores.plot_replica",
    "Records[SegmentState]": "stores.plot_segments",
    "Lag": "stores.plot_lag",
    "RestoreHistory": "stores.plot_restore",
    "TopicLag": "run.plot_topic_lag",
    "UserCounts": "users.plot_counts",
    "Records[UserCounts]": "users.plot_many_counts",
    "CapacityPlan": "capacity.plot_capacity",
    "CapacitySweep": "capacity.plot_sweep",
    "MemoryPlan": "memory.plot_memory",
    "Checkup": "memory.plot_checkup",
    "MemoryParts": "memory.plot_measured",
    "Records[MemoryTerm]": "memory.plot_terms",
    "ProcessMemory": "memory.plot_process",
    "SparkMemory": "memory.plot_spark_memory",
    "JavaMemory": "memory.plot_java",
    "WorkersMemory": "memory.plot_workers",
    "QueryState": "memory.plot_query_state",
    "Records[ExecutorMemory]": "memory.plot_executors",
    "Records[Level]": "files.plot_levels",
    "Records[Sst]": "files.plot_ssts",
    "KeyStats": "files.plot_key_stats",
    "Sizes": "files.plot_sizes",
    "Records[HotPrefix]": "files.plot_prefixes",
    "StoreSummary": "files.plot_summary",
    "StoreLog": "log.plot_log",
    "Records[Flush]": "log.plot_log_rows",
    "Records[Compaction]": "log.plot_log_rows",
    "Records[Stall]": "log.plot_log_rows",
    "WriteAmplification": "log.plot_writes",
    "StallTime": "log.plot_stall_time",
    "StatsDump": "log.plot_dump",
    "Records[StatsDump]": "log.plot_dumps",
    "Records[LevelStats]": "log.plot_level_stats",
    "Comparison": "lab.plot_comparison",
    "Records[Trial]": "lab.plot_comparison",
    "Trial": "lab.plot_trial",
    "Records[Moment]": "lab.plot_moments",
    "Moment": "lab.plot_moment",
    "Records[LevelWork]": "lab.plot_level_work",
    "Profile": "profiles.plot_profile",
    "Records[OptionDifference]": "profiles.plot_difference",
}
"""The function of each class, as ``module.function`` in this package.

A class of records counts for those derived from it; ``Records[Level]`` stands for several records
of one kind, ``Records[Records]`` for none of any. Names, not classes: what is not drawn is not
imported.
"""


def draw(record: object, ax: Axes | None = None, **options: Any) -> Axes:
    """Return the plot of a record, or of several of one kind; raise if there is none such."""
    function = drawer(record)
    known = inspect.signature(function).parameters
    for name in options:
        if name not in known:
            message = f"{function.__name__} takes no {name!r}."
            hint = f"It takes {', '.join(list(known)[1:])}."
            raise ConfigurationError(message, hint=hint)
    return function(record, ax=ax, **options)


def drawer(record: object) -> Callable[..., Axes]:
    """Return the function that draws a record; raise if none does."""
    name = next((each for each in _names(record) if each in _DRAWN_BY), None)
    if name is None:
        message = f"There is no plot of {type(record).__name__}."
        hint = "to_pandas() gives the figures, for a plot of your own."
        raise ConfigurationError(message, hint=hint)
    module, function = _DRAWN_BY[name].split(".")
    found: Callable[..., Axes] = getattr(import_module(f"kstoolkit.plots.{module}"), function)
    return found


def _names(record: object) -> list[str]:
    names = [each.__name__ for each in type(record).__mro__]
    if not isinstance(record, Records):
        return names
    of = type(record[0]).__mro__ if len(record) else (Records,)
    return [*names, *(f"Records[{each.__name__}]" for each in of)]
