"""A run's figures as they are asked for, each part by itself: one that fails costs no other.

Nothing is read before somebody asks, and nothing of Spark's is held up: what is read lies in the
run's folder, or is what the query last told. A part that takes its time is not read anew each time:
it is to take a tenth of the time at most, as long as no figure gets older than ten seconds by that,
or a minute if it takes a walk over all files of the run.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kstoolkit.operations.metricsjava import java_metrics
from kstoolkit.operations.metricsquery import counting_query, resets_counts
from kstoolkit.operations.metricsrecord import counter, gauge, labelled
from kstoolkit.operations.metricsrestore import RestoreProgress
from kstoolkit.operations.metricsrun import disk_metrics, finding_metrics, run_metrics
from kstoolkit.operations.metricsspark import QueryFigures
from kstoolkit.pipeline.status import FindingTally, RunWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kstoolkit.operations.metricsrecord import Labels, Metric
    from kstoolkit.pipeline.run import Run


_SHARE = 10
"""How many times as long as it took to be read, a part's figures serve."""
_OLDEST_SECONDS = {"disk": 60.0}
"""How long at most, if not for ten seconds."""


class PartitionLag(Protocol):
    """How far a reader is behind the end of one partition of a topic."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def partition(self) -> int:
        """The partition."""

    @property
    def lag_records(self) -> int | None:
        """Records still to be read; ``None`` if unknown."""

    @property
    def catch_up_seconds(self) -> float | None:
        """How long that may take; ``None`` if unknown, or never."""


class RunCollector:
    """Reads a run's figures when it is asked.

    Parameters
    ----------
    run
        The run. If it is not live itself, but the run on its folder is counted by this process, as
        when it was started again, that one's query is asked.
    lag
        Returns the lag by partition, for runs on a topic.
    restarts
        Returns how often the run was started again by whoever supervises it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> told = RunCollector(Run(RunFolder(Path("no/run")))).metrics()
    >>> {each.name: each.samples for each in told}["kstoolkit_restarts"]
    (((), 0),)
    """

    def __init__(
        self,
        run: Run,
        *,
        lag: Callable[[], Iterable[PartitionLag]] | None = None,
        restarts: Callable[[], int] | None = None,
    ) -> None:
        self.restores = RestoreProgress()
        self._run, self._watch = run, RunWatch(run)
        self._query_figures = QueryFigures(resets=resets_counts(run.query))
        self._lag, self._restarts = lag, restarts
        self._one_at_a_time = threading.Lock()
        findings = FindingTally(run.folder)
        parts: dict[str, Callable[[], list[Metric]]] = {
            "run": self._read_run,
            "findings": lambda: self._while_there(finding_metrics(findings.look())),
            "disk": lambda: disk_metrics(run.folder.path),
            "java": lambda: java_metrics(counts_here=self._run.is_active),
            "lag": self._read_lag,
            "restarts": self._read_restarts,
            "restore": self.restores.metrics,
        }
        self._parts = {
            name: _Rested(read, _OLDEST_SECONDS.get(name, 10.0)) for name, read in parts.items()
        }
        self._errors: Counter[str] = Counter()

    def metrics(self) -> list[Metric]:
        """Return the figures; those of a part that fails are left out, and the failure counts."""
        with self._one_at_a_time:
            found = [metric for name in self._parts for metric in self._read(name)]
            took = {name: part.took_seconds for name, part in self._parts.items()}
        return [
            *found,
            counter(
                "scrape_errors",
                "How often a part of these figures could not be read, and was left out.",
                labelled("part", self._errors, self._parts),
            ),
            gauge(
                "scrape_part_seconds",
                f"How long a part took to be read. It is read anew after {_SHARE} times as long, "
                "and after 10 s in any case, or 60 s of the disk.",
                labelled("part", took),
            ),
        ]

    def _read(self, part: str) -> list[Metric]:
        try:
            return self._parts[part].read()
        except Exception:  # noqa: BLE001 - whatever broke one part, the others are still true
            self._errors[part] += 1
            return []

    def _read_run(self) -> list[Metric]:
        self._find_query()
        status = self._watch.look()
        settings = self._run.folder.settings()
        return [
            *run_metrics(status, settings),
            *self._query_figures.metrics(status, self._watch.progress),
        ]

    def _find_query(self) -> None:
        """Watch the query that counts into the folder now, if it is another than the one known."""
        query = None if self._run.is_active else counting_query(self._run.folder)
        if query is not None:
            self._run = replace(self._run, query=query)
            self._watch = RunWatch(self._run)
            self._query_figures.begin(resets=resets_counts(query))

    def _read_lag(self) -> list[Metric]:
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

    def _read_restarts(self) -> list[Metric]:
        number = 0 if self._restarts is None else self._restarts()
        about = "How often a supervisor started the run again."
        return self._while_there([counter("restarts", about, number)])

    def _while_there(self, figures: list[Metric]) -> list[Metric]:
        """Return what the run's folder told, unless it was removed: then it told nothing."""
        self._watch.check()
        return figures


class _Rested:
    """Figures that are read anew only once they have served long enough for what they cost."""

    def __init__(self, read: Callable[[], list[Metric]], oldest_seconds: float) -> None:
        self._read, self._oldest_seconds = read, oldest_seconds
        self._held: list[Metric] = []
        self._due = 0.0
        self.took_seconds = 0.0

    def read(self) -> list[Metric]:
        began = time.monotonic()
        if began < self._due:
            return self._held
        self._held = self._read()
        ended = time.monotonic()
        self.took_seconds = ended - began
        self._due = ended + min(_SHARE * self.took_seconds, self._oldest_seconds)
        return self._held
