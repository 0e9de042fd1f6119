"""What RocksDB tells of stores that lie in several: windowed ones, replicas, Spark's snapshots."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, FormatError, InputError, KstoolkitError
from kstoolkit.rocksdb.faults import ColumnFamilyError, NoStoreError, StoreResourceError
from kstoolkit.rocksdb.opening import open_store as open_rocksdb
from kstoolkit.stores.opening import open_several
from kstoolkit.stores.rows.counts import ReplicaLevel
from kstoolkit.stores.rows.readable import LeftOutWarning
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.replica.replicas import restored
from tests.rocksdb.madestores import appearance
from tests.stores.spark.madecheckpoints import make_checkpoint
from tests.stores.streamsstores import write_minutes

if TYPE_CHECKING:
    from kstoolkit.rocksdb.files.summary import StoreSummary
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.views import HasViews

STORES = Path(__file__).parents[2] / "data" / "stores"
WINDOWED = STORES / "kafka-streams" / "small-main-4_3_1" / "0_0" / "actions-1m"
SNAPSHOTS = STORES / "spark" / "count-by-user"
CHANGES = STORES / "spark" / "hours-by-user"
SUMS = ("num_files", "sst_bytes", "wal_bytes", "disk_bytes", "num_entries", "estimated_rows")


def several(path: Path) -> SegmentedStore | ReplicaLevel | SparkStore:
    store = open_several(path)
    assert store is not None
    return store


def check_sums(store: HasViews) -> None:
    """Compare what is told of all with the sums of what is told of each."""
    each = store.each(lambda one: one.summary())
    assert each.are_several
    assert each.stores == tuple(store.places)
    summary = store.summary()
    assert each.total == summary
    for name in SUMS:
        assert getattr(summary, name) == sum(getattr(one, name) for one in each)
    assert (summary.num_levels_used, summary.table_readers_bytes) == (None, None)
    assert {"num_levels_used", "table_readers_bytes"} <= summary.unknown.keys()
    levels = store.levels()
    assert sum(level.size_bytes for level in levels) == summary.sst_bytes
    assert sum(level.num_entries for level in levels) == summary.num_entries
    assert levels.to_dicts() == store.each(lambda one: one.levels()).total.to_dicts()
    ssts = store.ssts()
    assert len(ssts) == summary.num_files
    assert ssts.total is None
    assert [row["store"] for row in ssts.to_dicts()] == list(ssts.stores)
    assert next(iter(ssts.to_pandas().columns)) == "store"
    stats = store.key_stats()
    assert stats.total is None
    assert all(one.num_sampled for one in stats)


def test_a_windowed_store_has_the_views_of_its_segments_and_of_all() -> None:
    before = appearance(WINDOWED)
    with kst.open_store(WINDOWED) as store:
        assert isinstance(store, SegmentedStore)
        assert list(store.places) == sorted(each.name for each in WINDOWED.iterdir())
        check_sums(store)
        for name, folder in store.places.items():
            with open_rocksdb(folder) as one:
                found = store.each(lambda each: each.levels())
                assert [each for at, each in found.items() if at == name] == list(one.levels())
        logs = store.log()
        assert logs.stores == tuple(store.places)
        assert "level ERROR" in logs.total.unknown["write_amplification"]
        with pytest.raises(ColumnFamilyError, match="No column family 'x'"):
            store.summary("x")
    assert appearance(WINDOWED) == before


def test_the_memory_of_segments_adds_up_to_what_as_many_instances_need() -> None:
    with kst.open_store(WINDOWED) as store:
        assert isinstance(store, SegmentedStore)
        own = store.memory(profile="kafka_streams", iterators=1, pid=os.getpid())
        assert own.total.num_stores == len(own) == 3
        assert own.total.formula_bytes == sum(each.formula_bytes or 0 for each in own)
        assert own.total.plan.instances == 3
        rest = own.total.writer_rss_bytes - own.total.formula_bytes
        assert own.total.writer_not_accounted_for_bytes == rest
        twice = store.memory(profile="kafka_streams", iterators=1, instances=2)
        assert twice.total.formula_bytes == 2 * own.total.formula_bytes
        shared = store.memory(profile="bounded_memory")
        for at in (0, 1):  # memtables and cache
            (own_bytes,) = {each.plan.terms[at].total_bytes for each in shared if each.plan}
            assert shared.total.plan.terms[at].total_bytes == own_bytes
        assert "x 3" not in str(shared.total.plan).partition("index blocks")[0]


def test_advice_on_segments_counts_them_as_open_at_once() -> None:
    with kst.open_store(WINDOWED) as store:
        assert isinstance(store, SegmentedStore)
        found = store.advice(bound_bytes=200 << 20, profile="kafka_streams")
        # One alone would fit: 112 MiB of 200.
        assert set(found.stores) == set(store.places)
        assert {each.rule for each in found} == {"memory over the bound"}
        assert found.total is None


def test_the_snapshots_of_spark_are_rocksdbs_by_partition() -> None:
    before = appearance(SNAPSHOTS)
    for path in (SNAPSHOTS, SNAPSHOTS / "state" / "0"):
        with kst.open_store(path) as store:
            assert isinstance(store, SparkStore)
            assert list(store.places) == ["0/2.zip", "1/2.zip"]
            check_sums(store)
            assert store.summary().rocksdb_version == "9.8.4"
            assert store.not_shown is None
            [parts, _] = store.memory()
            assert parts.path == str(store.places["0/2.zip"])
            assert any("no LOG" in why for why in _unjudged(store))
            with pytest.raises(InputError, match="logs of the query's executors"):
                store.log()
            assert list(store.at(1).places) == ["0/1.zip", "1/1.zip"]
    with kst.open_store(SNAPSHOTS / "state" / "0" / "1") as store:
        assert isinstance(store, SparkStore)
        assert list(store.places) == ["2.zip"]
        assert not store.each(lambda one: one.summary()).are_several
    assert appearance(SNAPSHOTS) == before


def _unjudged(store: HasViews) -> list[str]:
    told = store.each(lambda one: one.advice()).by_store.values()
    return [why for each in told for why in getattr(each, "unjudged", {}).values()]


def test_what_changed_since_a_snapshot_is_told_to_be_in_none(tmp_path: Path) -> None:
    partition = make_checkpoint(tmp_path / "checkpoint")
    with several(partition) as store:
        assert store.not_shown == "Not in its snapshots: what 2 changelogs changed since."
        assert (store.summary().num_entries, list(store.places)) == (3, ["2.zip"])


def test_a_snapshot_that_lacks_a_file_is_told_as_far_as_it_goes(tmp_path: Path) -> None:
    copy = shutil.copytree(SNAPSHOTS, tmp_path / "copy")
    next((copy / "state" / "0" / "0" / "SSTs").glob("000009*")).unlink()
    with several(copy) as store:
        with pytest.warns(LeftOutWarning, match="1 of 2 SST files is missing"):
            summary = store.summary()
        assert summary.num_files == 3
        assert summary.damage.startswith("0/2.zip: 1 of 2 SST files is missing")


def spoil(store: Path) -> None:
    for options in store.glob("OPTIONS-*"):
        options.write_bytes(b"junk" + options.read_bytes())


def test_a_segment_that_cannot_be_shown_so_is_left_out_and_named(tmp_path: Path) -> None:
    copy = shutil.copytree(WINDOWED, tmp_path / WINDOWED.name)
    first, *rest = sorted(copy.iterdir())
    spoil(first)
    with several(copy) as store:
        with pytest.warns(LeftOutWarning, match=f"left out. {first.name}: "):
            told = store.each(lambda one: one.summary())
        assert told.stores == tuple(each.name for each in rest)
    for each in rest:
        spoil(each)
    with several(copy) as store, pytest.raises(KstoolkitError, match="no OPTIONS file"):
        store.each(lambda one: one.summary())


def spoil_snapshot(snapshot: Path) -> None:
    with ZipFile(snapshot) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(snapshot, "w") as archive:
        for name, content in held.items():
            archive.writestr(name, b"junk" + content if name.startswith("OPTIONS-") else content)


def test_what_is_left_out_of_several_is_still_of_several(tmp_path: Path) -> None:
    copy = shutil.copytree(SNAPSHOTS, tmp_path / "copy")
    spoil_snapshot(copy / "state/0/1/2.zip")
    with several(copy) as store:
        count = len(store.places)
        with pytest.warns(LeftOutWarning, match=r"left out\. 1/2\.zip: "):
            told = store.each(lambda one: one.summary())
    assert count > 1
    assert (told.stores, told.are_several) == (("0/2.zip",), True)


def test_a_wrong_argument_is_said_as_such_and_not_of_a_segment() -> None:
    with several(WINDOWED) as store, pytest.raises(ConfigurationError, match="instances"):
        store.memory(instances=0)


@pytest.mark.parametrize(
    "failure", [ConfigurationError("No such level."), StoreResourceError("Too many open files.")]
)
def test_what_is_no_fault_of_a_segment_ends_the_view(failure: KstoolkitError) -> None:
    asked = []

    def view(one: Store) -> StoreSummary:
        asked.append(one)
        if len(asked) == 2:
            raise failure
        return one.summary()

    with several(WINDOWED) as store, pytest.raises(type(failure)):
        store.each(view)
    assert len(asked) == 2


def test_options_that_can_not_be_read_are_told_by_the_path_that_was_given(tmp_path: Path) -> None:
    segment = shutil.copytree(min(WINDOWED.iterdir()), tmp_path / "segment")
    with open_rocksdb(segment) as store:
        for options in store._shadow.path.glob("OPTIONS-*"):
            options.unlink()
            options.write_text('[Version]\n[CFOptions "default"]\n  max_open_files=\n')
        with pytest.raises(FormatError) as told:
            store.profile()
    assert str(segment) in told.value.message


def test_state_of_changelogs_alone_says_where_its_rocksdb_is() -> None:
    with several(CHANGES) as store:
        told = store.no_rocksdb or ""
        assert "changelogs alone" in told
        assert "spark.local.dir" in told
        with pytest.raises(NoStoreError, match="No RocksDB of"):
            store.summary()


def test_a_level_of_a_replica_has_the_views_of_its_segments(tmp_path: Path) -> None:
    told = {HOUR: {(day * 24 * HOUR, "Anna", "x"): 3 for day in range(4)}, MINUTE: {}}
    write(tmp_path / "changelog", 0, told)
    with restored(tmp_path / "changelog", tmp_path / "replica"):
        pass
    with several(tmp_path / "replica" / str(HOUR)) as store:
        assert isinstance(store, ReplicaLevel)
        assert len(store.places) > 1
        check_sums(store)
        assert store.log().total.num_flushes is not None


def test_segments_that_are_made_have_logs_whose_writes_add_up(tmp_path: Path) -> None:
    with several(write_minutes(tmp_path / "minutes", ["Anna"])) as store:
        logs = store.log()
        flushed = [each.write_amplification().flushed_bytes or 0 for each in logs]
        assert logs.total.flushed_bytes == sum(flushed) > 0
        assert logs.total.write_amplification == 1


def test_a_single_rocksdb_is_none_of_several(tmp_path: Path) -> None:
    [segment, *_] = write_minutes(tmp_path / "minutes", ["Anna"]).iterdir()
    for path in (segment, tmp_path, tmp_path / "nowhere"):
        assert open_several(path) is None
