"""Advice: each rule with a store that shows the symptom, and one that doesn't."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pytest
from rocksdict import Rdict

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.records import Figure, Source
from kstoolkit.rocksdb import store as storemodule
from kstoolkit.rocksdb.advice.rules import RULES
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.profiles.rocksdict import shared_memory
from tests.cli import commands
from tests.rocksdb.madestores import largest_sst, make_store
from tests.rocksdb.stalledstore import write_stalled_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.rocksdb.advice.advice import Advice, AdviceList, Circumstances

COUNT = re.compile(r"^(rocksdb\.[\w.-]+) COUNT : (\d+)", re.MULTILINE)
UNFLUSHED = ("rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes")
PLAIN = Profile(compression="none", statistics=True, disable_auto_compactions=True)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("advice") / "store")


def written(path: Path, profile: Profile, work: Callable[[Rdict], object]) -> dict[str, int]:
    """Work on a store under a profile, and return its writer's counters."""
    options = profile.to_rocksdict(shared=shared_memory(profile))
    store = Rdict(str(path), options, column_families={"default": options})
    kept = work(store)
    told = {name: int(count) for name, count in COUNT.findall(options.get_statistics() or "")}
    del kept
    store.close()
    return told


def fill(store: Rdict, rows: int = 4_000, value_bytes: int = 100) -> None:
    draws = random.Random(7)
    for row in range(0, 2 * rows, 2):
        store[row.to_bytes(8)] = draws.randbytes(value_bytes)
    store.flush()


def fill_in_rounds(store: Rdict) -> None:
    """Fill a store, and let its flushes end twenty times: a writer may outrun them by far."""
    draws = random.Random(7)
    for row in range(40_000):
        store[row.to_bytes(8)] = draws.randbytes(400)
        while row % 2_000 == 0 and any(map(store.property_int_value, UNFLUSHED)):
            time.sleep(0.001)
    store.flush()


def fill_and_get(store: Rdict, offset: int) -> None:
    """Fill a store and get 3,000 keys: those that are there (offset 0) or not (offset 1)."""
    fill(store)
    draws = random.Random(8)
    for _ in range(3_000):
        store.get((2 * draws.randrange(4_000) + offset).to_bytes(8))


def advice_of(path: Path, **circumstances: Unpack[Circumstances]) -> AdviceList:
    with open_store(path) as store:
        return store.advice(**circumstances)


def given(rule: str, found: AdviceList) -> list[Advice]:
    assert rule in RULES
    return [each for each in found if each.rule == rule]


def judged_fine(rule: str, found: AdviceList) -> bool:
    return not given(rule, found) and rule not in found.unjudged


def test_memory_over_the_bound(quiet: Path) -> None:
    rule = "memory over the bound"
    (advice,) = given(rule, advice_of(quiet, bound_bytes=1 << 20))
    assert {each.name: each.source for each in advice.evidence} == {
        "bound_bytes": Source.GIVEN,
        "formula_at_most_bytes": Source.FORMULA,
        "instances": Source.GIVEN,
    }
    assert judged_fine(rule, advice_of(quiet, bound_bytes=1 << 30))
    assert given(rule, advice_of(quiet, bound_bytes=1 << 30, instances=1_000))
    assert "no bound is given" in advice_of(quiet).unjudged[rule]


def test_memory_of_the_writer_s_process_is_no_evidence(quiet: Path, tmp_path: Path) -> None:
    rule = "memory over the bound"
    # This process takes more than 70 MiB, and the formula comes to 68 MiB of it.
    assert judged_fine(rule, advice_of(quiet, bound_bytes=70 << 20, pid=os.getpid()))
    (advice,) = given(rule, advice_of(quiet, bound_bytes=8 << 20, pid=os.getpid()))
    told = {each.name: each for each in advice.evidence}
    rest = told["writer_rss_bytes"].value - told["formula_at_most_bytes"].value
    assert told["writer_not_accounted_for_bytes"].value == rest
    assert told["writer_rss_bytes"].source is Source.SYSTEM
    silent = shutil.copytree(quiet, tmp_path / "store", ignore=shutil.ignore_patterns("LOG*"))
    found = advice_of(silent, bound_bytes=70 << 20, pid=os.getpid())
    assert "block cache: OPTIONS files hold no caches" in found.unjudged[rule]
    assert "in all says nothing of RocksDB" in found.unjudged[rule]
    shown = commands.given("advice", silent, "--bound-bytes", 70 << 20, "--pid", os.getpid())
    assert "give --profile; that the writer's process takes" in " ".join(shown.err.split())


