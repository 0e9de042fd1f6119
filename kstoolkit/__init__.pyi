# The public names, and where each lives: for type checkers, and for lazy-loader at run time.

import typing

from .environment import doctor as doctor
from .events.simulator import simulate as simulate
from .events.sources import files as files
from .events.sources import frame as frame
from .events.topics import kafka_topic as kafka_topic
from .findings.evaluation import evaluate as evaluate
from .findings.rulefiles import load_rules as load_rules
from .findings.rules import Budget as Budget
from .findings.rules import Campaign as Campaign
from .findings.rules import Ceiling as Ceiling
from .findings.rules import Distinct as Distinct
from .findings.rules import Drift as Drift
from .findings.rules import Exempt as Exempt
from .findings.rules import Longer as Longer
from .findings.rules import TooEven as TooEven
from .findings.rules import Unusual as Unusual
from .kafka.cluster import ensure_topic as ensure_topic
from .kafka.outputs import kafka_changelog as kafka_changelog
from .kafka.outputs import kafka_findings as kafka_findings
from .kafka.producing import produce as produce
from .operations.assignment import assignment as assignment
from .operations.capacity import plan_capacity as plan_capacity
from .operations.checkup import checkup as checkup
from .operations.enginemetrics import read_metrics as read_metrics
from .operations.enginemetrics import read_progress as read_progress
from .operations.lag import lag as lag
from .operations.lookup import Lookup as Lookup
from .operations.metrics import serve_metrics as serve_metrics
from .operations.reset import reset as reset
from .operations.sparkmemory import spark_memory as spark_memory
from .operations.topicstore import open_topic as open_topic
from .pipeline.alerting import alertmanager as alertmanager
from .pipeline.alerting import load_alerts as load_alerts
from .pipeline.alerting import webhook as webhook
from .pipeline.dataframes import count_sessions as count_sessions
from .pipeline.dataframes import count_sliding as count_sliding
from .pipeline.dataframes import count_windows as count_windows
from .pipeline.failure import Restart as Restart
from .pipeline.pipeline import Pipeline as Pipeline
from .pipeline.results import BatchOutput as BatchOutput
from .pipeline.results import read_counts as read_counts
from .pipeline.run import Run as Run
from .pipeline.run import load_run as load_run
from .pipeline.unless import ask_unless as ask_unless
from .pipeline.whatif import find as find
from .pipeline.whatif import what_if as what_if
from .plots.users import plot_users as plot_users
from .replica.listening import RestoreHistory as RestoreHistory
from .replica.windowstore import WindowStore as WindowStore
from .report.report import Report as Report
from .rocksdb.lab.comparing import compare_profiles as compare_profiles
from .rocksdb.lab.workloads import Workload as Workload
from .rocksdb.log.storelog import read_log as read_log
from .rocksdb.memory.planning import plan_memory as plan_memory
from .rocksdb.metricnames import metric_names as metric_names
from .rocksdb.profiles.named import bounded_memory as bounded_memory
from .rocksdb.profiles.named import profile_named as profile_named
from .rocksdb.profiles.profile import Profile as Profile
from .rocksdb.profiles.profile import ProfileMap as ProfileMap
from .stores.comparing.comparing import diff_stores as diff_stores
from .stores.discovery.discovering import discover as discover
from .stores.growth.growth import growth as growth
from .stores.opening import open_store as open_store
from .stores.rows.exporting import export as export
from .widgets.exploring import explore as explore
from .widgets.findings import FindingsPanel as FindingsPanel
from .widgets.lab import CompactionLab as CompactionLab
from .widgets.memory import MemoryPanel as MemoryPanel
from .widgets.profiles import ProfilePanel as ProfilePanel
from .widgets.runmonitor import RunMonitor as RunMonitor
from .widgets.stores import StorePanel as StorePanel
from .windows import Cascade as Cascade
from .windows import Hop as Hop
from .windows import Session as Session

__all__: list[str]  # noqa: PYI035 - made from the names above
__version__: str

def __dir__() -> list[str]: ...
def load_ipython_extension(shell: typing.Any) -> None: ...
def unload_ipython_extension(shell: typing.Any) -> None: ...
