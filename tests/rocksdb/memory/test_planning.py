"""The memory formula: the published example, shared memory, and real stores beside estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Rdict

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Records
from kstoolkit.rocksdb.memory.planning import MemoryPlan, plan_memory, plans_in_all
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.named import bounded_memory
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from pathlib import Path

MB = 1 << 20


def test_the_published_example_comes_out_to_the_byte() -> None:
    plan = plan_memory(
        memtable_bytes=32 * MB,
        memtables=3,
        block_cache_bytes=16 * MB,
        partitions=40,
        segments=3,
        stores=1,
    )
    assert plan.each_bytes == 112 * MB
    assert plan.instances == 120
    assert plan.total_bytes == 13_440 * MB
    assert not plan.is_bound
    assert [(term.term, term.total_bytes) for term in plan.terms[:2]] == [
        ("memtables", 120 * 96 * MB),
        ("block cache", 120 * 16 * MB),
    ]


def test_in_millions_of_bytes_the_example_is_the_same() -> None:
    plan = plan_memory(
        memtable_bytes=32_000_000,
        memtables=3,
        block_cache_bytes=16_000_000,
        partitions=40,
        segments=3,
    )
    assert plan.total_bytes == 13_440_000_000


def test_each_term_says_where_its_values_come_from() -> None:
    plan = plan_memory(Profile(name="mine", write_buffer_size=MB), memtables=4)
    memtables, cache, *_ = plan.terms
    assert memtables.origin == "write_buffer_size: profile 'mine'; max_write_buffer_number: given"
    assert cache.origin == "block_cache_bytes: profile 'mine'"
    assert plan_memory().terms[1].origin == "block_cache_bytes: RocksDB's own options"


def test_what_is_not_given_is_unknown_and_no_part_of_the_sum() -> None:
    plan = plan_memory("kafka_streams", partitions=2)
    assert plan.total_bytes == 2 * (48 + 50) * MB
    assert set(plan.unknown) == {"index blocks", "filter blocks", "pinned by iterators"}
    assert "without index blocks, filter blocks, pinned by iterators (unknown)" in repr(plan)
    assert "index blocks: unknown (keys, key_bytes and value_bytes are not given)" in str(plan)


def test_one_cache_that_pays_for_all_is_a_bound_whatever_the_number_of_stores() -> None:
    profile = bounded_memory(256 * MB, stores=4)
    few, many = plan_memory(profile, partitions=4), plan_memory(profile, partitions=400)
    assert few.total_bytes == many.total_bytes == 256 * MB
    assert few.is_bound
    assert many.is_bound
    assert "at least" not in str(few)
    assert "; a soft bound, however many stores: blocks in use may go beyond it" in str(few)
    assert "unknown" not in repr(few)
    strict = plan_memory(profile.changed(strict_capacity_limit=True), iterators=1_000)
    assert strict.total_bytes == 256 * MB
    assert "a hard bound" in repr(strict)
    assert few.each_bytes is None
    assert "share" in few.unknown["each_bytes"]


def test_a_shared_cache_alone_is_no_bound() -> None:
    cache = Profile(block_cache_bytes=100 * MB, block_cache_shared=True)
    plan = plan_memory(cache, partitions=3, memtable_bytes=MB, memtables=2)
    assert (plan.total_bytes, plan.is_bound) == (106 * MB, False)
    budget = cache.changed(write_buffer_manager_bytes=10 * MB)
    plan = plan_memory(budget, partitions=3)
    assert (plan.total_bytes, plan.is_bound) == (110 * MB, False)  # indexes live outside
    inside = budget.changed(cache_index_and_filter_blocks=True)
    assert plan_memory(inside, partitions=3).is_bound


def test_every_busy_column_family_has_memtables_of_its_own() -> None:
    one, two = plan_memory(), plan_memory(column_families=2)
    assert two.total_bytes - one.total_bytes == 128 * MB


def test_a_plan_is_made_from_the_options_file_of_a_store(tmp_path: Path) -> None:
    Rdict(str(tmp_path), Profile(write_buffer_size=3 * MB).to_rocksdict()).close()
    plan = plan_memory(tmp_path, block_cache_bytes=5 * MB, partitions=2)
    assert plan.total_bytes == 2 * (6 + 5) * MB
    plan = plan_memory(str(tmp_path))
    assert plan.total_bytes == (6 + 32) * MB, "the cache that RocksDB makes by itself, by the LOG"
    assert f" of {tmp_path.name!r}" in plan.terms[0].origin
    assert "max_write_buffer_number: OPTIONS-" in plan.terms[0].origin
    assert " and LOG of " in plan.terms[1].origin
    (tmp_path / "LOG").unlink()
    plan = plan_memory(str(tmp_path))
    assert plan.total_bytes == 6 * MB
    assert "OPTIONS files hold no caches" in plan.unknown["block cache"]


@given(
    st.integers(1 << 16, 1 << 30),
    st.integers(2, 8),
    st.integers(0, 1 << 30),
    st.tuples(*[st.integers(1, 50)] * 3),
)
def test_the_total_is_the_sum_of_the_terms_and_instances_multiply(
    memtable: int, memtables: int, cache: int, counts: tuple[int, int, int]
) -> None:
    partitions, segments, stores = counts
    plan = plan_memory(
        memtable_bytes=memtable,
        memtables=memtables,
        block_cache_bytes=cache,
        partitions=partitions,
        segments=segments,
        stores=stores,
    )
    assert plan.total_bytes == sum(term.total_bytes or 0 for term in plan.terms)
    assert plan.total_bytes == (memtable * memtables + cache) * partitions * segments * stores


@pytest.mark.parametrize("value_bytes", [20, 200])
def test_estimated_index_and_filter_blocks_are_near_those_of_a_real_store(
    value_bytes: int, tmp_path: Path
) -> None:
    profile = Profile(bloom_bits_per_key=10.0, compression="none")
    keys = 40_000
    with Rdict(str(tmp_path), profile.to_rocksdict()) as store:
        for number in range(keys):
            store[b"key:%016d" % number] = b"v" * value_bytes
        store.flush()
        told = store.property_value("rocksdb.aggregated-table-properties") or ""
        readers = store.property_int_value("rocksdb.estimate-table-readers-mem")
    sizes = {name.strip(): float(value) for name, value in _pairs(told)}
    plan = plan_memory(profile, keys=keys, key_bytes=20, value_bytes=value_bytes)
    terms = {term.term: term.total_bytes for term in plan.terms}
    assert terms["filter blocks"] == pytest.approx(sizes["filter block size"], rel=0.1)
    assert terms["index blocks"] == pytest.approx(
        sizes["index block size (user-key? 1, delta-value? 1)"], rel=0.5
    )
    assert readers is not None
    estimated = (terms["filter blocks"] or 0) + (terms["index blocks"] or 0)
    assert estimated == pytest.approx(readers, rel=0.5)


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = [part.rpartition("=") for part in text.split(";") if "=" in part]
    return [(name, value) for name, _, value in parts if value.replace(".", "").isdigit()]


def test_iterators_pin_memtables_and_a_block_in_every_run() -> None:
    plan = plan_memory(Profile(block_size=4096, write_buffer_size=MB), iterators=3)
    assert plan.terms[4].total_bytes == 3 * (4096 * (4 + 7 - 1) + 3 * MB)


@pytest.mark.parametrize("sizes", [[100], [8_000], [1_000] * 50 + [100_000], [600_000]])
def test_no_memtable_grows_beyond_what_the_plan_says(sizes: list[int], tmp_path: Path) -> None:
    options = Profile(write_buffer_size=4 * MB, compression="none").to_rocksdict()
    with Rdict(str(tmp_path / "store"), options) as store:
        most = 0
        for number in range(20 * MB * len(sizes) // sum(sizes)):
            store[number.to_bytes(8)] = bytes(sizes[number % len(sizes)])
            most = max(most, store.property_int_value("rocksdb.cur-size-active-mem-table") or 0)
        store.flush()
    with open_store(tmp_path / "store") as found:
        plan = found.memory().plan
    assert plan is not None
    assert 0.9 * 4 * MB < most <= (plan.terms[0].total_bytes or 0) / 2


def test_an_address_that_several_stores_log_counts_once() -> None:
    def term(size: int, objects: dict[str, int], count: int = 1) -> MemoryPlan:
        plan = plan_memory(block_cache_bytes=size, stores=count)
        memtables, cache, *others = plan.terms
        terms = Records([memtables, replace(cache, objects=objects), *others], "terms")
        return replace(plan, terms=terms)

    both = [term(9, {"0x1": 7, "0x2": 2}), term(10, {"0x1": 7, "0x3": 3}), term(5, {"0x4": 5}, 3)]
    cache = plans_in_all(both).terms[1]
    assert (cache.total_bytes, cache.count, cache.shared) == (7 + 2 + 3 + 5 * 3, 5, False)
    assert "0x1 of 2 stores counts once" in cache.formula
    assert plans_in_all(both).total_bytes == 5 * 128 * MB + 27


def test_an_index_has_at_most_one_entry_a_key() -> None:
    plan = plan_memory(Profile(), keys=3, key_bytes=8, value_bytes=14 * MB)
    assert plan.terms[2].total_bytes == 3 * (8 + 8)


@pytest.mark.parametrize("name", ["partitions", "segments", "stores", "column_families"])
@pytest.mark.parametrize("wrong", [0, "2", 1.0, None])
def test_a_count_that_is_none_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is {wrong!r}"):
        plan_memory(**{name: wrong})


@pytest.mark.parametrize("name", ["memtable_bytes", "block_cache_bytes", "keys", "iterators"])
@pytest.mark.parametrize("wrong", [-1, "1G", 2.5])
def test_a_size_that_is_none_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is {wrong!r}|size is {wrong!r}"):
        plan_memory(**{name: wrong})


def test_a_single_instance_is_named_as_one() -> None:
    assert "(1 instance, " in repr(plan_memory())
    assert "for 1 RocksDB instance\n" in str(plan_memory())


def test_the_html_of_a_plan_says_what_its_text_says() -> None:
    plan = plan_memory("kafka_streams")
    html = plan._repr_html_()
    for term in plan.terms:
        assert term.term in html
    assert "formula" in html
    assert plan.to_dict()["total_bytes"] == plan.total_bytes
    assert set(plan.to_pandas()["figure"]) >= {"instances", "total_bytes"}
    assert len(plan.terms.to_pandas()) == 5
