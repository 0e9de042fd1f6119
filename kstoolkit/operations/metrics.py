"""Figures of a run or a replica for Prometheus, over HTTP.

Each part of a run's figures is asked by itself: one that fails costs no other. Nothing is read
before somebody asks, and nothing of Spark's is held up: what is read lies in the run's folder,
and so survives a restart of the run, or is what the query of this process last told. A part that
takes its time is not read anew each time: it is to take a tenth of the time at most, as long as no
figure gets older than ten seconds by that, or a minute if it takes a walk over all files of the
run. A silent broker holds up no other figure than the lag.

Of a replica, it is how far its restore is, and how far it is behind then.
"""

from __future__ import annotations

import errno
import json
import threading
import time
from collections import Counter
from dataclasses import replace
from shutil import disk_usage
from typing import TYPE_CHECKING, TypeAlias

from py4j.protocol import Py4JError

from kstoolkit.errors import (
    ConfigurationError,
    FormatError,
    KafkaError,
    KstoolkitError,
    OutputError,
)
from kstoolkit.operations.enginemetrics import need_prometheus
from kstoolkit.operations.lag import LagWatch
from kstoolkit.operations.sparkmemory import java_memory, session_with_java
from kstoolkit.operations.sparkmetrics import QueryFigures, counter, gauge, labelled
from kstoolkit.pipeline.runfolder import size_bytes
from kstoolkit.pipeline.session import active_session, queries_beside
from kstoolkit.pipeline.sparkinside import jvm_of
from kstoolkit.pipeline.status import NO_BATCH, FindingCounts, RunState, RunWatch, with_all_reasons
from kstoolkit.records import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.metrics_core import Metric as Family
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.operations.lag import LagOfPartition
    from kstoolkit.operations.sparkmetrics import Labels
    from kstoolkit.pipeline.batches import MicroBatch
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import RunFolder, Settings
    from kstoolkit.pipeline.status import RunStatus
    from kstoolkit.replica.records import Lag

    Figures: TypeAlias = "RunCollector | ReplicaCollector"


def _run_metrics(status: RunStatus, settings: Settings | None) -> list[Family]:
    """Return the figures of a run as it stands; it has no settings before it has begun."""
    windows = () if settings is None else settings.windows
    states = {state.name.lower(): float(state is status.state) for state in RunState}
    letters = with_all_reasons(status.dead_letters)
    late = "Events that were too late for a window; they still count in longer ones."
    return [
        gauge("run_state", "1 for the state that the run is in.", labelled("state", states)),
        counter("events", "Events that came in, late ones too.", status.events),
        counter("batches", "Micro-batches that ended.", status.num_batches),
        counter("late_events", late, labelled("window", status.late, windows)),
        counter("dead_letters", "Records that could not be counted.", labelled("reason", letters)),
        *_behind(status),
        *_last_batch(status.newest),
    ]


_EVENT_TIME_LAG = (
    "How far event time is behind the clock at least: to the end of the newest window."
)
_WAIT = "that were taken in and are not counted yet."
_STATE_BYTES = "Size of the state in the checkpoint."


def _behind(status: RunStatus) -> list[Family]:
    lag_s = None if status.lag_ms is None else status.lag_ms / 1_000
    return [
        gauge(name, about, value, status.unknown.get(figure, NO_BATCH))
        for name, value, figure, about in (
            ("event_time_lag_seconds", lag_s, "newest_event_ms", _EVENT_TIME_LAG),
            ("lag_files", status.waiting_files, "waiting_files", f"Files {_WAIT}"),
            ("lag_bytes", status.waiting_bytes, "waiting_files", f"Size of the files {_WAIT}"),
            ("state_disk_bytes", status.state_bytes, "state_bytes", _STATE_BYTES),
        )
    ]


_LAST_BATCH = {
    "timestamp_seconds": "The clock of the newest micro-batch, epoch seconds.",
    "events": "Events that came in with the newest micro-batch.",
    "duration_seconds": "How long the newest micro-batch took: all of it in the process that "
    "counts, else what its sink took.",
}


