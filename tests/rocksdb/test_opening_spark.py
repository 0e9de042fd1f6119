"""Stores that a real Spark wrote: of its checkpoints, of a running query, and by its RocksDB."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kstoolkit.errors import InputError
from kstoolkit.rocksdb.faults import MissingFileError, NoStoreError, StoreFault
from kstoolkit.rocksdb.files.finding import MissingFolderError
from kstoolkit.rocksdb.opening import open_store
from tests.pipeline.harness import write_lines
from tests.rocksdb.madestores import appearance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

USERS, BATCHES = 500, 2


class Checkpoint(NamedTuple):
    """What a query that counts by user left after two batches, while it is still running."""

    partition: Path
    working: Path


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkpoint]:
    folder = tmp_path_factory.mktemp("spark")
    for number in range(BATCHES):
        write_lines(folder / "in" / f"{number}.json", [{"user": f"user {n}"} for n in range(USERS)])
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    changes = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    session.conf.set(changes, "false")  # a snapshot a batch
    events = session.readStream.schema("user string").option("maxFilesPerTrigger", 1)
    counts = events.json(str(folder / "in")).groupBy("user").count()
    sink = counts.writeStream.format("noop").outputMode("update")
    query = sink.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        query.processAllAvailable()
        yield Checkpoint(folder / "checkpoint" / "state" / "0" / "0", working_folder(spark, query))
    finally:
        query.stop()


def working_folder(spark: SparkSession, query: Any) -> Path:
    """Return where the running query has its store, as the name of its state tells."""
    java = spark.sparkContext._jvm
    assert java is not None
    conf = spark.sparkContext._jsc.sc().conf()
    local = Path(java.org.apache.spark.util.Utils.getLocalDir(conf))
    found = list(local.glob("StateStoreId(opId=0,partId=0,*/workingDir-*/CURRENT"))
    assert query.isActive
    return max(found, key=lambda each: each.stat().st_mtime).parent


def unpacked(snapshot: Path, to: Path) -> Path:
    with zipfile.ZipFile(snapshot) as packed:
        packed.extractall(to)
    return to


def test_a_snapshot_is_read_with_the_rows_that_lie_beside_it(
    counted: Checkpoint, tmp_path: Path
) -> None:
    store = unpacked(counted.partition / f"{BATCHES}.zip", tmp_path / "store")
    before = appearance(store), appearance(counted.partition)
    with open_store(store, other_folders=[counted.partition / "SSTs"]) as opened:
        assert sum(1 for _ in opened.iter_rows()) == USERS
        summary = opened.summary()
        assert (summary.rocksdb_version, summary.format_versions) == ("9.8.4", (5,))
        assert summary.merge_operator == "StringAppendOperator"
        assert summary.num_files == len(opened.ssts()) == BATCHES
        assert {each.compression for each in opened.ssts()} == {"LZ4"}
        assert sum(each.num_entries for each in opened.levels()) == BATCHES * USERS
        assert opened.key_stats().num_sampled == USERS
        profile = opened.profile()
        assert profile is not None
        assert profile.write_buffer_size == 64 << 20
        assert len(opened.options()) > 3
        assert (opened.memory().total_bytes or 0) > 0
        assert any("no LOG" in why for why in opened.advice().unjudged.values())
        with pytest.raises(InputError, match="has no LOG") as caught:
            opened.log()
        assert "executors" in str(caught.value.hint)
    assert (appearance(store), appearance(counted.partition)) == before


def test_an_earlier_snapshot_shows_an_earlier_state(counted: Checkpoint, tmp_path: Path) -> None:
    values = []
    for version in (1, 2):
        store = unpacked(counted.partition / f"{version}.zip", tmp_path / f"{version}")
        with open_store(store, other_folders=[counted.partition / "SSTs"]) as opened:
            values.append(dict(opened.iter_rows()))
    assert values[0].keys() == values[1].keys()
    assert all(values[0][key] != values[1][key] for key in values[0])


def test_what_a_snapshot_lacks_is_said_with_where_it_lies(
    counted: Checkpoint, tmp_path: Path
) -> None:
    store = unpacked(counted.partition / f"{BATCHES}.zip", tmp_path / "store")
    with pytest.raises(MissingFolderError, match="has no SST files of its own") as caught:
        open_store(store)
    assert "SSTs" in str(caught.value.hint)
    for path in (counted.partition / f"{BATCHES}.zip", counted.partition):
        with pytest.raises(NoStoreError) as no_store:
            open_store(path)
        assert "unpack a snapshot <version>.zip" in str(no_store.value.hint)


def test_the_store_of_a_running_query_is_read_where_it_works(counted: Checkpoint) -> None:
    before = appearance(counted.working)
    with open_store(counted.working) as opened:
        assert sum(1 for _ in opened.iter_rows()) == USERS
        assert opened.summary().wal_bytes == 0
    assert appearance(counted.working) == before


def java_paths(java: Any, *texts: str) -> Any:
    found = java.java.util.ArrayList()
    for text in texts:
        found.add(java.org.rocksdb.DbPath(java.java.io.File(text).toPath(), 0))
    return found


@pytest.fixture
def rocksdb(spark: SparkSession) -> Any:
    """RocksDB for Java, which sets what rocksdict can't."""
    java = spark.sparkContext._jvm
    assert java is not None
    java.org.rocksdb.RocksDB.loadLibrary()
    return java.org.rocksdb


