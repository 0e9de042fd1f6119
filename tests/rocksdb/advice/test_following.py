"""Advice that is followed: the same workload with the option that was named set as was said."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from rocksdict import Rdict

from kstoolkit.rocksdb.lab.comparing import _trial_request, _TrialLimits, _watch
from kstoolkit.rocksdb.lab.results import trial_of
from kstoolkit.rocksdb.lab.trial import _resting
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.rocksdb.memory.measured import memory_parts
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.named import bounded_memory
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocksdict import Options

    from kstoolkit.rocksdb.advice.advice import Advice
    from kstoolkit.rocksdb.lab.results import Trial

LIMITS = _TrialLimits(seconds=60, disk_bytes=1 << 30)
BASE = Profile(
    name="as it was",
    write_buffer_size=64 << 10,
    target_file_size_base=256 << 10,
    compression="none",
    disable_wal=True,
)
ROOMY = BASE.changed(write_buffer_size=8 << 20)
LAZY = {
    "level0_file_num_compaction_trigger": 200,
    "level0_slowdown_writes_trigger": 300,
    "level0_stop_writes_trigger": 400,
}
SMALL_CACHE: dict[str, Any] = {
    "cache_index_and_filter_blocks": True,
    "bloom_bits_per_key": 10.0,
    "block_cache_bytes": 16 << 10,
}
WRITES = Workload(writes=30_000, keys=30_000, reads_per_write=0)
MANY_WRITES = Workload(writes=60_000, keys=60_000, reads_per_write=0)
GETS = Workload(writes=20_000, keys=20_000, reads_per_write=0.5)
ABSENT = Workload(writes=20_000, keys=20_000, reads_per_write=0.5, absent_share=1)


def tickers(*names: str) -> Callable[[Trial], float]:
    return lambda trial: sum(trial.tickers[f"rocksdb.{name}"] for name in names)


def figure(name: str) -> Callable[[Trial], float]:
    return lambda trial: float(getattr(trial, name))


def stalls(cause: str) -> Callable[[Trial], float]:
    return lambda t: float(getattr(t, f"{cause}_delays") + getattr(t, f"{cause}_stops"))


def let_through(trial: Trial) -> float:
    """Return how often a filter let an absent key through."""
    positive = tickers("bloom.filter.full.positive")(trial)
    return positive - tickers("bloom.filter.full.true.positive")(trial)


@dataclass(frozen=True)
class Followed:
    """A rule, a workload that shows its symptom, what it says to set, and what that brings.

    ``figure`` falls to less than one ``times``-th of what it was.
    """

    rule: str
    workload: Workload
    was: dict[str, Any]
    said: dict[str, Any]
    figure: Callable[[Trial], float]
    times: float = 3.0
    circumstances: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.rule}: {', '.join(self.said)}"


CASES = [
    Followed(
        "write amplification",
        Workload(writes=80_000, keys=80_000, reads_per_write=0),
        {
            "level0_file_num_compaction_trigger": 2,
            "level0_slowdown_writes_trigger": 6,
            "level0_stop_writes_trigger": 8,
        },
        {"compaction_style": "universal"},
        figure("write_amplification"),
        times=1.1,  # how much a compaction finds waiting depends on what else runs
    ),
    Followed(
        "flush too small",
        Workload(writes=120_000, keys=120_000, reads_per_write=0),
        {"write_buffer_size": 16 << 20, "write_buffer_manager_bytes": 1 << 20},
        {"write_buffer_manager_bytes": 128 << 20},
        figure("num_flushes"),
    ),
    Followed(
        "write stalls: memtable limit",
        WRITES,
        {"rate_limit_bytes_per_second": 8 << 20},
        {"write_buffer_size": 8 << 20},
        stalls("memtable_limit"),
    ),
    Followed(
        "write stalls: L0 file count limit",
        WRITES,
        {
            "level0_file_num_compaction_trigger": 2,
            "level0_slowdown_writes_trigger": 2,
            "level0_stop_writes_trigger": 4,
        },
        {"write_buffer_size": 8 << 20},
        stalls("l0_file_count_limit"),
    ),
    Followed(
        "write stalls: pending compaction bytes",
        WRITES,
        {
            "soft_pending_compaction_bytes_limit": 256 << 10,
            "hard_pending_compaction_bytes_limit": 1 << 20,
            "max_bytes_for_level_base": 256 << 10,
        },
        {"write_buffer_size": 8 << 20},
        stalls("pending_compaction_bytes"),
    ),
    Followed(
        "low bloom usefulness",
        ABSENT,
        {"bloom_bits_per_key": 2.0},
        {"bloom_bits_per_key": 10.0},
        let_through,
        times=5.0,
    ),
    Followed(
        "read amplification on absent keys",
        ABSENT,
        {},
        {"bloom_bits_per_key": 10.0},
        tickers("block.cache.data.hit", "block.cache.data.miss"),
    ),
    Followed(
        "index and filter misses",
        GETS,
        SMALL_CACHE,
        {"block_cache_bytes": 8 << 20},
        tickers("block.cache.index.miss", "block.cache.filter.miss"),
    ),
    Followed(
        "index and filter misses",
        GETS,
        SMALL_CACHE | LAZY,
        {"pin_l0_filter_and_index_blocks_in_cache": True},
        tickers("block.cache.index.miss", "block.cache.filter.miss"),
        times=1.3,  # how long files stay in level 0 is a matter of what else the machine does
    ),
    Followed(
        "hash index not pinned",
        GETS,
        SMALL_CACHE | {"prefix_bytes": 4, "index_type": "hash_search"},
        {"cache_index_and_filter_blocks": False},
        tickers("block.cache.index.add"),
    ),
    Followed(
        "cache shared too thinly",
        GETS,
        {"block_cache_bytes": 16 << 10, "block_cache_shared": True},
        {"block_cache_bytes": 8 << 20},
        tickers("block.cache.data.miss"),
        circumstances={"instances": 10},
    ),
    Followed(
        "space amplification",
        Workload(writes=60_000, keys=10_000, reads_per_write=0),
        LAZY,
        {"level0_file_num_compaction_trigger": 4},
        figure("space_amplification"),
    ),
    Followed(
        "too many small files",
        MANY_WRITES,
        {"target_file_size_base": 64 << 10},
        {"target_file_size_base": 8 << 20},
        figure("num_files"),
    ),
    Followed(
        "memory over the bound",
        MANY_WRITES,
        {"write_buffer_size": 64 << 20},
        {
            name: getattr(bounded_memory(4 << 20, 1), name)
            for name in (
                "block_cache_bytes",
                "block_cache_shared",
                "cache_index_and_filter_blocks",
                "write_buffer_manager_bytes",
                "write_buffer_manager_in_cache",
            )
        },
        figure("peak_memtable_bytes"),
        times=2.0,
        circumstances={"bound_bytes": 4 << 20},
    ),
]


def tried(workload: Workload, profile: Profile, path: Path) -> Trial:
    """Run a trial, and leave its store."""
    request = _trial_request(workload, profile, path)
    return trial_of(profile.name, _watch(request, LIMITS, lambda _: None))


def advised(rule: str, path: Path, **circumstances: Any) -> Advice:
    with open_store(path) as store:
        return next(each for each in store.advice(**circumstances) if each.rule == rule)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_following_advice_moves_its_figure_the_right_way(case: Followed, tmp_path: Path) -> None:
    was = BASE.changed(name="as it was", **case.was)
    before = tried(case.workload, was, tmp_path / "was")
    known = {"tickers": before.tickers, "profile": was} | case.circumstances
    advice = advised(case.rule, tmp_path / "was", **known)
    assert any(name in advice.option for name in case.said), "what is set is what is named"
    after = tried(case.workload, was.changed(name="as advised", **case.said), tmp_path / "advised")
    assert before.content_sha256 == after.content_sha256
    assert case.figure(before) > case.times * case.figure(after)


def worked(path: Path, options: Options, work: Callable[[Rdict], object]) -> None:
    """Work on a store in this process, and close it when RocksDB has merged what it is to merge."""
    store = Rdict(str(path), options, column_families={"default": options})
    work(store)
    since = time.monotonic()
    while time.monotonic() < since + 0.3:
        since = since if _resting(store) else time.monotonic()
        time.sleep(0.01)
    store.close()


def fill(store: Rdict, rows: int = 4_000) -> None:
    draws = random.Random(7)
    for row in range(rows):
        store[row.to_bytes(8)] = draws.randbytes(400)
    store.flush()


def fill_and_overwrite(store: Rdict) -> None:
    fill(store)
    fill(store, 3_000)


def fill_and_delete(store: Rdict) -> None:
    fill(store)
    store.compact_range(None, None)
    for row in range(3_000):
        del store[row.to_bytes(8)]
    store.flush()


def deletions(path: Path) -> int:
    with open_store(path) as store:
        return store.summary().num_deletions


def test_a_range_that_is_compacted_has_no_tombstones_left(tmp_path: Path) -> None:
    path = tmp_path / "store"
    worked(path, ROOMY.to_rocksdict(), fill_and_delete)
    assert "compact the range once" in advised("tombstone density", path).direction
    assert deletions(path) == 3_000
    worked(path, ROOMY.to_rocksdict(), lambda store: store.compact_range(None, None))
    assert deletions(path) == 0


def test_a_collector_has_tombstones_compacted_as_they_come(tmp_path: Path) -> None:
    worked(tmp_path / "was", ROOMY.to_rocksdict(), fill_and_delete)
    assert "collector" in advised("tombstone density", tmp_path / "was").option
    options = ROOMY.to_rocksdict()
    options.add_compact_on_deletion_collector_factory(100, 50, 0.5)
    worked(tmp_path / "advised", options, fill_and_delete)
    assert (deletions(tmp_path / "was"), deletions(tmp_path / "advised")) == (3_000, 0)


def test_a_lower_limit_of_the_universal_style_gives_space_back(tmp_path: Path) -> None:
    taken = []
    for percent in (200, 20):
        path = tmp_path / str(percent)
        profile = ROOMY.changed(
            compaction_style="universal",
            level0_file_num_compaction_trigger=2,
            universal_max_size_amplification_percent=percent,
        )
        worked(path, profile.to_rocksdict(), fill_and_overwrite)
        with open_store(path) as store:
            taken.append(store.summary().sst_bytes)
    advice = advised("space amplification", tmp_path / "200")
    assert advice.option == "universal_max_size_amplification_percent"
    assert taken[0] > 1.5 * taken[1]


def test_iterators_that_are_closed_pin_nothing(tmp_path: Path) -> None:
    options = ROOMY.changed(block_cache_bytes=1 << 20).to_rocksdict()
    store = Rdict(str(tmp_path / "store"), options, column_families={"default": options})
    fill(store)
    iterators = [store.iter() for _ in range(60)]
    for number, each in enumerate(iterators):
        each.seek((50 * number).to_bytes(8))
    open_parts = memory_parts("store", [store])
    iterators.clear()
    del each
    closed_parts = memory_parts("store", [store])
    store.close()
    assert open_parts.block_cache_pinned_bytes > 60 * 3_500
    assert closed_parts.block_cache_pinned_bytes < open_parts.block_cache_pinned_bytes / 20


@pytest.mark.parametrize(
    "said", [{"max_open_files": 20}, {"target_file_size_base": 64 << 20}], ids=str
)
def test_fewer_files_are_open(said: dict[str, Any], tmp_path: Path) -> None:
    was = ROOMY.changed(target_file_size_base=4 << 10, block_cache_bytes=0)
    held = []

    def fill_and_read(store: Rdict) -> None:
        fill_and_overwrite(store)
        store.compact_range(None, None)
        assert len(list(store.keys())) == 4_000
        here = str(tmp_path)
        held.append(sum(each.path.startswith(here) for each in psutil.Process().open_files()))

    worked(tmp_path / "was", was.to_rocksdict(), fill_and_read)
    worked(tmp_path / "advised", was.changed(**said).to_rocksdict(), fill_and_read)
    advice = advised("too many open files", tmp_path / "was", open_files_limit=100)
    assert any(name in f"{advice.option} {advice.direction}" for name in said)
    assert held[0] > 3 * held[1]  # RocksDB keeps one of each 64th of its table cache
