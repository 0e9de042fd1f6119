from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.figure import Figure

from kstoolkit.operations.checkup import checkup
from kstoolkit.operations.sparkmemory import (
    ExecutorMemory,
    JavaMemory,
    SparkMemory,
    WorkersMemory,
    _query_state,
    _workers_memory,
)
from kstoolkit.plots.memory import _MOST_EXECUTORS
from kstoolkit.plots.palette import UNKNOWN_HATCH
from kstoolkit.records import Records
from kstoolkit.rocksdb.memory.measured import ProcessMemory, process_memory
from kstoolkit.rocksdb.memory.planning import plan_memory
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts
from tests.plots.realstores import lengths, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.store import Store


MIB = 1 << 20


@pytest.fixture
def store() -> Iterator[Store]:
    yield from opened()


def full_plan(**changes: Any) -> Any:
    options = {"partitions": 40, "segments": 3, "keys": 10**6, "key_bytes": 20, "value_bytes": 100}
    return plan_memory("kafka_streams", iterators=2, **(options | changes))


def hatches(axes: Any) -> set[str]:
    return {patch.get_hatch() for patch in axes.patches}


def test_each_term_of_the_formula_is_a_part_as_long_as_it_is_large() -> None:
    plan = full_plan()
    axes: Any = drawn(plan.plot())
    assert lengths(axes) == [term.total_bytes for term in plan.terms]
    assert legend(axes) == [term.term for term in plan.terms]
    assert row_names(axes) == ["formula"]
    assert texts(axes) == ["26.7 GiB"]
    assert seen(axes).replace("\n", " ") == (
        "RocksDB needs at most 26.7 GiB for 120 instances, "
        "the largest part for pinned by iterators: 15.0 GiB"
    )


def test_parts_differ_by_colour() -> None:
    axes: Any = full_plan().plot()
    parts = [patch for patch in axes.patches if patch.get_width()]
    assert len({patch.get_facecolor() for patch in parts}) == len(parts)


def test_an_unknown_term_is_hatched_named_and_adds_nothing() -> None:
    plan = plan_memory("spark", partitions=4)
    axes: Any = drawn(plan.plot())
    assert "unknown" in legend(axes)
    assert UNKNOWN_HATCH in hatches(axes)
    assert texts(axes) == ["544.0 MiB + unknown"]
    assert "index blocks: unknown (keys, key_bytes and value_bytes are not given)" in (
        axes.get_xlabel()
    )
    assert seen(axes).startswith("RocksDB needs at least 544.0 MiB")


def test_terms_that_lie_inside_the_cache_are_said_and_not_drawn() -> None:
    bounded = profile_named("kafka_streams").changed(
        block_cache_shared=True,
        cache_index_and_filter_blocks=True,
        write_buffer_manager_bytes=8 * MIB,
        write_buffer_manager_in_cache=True,
    )
    axes: Any = drawn(plan_memory(bounded, partitions=4).plot())
    assert "inside the block cache" in axes.get_xlabel()
    assert "bound" in seen(axes)


def test_a_store_stands_beside_its_formula(store: Store) -> None:
    parts = store.memory(profile="kafka_streams")
    axes: Any = drawn(parts.plot())
    assert row_names(axes) == ["formula", "measured in this process"]
    assert "measured in this process" in seen(axes).replace("\n", " ")
    assert "block cache" in axes.get_xlabel()
    readers = [p for p in axes.patches if p.get_width() == parts.table_readers_bytes]
    assert readers[0].get_y() > 0.5


@pytest.mark.parametrize("name", profile_names())
def test_plans_of_all_profiles_fit_their_figure(name: str) -> None:
    assert stays_inside(plan_memory(name, partitions=4).plot())


def test_the_terms_alone_are_rows_with_their_products() -> None:
    plan = full_plan()
    axes: Any = plan.terms.plot()
    assert row_names(axes) == [term.term for term in plan.terms]
    assert texts(axes)[0] == "5.6 GiB = 120 x 48.0 MiB"
    assert axes.get_legend() is None
    assert stays_inside(axes)


