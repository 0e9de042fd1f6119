"""All partitions of an operator as one store, at earlier batches too: as Spark's own reader says.

Of what Spark keeps in column families or in several stores, ``family`` says which a row is of.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.formats.spark import queries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.formats.spark.checkpoints import Checkpoints

pytestmark = pytest.mark.spark

BATCHES = (0, 1, 2)
ROWS_OF_SIDE = {"join 2": "keyWithIndexToValue", "join 3": "keyWithIndexToValue"}
ROWS_OF_SIDE |= {"join 4": "keyWithTsToValues"}
NAMES = {"left": "user", "right": "user2"}
OF_VARIABLE = {"total": "value", "seen": "list_element", "by_n": "user_map_value"}


def told_by_spark(
    checkpoints: Checkpoints, checkpoint: Path, way: str, **options: str
) -> list[dict[str, Any]]:
    """Return the rows that Spark's reader gives."""
    reader = checkpoints.spark.read.format("statestore").option("path", str(checkpoint))
    with queries.conf(checkpoints.spark, queries.FORMAT_2 if way == "format 2" else {}):
        found: list[dict[str, Any]] = reader.options(**options).load().toArrow().to_pylist()
    return found


def told_here(checkpoint: Path, batch: int | None = None) -> list[dict[str, Any]]:
    """Return our rows of the only operator of a checkpoint."""
    with kst.open_store(checkpoint) as store:
        assert isinstance(store, SparkStore)
        assert store.place.partition is None
        at = store if batch is None else store.at(batch=batch)
        return [
            {
                "partition_id": getattr(row, "partition", None),
                "family": getattr(row, "family", None),
                "key": row.key,
                "value": row.value,
            }
            for row in at.rows()
        ]


def alike(rows: Iterable[dict[str, Any]], *names: str) -> list[str]:
    return sorted(repr([row[name] for name in names]) for row in rows)


@pytest.mark.parametrize(
    ("query", "way"),
    [
        ("count", "snapshots"),
        ("window", "changelogs"),
        ("window", "format 2"),
        ("window", "HDFS"),
        ("dedup", "HDFS"),
        ("dedup within", "changelogs in snappy"),
        ("session", "snapshots"),
        ("session", "HDFS"),
    ],
)
def test_rows_of_an_operator_are_those_of_spark_after_each_batch(
    checkpoints: Checkpoints, query: str, way: str
) -> None:
    checkpoint = checkpoints.make(query, way)
    names = ("partition_id", "key", "value")
    seen = 0
    for batch in BATCHES:
        ours = told_here(checkpoint, batch)
        theirs = told_by_spark(checkpoints, checkpoint, way, batchId=str(batch))
        assert alike(ours, *names) == alike(theirs, *names)
        seen += len(ours)
    assert seen > 6


def test_state_that_is_hdfs_backed_is_said_to_know_no_rocksdb(checkpoints: Checkpoints) -> None:
    with kst.open_store(checkpoints.make("window", "HDFS")) as store:
        assert isinstance(store, SparkStore)
        assert "knows no RocksDB" in str(store.no_rocksdb)
        assert store.no_log == store.no_rocksdb


@pytest.mark.parametrize("way", [queries.CHANGELOGS, queries.ON_HDFS])
def test_files_that_lzf_compressed_hold_what_spark_says(
    checkpoints: Checkpoints, tmp_path: Path, way: dict[str, str]
) -> None:
    settings = way | {f"{queries.STORE}compression.codec": "lzf"}
    path = queries.run(checkpoints.events, queries.window_count, tmp_path / "lzf", settings)
    for batch in BATCHES:
        ours = told_here(path, batch)
        theirs = told_by_spark(checkpoints, path, "lzf", batchId=str(batch))
        names = ("partition_id", "key", "value")
        assert alike(ours, *names) == alike(theirs, *names)
        assert ours


