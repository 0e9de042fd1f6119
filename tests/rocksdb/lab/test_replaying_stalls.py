"""Stores that stalled, and one that did not, beside their replays."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rocksdict import Rdict

import kstoolkit as kst
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.cli.commands import given
from tests.rocksdb.lab.replayed import off, replayed

if TYPE_CHECKING:
    from pathlib import Path

AT_ONCE = 1_000
TIGHT = {"write_buffer_size": 256 << 10, "target_file_size_base": 256 << 10}
TIGHT |= {"max_bytes_for_level_base": 512 << 10, "max_background_jobs": 1}
TIGHT |= {"max_write_buffer_number": 2, "level0_file_num_compaction_trigger": 2}
TIGHT |= {"level0_slowdown_writes_trigger": 4, "level0_stop_writes_trigger": 6}


def write(path: Path, engine: str, *, pace: float | None = None, burst: int = 0) -> Profile:
    """Write as fast as can be, or at a pace with room enough, or in bursts, a second between."""
    profile = profile_named(engine).changed(**({"write_buffer_size": 1 << 20} if pace else TIGHT))
    draws, store = np.random.default_rng(5), Rdict(str(path), profile.to_rocksdict())
    began, options = time.perf_counter(), profile.write_options()
    for first in range(0, 150_000, AT_ONCE):
        texts = draws.bytes(100 * AT_ONCE)
        for place, key in enumerate(draws.integers(0, 60_000, AT_ONCE).tolist()):
            store.put(b"%010d|user" % key, texts[100 * place : 100 * place + 100], options)
        if pace:
            time.sleep(max(began + (first + AT_ONCE) / pace - time.perf_counter(), 0))
        if burst and (first // AT_ONCE) % burst == burst - 1:
            time.sleep(1)
    store.flush()
    time.sleep(1)
    store.close()
    return profile


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "burst"),
    [
        *(pytest.param(name, 0, marks=pytest.mark.long) for name in ("spark", "kafka_streams")),
        ("spark", 30),
    ],
)
def test_a_store_that_stalled_stalls_as_often_in_its_replay(
    engine: str, burst: int, tmp_path: Path
) -> None:
    """How many come hangs on what else runs here, too: the nearest of three is judged."""
    path = tmp_path / "store"
    write(path, engine, burst=burst)
    tried = [replayed(path, tmp_path / "kept", within_s=30)[:2] for _ in range(3)]
    was, now = min(tried, key=lambda each: off(each[0].stalls, each[1].stalls))
    assert was.stalls > 20
    assert off(was.stalls, now.stalls) < 0.25
    assert off(was.write_amplification, now.write_amplification) < 0.25
    assert now.stall_ms > 0
    assert now.unlike(was) is None
    few = replace(
        now, memtable_limit_stops=0, memtable_limit_delays=0, l0_file_count_limit_delays=0
    )
    assert str(few.unlike(was)).endswith("how fast writer and disk were, no log tells")


def test_a_store_that_did_not_stall_does_not_in_its_replay(tmp_path: Path) -> None:
    write(tmp_path / "store", "spark", pace=20_000)
    was, now, _ = replayed(tmp_path / "store", tmp_path / "kept", within_s=30)
    assert was.stalls == now.stalls == now.stall_ms == 0


def test_a_trial_counts_stalls_as_its_log_does_and_the_command_tells_both(tmp_path: Path) -> None:
    path, kept = tmp_path / "store", tmp_path / "kept"
    write(path, "spark")
    profile = Profile.from_options(path).changed(name="own")
    with open_store(path) as store:
        workload = kst.Workload.from_log(store)
        [now] = kst.compare_profiles(workload, [profile], progress=False, keep=kept)
    with open_store(kept / "own") as store:
        assert now.stalls == len(store.log(since=0).stalls()) > 0
    assert workload.was is not None
    told = given("compare-profiles", path, "--replay-log", path)
    assert f"Stalls, counted as its log does: {workload.was.stalls:,} as it was;" in told.out