def write(rocksdb: Any, options: Any, path: Path, rows: dict[bytes, bytes]) -> None:
    options.setCreateIfMissing(True)
    store = rocksdb.RocksDB.open(options, str(path))
    for key, value in rows.items():
        store.put(key, value)
    store.flush(rocksdb.FlushOptions())
    store.close()


def test_rows_that_wait_for_a_merge_operator_end_in_a_sentence(
    rocksdb: Any, tmp_path: Path
) -> None:
    options = rocksdb.Options().setMergeOperator(rocksdb.StringAppendOperator(""))
    options.setCreateIfMissing(True)
    store = rocksdb.RocksDB.open(options, str(tmp_path / "store"))
    store.put(b"a", b"0")
    for value in (b"1", b"2"):
        store.merge(b"b", value)
        store.flush(rocksdb.FlushOptions())
    store.close()
    before = appearance(tmp_path / "store")
    with open_store(tmp_path / "store") as opened:
        assert sum(each.num_merge_operands or 0 for each in opened.ssts()) == 2
        assert opened.get(b"a") == b"0"
        for ask in (lambda: list(opened.iter_rows()), opened.key_stats, lambda: opened.get(b"b")):
            with pytest.raises(StoreFault, match="merge operator"):
                ask()
    assert appearance(tmp_path / "store") == before


def test_an_order_of_keys_that_is_not_that_of_bytes_ends_in_a_sentence(
    rocksdb: Any, tmp_path: Path
) -> None:
    order = rocksdb.BuiltinComparator.REVERSE_BYTEWISE_COMPARATOR
    write(rocksdb, rocksdb.Options().setComparator(order), tmp_path / "store", {b"a": b"1"})
    before = appearance(tmp_path / "store")
    with pytest.raises(StoreFault, match="ReverseBytewiseComparator") as caught:
        open_store(tmp_path / "store")
    assert "order of bytes" in str(caught.value.hint)
    assert appearance(tmp_path / "store") == before


def test_folders_of_column_families_stand_nowhere_and_can_be_given(
    spark: SparkSession, rocksdb: Any, tmp_path: Path
) -> None:
    (tmp_path / "rows").mkdir()
    paths = java_paths(spark.sparkContext._jvm, str(tmp_path / "rows"))
    write(rocksdb, rocksdb.Options().setCfPaths(paths), tmp_path / "store", {b"a": b"1"})
    with pytest.raises(MissingFileError, match="missing") as caught:
        open_store(tmp_path / "store")
    assert "cf_paths" in str(caught.value)
    with open_store(tmp_path / "store", other_folders=[tmp_path / "rows"]) as opened:
        assert dict(opened.iter_rows()) == {b"a": b"1"}
