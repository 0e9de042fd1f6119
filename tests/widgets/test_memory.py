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
from kstoolkit.units import format_bytes, parse_bytes
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


def enter(panel: MemoryPanel, name: str, value: object) -> None:
    """Do what a field does that somebody changes: the browser sends the same."""
    panel._heard({"field": ["form", name, value]})


def value(panel: MemoryPanel, name: str) -> object:
    (found,) = (each for each in panel.face.part("form")["fields"] if each["name"] == name)
    return found["value"]


def said(panel: MemoryPanel) -> str:
    return str(panel.face.part("said").get("text", ""))


def told(panel: MemoryPanel) -> str:
    return "".join(text for text, _ in panel.face.part("told")["told"])


def test_fields_say_the_formula_and_the_total_stands_in_words(panel: MemoryPanel) -> None:
    enter(panel, "partitions", "40")
    enter(panel, "segments", "3")
    enter(panel, "memtable_bytes", 32 * MIB)
    enter(panel, "block_cache_bytes", 16 * MIB)
    assert panel.plan.total_bytes == 120 * (3 * 32 + 16) * MIB
    assert told(panel) == (
        "40 x 3 x 1 = 120 RocksDB instances: at least 13.1 GiB, most of it for memtables: 11.2 GiB."
    )
    assert "index blocks, filter blocks, pinned by iterators" in panel.face.part("lacks")["text"]
    (bar,) = panel.face.part("bars")["bars"]
    assert sum(each["value"] for each in bar["parts"]) == panel.plan.total_bytes
    assert bar["text"] == "13.1 GiB"


def test_what_is_known_of_keys_fills_the_gaps(panel: MemoryPanel) -> None:
    for name, text in {"keys": "1,000,000", "key_bytes": "20", "value_bytes": "100"}.items():
        enter(panel, name, text)
    enter(panel, "iterators", "0")
    assert not panel.plan.unknown
    assert "at most" in repr(panel)
    before = panel.plan.total_bytes
    enter(panel, "blocks_in_cache", True)
    assert panel.plan.total_bytes < before
    panel.set(blocks_in_cache=False, keys=None)
    assert "index blocks" in panel.plan.unknown


def test_a_profile_moves_the_sliders_and_sliders_go_beyond_it(panel: MemoryPanel) -> None:
    enter(panel, "profile", "spark")
    assert value(panel, "memtable_bytes") == 64 * MIB
    assert value(panel, "block_cache_bytes") == 8 * MIB
    enter(panel, "memtables", 5)
    assert panel.profile == kst.profile_named("spark").changed(max_write_buffer_number=5)
    enter(panel, "profile", "bounded_memory")
    assert panel.plan.is_bound
    assert value(panel, "blocks_in_cache")
    panel.set(partitions=1_000)
    assert panel.plan.total_bytes == 512 * MIB
    panel.set(profile=Profile(name="<mine>", write_buffer_size=5 * MIB))
    assert value(panel, "memtable_bytes") == 5 * MIB
    assert value(panel, "profile") == "<mine> (given)"


def test_what_makes_no_sense_is_said_and_changes_nothing(panel: MemoryPanel) -> None:
    before = panel.plan
    enter(panel, "keys", "<many>")
    assert "'<many>' is no whole number" in said(panel)
    assert "<many>" not in panel.static_html()
    assert panel.plan is before
    for wrong in (
        {"partitions": 0},
        {"color": "blue"},
        {"memtables": -1},
        {"profile": "no such profile"},
        {"limit": "much"},
        {"partitions": 7, "stores": 0},
    ):
        panel.set(**wrong)
        assert said(panel), wrong
        assert panel.plan is before
        assert value(panel, "partitions") == "1"
    panel.set(memtables=4)
    assert not said(panel)


@pytest.mark.parametrize(
    ("limit", "given", "option"),
    [
        ("8 GiB", {"memtable_bytes": 32 * MIB, "block_cache_bytes": 16 * MIB}, "write_buffer_size"),
        ("8 GiB", {}, "block_cache_bytes"),
        (
            "1 GiB",
            {"memtables": 16, "memtable_bytes": MIB, "block_cache_bytes": 0},
            "max_write_buffer_number",
        ),
        ("2 GiB", {}, None),
    ],
)
def test_the_smallest_change_is_the_one_that_keeps_most_and_it_fits(
    panel: MemoryPanel, limit: str, given: dict[str, int], option: str | None
) -> None:
    panel.set(partitions=40, segments=3, limit=limit, **given)
    change = panel.change
    assert change is not None
    assert change.option == option
    assert change.total_bytes <= parse_bytes(limit)
    if option is not None:  # another step of the same option would be too much
        assert change.profile is not None
        step = 1 if option == "max_write_buffer_number" else MIB
        more = change.profile.changed(**{option: change.after + step})
        assert kst.plan_memory(more, partitions=40, segments=3).total_bytes > parse_bytes(limit)
    fit = "".join(text for text, _ in panel.face.part("fit")["told"])
    assert f"The smallest change that fits: {change}" in fit
    panel._heard({"pressed": ["set", "change"]})
    assert panel.plan.total_bytes == change.total_bytes
    assert panel.change is None
    assert "are left" in panel.static_html()


