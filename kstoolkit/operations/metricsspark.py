"""What a query's progress tells Prometheus: where time goes, and what each operator keeps as state.

Only the process that counts knows these; they begin at 0 with it, as Prometheus expects of a
process that was started anew.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kstoolkit.operations.metricsrecord import Labels, Metric, counter, gauge, labelled
from kstoolkit.operations.metricsrocksdb import FIGURES, figures_of
from kstoolkit.pipeline.status import RunState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kstoolkit.operations.metricsrocksdb import RocksdbFigure
    from kstoolkit.pipeline.status import RunStatus


_STATE = {
    "state_rows": ("numRowsTotal", "Rows in the state."),
    "state_memory_bytes": (
        "memoryUsedBytes",
        "Memory of the state by Spark's estimate: of RocksDB, its native part.",
    ),
    "state_stores": ("numStateStoreInstances", "State stores: one a partition, joins several."),
}
_CHANGES = {
    "state_rows_updated": ("numRowsUpdated", "Rows of the state that were written."),
    "state_rows_removed": ("numRowsRemoved", "Rows of the state that were removed."),
    "state_rows_dropped_by_watermark": (
        "numRowsDroppedByWatermark",
        "Rows that came after the watermark.",
    ),
}


class QueryFigures:
    """Adds up what a query tells of its micro-batches, each batch once.

    Parameters
    ----------
    resets
        Whether RocksDB's own counts begin at 0 with each micro-batch, as they do by default
        (``spark.sql.streaming.stateStore.rocksdb.resetStatsOnLoad``).

    Examples
    --------
    >>> from kstoolkit.pipeline.status import BatchTimes, RunState, RunStatus
    >>> batch = BatchTimes(
    ...     number=0, clock_ms=0, seconds=2.0, events=5, parts_seconds={"counting": 1.5}
    ... )
    >>> status = RunStatus(state=RunState.COUNTING, at_ms=0, batches=(batch,))
    >>> figures = QueryFigures().metrics(status, {0: {"stateOperators": []}})
    >>> {each.name: each.samples for each in figures}["kstoolkit_batch_part_seconds"]
    (((('part', 'counting'),), 1.5),)
    """

    def __init__(self, *, resets: bool = True) -> None:
        self._resets = resets
        self._counted = -1
        self._parts: dict[str, float] = {}
        self._changes: dict[str, Counter[Labels]] = {name: Counter() for name in _CHANGES}
        self._rocksdb: dict[RocksdbFigure, dict[Labels, float]] = {}
        self._newest_parts: Mapping[str, float] | None = None
        self._newest: Mapping[str, Any] | None = None

    def begin(self, *, resets: bool) -> None:
        """Take in that another query counts now, which may repeat the number of a batch."""
        self._resets, self._counted = resets, -1

    def metrics(self, status: RunStatus, progress: Mapping[int, Mapping[str, Any]]) -> list[Metric]:
        """Return the figures by now.

        Parameters
        ----------
        status, progress
            What :class:`~kstoolkit.pipeline.status.RunWatch` saw at its last look: the run, and
            what its query told of its batches, by their numbers.
        """
        fresh = {each.number: each for each in status.batches if each.number > self._counted}
        for number in sorted(fresh.keys() & progress.keys()):
            self._newest_parts = fresh[number].parts_seconds
            for part, seconds in self._newest_parts.items():
                self._parts[part] = self._parts.get(part, 0.0) + seconds
            self._take_operators(progress[number])
            self._counted = number
        counts = status.state is RunState.COUNTING
        why = "no batch has ended yet" if counts else "only the process that counts knows"
        return [*self._times(why), *self._state(why), *self._rocksdb_metrics()]

    def _take_operators(self, told: Mapping[str, Any]) -> None:
        self._newest = told
        for labels, operator in _operators(told):
            for name, (in_spark, _) in _CHANGES.items():
                self._changes[name][labels] += operator.get(in_spark, 0)
            for figure, value in figures_of(operator["customMetrics"]).items():
                values = self._rocksdb.setdefault(figure, {})
                before = values.get(labels, 0.0) if figure.adds_up and self._resets else 0.0
                values[labels] = before + value

    def _times(self, why: str) -> list[Metric]:
        newest = self._newest_parts
        return [
            counter(
                "batch_part_seconds",
                "What the time of micro-batches went into, since this process counts.",
                labelled("part", self._parts),
            ),
            gauge(
                "last_batch_part_seconds",
                "What the time of the newest micro-batch went into.",
                None if newest is None else labelled("part", newest),
                why,
            ),
        ]

    def _state(self, why: str) -> Iterator[Metric]:
        told = None if self._newest is None else list(_operators(self._newest))
        for name, (in_spark, about) in _STATE.items():
            values = None if told is None else {labels: each[in_spark] for labels, each in told}
            yield gauge(name, about, values, why)
        for name, (_, about) in _CHANGES.items():
            yield counter(name, f"{about[:-1]}, since this process counts.", self._changes[name])

    def _rocksdb_metrics(self) -> Iterator[Metric]:
        for figure in FIGURES:
            values = self._rocksdb.get(figure)
            if values is None:
                continue
            name = f"rocksdb_{figure.name}"
            if figure.adds_up:
                yield counter(name, f"{figure.about[:-1]}, since this process counts.", values)
            else:
                yield gauge(name, f"{figure.about[:-1]}, as the newest micro-batch told.", values)


def _operators(told: Mapping[str, Any]) -> Iterator[tuple[Labels, Mapping[str, Any]]]:
    """Return each operator's figures; the position tells apart two of one name."""
    for position, each in enumerate(told["stateOperators"]):
        yield (("operator", each["operatorName"]), ("position", str(position))), each