@pytest.mark.parametrize(
    ("query", "way"),
    [
        ("join 2", "snapshots"),
        ("join 2", "HDFS"),
        ("join 3", "changelogs"),
        ("join 3", "HDFS"),
        ("join 4", "format 2"),
    ],
)
def test_sides_of_a_join_are_those_of_spark_after_each_batch(
    checkpoints: Checkpoints, query: str, way: str
) -> None:
    checkpoint = checkpoints.make(query, way)
    for batch in BATCHES:
        ours = told_here(checkpoint, batch)
        for side in ("left", "right"):
            options = {"batchId": str(batch), "joinSide": side}
            theirs = told_by_spark(checkpoints, checkpoint, way, **options)
            family = f"{side}-{ROWS_OF_SIDE[query]}"
            rows = [without_own(row) for row in ours if row["family"] == family]
            assert len(rows) > 3
            if query == "join 4":  # of which Spark's reader does not read the keys rightly
                theirs = [row | {"key": {"field0": row["value"][NAMES[side]]}} for row in theirs]
            names = ("partition_id", "key", "value")
            assert alike(rows, *names) == alike(theirs, *names)


def without_own(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a join without the columns that Spark's reader leaves out."""
    value = {name: cell for name, cell in row["value"].items() if name != "matched"}
    return row | {"key": {"field0": row["key"]["field0"]}, "value": value}


@pytest.mark.parametrize(("query", "way"), [("join 2", "HDFS"), ("join 3", "changelogs")])
def test_a_joins_numbers_of_rows_are_those_of_its_rows(
    checkpoints: Checkpoints, query: str, way: str
) -> None:
    rows = told_here(checkpoints.make(query, way))
    assert {row["family"] for row in rows} == {
        f"{side}-{what}"
        for side in ("left", "right")
        for what in ("keyToNumValues", "keyWithIndexToValue")
    }
    for side in ("left", "right"):
        of_key = Counter(
            row["key"]["field0"] for row in rows if row["family"] == f"{side}-keyWithIndexToValue"
        )
        told = {
            row["key"]["field0"]: row["value"]["value"]
            for row in rows
            if row["family"] == f"{side}-keyToNumValues"
        }
        assert told == of_key


def test_a_join_keeps_the_same_in_four_stores_as_in_one(checkpoints: Checkpoints) -> None:
    paths = [checkpoints.make(query, "snapshots") for query in ("join 2", "join 3")]
    with kst.open_store(paths[0]) as four, kst.open_store(paths[1]) as one:
        with kst.diff_stores(four, one) as diff:
            assert diff.is_empty
            assert diff.equal == four.rows().count() > 20
        assert (four.kind, one.kind) == ("stream-stream join",) * 2


def test_one_store_of_a_join_is_opened_for_all_partitions(checkpoints: Checkpoints) -> None:
    checkpoint = checkpoints.make("join 2", "HDFS")
    for name in ("left-keyToNumValues", "right-keyWithIndexToValue"):
        path = checkpoint / "state" / "0" / name
        theirs = told_by_spark(checkpoints, checkpoint, "HDFS", storeName=name)
        assert alike(told_here(path), "partition_id", "key", "value") == alike(
            theirs, "partition_id", "key", "value"
        )


@pytest.mark.parametrize("way", ["changelogs", "checksums in snapshots"])
def test_state_variables_are_those_of_spark_after_each_batch(
    checkpoints: Checkpoints, way: str
) -> None:
    checkpoint = checkpoints.make("remembering", way)
    for batch in BATCHES:
        ours = told_here(checkpoint, batch)
        for variable, of_value in OF_VARIABLE.items():
            options = {"batchId": str(batch), "stateVarName": variable}
            theirs = told_by_spark(checkpoints, checkpoint, way, **options)
            rows = [row for row in ours if row["family"] == variable]
            assert rows
            assert alike(rows, "partition_id", "value") == sorted(
                repr([row["partition_id"], row[of_value]]) for row in theirs
            )


@pytest.mark.parametrize(
    ("query", "way"), [("window", "snapshots"), ("join 2", "snapshots"), ("count", "snapshots")]
)
def test_what_spark_counted_is_how_many_rows_there_are(
    checkpoints: Checkpoints, query: str, way: str
) -> None:
    with kst.open_store(checkpoints.make(query, way)) as store:
        assert isinstance(store, SparkStore)
        for version in (1, 2, 3):
            at = store.at(version)
            told = at.count()
            assert (told.num_keys, told.is_current) == (at.count(exact=True), True)
            assert told.num_keys


def test_changelogs_and_deltas_count_nothing(checkpoints: Checkpoints) -> None:
    for way in ("changelogs", "HDFS"):
        with kst.open_store(checkpoints.make("window", way)) as store:
            assert isinstance(store, SparkStore)
            told = store.count()
            assert told.num_keys is None
            assert "made of changes alone" in told.unknown["num_keys"]
            assert store.count(exact=True) == len(list(store.rows())) > 0