def test_a_limit_below_all_that_can_be_changed_says_so(panel: MemoryPanel) -> None:
    panel.set(partitions=1_000, limit="10 MiB")
    assert panel.change is None
    assert "No change of these options fits." in panel.static_html()


def test_an_application_is_measured_as_a_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = unpacked(tmp_path_factory, "3.9.2") / "clean"
    found = kst.discover(folder)
    needed = found.memory_plan()
    for thing in (folder, found):
        with MemoryPanel(thing) as panel:
            panel.wait()
            assert f"of {len(found)} stores: {format_bytes(needed.total_bytes)}" in said(panel)
            assert panel.plan.instances == needed.instances
            bars = panel.face.part("bars")["bars"]
            assert sum(each["value"] for each in bars[1]["parts"]) == needed.total_bytes


def test_a_store_is_measured_and_its_options_and_keys_are_taken_over(users: Path) -> None:
    with open_store(users) as store, MemoryPanel(store) as panel:
        panel.wait()
        assert (value(panel, "keys"), value(panel, "key_bytes")) == ("200", "8")
        assert value(panel, "value_bytes") == "100"
        assert str(value(panel, "profile")).endswith("(given)")
        html = panel.static_html()
        assert "Measured in this process" in html
        size = store.memory().total_bytes
        assert size is not None
        panel._heard({"pressed": ["measure", "measure"]})
        panel.wait()
        shown = panel.face.part("bars")["bars"][1]["parts"]
        assert sum(each["value"] for each in shown) == pytest.approx(size, abs=64 << 10)
        assert store.column_families == ("default",)


def test_a_folder_is_measured_and_left(users: Path) -> None:
    with MemoryPanel(str(users), profile="spark") as panel:
        panel.wait()
        assert value(panel, "profile") == "spark"
        assert value(panel, "memtable_bytes") == 64 * MIB
        assert "Measured in this process" in panel.static_html()


def test_segments_count_as_instances(tmp_path: Path) -> None:
    folder = write_minutes(tmp_path / "clicks", ["anna"], segments=3)
    with MemoryPanel(folder) as panel:
        panel.wait()
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
        enter(panel, "block_cache_bytes", 16 * MIB)
        assert "block cache" not in panel.plan.unknown


def test_a_plan_and_what_was_measured_before_stand_beside_the_formula(users: Path) -> None:
    plan = kst.plan_memory("spark", partitions=4)
    with MemoryPanel(plan) as panel:
        panel.wait()
        assert "Given: 544.0 MiB for 4 RocksDB instances." in panel.static_html()
        assert repr(panel) == "MemoryPanel(4 x 1 x 1 = 4 RocksDB instances: at least 544.0 MiB)"
    with open_store(users) as store:
        parts = store.memory()
    twice = Records([parts, parts], "segments")
    for thing, number in ((parts, 1), (twice, 2)):
        ((_, _, shown),) = measured(thing).bars
        assert sum(size for _, size, _ in shown) == number * (parts.total_bytes or 0)


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
        sums = [(each.term, each.count, each.total_bytes) for each in plan.terms]
        assert [(each.term, each.count, each.total_bytes) for each in panel.plan.terms] == sums
        assert "given" not in plan.to_dict()
        assert value(panel, "keys") == "1,000"
        assert "40 x 3 x 2 = 240 RocksDB instances" in repr(panel)


def test_what_has_no_memory_to_measure_is_said_and_the_formula_stays(tmp_path: Path) -> None:
    with kst.open_store(CHANGELOGS_ALONE) as store, MemoryPanel(store) as panel:
        panel.wait()
        assert "can't be measured" in said(panel)
    with kst.open_store(make_checkpoint(tmp_path / "query")) as store, MemoryPanel(store) as panel:
        panel.wait()
        assert "Measured in this process" in panel.static_html()
    with MemoryPanel(tmp_path / "absent") as panel:
        panel.wait()
        assert "absent" in said(panel)
        assert "U+000A" not in said(panel)
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
            assert value(panel, "partitions") == str(stores)
            assert value(panel, "profile") == "spark, as the session sets it (given)"
            assert "Measured, by Spark's estimate: " in said(panel)
            assert "unknown (" not in said(panel)
    finally:
        run.stop()
    with MemoryPanel(kst.load_run(tmp_path / "out")) as panel:
        panel.wait()
        assert "is not live" in panel.static_html()
