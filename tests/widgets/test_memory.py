from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.records import Records
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.widgets.memory import MemoryPanel
from kstoolkit.widgets.memorymeasured import measured
from tests.pipeline.harness import events, source, until, write_files
from tests.stores.kafkastreams.archives import unpacked
from tests.stores.spark.madecheckpoints import make_checkpoint
from tests.stores.streamsstores import write_minutes, write_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

MIB = 1 << 20
CHANGELOGS_ALONE = Path(__file__).parents[2] / "data" / "stores" / "spark" / "hours-by-user"


@pytest.fixture
def panel() -> Iterator[MemoryPanel]:
    with MemoryPanel() as made:
        made.wait()
        yield made


@pytest.fixture
def users(tmp_path: Path) -> Path:
    rows = {f"user-{n:03}".encode(): bytes(100) for n in range(200)}
    return write_store(tmp_path / "users", default=rows)


def test_controls_say_the_formula_and_the_total_stands_in_words(panel: MemoryPanel) -> None:
    controls = panel.form.controls
    controls["partitions"].value = 40
    controls["segments"].value = 3
    controls["memtable_bytes"].value = 32 * MIB
    controls["block_cache_bytes"].value = 16 * MIB
    panel.wait()
    assert panel.plan is not None
    assert panel.plan.total_bytes == 120 * (3 * 32 + 16) * MIB
    html = panel.static_html()
    assert "40 x 3 x 1 = 120 RocksDB instances: at least 13.1 GiB, most of it for memtables" in html
    assert "Not in it, as unknown: index blocks, filter blocks, pinned by iterators." in html
    assert 'alt="RocksDB needs at least 13.1 GiB for 120 instances by the formula"' in html


def test_what_is_known_of_keys_fills_the_gaps(panel: MemoryPanel) -> None:
    for name, text in {"keys": "1,000,000", "key_bytes": "20", "value_bytes": "100"}.items():
        panel.form.controls[name].value = text
    panel.form.controls["iterators"].value = "0"
    panel.wait()
    assert panel.plan is not None
    assert not panel.plan.unknown
    assert "at most" in repr(panel)
    before = panel.plan.total_bytes
    panel.form.controls["blocks_in_cache"].value = True
    assert panel.plan.total_bytes < before
    panel.set(blocks_in_cache=False, keys=None)
    assert "index blocks" in panel.plan.unknown


def test_a_profile_moves_the_sliders_and_sliders_go_beyond_it(panel: MemoryPanel) -> None:
    controls = panel.form.controls
    controls["profile"].value = "spark"
    assert controls["memtable_bytes"].value == 64 * MIB
    assert controls["block_cache_bytes"].value == 8 * MIB
    controls["memtables"].value = 5
    assert panel.form.profile == kst.profile_named("spark").changed(max_write_buffer_number=5)
    controls["profile"].value = "bounded_memory"
    assert panel.plan is not None
    assert panel.plan.is_bound
    assert controls["blocks_in_cache"].value
    panel.set(partitions=1_000)
    assert panel.plan.total_bytes == 512 * MIB
    panel.set(profile=Profile(name="<mine>", write_buffer_size=5 * MIB))
    assert controls["memtable_bytes"].value == 5 * MIB
    assert controls["profile"].value == "<mine> (given)"


def test_what_makes_no_sense_is_said_and_changes_nothing(panel: MemoryPanel) -> None:
    before = panel.plan
    panel.form.controls["keys"].value = "<many>"
    assert "&lt;many&gt;" in panel.static_html()
    assert "<many>" not in panel.static_html()
    assert panel.plan is before
    panel.form.controls["keys"].value = ""
    for told in (
        {"partitions": 0},
        {"color": "blue"},
        {"memtables": -1},
        {"profile": "no such profile"},
    ):
        panel.set(**told)
        assert 'role="status"' in panel._said.value, told
    panel.set(memtables=4)
    assert 'role="status"' not in panel._said.value


def test_a_store_is_measured_and_its_options_and_keys_are_taken_over(users: Path) -> None:
    with open_store(users) as store, MemoryPanel(store) as panel:
        panel.wait()
        controls = panel.form.controls
        assert (controls["keys"].value, controls["key_bytes"].value) == ("200", "8")
        assert controls["value_bytes"].value == "100"
        assert controls["profile"].value.endswith("(given)")
        html = panel.static_html()
        assert "Measured in this process" in html
        size = store.memory().total_bytes
        assert size is not None
        panel.again.click()
        panel.wait()
        assert panel._measured is not None
        assert panel._measured.bars[0].sum == pytest.approx(size, abs=64 << 10)
        assert store.column_families == ("default",)


def test_a_folder_is_measured_and_left(users: Path) -> None:
    with MemoryPanel(str(users), profile="spark") as panel:
        panel.wait()
        assert panel.form.controls["profile"].value == "spark"
        assert panel.form.controls["memtable_bytes"].value == 64 * MIB
        assert "Measured in this process" in panel.static_html()


