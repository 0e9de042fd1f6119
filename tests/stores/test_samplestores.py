"""The real stores that are bundled for people to look into."""

from __future__ import annotations

import json
from pathlib import Path

import kstoolkit as kst
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.rocksdb.madestores import appearance
from tests.stores.kafkastreams.archives import archive_of

DATA = Path(__file__).parents[2] / "data"
STORES = DATA / "stores"
STREAMS = STORES / "kafka-streams" / "small-main-4_3_1" / "0_0"
HOURS = STORES / "spark" / "hours-by-user"
COUNTS = STORES / "spark" / "count-by-user"
MACHINE = (b"/tmp/", b"/work/", b"/home/", b"/root/")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_bundled_stores_are_found_by_their_engines() -> None:
    found = [(each.engine, each.store) for each in kst.discover(STORES)]
    assert found == [
        ("kafka-streams", "actions-1m"),
        ("kafka-streams", "user-count"),
        *[("spark", "default")] * 3,
    ]


def test_the_rows_of_kafka_streams_are_those_that_its_application_read() -> None:
    for path, rows in ((STREAMS / "actions-1m", 80), (STREAMS / "rocksdb" / "user-count", 12)):
        with kst.open_store(path) as store:
            read = store.rows().to_pandas()
        assert len(read) == rows
        assert read.problem.isna().all()
    assert dict(zip(read.key, read.value, strict=True))["alice"] == 12


def test_the_rows_of_spark_grow_with_each_version() -> None:
    with kst.open_store(HOURS / "state" / "0" / "0") as store:
        assert isinstance(store, SparkStore)
        sizes = [store.at(version).count(exact=True) for version in range(1, 9)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 1_461


def test_the_snapshots_of_spark_hold_as_many_rows_as_spark_counted() -> None:
    with kst.open_store(COUNTS) as store:
        assert isinstance(store, SparkStore)
        counted = store.count()
        assert (counted.num_keys, counted.is_current) == (60, True)
        assert store.rows().count() == 60
        assert list(store.places) == ["0/2.zip", "1/2.zip"]
    with kst.open_store(COUNTS) as store:
        assert isinstance(store, SparkStore)
        assert list(store.at(1).places) == ["0/1.zip", "1/1.zip"]


def test_looking_at_them_leaves_them_as_they_are() -> None:
    before = appearance(STORES)
    for each in kst.discover(STORES, look=True):
        kst.growth(each.path)
    assert appearance(STORES) == before


def test_they_are_small_and_name_no_machine() -> None:
    assert sum(path.stat().st_size for path in files(STORES)) < 300_000
    assert sum(path.stat().st_size for path in files(DATA / "sample") + files(STORES)) < 2_000_000
    told = [path for path in files(STORES) if any(name in path.read_bytes() for name in MACHINE)]
    assert told == []


def test_the_note_beside_them_says_how_they_were_made() -> None:
    told = (STORES / "README.md").read_text()
    assert archive_of("4.3.1").name in told
    settings = (HOURS / "offsets" / "0").read_text().splitlines()[1]
    assert json.loads(settings)["batchWatermarkMs"] == 0
    for folder in (STREAMS / "actions-1m", STREAMS / "rocksdb" / "user-count", HOURS, COUNTS):
        size = sum(path.stat().st_size for path in files(folder))
        assert f"`{folder.relative_to(STORES)}`" in told
        assert f"{len(files(folder))}, {size:,} |" in told