def _last_batch(newest: MicroBatch | None) -> list[Family]:
    told: tuple[float | None, ...] = (None, None, None)
    if newest is not None:
        told = newest.batch_ms / 1_000, newest.events, newest.seconds
    return [
        gauge(f"last_batch_{name}", about, value, NO_BATCH)
        for (name, about), value in zip(_LAST_BATCH.items(), told, strict=True)
    ]


def _disk_metrics(folder: Path) -> list[Family]:
    """Return what a run's folder takes, and what is free where it lies or is going to."""
    disk = disk_usage(next(each for each in (folder, *folder.absolute().parents) if each.exists()))
    size, why = size_bytes(folder), "it is not there yet"
    return [
        gauge("run_folder_bytes", "Size of all files in the run's folder.", size, why),
        gauge("disk_free_bytes", "Bytes that are free on the run folder's disk.", disk.free),
        gauge("disk_size_bytes", "Size of the run folder's disk.", disk.total),
    ]


_JAVA_MEMORY = {
    "heap_used_bytes": "Objects in the heap, garbage among them.",
    "heap_committed_bytes": "What was asked of the system for the heap.",
    "heap_max_bytes": "What the heap may grow to.",
    "non_heap_used_bytes": "Classes and compiled code.",
    "direct_bytes": "Direct buffers that Java counts.",
    "rss_bytes": "All that Java's process has in memory.",
}


def _java_metrics(*, counts_here: bool) -> list[Family]:
    """Return the memory and the collections of the driver's Java; another Java is none of ours.

    >>> _java_metrics(counts_here=False)[0].documentation
    'Objects in the heap, garbage among them. Unknown: only the process that counts knows.'
    """
    session = active_session() if counts_here else None
    jvm = None if session is None else jvm_of(session)
    memory, collectors, about = None, {}, ""
    if jvm is not None:
        memory = java_memory(jvm)
        why = memory.unknown.get("rss_bytes", "")
        beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
        collectors = {bean.getName(): bean for bean in beans}
    else:
        no_java = "the session has no Java on this side, as with Spark Connect"
        why = no_java if counts_here else "only the process that counts knows"
        about = f" Unknown: {why}."
    counts = {name: bean.getCollectionCount() for name, bean in collectors.items()}
    seconds = {n: bean.getCollectionTime() / 1_000 for n, bean in collectors.items()}
    return [
        *(
            gauge(f"jvm_{name}", said, None if memory is None else getattr(memory, name), why)
            for name, said in _JAVA_MEMORY.items()
        ),
        counter("jvm_gc_collections", f"Garbage collections.{about}", labelled("gc", counts)),
        counter("jvm_gc_seconds", f"Time in garbage collections.{about}", labelled("gc", seconds)),
    ]


_PATIENCE_SECONDS = 2.0


class _RunLag:
    """Returns a run's lag by partition when it is called; nothing if the run reads no topic.

    Rates are measured from one call to another.
    """

    def __init__(self, run: Run, options: Mapping[str, str] | None = None) -> None:
        self._run, self._options = run, options
        self._watch: LagWatch | None = None
        self._asking: threading.Thread | None = None
        self._found: tuple[LagOfPartition, ...] = ()
        self._failed: Exception | None = None

    def __call__(self) -> tuple[LagOfPartition, ...]:
        """Return the lag as it is now, or raise if no broker answers at once."""
        if not self._is_on_topic():
            return ()
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(target=self._look, name="lag", daemon=True)
            self._asking.start()
        self._asking.join(_PATIENCE_SECONDS)
        if self._asking.is_alive():
            message = f"The lag is not known within {_PATIENCE_SECONDS:g} s."
            raise KafkaError(message, hint="Is the broker up?")
        if self._failed is not None:
            raise self._failed
        return self._found

    def _is_on_topic(self) -> bool:
        try:
            settings = self._run.folder.settings()
        except (FormatError, OutputError):  # whoever reads the run's own figures says so
            return False
        return settings is not None and settings.feed == "topic"

    def _look(self) -> None:
        try:
            if self._watch is None:
                self._watch = LagWatch(self._run, options=self._options)
            self._found, self._failed = self._watch.look().partitions, None
        except Exception as error:  # noqa: BLE001 - raised to whoever waits for this thread
            self._failed = error


_RESETS = "spark.sql.streaming.stateStore.rocksdb.resetStatsOnLoad"