def test_memory_of_a_capped_profile_and_by_the_writer_s_metrics(quiet: Path) -> None:
    rule = "memory over the bound"
    capped = bounded_memory(64 << 20, 4)
    (advice,) = given(rule, advice_of(quiet, bound_bytes=32 << 20, profile=capped, instances=4))
    assert (advice.option, advice.direction) == ("block_cache_bytes", "lower")
    tickers = {
        "rocksdb.size-all-mem-tables": 90 << 20,
        "rocksdb.block-cache-usage": 80 << 20,
        "rocksdb.estimate-table-readers-mem": 20 << 20,
    }
    (advice,) = given(rule, advice_of(quiet, bound_bytes=100 << 20, tickers=tickers))
    assert [each.name for each in advice.evidence[1:]] == list(tickers)
    assert {each.source for each in advice.evidence[1:]} == {Source.METRICS}
    # Whether the cache holds the memtables is not known: 110 MiB are certain, 190 are not.
    assert judged_fine(rule, advice_of(quiet, bound_bytes=110 << 20, tickers=tickers))


@pytest.mark.parametrize(
    ("circumstances", "message"),
    [
        ({"bound_bytes": "1G"}, "bound_bytes is '1G', which is no whole number"),
        ({"bound_bytes": -1}, "bound_bytes is -1: it has to be 1 or more"),
        ({"instances": 1.5}, "instances is 1.5"),
        ({"instances": None}, "instances is None"),
        ({"open_files_limit": 0}, "open_files_limit is 0"),
        ({"pid": "self"}, "pid is 'self'"),
        ({"tickers": 3}, "tickers is 3, which is no mapping"),
        ({"tickers": {"rocksdb.bloom.filter.useful": "many"}}, "useful'] is 'many'"),
        ({"bound": 3}, "advice\\(\\) takes no bound.*\n.*Did you mean 'bound_bytes'"),
    ],
)
def test_circumstances_that_make_no_sense_are_refused(
    circumstances: Any, message: str, quiet: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        advice_of(quiet, **circumstances)


def test_a_profile_may_be_named(quiet: Path) -> None:
    by_name = advice_of(quiet, bound_bytes=1 << 20, profile="kafka_streams", instances=2)
    itself = advice_of(
        quiet, bound_bytes=1 << 20, profile=profile_named("kafka_streams"), instances=2
    )
    assert by_name.to_dicts() == itself.to_dicts()
    with pytest.raises(InputError):
        advice_of(quiet, profile="kafka_stream")


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        (
            "memtable limit",
            (
                "Stopping writes because we have 2 immutable memtables (waiting for flush), "
                "max_write_buffer_number is set to 2"
            ),
        ),
        ("L0 file count limit", "Stalling writes because we have 20 level-0 files rate 16777216"),
        (
            "pending compaction bytes",
            "Stalling writes because of estimated pending compaction bytes 68719476737 rate 9",
        ),
    ],
)
def test_write_stalls_by_cause(cause: str, line: str, quiet: Path, tmp_path: Path) -> None:
    store = shutil.copytree(quiet, tmp_path / "store")
    with (store / "LOG").open("a") as log:
        log.write(f"2026/11/21-08:08:24.435575 139868573263552 [WARN] [default] {line}\n")
    found = advice_of(store)
    assert [each.rule for each in found if "stalls" in each.rule] == [f"write stalls: {cause}"]
    (advice,) = given(f"write stalls: {cause}", found)
    assert {each.source for each in advice.evidence} == {Source.LOG}
    assert judged_fine(f"write stalls: {cause}", advice_of(quiet))


def test_a_store_that_really_stalled_is_told_so(tmp_path: Path) -> None:
    write_stalled_store(tmp_path / "store")
    found = advice_of(tmp_path / "store")
    assert [each for each in found if "stalls" in each.rule]
    judged_by_tickers = {"low bloom usefulness", "index and filter misses", "iterator pinning"}
    assert not judged_by_tickers & found.unjudged.keys()