def test_what_an_application_may_take_stands_against_its_bound() -> None:
    state = "data/stores/kafka-streams/small-main-4_3_1"
    for bound, wants in ((64 << 20, "64.0 MiB"), (9 << 30, "9.0 GiB")):
        axes: Any = drawn(checkup(state, bound_bytes=bound, restore_bytes_per_second=1).plot())
        (line,) = axes.lines
        assert {*line.get_xdata()} == {bound}
        assert axes.get_xlim()[1] > bound
        assert f"bound: {wants}" in texts(axes)
    assert not drawn(checkup(state, restore_bytes_per_second=1).plot()).lines


def test_a_process_shows_its_share_of_what_it_has() -> None:
    memory = process_memory()
    axes: Any = drawn(memory.plot())
    assert sum(lengths(axes)) == memory.rss_bytes
    assert row_names(axes) == ["This process"]


def test_a_process_that_may_not_be_read_is_unknown() -> None:
    why = dict.fromkeys(("rss_bytes", "pss_bytes"), "this system has no /proc")
    axes: Any = drawn(ProcessMemory(7, None, None, why).plot())
    assert texts(axes) == ["unknown"]
    assert "unknown (this system has no /proc)" in axes.get_xlabel()
    assert not axes.xaxis.get_ticklabels()


@pytest.mark.parametrize("text", HOSTILE)
def test_reasons_may_hold_anything(text: str) -> None:
    memory = ProcessMemory(7, None, None, dict.fromkeys(("rss_bytes", "pss_bytes"), text))
    axes: Any = drawn(memory.plot())
    assert len(axes.get_xlabel()) < 600


def test_it_draws_where_it_is_told_on_a_clear_face() -> None:
    axes = Figure().add_subplot()
    assert full_plan().plot(ax=axes) is axes
    assert axes.patch.get_alpha() == 0


JAVA = JavaMemory(
    pid=4711,
    heap_used_bytes=388 * MIB,
    heap_committed_bytes=656 * MIB,
    heap_max_bytes=6 << 30,
    non_heap_used_bytes=150 * MIB,
    non_heap_committed_bytes=160 * MIB,
    direct_bytes=2 * MIB,
    netty_bytes=16 * MIB,
    arrow_bytes=MIB,
    mapped_bytes=0,
    rocksdb_bytes=2 * MIB,
    total_bytes=836 * MIB,
    rss_bytes=900 * MIB,
    pss_bytes=880 * MIB,
    not_accounted_for_bytes=64 * MIB,
)
STATE = _query_state(
    {
        "counts": {
            "stateOperators": [
                {
                    "numStateStoreInstances": 4,
                    "memoryUsedBytes": 8 * MIB,
                    "customMetrics": {"rocksdbPinnedBlocksMemoryUsage": MIB},
                }
            ]
        }
    }
)
PEAKS = [each.name for each in fields(ExecutorMemory) if each.name.startswith("peak_")]


def spark_memory(**changes: Any) -> Any:
    plan = plan_memory("spark", partitions=4)
    options: dict[str, Any] = {
        "application": "counts",
        "java": JAVA,
        "state": STATE,
        "python": process_memory(),
        "workers": WorkersMemory(3, 90 * MIB, 40 * MIB),
        "executors": Records([], "executors"),
        "python_arrow_bytes": 0,
        "total_pss_bytes": 1000 * MIB,
        "formula_bytes": plan.total_bytes,
        "plan": plan,
    }
    return SparkMemory(**(options | changes))


def executor(number: int, heap_bytes: int | None) -> ExecutorMemory:
    known = {"peak_heap_bytes": heap_bytes} if heap_bytes is not None else {}
    whys = {name: "it has told nothing yet" for name in PEAKS if name not in known}
    values = dict.fromkeys(PEAKS) | known
    return ExecutorMemory(str(number), f"10.0.0.{number}:7077", **values, unknown=whys)