def _counting_query(folder: RunFolder) -> StreamingQuery | None:
    """Return the query that counts into a folder now: Spark keeps its id in the checkpoint.

    Each session lists its own queries alone, and a thread may have another session than the run.
    """
    try:
        query_id = json.loads((folder.checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
        beside = queries_beside(session_with_java())
        return next((query for query in beside if str(query.id) == query_id), None)
    except (OSError, ValueError, KstoolkitError, Py4JError):
        return None


def _resets_counts(query: StreamingQuery | None) -> bool:
    """Return whether RocksDB's own counts begin at 0 with each micro-batch, as by default."""
    if query is None:
        return True
    try:
        return session_with_java().conf.get(_RESETS, "true") != "false"
    except (KstoolkitError, Py4JError):
        return True


class RestoreProgress:
    """A restore listener for replicas and standbys, of which three figures a window remain.

    Give it as ``listener`` to :meth:`kstoolkit.WindowStore.restore` and
    :meth:`kstoolkit.WindowStore.follow`. Segments that are rebuilt alone count with their window.

    >>> progress = RestoreProgress()
    >>> progress.on_start("1 hour", total=500)
    >>> progress.on_batch("1 hour", records=200)
    >>> {each.name: each.samples[0].value for each in progress.metrics()[:2]}
    {'kstoolkit_restore_records': 200, 'kstoolkit_restore_remaining_records': 300}
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._read: Counter[str] = Counter()
        self._remaining: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def on_start(self, what: str, *, total: int) -> None:
        """Take in that so many records are going to be read."""
        with self._one_at_a_time:
            self._remaining[_window(what)] += total

    def on_batch(self, what: str, *, records: int) -> None:
        """Take in that so many more have been read."""
        with self._one_at_a_time:
            self._read[_window(what)] += records
            self._remaining[_window(what)] -= records

    def on_end(self, what: str, *, records: int) -> None:  # noqa: ARG002 - batches have told them
        """Take in that all is restored."""
        with self._one_at_a_time:
            self._remaining[_window(what)] = 0

    def on_failure(self, what: str, *, error: Exception) -> None:  # noqa: ARG002 - it is raised
        """Take in that it can't be restored; whoever tries again says anew what remains."""
        with self._one_at_a_time:
            self._failures[_window(what)] += 1
            self._remaining[_window(what)] = 0

    def metrics(self) -> list[Family]:
        """Return the figures by now; none before a restore has begun."""
        with self._one_at_a_time:
            left = labelled("window", self._remaining)
            read = labelled("window", self._read, self._remaining)
            failures = labelled("window", self._failures, self._remaining)
        about = "Records of the changelog that were read into a replica."
        to_come = "Records of what was begun that are still to be read; 0 once it is restored."
        return [
            counter("restore_records", about, read),
            gauge("restore_remaining_records", to_come, left),
            counter("restore_failures", "Restores that failed.", failures),
        ]


def _window(what: str) -> str:
    """Return the window of a level, or of a segment: ``1 hour from 2015-09-12T10:00:00+00:00``."""
    return what.partition(" from ")[0]


_SHARE = 10  # how many times as long as it took to be read, a part's figures serve
_OLDEST_SECONDS = {"disk": 60.0}  # how long at most, if not for ten seconds


class RunCollector:
    """Reads a run's figures when it is asked; also of one that this process started again.

    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> told = RunCollector(Run(RunFolder(Path("no/run")))).collect()
    >>> {each.name: each.samples[0].value for each in told if each.samples}["kstoolkit_restarts"]
    0
    """

    def __init__(
        self,
        run: Run,
        *,
        lag: Callable[[], Iterable[LagOfPartition]] | None = None,
        restarts: Callable[[], int] | None = None,
    ) -> None:
        self.restores = RestoreProgress()
        self._run, self._watch = run, RunWatch(run)
        self._query_figures = QueryFigures(resets=_resets_counts(run.query))
        self._lag, self._restarts = lag, restarts
        self._one_at_a_time = threading.Lock()
        findings = FindingCounts(run.folder)
        parts: dict[str, Callable[[], list[Family]]] = {
            "run": self._read_run,
            "findings": lambda: self._read_findings(findings),
            "disk": lambda: _disk_metrics(run.folder.path),
            "java": lambda: _java_metrics(counts_here=self._run.is_active),
            "lag": self._read_lag,
            "restarts": self._read_restarts,
            "restore": self.restores.metrics,
        }
        self._parts = {
            name: _Rested(read, _OLDEST_SECONDS.get(name, 10.0)) for name, read in parts.items()
        }
        self._errors: Counter[str] = Counter()

    def collect(self) -> list[Family]:
        """Return the figures; those of a part that fails are left out, and the failure counts."""
        with self._one_at_a_time:
            found = [metric for name in self._parts for metric in self._read(name)]
            took = {name: part.took_seconds for name, part in self._parts.items()}
        about = "How often a part of these figures could not be read, and was left out."
        return [
            *found,
            counter("scrape_errors", about, labelled("part", self._errors, self._parts)),
            gauge(
                "scrape_part_seconds",
                f"How long a part took to be read. It is read anew after {_SHARE} times as long, "
                "and after 10 s in any case, or 60 s of the disk.",
                labelled("part", took),
            ),
        ]

    def _read(self, part: str) -> list[Family]:
        try:
            return self._parts[part].read()
        except Exception:  # noqa: BLE001 - whatever broke one part, the others are still true
            self._errors[part] += 1
            return []

    def _read_run(self) -> list[Family]:
        query = None if self._run.is_active else _counting_query(self._run.folder)
        if query is not None:  # another than the one known counts into the folder now
            self._run = replace(self._run, query=query)
            self._watch = RunWatch(self._run)
            self._query_figures.begin(resets=_resets_counts(query))
        status = self._watch.look()
        return [
            *_run_metrics(status, self._run.folder.settings()),
            *self._query_figures.metrics(
                status.batches, self._watch.progress, counts_here=status.state is RunState.COUNTING
            ),
        ]

    def _read_lag(self) -> list[Family]:
        if self._lag is None:
            return []
        records: dict[Labels, float] = {}
        seconds: dict[Labels, float] = {}
        for each in self._lag():
            labels = (("topic", each.topic), ("partition", str(each.partition)))
            if each.lag_records is not None:
                records[labels] = each.lag_records
            if each.catch_up_seconds is not None:
                seconds[labels] = each.catch_up_seconds
        return [
            gauge("lag_records", "Records of a partition that are still to be read.", records),
            gauge("lag_catch_up_seconds", "How long reading them may take.", seconds),
        ]

    def _read_findings(self, findings: FindingCounts) -> list[Family]:
        about = "Findings that were reported; one whose count grows is reported again."
        return self._while_there([counter("findings", about, labelled("rule", findings.look()))])

    def _read_restarts(self) -> list[Family]:
        number = 0 if self._restarts is None else self._restarts()
        about = "How often a supervisor started the run again."
        return self._while_there([counter("restarts", about, number)])

    def _while_there(self, figures: list[Family]) -> list[Family]:
        """Return what the run's folder told, unless it was removed: then it told nothing."""
        self._watch.check()
        return figures


class _Rested:
    """Figures that are read anew only once they have served long enough for what they cost."""

    def __init__(self, read: Callable[[], list[Family]], oldest_seconds: float) -> None:
        self._read, self._oldest_seconds = read, oldest_seconds
        self._held: list[Family] = []
        self._due = 0.0
        self.took_seconds = 0.0

    def read(self) -> list[Family]:
        began = time.monotonic()
        if began < self._due:
            return self._held
        self._held = self._read()
        ended = time.monotonic()
        self.took_seconds = ended - began
        self._due = ended + min(_SHARE * self.took_seconds, self._oldest_seconds)
        return self._held


_NOT_YET = "nothing follows the changelog yet"


class ReplicaCollector:
    """Holds what it was last told of one replica: who follows is not asked from beside.

    ``restores`` is a listener for :meth:`kstoolkit.WindowStore.restore` and
    :meth:`kstoolkit.WindowStore.follow`.
    """

    def __init__(self) -> None:
        self.restores = RestoreProgress()
        self._lag: Lag | None = None
        self._followed = 0

    def tell(self, lag: Lag, followed: int) -> None:
        """Take in how far the replica is behind, and how many records were followed so far."""
        self._lag, self._followed = lag, followed

    def collect(self) -> list[Family]:
        """Return the figures by now."""
        lag, records, seconds, why = self._lag, None, None, _NOT_YET
        if lag is not None:
            records, seconds, why = lag.records, lag.seconds, lag.unknown.get("seconds", "not told")
        to_come = "Records of the changelog that are still to be read."
        older = "How much older the newest batch held is than the changelog's newest."
        followed = "Records of the changelog that were read since it is followed."
        return [
            *self.restores.metrics(),
            gauge("replica_lag_records", to_come, records, _NOT_YET),
            gauge("replica_lag_seconds", older, seconds, why),
            counter("replica_followed_records", followed, self._followed),
        ]


_LAST_PORT = 65_535


def serve_metrics(
    run: Run,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    lag: Callable[[], Iterable[LagOfPartition]] | None = None,
    restarts: Callable[[], int] | None = None,
    options: Mapping[str, str] | None = None,
) -> MetricsServer:
    """Return a server of a run's figures as Prometheus text, until it or the run is closed.

    What lies in the run's folder is served of any run: events, late ones, dead letters by reason,
    findings by rule, files that wait, disk. What only the process that counts knows is served
    there: what batches' time goes into, state and RocksDB by operator, Java's heap. A figure that
    is not known has no value, and its help says why.

    Parameters
    ----------
    run
        What :meth:`~kstoolkit.Pipeline.start` returned, or :func:`~kstoolkit.load_run`. Stopping
        it closes the server.
    port
        Where to listen; 0 is any that is free.
    host
        The address to listen at: by default, nobody but this machine can ask.
    lag
        Returns the lag by partition; by default, that of the run itself if it reads a topic.
    restarts
        Returns how often the run was started again by whoever supervises it.
    options
        Settings of the connection to the topic that the run reads; by default those of the file
        that ``KSTOOLKIT_KAFKA_CONFIG`` names.

    Raises
    ------
    EnvironmentFault
        If ``prometheus_client`` is not installed.
    ConfigurationError
        If the port is taken, or can't be listened at.

    Examples
    --------
    >>> from pathlib import Path
    >>> from urllib.request import urlopen
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> with serve_metrics(Run(RunFolder(Path("no/run")))) as server:
    ...     text = urlopen(server.url).read().decode()
    >>> "kstoolkit_events_total 0.0" in text.splitlines()
    True
    """
    told = _RunLag(run, options) if lag is None else lag
    server = MetricsServer(RunCollector(run, lag=told, restarts=restarts), port, host)
    run.closes.callback(server.close)
    return server


class MetricsServer(Closing):
    """Answers whoever asks for figures, until it is closed; :func:`serve_metrics` makes a run's.

    Attributes
    ----------
    url
        Where the figures are.
    restores
        A listener for :meth:`kstoolkit.WindowStore.restore` and
        :meth:`kstoolkit.WindowStore.follow`, whose progress is served beside them.
    """

    def __init__(self, collector: Figures, port: int = 0, host: str = "127.0.0.1") -> None:
        need_prometheus("Serving")
        self.restores: RestoreProgress = collector.restores
        self._server, self._thread = _listening(collector, host, port)
        self.port: int = self._server.server_port
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"

    def close(self) -> None:
        """Stop answering."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def __repr__(self) -> str:
        state = "" if self._thread.is_alive() else ", closed"
        return f"MetricsServer({self.url!r}{state})"


def _listening(collector: Figures, host: str, port: int) -> tuple[WSGIServer, threading.Thread]:
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 - an extra

    if type(port) is not int or not 0 <= port <= _LAST_PORT:
        message = f"port is {port!r}: there are 0 to {_LAST_PORT}."
        raise ConfigurationError(message, hint="Give 0 for any that is free.")
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        return start_http_server(port, host, registry)
    except OSError as error:
        why = "it is taken" if error.errno == errno.EADDRINUSE else error.strerror
        message = f"Metrics can't be served at port {port} of {host!r}: {why}."
        hint = "Give another port, or 0 for any that is free."
        raise ConfigurationError(message, hint=hint) from error
