"""Checkpoints of real queries, each made once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.formats.spark import queries
from tests.formats.spark.queries import Events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

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
    """Checkpoints by what was run, and in which way its state was kept."""

    spark: SparkSession
    folder: Path
    events: Events
    made: dict[tuple[str, str], Path] = field(default_factory=dict)

    def make(self, query: str, way: str) -> Path:
        """Return a checkpoint; the query runs when it is asked for first."""
        if (query, way) not in self.made:
            build, mode, settings = QUERIES[query]
            path = self.folder / f"{query} {way}".replace(" ", "_")
            queries.run(self.events, build, path, WAYS[way] | settings, mode)
            self.made[query, way] = path
        return self.made[query, way]


@pytest.fixture(scope="session")
def checkpoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    folder = tmp_path_factory.mktemp("checkpoints")
    return Checkpoints(spark, folder, Events(spark, folder / "events"))