def test_without_a_log_nothing_of_it_is_judged(quiet: Path, tmp_path: Path) -> None:
    store = shutil.copytree(quiet, tmp_path / "store")
    (store / "LOG").unlink()
    found = advice_of(store)
    for rule in ("write stalls: memtable limit", "write amplification", "flush too small"):
        assert not given(rule, found)
    assert "LOG" in found.unjudged["flush too small"]
    assert "metrics=..." in found.unjudged["write amplification"]
    assert "low bloom usefulness" in found.unjudged


def test_write_amplification(tmp_path: Path, quiet: Path) -> None:
    def rewrite(store: Rdict) -> None:
        fill(store)
        for number in range(40):
            store[number.to_bytes(8)] = b"again"
            store.flush()
            store.compact_range(None, None)

    written(tmp_path / "store", PLAIN, rewrite)
    (advice,) = given("write amplification", advice_of(tmp_path / "store"))
    figures = {each.name: each.value for each in advice.evidence}
    assert figures["write_amplification"] > 10
    assert figures["num_compactions"] >= 39
    assert judged_fine("write amplification", advice_of(quiet))


def test_flush_too_small(tmp_path: Path, quiet: Path) -> None:
    profile = PLAIN.changed(write_buffer_manager_bytes=1 << 20)
    written(tmp_path / "store", profile, fill_in_rounds)
    (advice,) = given("flush too small", advice_of(tmp_path / "store"))
    assert advice.option == "write_buffer_manager_bytes"
    assert "Write Buffer Manager" in advice.symptom
    assert judged_fine("flush too small", advice_of(quiet))
    relieved = profile.changed(write_buffer_manager_bytes=128 << 20)
    written(tmp_path / "relieved", relieved, fill_in_rounds)
    assert judged_fine("flush too small", advice_of(tmp_path / "relieved"))


def test_index_and_filter_misses(tmp_path: Path) -> None:
    rule = "index and filter misses"
    small = PLAIN.changed(cache_index_and_filter_blocks=True, block_cache_bytes=1 << 10)
    large = small.changed(block_cache_bytes=8 << 20)
    for name, profile in (("small", small), ("large", large)):
        counts = written(tmp_path / name, profile, lambda store: fill_and_get(store, 0))
        found = advice_of(tmp_path / name, tickers=counts)
        assert bool(given(rule, found)) == (name == "small")
        assert rule not in found.unjudged


def test_hash_index_not_pinned(tmp_path: Path) -> None:
    rule = "hash index not pinned"
    for name, cached in (("evictable", True), ("pinned", False)):
        profile = profile_named("point_lookup").changed(cache_index_and_filter_blocks=cached)
        written(tmp_path / name, profile, fill)
        found = advice_of(tmp_path / name)
        assert bool(given(rule, found)) == cached
        assert rule not in found.unjudged


def test_low_bloom_usefulness_and_more_bits_cure_it(tmp_path: Path) -> None:
    rule = "low bloom usefulness"
    let_through = []
    for bits in (2.0, 10.0):
        path = tmp_path / f"{bits:.0f}"
        profile = PLAIN.changed(bloom_bits_per_key=bits)
        counts = written(path, profile, lambda store: fill_and_get(store, 1))
        assert bool(given(rule, advice_of(path, tickers=counts))) == (bits < 10)
        let_through.append(counts["rocksdb.bloom.filter.full.positive"])
    assert let_through[0] > 5 * let_through[1]


def test_read_amplification_on_absent_keys_and_a_filter_cures_it(tmp_path: Path) -> None:
    rule = "read amplification on absent keys"
    blocks_looked_for = []
    for bits in (0.0, 10.0):
        path = tmp_path / f"{bits:.0f}"
        profile = PLAIN.changed(bloom_bits_per_key=bits)
        counts = written(path, profile, lambda store: fill_and_get(store, 1))
        assert bool(given(rule, advice_of(path, tickers=counts))) == (not bits)
        blocks = ("hit", "miss")
        blocks_looked_for.append(sum(counts[f"rocksdb.block.cache.data.{each}"] for each in blocks))
    assert blocks_looked_for[0] > 10 * blocks_looked_for[1]
    present = written(tmp_path / "present", PLAIN, lambda store: fill_and_get(store, 0))
    assert judged_fine(rule, advice_of(tmp_path / "present", tickers=present))


def test_iterator_pinning(tmp_path: Path) -> None:
    rule = "iterator pinning"

    def open_iterators(store: Rdict, number: int) -> list[Any]:
        fill(store)
        found = [store.iter() for _ in range(number)]
        for each in found:
            each.seek_to_first()
        return found

    for number in (60, 1):
        path = tmp_path / str(number)
        counts = written(path, PLAIN, lambda store, n=number: open_iterators(store, n))  # type: ignore[misc]
        found = advice_of(path, tickers=counts)
        assert bool(given(rule, found)) == (number > 50)
        assert rule not in found.unjudged


