"""Memory measured: parts that add up, caches counted once, and many stores under one bound."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.records import Source
from kstoolkit.rocksdb.memory.measured import memory_parts, process_memory
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.profiles.rocksdict import shared_memory
from tests.rocksdb.madestores import appearance, make_store

BOUND_BYTES = 32 << 20
TOLERANCE_BYTES = 4 << 20
"""By RocksDB's own account: memtables are paid for in steps of 256 KiB, and blocks are in use."""

PROCESS_TOLERANCE_BYTES = 24 << 20
"""By the system's: open files, what the allocator keeps, RocksDB's own tables."""

LOAD = """
import json, sys
from rocksdict import Rdict
from kstoolkit.rocksdb.memory.measured import memory_parts
from kstoolkit.rocksdb.memory.planning import plan_memory
from kstoolkit.rocksdb.profiles.named import bounded_memory
from kstoolkit.rocksdb.profiles.rocksdict import shared_memory

folder, bound_bytes, count = sys.argv[1], *map(int, sys.argv[2:])
profile = bounded_memory(bound_bytes, count).changed(compression="none")
shared = shared_memory(profile)
stores = []
for number in range(count):
    options = profile.to_rocksdict(shared=shared)
    stores.append(Rdict(f"{folder}/{number}", options, column_families={"default": options}))
    stores[-1].set_write_options(profile.write_options())
plan = plan_memory(profile, stores=count)
most = grew = 0
before = memory_parts("before", stores, plan=plan, memtables_in_cache=True).rss_bytes
for row in range(20_000):
    for store in stores:
        store[row.to_bytes(8)] = b"v" * 500
    if row % 1000 == 0:
        parts = memory_parts("all", stores, plan=plan, memtables_in_cache=True)
        most, grew = max(most, parts.total_bytes), max(grew, parts.rss_bytes - before)
rows = sum(1 for store in stores for _ in store.keys())
parts = memory_parts("all", stores, plan=plan, memtables_in_cache=True)
most, grew = max(most, parts.total_bytes), max(grew, parts.rss_bytes - before)
print(json.dumps({"rows": rows, "most": most, "grew": grew, "caches": parts.num_block_caches,
                  "shared": parts.block_cache_shared, "formula": parts.formula_bytes,
                  "sum": sum(memory_parts("one", [each]).block_cache_usage_bytes
                             for each in stores)}))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("memory") / "store")


def test_the_parts_add_up_and_what_is_pinned_is_not_added(made: Path) -> None:
    before = appearance(made)
    with open_store(made) as store:
        assert len(list(store.iter_rows())) > 0
        parts = store.memory()
    assert parts.block_cache_usage_bytes > 10_000
    assert parts.memtables_bytes is not None
    assert parts.table_readers_bytes is not None
    assert parts.total_bytes == (
        parts.memtables_bytes
        + (parts.memtables_pinned_bytes or 0)
        + parts.block_cache_usage_bytes
        + parts.table_readers_bytes
    )
    assert parts.block_cache_pinned_bytes <= parts.block_cache_usage_bytes
    assert appearance(made) == before


def test_what_is_left_of_the_process_is_named_with_its_size(made: Path) -> None:
    with open_store(made) as store:
        parts = store.memory()
    assert parts.rss_bytes is not None
    assert parts.total_bytes is not None
    left = parts.rss_bytes - parts.total_bytes - parts.arrow_bytes
    assert parts.not_accounted_for_bytes == left > 0
    assert "not accounted for" in repr(parts)


def test_each_figure_says_whose_it_is(made: Path) -> None:
    with open_store(made) as store:
        sources = {each.name: each.source for each in store.memory().figures()}
    assert sources["block_cache_usage_bytes"] is Source.OPENER
    assert sources["formula_bytes"] is Source.FORMULA
    assert sources["rss_bytes"] is Source.SYSTEM


def test_an_unknown_term_of_the_formula_leaves_it_unknown_and_a_profile_tells_it(
    made: Path, tmp_path: Path
) -> None:
    silent = shutil.copytree(made, tmp_path / "store", ignore=shutil.ignore_patterns("LOG*"))
    with open_store(silent) as store:
        parts, given = store.memory(), store.memory(profile="kafka_streams")
    assert parts.formula_bytes is None
    assert "block cache: OPTIONS files hold no caches" in parts.unknown["formula_bytes"]
    assert "nor does the writer's log tell of one" in parts.unknown["formula_bytes"]
    assert parts.plan is not None
    memtables = next(each for each in parts.plan.terms if each.term == "memtables")
    assert memtables.parts.keys() == {"default", "other"}
    for size in memtables.parts.values():  # two memtables of 1 MiB, and what they may be over
        assert 2 << 20 < size < (2 << 20) + (300 << 10)
    assert memtables.total_bytes == sum(memtables.parts.values())
    assert re.search(r": OPTIONS-\d{6} of 'store'$", memtables.origin)
    assert given.plan is not None
    assert given.formula_bytes == given.plan.total_bytes > 0


def test_the_writer_s_log_tells_of_its_cache(tmp_path: Path) -> None:
    profile = Profile(block_cache_bytes=5 << 20, block_cache_shared=True, compression="none")
    options = profile.to_rocksdict(shared=shared_memory(profile))
    writer = Rdict(str(tmp_path / "store"), options, column_families={"default": options})
    writer.create_column_family("more", options).close()
    writer.close()
    with open_store(tmp_path / "store") as store:
        one, many = store.memory(), store.memory(instances=7)
    cache = next(each for each in one.plan.terms if each.term == "block cache")  # type: ignore[union-attr]
    assert cache.total_bytes == 5 << 20
    assert re.fullmatch(
        r"block_cache_bytes: the writer's log, LRUCache at 0x[0-9a-f]+ for 2 column families",
        cache.origin,
    )
    assert one.formula_bytes is not None
    assert many.formula_bytes == 7 * one.formula_bytes


def test_index_and_filter_blocks_are_those_that_the_files_state(tmp_path: Path) -> None:
    profile = Profile(bloom_bits_per_key=10.0, compression="none")
    with Rdict(str(tmp_path / "store"), profile.to_rocksdict()) as writer:
        for number, size in enumerate((10, 10, 4 << 20)):
            writer[number.to_bytes(8)] = bytes(size)
        writer.flush()
    with open_store(tmp_path / "store") as store:
        parts, files = store.memory(), store.ssts()
    assert parts.plan is not None
    terms = {each.term: each for each in parts.plan.terms}
    index, filters = terms["index blocks"], terms["filter blocks"]
    assert index.total_bytes == sum(each.index_bytes or 0 for each in files) < 1_000
    assert filters.total_bytes == sum(each.filter_bytes or 0 for each in files) > 0
    assert {each.source for each in [*index.figures(), *filters.figures()]} == {Source.STORE}
    assert {each.source for each in terms["memtables"].figures()} == {Source.FORMULA}


def test_the_writer_s_process_stands_beside_the_formula(made: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as writer:
        with open_store(made) as store:
            parts, nobody = store.memory(pid=writer.pid), store.memory()
        writer.communicate()
    assert parts.writer_rss_bytes is not None
    assert parts.rss_bytes is not None
    assert parts.writer_rss_bytes < parts.rss_bytes
    assert parts.writer_pss_bytes is not None
    assert parts.formula_bytes is not None
    rest = parts.writer_rss_bytes - parts.formula_bytes
    assert parts.writer_not_accounted_for_bytes == rest
    assert nobody.writer_rss_bytes is None
    assert "pid" in nobody.unknown["writer_not_accounted_for_bytes"]
    assert next(iter(nobody.figures())).name == "formula_bytes"


@pytest.mark.parametrize("wrong", ["7", 0, 1.5, True])
def test_numbers_that_make_no_sense_are_refused(wrong: Any, made: Path) -> None:
    with open_store(made) as store:
        for name in ("pid", "instances"):
            numbers = {name: wrong}
            with pytest.raises(ConfigurationError, match=name):
                store.memory(**numbers)


def test_a_cache_that_two_stores_share_is_counted_once(tmp_path: Path) -> None:
    profile = Profile(block_cache_bytes=8 << 20, block_cache_shared=True, compression="none")
    shared = shared_memory(profile)
    stores = [
        Rdict(str(tmp_path / name), options, column_families={"default": options})
        for name in ("a", "b")
        for options in [profile.to_rocksdict(shared=shared)]
    ]
    for store in stores:
        for number in range(2_000):
            store[number.to_bytes(8)] = bytes(100)
        store.flush()
        assert len(list(store.keys())) == 2_000
    parts = memory_parts("both", stores)
    assert (parts.num_block_caches, parts.block_cache_shared) == (1, True)
    usages = {store.property_int_value("rocksdb.block-cache-usage") for store in stores}
    assert usages == {parts.block_cache_usage_bytes}
    assert parts.block_cache_usage_bytes > 400_000
    assert parts.block_cache_capacity_bytes == 8 << 20
    assert not memory_parts("one", stores[:1]).block_cache_shared
    for store in stores:
        store.close()


def test_stores_without_a_cache_take_nothing_for_it(tmp_path: Path) -> None:
    options = Profile(block_cache_bytes=0).to_rocksdict()
    store = Rdict(str(tmp_path / "a"), options, column_families={"default": options})
    parts = memory_parts("a", [store])
    assert (parts.num_block_caches, parts.block_cache_usage_bytes) == (0, 0)
    store.close()


def test_the_process_is_measured_and_a_missing_one_is_a_sentence() -> None:
    here = process_memory(os.getpid())
    assert here.rss_bytes is not None
    assert here.pss_bytes is not None
    assert here.rss_bytes >= here.pss_bytes > 1 << 20
    with pytest.raises(InputError, match="There is no process 999999999"):
        process_memory(999_999_999)


@pytest.mark.slow
def test_loaded_stores_stay_within_the_stated_bound_by_their_own_account(tmp_path: Path) -> None:
    count = 6
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path), str(BOUND_BYTES), str(count)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == 20_000 * count
    assert (found["caches"], found["shared"]) == (1, True)
    assert found["formula"] == BOUND_BYTES
    assert BOUND_BYTES // 4 < found["most"] <= BOUND_BYTES + TOLERANCE_BYTES
    assert found["grew"] <= BOUND_BYTES + PROCESS_TOLERANCE_BYTES
    assert found["sum"] > BOUND_BYTES + TOLERANCE_BYTES, "counted once a store it would be over"
