"""Checkpoints of real queries, each made once, and their state, row by row."""

from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.stores.spark.checkpoint import Checkpoint, OperatorFolder, SparkPlace
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.formats.spark import queries
from tests.formats.spark.queries import Events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest
    from pyspark.sql import DataFrame, SparkSession

    from kstoolkit.formats.spark.rows import Family


WAYS = {
    "snapshots": queries.SNAPSHOTS,
    "changelogs": queries.CHANGELOGS,
    "format 2": queries.FORMAT_2,
    "HDFS": queries.ON_HDFS,
    "checksums": queries.CHECKSUMS,
    "checksums in snapshots": queries.CHECKSUMS_IN_SNAPSHOTS,
    "checksums on HDFS": queries.ON_HDFS_WITH_CHECKSUMS,
    "old delimiter": queries.OLD_DELIMITER,
    "changelogs in zstd": queries.CHANGELOGS | {f"{queries.STORE}compression.codec": "zstd"},
    "changelogs in snappy": queries.CHANGELOGS | {f"{queries.STORE}compression.codec": "snappy"},
}
"""How state is kept: settings of the query."""

ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
"""For what takes long: Python's workers, and the code that is made for many columns."""

QUERIES: dict[str, tuple[Callable[[Events], DataFrame], str, dict[str, str]]] = {
    "count": (queries.plain_count, "update", {}),
    "global count": (queries.global_count, "update", {}),
    "window": (queries.window_count, "update", {}),
    "dedup": (queries.dedup, "update", {}),
    "dedup within": (queries.dedup_within, "update", {}),
    "session": (queries.session, "append", {}),
    "join 2": (queries.join, "append", {queries.JOIN: "2"}),
    "join 3": (queries.join, "append", {queries.JOIN: "3"}),
    "join 4": (queries.join, "append", {queries.JOIN: "4"}),
    "remembering": (queries.remembering, "update", ONE_PARTITION),
    "forgetting": (queries.forgetting, "update", {}),
    "types": (queries.all_types, "update", ONE_PARTITION),
}
"""The kinds of operators: each a query, its output mode, and settings of its own."""


@dataclass
class Checkpoints:
    """Checkpoints by what was run, and in which way its state was kept.

    The folder is that of all processes of the tests: a query runs in the first that asks for it.
    """

    spark: SparkSession
    folder: Path
    events: Events

    def make(self, query: str, way: str) -> Path:
        """Return a checkpoint; the query runs when it is asked for first."""
        build, mode, settings = QUERIES[query]
        path = self.folder / f"{query} {way}".replace(" ", "_")
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.with_suffix(".done").exists():
                shutil.rmtree(path, ignore_errors=True)
                queries.run(self.events, build, path, WAYS[way] | settings, mode)
                path.with_suffix(".done").touch()
        return path


_SHARED: dict[SparkSession, Checkpoints] = {}


def shared_checkpoints(spark: SparkSession, folders: pytest.TempPathFactory) -> Checkpoints:
    """Return the checkpoints of this run of the tests, whoever asks for them."""
    if spark not in _SHARED:
        own = folders.getbasetemp()
        folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "checkpoints"
        folder.mkdir(exist_ok=True)
        _SHARED[spark] = Checkpoints(spark, folder, Events(spark, folders.mktemp("queries")))
    return _SHARED[spark]


@dataclass(frozen=True, slots=True)
class StateRow:
    """One row of state: which family's, of which partition, and what it says."""

    family: Family
    partition: int
    key: dict[str, Any]
    value: dict[str, Any]
    value_bytes: bytes | None
    window_start_ms: int | None
    window_end_ms: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class StoreAt:
    """A store of an operator, as it was after a batch."""

    checkpoint: Path
    scratch: Path
    batch: int
    store: str = "default"
    operator_id: int = 0

    def rows(self) -> list[StateRow]:
        """Return every row of every partition, decoded."""
        operator = OperatorFolder(Checkpoint(self.checkpoint), self.operator_id)
        return [
            row
            for partition in operator.partitions()
            for row in self._of_partition(SparkPlace(operator, self.store, partition))
        ]

    def _of_partition(self, place: SparkPlace) -> Iterator[StateRow]:
        assert place.partition is not None
        with SparkStore(place, self.batch + 1, scratch=self.scratch) as store:
            for row in store.rows(internal=True):
                assert row.problem is None, row.problem
                yield StateRow(
                    store.families[row.family or "default"],
                    place.partition,
                    row.key,
                    row.value,
                    row.value_bytes,
                    row.window_start_ms,
                    row.window_end_ms,
                    row.timestamp_ms,
                )