def test_cache_shared_too_thinly(tmp_path: Path) -> None:
    rule = "cache shared too thinly"
    profile = PLAIN.changed(block_cache_bytes=64 << 10, block_cache_shared=True)
    counts = written(tmp_path / "a", profile, lambda store: fill_and_get(store, 0))
    shared = advice_of(tmp_path / "a", profile=profile, instances=10, tickers=counts)
    (advice,) = given(rule, shared)
    sources = {each.name: each.source for each in advice.evidence}
    assert sources["share_of_the_cache_bytes"] is Source.FORMULA
    assert sources["block_cache_bytes"] is Source.PROFILE
    own = profile.changed(block_cache_shared=False)
    found = advice_of(tmp_path / "a", profile=own, instances=10, tickers=counts)
    assert judged_fine(rule, found)
    assert "give profile=" in advice_of(tmp_path / "a", tickers=counts).unjudged[rule]


def overwrite(store: Rdict) -> None:
    for _ in range(6):
        fill(store)


def test_space_amplification_and_a_compaction_cures_it(tmp_path: Path) -> None:
    rule = "space amplification"

    def overwrite_and_merge(store: Rdict) -> None:
        overwrite(store)
        store.compact_range(None, None)

    for name, work in (("overwritten", overwrite), ("merged", overwrite_and_merge)):
        profile = PLAIN.changed(compaction_style="universal")
        written(tmp_path / name, profile, work)
        found = given(rule, advice_of(tmp_path / name))
        assert [each.option for each in found] == (
            ["universal_max_size_amplification_percent"] if name == "overwritten" else []
        )


def test_runs_in_which_nothing_was_overwritten_are_not_taken_for_it(tmp_path: Path) -> None:
    def fill_in_three_runs(store: Rdict) -> None:
        draws = random.Random(7)
        for run in range(3):
            for row in range(run, 12_000, 3):
                store[row.to_bytes(8)] = draws.randbytes(100)
            store.flush()

    written(tmp_path / "store", PLAIN, fill_in_three_runs)
    with open_store(tmp_path / "store") as store:
        summary = store.summary()
    assert summary.sst_bytes > 2 * (summary.estimated_live_bytes or 0), "by RocksDB's estimate"
    assert judged_fine("space amplification", advice_of(tmp_path / "store"))


def test_of_more_rows_than_are_counted_a_sample_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "store", PLAIN, overwrite)
    monkeypatch.setattr(storemodule, "_MOST_COUNTED", 23_999)
    (advice,) = given("space amplification", advice_of(tmp_path / "store"))
    told = {each.name: each.value for each in advice.evidence}
    assert abs(told["live_rows"] - 4_000) <= 2 * told["live_rows_error"]
    assert "by a sample" in advice.symptom


def test_rows_that_cannot_be_read_are_not_judged_and_all_else_is(tmp_path: Path) -> None:
    path = tmp_path / "store"
    written(path, PLAIN, overwrite)
    with largest_sst(path).open("r+b") as file:
        file.seek(5_000)
        file.write(b"damaged")
    found = advice_of(path)
    assert "checksum" in found.unjudged["space amplification"]
    assert judged_fine("tombstone density", found)


def test_tombstone_density(tmp_path: Path, quiet: Path) -> None:
    def delete_most(store: Rdict) -> None:
        fill(store)
        for row in range(0, 6_000, 2):
            del store[row.to_bytes(8)]
        store.flush()

    written(tmp_path / "store", PLAIN, delete_most)
    (advice,) = given("tombstone density", advice_of(tmp_path / "store"))
    figures = {each.name: each.value for each in advice.evidence}
    assert (figures["num_deletions"], figures["num_entries"]) == (3_000, 7_000)
    assert judged_fine("tombstone density", advice_of(quiet))