def test_segments_count_as_instances(tmp_path: Path) -> None:
    folder = write_minutes(tmp_path / "clicks", ["anna"], segments=3)
    with MemoryPanel(folder) as panel:
        panel.wait()
        assert panel.plan is not None
        assert panel.plan.instances == 3
        assert "3 segments, one after the other" in panel.static_html()


def test_a_cache_that_is_not_written_down_is_that_of_the_engine(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = next((unpacked(tmp_path_factory, "3.9.2") / "clean").rglob("user-count"))
    with MemoryPanel(folder) as panel:
        panel.wait()
        assert "1 RocksDB instance: at most 98.0 MiB" in panel.static_html()
        assert "Not in it, as unknown: pinned by iterators" in panel.static_html()
        panel.form.controls["block_cache_bytes"].value = 16 * MIB
        assert panel.plan is not None
        assert "block cache" not in panel.plan.unknown


def test_a_plan_and_what_was_measured_before_stand_beside_the_formula(users: Path) -> None:
    plan = kst.plan_memory("spark", partitions=4)
    with MemoryPanel(plan) as panel:
        panel.wait()
        assert "Given: 544.0 MiB for 4 RocksDB instances." in panel.static_html()
        assert repr(panel) == "MemoryPanel(4 x 1 x 1 = 4 RocksDB instances: at least 544.0 MiB)"
    with open_store(users) as store:
        parts = store.memory()
    assert measured(parts).bars[0].sum == parts.total_bytes
    assert measured(Records([parts, parts], "segments")).bars[0].sum == 2 * (parts.total_bytes or 0)


def test_a_plan_is_gone_on_with_at_its_own_numbers() -> None:
    plan = kst.plan_memory(
        Profile(name="mine", block_size=8192),
        partitions=40,
        segments=3,
        stores=2,
        keys=1_000,
        key_bytes=20,
        value_bytes=100,
        iterators=5,
        memtable_bytes=24 * MIB,
        memtables=3,
        block_cache_bytes=16 * MIB,
    )
    with MemoryPanel(plan) as panel:
        panel.wait()
        assert panel.plan is not None
        sums = [(each.term, each.count, each.total_bytes) for each in plan.terms]
        assert [(each.term, each.count, each.total_bytes) for each in panel.plan.terms] == sums
        assert "given" not in plan.to_dict()
        assert panel.form.controls["keys"].value == "1000"
        assert "40 x 3 x 2 = 240 RocksDB instances" in repr(panel)


def test_what_has_no_memory_to_measure_is_said_and_the_formula_stays(tmp_path: Path) -> None:
    with kst.open_store(CHANGELOGS_ALONE) as store, MemoryPanel(store) as panel:
        panel.wait()
        assert "can&#x27;t be measured" in panel.static_html()
        assert panel.plan is not None
    with kst.open_store(make_checkpoint(tmp_path / "query")) as store, MemoryPanel(store) as panel:
        panel.wait()
        assert "Measured in this process" in panel.static_html()
    with MemoryPanel(tmp_path / "absent") as panel:
        panel.wait()
        assert "absent" in panel._said.value
        assert "U+000A" not in panel._said.value
    with MemoryPanel(object()) as panel:
        panel.wait()
        assert "can&#x27;t be told" in panel.static_html()


def test_closing_ends_all_threads_and_a_panel_appears_at_once(users: Path) -> None:
    MemoryPanel().close()
    before = set(threading.enumerate())
    begun = time.perf_counter()
    panel = MemoryPanel(users)
    assert time.perf_counter() - begun < 1
    panel.close()
    panel.close()
    end = time.monotonic() + 5
    while not set(threading.enumerate()) <= before:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.spark
def test_a_live_run_is_measured_by_sparks_estimate(spark: SparkSession, tmp_path: Path) -> None:
    with MemoryPanel(kst.spark_memory(spark)) as panel:
        panel.wait()
        assert "estimate: unknown (no streaming query is running)" in panel.static_html()
    write_files(tmp_path / "in", events(400), 2)
    run = kst.Pipeline(source=source(tmp_path / "in"), buckets=2).start(
        tmp_path / "out", trigger="1 second"
    )
    try:
        until(lambda: kst.spark_memory(spark, query=run).state.rocksdb_bytes, "state of the run")
        with MemoryPanel(run) as panel:
            panel.wait()
            stores = kst.spark_memory(query=run).state.num_stores
            assert panel.form.controls["partitions"].value == stores
            assert panel.form.controls["profile"].value == "spark, as the session sets it (given)"
            assert "Measured, by Spark&#x27;s estimate: " in panel.static_html()
            assert "unknown (" not in panel._words.value
    finally:
        run.stop()
    with MemoryPanel(kst.load_run(tmp_path / "out")) as panel:
        panel.wait()
        assert "is not live" in panel.static_html()
