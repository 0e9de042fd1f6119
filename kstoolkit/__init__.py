"""Count what users do on Spark, find the abnormal ones, and look into the state that this leaves.

Every public name is imported on first use, so that ``import kstoolkit`` costs next to nothing and
starts neither Spark nor a plotting library.

Examples
--------
>>> import kstoolkit as kst
>>> kst.Cascade("1 minute", "1 hour", "1 day")
Cascade('1 minute', '1 hour', '1 day')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kstoolkit.environment import doctor as doctor
    from kstoolkit.events.simulator import simulate as simulate
    from kstoolkit.events.sources import files as files
    from kstoolkit.events.sources import frame as frame
    from kstoolkit.events.topics import kafka_topic as kafka_topic
    from kstoolkit.findings.rules import Ceiling as Ceiling
    from kstoolkit.findings.rules import Exempt as Exempt
    from kstoolkit.findings.rules import Unusual as Unusual
    from kstoolkit.findings.rules import load_rules as load_rules
    from kstoolkit.kafka.cluster import ensure_topic as ensure_topic
    from kstoolkit.kafka.outputs import kafka_changelog as kafka_changelog
    from kstoolkit.kafka.outputs import kafka_findings as kafka_findings
    from kstoolkit.kafka.producing import produce as produce
    from kstoolkit.operations.lag import lag as lag
    from kstoolkit.operations.lookup import Lookup as Lookup
    from kstoolkit.operations.metrics import serve_metrics as serve_metrics
    from kstoolkit.operations.reset import reset as reset
    from kstoolkit.operations.sparkmemory import spark_memory as spark_memory
    from kstoolkit.operations.topicstore import open_topic as open_topic
    from kstoolkit.pipeline.dataframes import count_sessions as count_sessions
    from kstoolkit.pipeline.dataframes import count_sliding as count_sliding
    from kstoolkit.pipeline.dataframes import count_windows as count_windows
    from kstoolkit.pipeline.failure import Restart as Restart
    from kstoolkit.pipeline.find import find as find
    from kstoolkit.pipeline.pipeline import Pipeline as Pipeline
    from kstoolkit.pipeline.run import Run as Run
    from kstoolkit.pipeline.run import load_run as load_run
    from kstoolkit.pipeline.unless import ask_unless as ask_unless
    from kstoolkit.plots.users import plot_users as plot_users
    from kstoolkit.replica.listening import RestoreHistory as RestoreHistory
    from kstoolkit.replica.windowstore import WindowStore as WindowStore
    from kstoolkit.report.report import Report as Report
    from kstoolkit.rocksdb.lab.comparing import compare_profiles as compare_profiles
    from kstoolkit.rocksdb.lab.workloads import Workload as Workload
    from kstoolkit.rocksdb.log.storelog import read_log as read_log
    from kstoolkit.rocksdb.memory.planning import plan_memory as plan_memory
    from kstoolkit.rocksdb.metricnames import metric_names as metric_names
    from kstoolkit.rocksdb.profiles.named import bounded_memory as bounded_memory
    from kstoolkit.rocksdb.profiles.named import profile_named as profile_named
    from kstoolkit.rocksdb.profiles.profile import Profile as Profile
    from kstoolkit.rocksdb.profiles.profile import ProfileMap as ProfileMap
    from kstoolkit.stores.comparing.comparing import diff_stores as diff_stores
    from kstoolkit.stores.discovery.discovering import discover as discover
    from kstoolkit.stores.growth.growth import growth as growth
    from kstoolkit.stores.opening import open_store as open_store
    from kstoolkit.stores.rows.exporting import export as export
    from kstoolkit.widgets.exploring import explore as explore
    from kstoolkit.widgets.findings import FindingsPanel as FindingsPanel
    from kstoolkit.widgets.lab import CompactionLab as CompactionLab
    from kstoolkit.widgets.memory import MemoryPanel as MemoryPanel
    from kstoolkit.widgets.profiles import ProfilePanel as ProfilePanel
    from kstoolkit.widgets.runmonitor import RunMonitor as RunMonitor
    from kstoolkit.widgets.stores import StorePanel as StorePanel
    from kstoolkit.windows import Cascade as Cascade
    from kstoolkit.windows import Hop as Hop

    __version__: str

_HOMES = {
    "Cascade": "kstoolkit.windows",
    "Ceiling": "kstoolkit.findings.rules",
    "CompactionLab": "kstoolkit.widgets.lab",
    "Exempt": "kstoolkit.findings.rules",
    "FindingsPanel": "kstoolkit.widgets.findings",
    "Hop": "kstoolkit.windows",
    "Lookup": "kstoolkit.operations.lookup",
    "MemoryPanel": "kstoolkit.widgets.memory",
    "Pipeline": "kstoolkit.pipeline.pipeline",
    "Profile": "kstoolkit.rocksdb.profiles.profile",
    "ProfileMap": "kstoolkit.rocksdb.profiles.profile",
    "ProfilePanel": "kstoolkit.widgets.profiles",
    "Report": "kstoolkit.report.report",
    "Restart": "kstoolkit.pipeline.failure",
    "RestoreHistory": "kstoolkit.replica.listening",
    "Run": "kstoolkit.pipeline.run",
    "RunMonitor": "kstoolkit.widgets.runmonitor",
    "StorePanel": "kstoolkit.widgets.stores",
    "Unusual": "kstoolkit.findings.rules",
    "WindowStore": "kstoolkit.replica.windowstore",
    "Workload": "kstoolkit.rocksdb.lab.workloads",
    "ask_unless": "kstoolkit.pipeline.unless",
    "bounded_memory": "kstoolkit.rocksdb.profiles.named",
    "compare_profiles": "kstoolkit.rocksdb.lab.comparing",
    "count_sessions": "kstoolkit.pipeline.dataframes",
    "count_sliding": "kstoolkit.pipeline.dataframes",
    "count_windows": "kstoolkit.pipeline.dataframes",
    "diff_stores": "kstoolkit.stores.comparing.comparing",
    "discover": "kstoolkit.stores.discovery.discovering",
    "doctor": "kstoolkit.environment",
    "ensure_topic": "kstoolkit.kafka.cluster",
    "explore": "kstoolkit.widgets.exploring",
    "export": "kstoolkit.stores.rows.exporting",
    "files": "kstoolkit.events.sources",
    "find": "kstoolkit.pipeline.run",
    "frame": "kstoolkit.events.sources",
    "growth": "kstoolkit.stores.growth.growth",
    "kafka_changelog": "kstoolkit.kafka.outputs",
    "kafka_findings": "kstoolkit.kafka.outputs",
    "kafka_topic": "kstoolkit.events.topics",
    "lag": "kstoolkit.operations.lag",
    "load_rules": "kstoolkit.findings.rules",
    "load_run": "kstoolkit.pipeline.run",
    "metric_names": "kstoolkit.rocksdb.metricnames",
    "open_store": "kstoolkit.stores.opening",
    "open_topic": "kstoolkit.operations.topicstore",
    "plan_memory": "kstoolkit.rocksdb.memory.planning",
    "plot_users": "kstoolkit.plots.users",
    "produce": "kstoolkit.kafka.producing",
    "profile_named": "kstoolkit.rocksdb.profiles.named",
    "read_log": "kstoolkit.rocksdb.log.storelog",
    "reset": "kstoolkit.operations.reset",
    "serve_metrics": "kstoolkit.operations.metrics",
    "simulate": "kstoolkit.events.simulator",
    "spark_memory": "kstoolkit.operations.sparkmemory",
}

__all__ = [
    "Cascade",
    "Ceiling",
    "CompactionLab",
    "Exempt",
    "FindingsPanel",
    "Hop",
    "Lookup",
    "MemoryPanel",
    "Pipeline",
    "Profile",
    "ProfileMap",
    "ProfilePanel",
    "Report",
    "Restart",
    "RestoreHistory",
    "Run",
    "RunMonitor",
    "StorePanel",
    "Unusual",
    "WindowStore",
    "Workload",
    "__version__",
    "ask_unless",
    "bounded_memory",
    "compare_profiles",
    "count_sessions",
    "count_sliding",
    "count_windows",
    "diff_stores",
    "discover",
    "doctor",
    "ensure_topic",
    "explore",
    "export",
    "files",
    "find",
    "frame",
    "growth",
    "kafka_changelog",
    "kafka_findings",
    "kafka_topic",
    "lag",
    "load_rules",
    "load_run",
    "metric_names",
    "open_store",
    "open_topic",
    "plan_memory",
    "plot_users",
    "produce",
    "profile_named",
    "read_log",
    "reset",
    "serve_metrics",
    "simulate",
    "spark_memory",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name == "__version__":
        value = import_module("importlib.metadata").version("kstoolkit")
    else:
        message = f"module 'kstoolkit' has no attribute {name!r}"
        raise AttributeError(message)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Give IPython the magics: what ``%load_ext kstoolkit`` calls."""
    import_module("kstoolkit.magics").load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away: what ``%unload_ext kstoolkit`` calls."""
    import_module("kstoolkit.magics").unload(shell)