def test_too_many_small_files_and_a_larger_target_cures_it(tmp_path: Path) -> None:
    rule = "too many small files"

    def compacted(store: Rdict) -> None:
        for _ in range(2):
            fill(store, rows=10_000)
        store.compact_range(None, None)

    counts = []
    for target_bytes in (8 << 10, 64 << 20):
        path = tmp_path / str(target_bytes)
        written(path, PLAIN.changed(target_file_size_base=target_bytes), compacted)
        with open_store(path) as store:
            counts.append(len(store.ssts()))
            assert bool(given(rule, store.advice())) == (target_bytes < 1 << 20)
    assert counts[0] > 50
    assert counts[1] == 1


def test_too_many_open_files(quiet: Path) -> None:
    rule = "too many open files"
    (advice,) = given(rule, advice_of(quiet, open_files_limit=6))
    assert Figure("open_files_limit", 6, Source.GIVEN) in advice.evidence
    assert judged_fine(rule, advice_of(quiet, open_files_limit=1_000))
    assert given(rule, advice_of(quiet, open_files_limit=1_000, instances=200))


def test_how_many_files_this_reader_may_open_is_no_evidence_of_the_writer_s(quiet: Path) -> None:
    rule = "too many open files"
    assert "how many files the writer may open" in advice_of(quiet).unjudged[rule]
    assert judged_fine(rule, advice_of(quiet, pid=os.getpid()))


def test_level_1_far_from_level_0(tmp_path: Path) -> None:
    rule = "level 1 does not fit level 0"
    for name, base in (("far", 64 << 10), ("near", 4 << 20)):
        profile = PLAIN.changed(write_buffer_size=1 << 20, max_bytes_for_level_base=base)
        written(tmp_path / name, profile, fill)
        assert bool(given(rule, advice_of(tmp_path / name))) == (name == "far")


def test_huge_values(tmp_path: Path, quiet: Path) -> None:
    rule = "huge values"
    written(tmp_path / "store", PLAIN, lambda store: fill(store, rows=50, value_bytes=100_000))
    (advice,) = given(rule, advice_of(tmp_path / "store"))
    assert advice.evidence[0].value == 100_000
    assert judged_fine(rule, advice_of(quiet))


def test_times_with_the_lowest_byte_first(tmp_path: Path) -> None:
    rule = "keys in no useful order"

    def fill_with_times(store: Rdict, order: Literal["little", "big"]) -> None:
        for row in range(2_000):
            store[b"user" + (1_700_000_000_000 + 61_003 * row).to_bytes(8, order)] = b"1"
        store.flush()

    for order in ("little", "big"):
        written(tmp_path / order, PLAIN, lambda store, o=order: fill_with_times(store, o))  # type: ignore[misc]
        found = advice_of(tmp_path / order)
        assert bool(given(rule, found)) == (order == "little")
        assert rule not in found.unjudged


def test_where_a_store_lies_counts_while_it_is_written_there(quiet: Path) -> None:
    rule = "state that does not stay"
    assert "nobody writes the store here" in advice_of(quiet).unjudged[rule]
    memory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    program = "import sys; from rocksdict import Options, Rdict; "
    program += "s = Rdict(sys.argv[1], Options(raw_mode=True)); s[b'1'] = b'2'; s.flush()"
    program += "; print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(memory / "store")]
    try:
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline()
            (advice,) = given(rule, advice_of(memory / "store"))
            assert Figure("file_system", "tmpfs", Source.SYSTEM) in advice.evidence
            writer.communicate()
        assert rule in advice_of(memory / "store").unjudged
    finally:
        shutil.rmtree(memory)


def test_every_advice_is_whole_and_goes_into_json(quiet: Path) -> None:
    found = advice_of(quiet, bound_bytes=1, open_files_limit=1)
    assert len(found) == 2
    for each in found:
        assert each.evidence
        assert all(figure.value is not None for figure in each.evidence)
        assert each.link.startswith("https://github.com/facebook/rocksdb/wiki/")
        assert each.symptom in str(each)
        assert each.symptom in str(found)
    told = json.loads(json.dumps(found.to_dicts()))
    assert told[0]["evidence"][0]["source"] == "given"
    assert list(found.to_pandas()["rule"]) == [each.rule for each in found]
    assert "measured" not in found[0]._repr_html_()


def test_a_quiet_store_gets_no_advice_and_is_told_what_was_not_judged(quiet: Path) -> None:
    found = advice_of(quiet)
    assert len(found) == 0
    told = str(found).splitlines()
    assert [each for each in told if "low bloom usefulness" in each]
    assert len(told) == len(set(found.unjudged.values()))  # a line a cause, not a rule
    assert repr(found).startswith("AdviceList(no advice; ")