def test_each_process_is_a_row_and_the_formula_is_beside() -> None:
    axes: Any = spark_memory().plot()
    assert stays_inside(axes)
    assert row_names(axes) == [
        "driver's Java",
        "this Python (PSS)",
        "Python workers (PSS)",
        "RocksDB, Spark's estimate",
        "RocksDB, formula",
    ]
    assert texts(axes)[0] == "900.0 MiB"
    assert texts(axes)[3:] == ["8.0 MiB", "544.0 MiB"]
    assert "never add them" in axes.get_xlabel()
    assert "1000.0 MiB in all (PSS)" in seen(axes).replace("\n", " ")


def test_parts_that_share_a_colour_differ_by_hatch() -> None:
    axes: Any = drawn(spark_memory().plot())
    looks = {(patch.get_facecolor(), patch.get_hatch()) for patch in axes.patches}
    assert len(legend(axes)) > 7
    assert len(looks) == len(legend(axes))


def test_without_stores_the_formula_is_unknown_and_says_why() -> None:
    whys = {"formula_bytes": "these queries keep no state in RocksDB"}
    axes: Any = drawn(spark_memory(plan=None, formula_bytes=None, unknown=whys).plot())
    assert "unknown (these queries keep no state in RocksDB)" in axes.get_xlabel()
    assert UNKNOWN_HATCH in {patch.get_hatch() for patch in axes.patches}


def test_the_parts_of_java_add_up_to_what_the_system_says() -> None:
    axes: Any = drawn(JAVA.plot())
    assert sum(lengths(axes)) == JAVA.rss_bytes
    assert "the heap may grow to 6.0 GiB" in axes.get_xlabel()


def test_a_heap_that_was_never_touched_is_not_taken_for_rss() -> None:
    java = replace(JAVA, rss_bytes=796 * MIB, not_accounted_for_bytes=-40 * MIB)
    axes: Any = drawn(java.plot())
    assert texts(axes) == ["836.0 MiB asked for"]
    assert "-40.0 MiB, below 0, and not drawn" in axes.get_xlabel()


def test_the_state_shows_what_of_it_is_in_use() -> None:
    axes: Any = drawn(STATE.plot())
    assert sorted(lengths(axes)) == [MIB, 7 * MIB]
    assert "4 stores" in seen(axes)


def test_a_state_that_nobody_told_is_unknown() -> None:
    axes: Any = drawn(_query_state({"counts": None}).plot())
    assert texts(axes) == ["unknown", "unknown"]
    assert "query 'counts' has not finished a micro-batch yet" in axes.get_xlabel()


def test_workers_are_counted_together() -> None:
    axes: Any = drawn(WorkersMemory(3, 90 * MIB, 40 * MIB).plot())
    assert lengths(axes) == [40 * MIB, 50 * MIB]
    assert (
        seen(drawn(_workers_memory(2**22).plot())) == "Python workers take 0 B together: 0 workers"
    )


def test_peaks_of_executors_stand_beside_each_other() -> None:
    executors = Records([executor(1, 300 * MIB), executor(2, None)], "executors")
    axes: Any = executors.plot()
    assert stays_inside(axes)
    assert row_names(axes) == ["1 at 10.0.0.1:7077", "2 at 10.0.0.2:7077"]
    heap = axes.lines[0]
    assert (heap.get_xdata().tolist(), heap.get_ydata().tolist()) == ([300 * MIB], [0])
    assert "unknown (it has told nothing yet)" in axes.get_xlabel()
    assert len({line.get_marker() for line in axes.lines}) == len(PEAKS)


def test_many_executors_are_thinned_and_the_figure_says_so() -> None:
    executors = Records([executor(n, n * MIB) for n in range(1, 60)], "executors")
    axes: Any = drawn(executors.plot())
    assert len(row_names(axes)) == _MOST_EXECUTORS
    assert "the 20 with the largest heap, of 59 executors" in axes.get_xlabel()


@pytest.mark.parametrize("text", HOSTILE)
def test_an_application_may_have_any_name(text: str) -> None:
    assert len(seen(drawn(spark_memory(application=text).plot()))) < 300
