"""Replays from a log, beside what the store that wrote it had to do: laws that no replay knows."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rocksdict import Rdict

import kstoolkit as kst
from kstoolkit.errors import InputError
from kstoolkit.rocksdb.lab.replaying import _law, logged_work
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.named import profile_named
from tests.cli.commands import given, rows
from tests.rocksdb.lab.replayed import off, replayed
from tests.stores.kafkastreams.archives import states

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Draws = np.random.Generator
WRITES, KEYS, AT_ONCE = 300_000, 60_000, 1_000
SMALL = {"write_buffer_size": 512 << 10, "max_bytes_for_level_base": 4 << 20}
SMALL |= {"target_file_size_base": 1 << 20}


def bell(draws: Draws, first: int) -> NDArray[np.int64]:
    """Users around the middle come most, as in no law by ranks."""
    drawn = draws.normal(KEYS / 2, KEYS / 6, AT_ONCE) + 0 * first
    return np.clip(drawn, 0, KEYS - 1).astype(np.int64)


def evenly(draws: Draws, first: int) -> NDArray[np.int64]:
    return draws.integers(0, KEYS, AT_ONCE) + 0 * first


def few(draws: Draws, first: int) -> NDArray[np.int64]:
    """Nine of ten writes are of a twentieth of the keys."""
    hot = draws.random(AT_ONCE) < 0.9
    drawn = np.where(hot, draws.integers(0, KEYS // 20, AT_ONCE), draws.integers(0, KEYS, AT_ONCE))
    return drawn + 0 * first


def in_order(draws: Draws, first: int) -> NDArray[np.int64]:
    """Keys that begin with a time: each comes once, nearly in order."""
    return np.sort(first + draws.permutation(AT_ONCE))


def drive(
    path: Path,
    law: Callable[[Draws, int], NDArray[np.int64]],
    profile: Any,
    *,
    deletes: float = 0,
    writes: int = WRITES,
    commit: int = WRITES,
) -> None:
    """Write to a store as its law has it, with a flush at each commit, until it rests."""
    draws, store = np.random.default_rng(11), Rdict(str(path), profile.to_rocksdict())
    options = profile.write_options()
    for first in range(0, writes, AT_ONCE):
        gone = draws.random(AT_ONCE) < deletes
        rows = zip(law(draws, first).tolist(), gone.tolist(), strict=True)
        for place, (number, is_gone) in enumerate(rows, first + 1):
            key = b"%010d|user" % number
            if is_gone:
                store.delete(key, options)
            else:
                store.put(key, draws.bytes(24) + bytes(16), options)
            if place % commit == 0:
                store.flush()
    store.flush()
    time.sleep(1)
    store.close()


@pytest.mark.long
def test_what_took_long_is_written_faster(driven: Path) -> None:
    with open_store(driven) as store:
        workload = kst.Workload.from_log(store, within_s=0.5)
    assert workload.writes_per_second == pytest.approx(WRITES / 0.5)
    told = given("compare-profiles", "write_heavy", "--replay-log", driven, "--seconds", 2)
    assert "times as fast" in told.err


def test_a_store_that_was_opened_several_times_is_told_by_all_of_its_logs(tmp_path: Path) -> None:
    profile = profile_named("kafka_streams").changed(**SMALL)
    for _ in range(3):
        drive(tmp_path / "store", bell, profile, writes=40_000)
    assert [*(tmp_path / "store").glob("LOG.old.*")]
    with open_store(tmp_path / "store") as store:
        workload = kst.Workload.from_log(store)
        [now] = kst.compare_profiles(workload, [profile], progress=False)
    assert workload.was is not None
    assert workload.was.writes == now.writes == 120_000
    assert off(workload.was.write_amplification, now.write_amplification) < 0.25


@pytest.mark.parametrize(
    ("law", "name", "deletes"),
    [
        pytest.param(bell, "kafka_streams", 0.0, marks=pytest.mark.long),
        pytest.param(few, "kafka_streams", 0.0, marks=pytest.mark.long),
        (evenly, "kafka_streams", 0.2),
        pytest.param(bell, "spark", 0.0, marks=pytest.mark.long),
        (few, "spark", 0.1),
        (in_order, "spark", 0.0),
    ],
)
def test_a_store_s_own_profile_reproduces_what_it_had_to_do(
    law: Any, name: str, deletes: float, tmp_path: Path
) -> None:
    profile = profile_named(name).changed(**SMALL)
    drive(tmp_path / "store", law, profile, deletes=deletes)
    was, now, replay = replayed(tmp_path / "store", tmp_path / "kept")
    assert was.writes == now.writes == WRITES
    assert off(was.num_flushes, now.num_flushes) < 0.25
    assert off(was.flush_bytes, now.flush_bytes) < 0.25
    assert off(was.write_amplification, now.write_amplification) < 0.25
    assert off(was.peak_sst_bytes, now.peak_sst_bytes) < 0.25
    assert replay.peak_sst_bytes == now.peak_sst_bytes
    assert abs(was.deletes / was.writes - now.deletes / now.writes) < 0.01


@pytest.mark.parametrize("other", ["spark", pytest.param("write_heavy", marks=pytest.mark.long)])
def test_another_profile_costs_what_it_costs_who_writes_the_same_to_it(
    other: str, tmp_path: Path
) -> None:
    """Compression, filters and style are others: what they would come to is a real store's."""
    small, mine = profile_named(other).changed(**SMALL), profile_named("kafka_streams")
    drive(tmp_path / "mine", bell, mine.changed(**SMALL), writes=100_000)
    drive(tmp_path / "other", bell, small, writes=100_000)
    with open_store(tmp_path / "mine") as store, open_store(tmp_path / "other") as real:
        [would] = kst.compare_profiles(kst.Workload.from_log(store), [small], progress=False)
        true = logged_work(real)
    assert abs(true.num_flushes - would.num_flushes) <= 1, "of eight: where the last one ends"
    assert off(true.flush_bytes, would.flush_bytes) < 0.15
    assert off(true.write_amplification, would.write_amplification) < 0.25
    assert off(true.peak_sst_bytes, would.peak_sst_bytes) < 0.25


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driven") / "store"
    drive(path, bell, profile_named("kafka_streams").changed(**SMALL))
    return path


def test_what_a_log_tells_is_what_rocksdb_counted(driven: Path) -> None:
    """The files that are there, and the rows of the log's own records, say the same."""
    with open_store(driven) as store:
        was, log = logged_work(store), store.log()
        assert was.sst_bytes == sum(each.size_bytes for each in store.ssts())
        flushes = [each for each in log.flushes() if each.output_bytes]
        assert was.num_flushes == len(flushes)
        assert was.flush_bytes == sum(each.output_bytes or 0 for each in flushes)
        merged = [each for each in log.compactions() if not each.moved]
        assert was.compaction_write_bytes == sum(each.output_bytes or 0 for each in merged)
    assert was.sst_bytes <= was.peak_sst_bytes
    assert 0 < was.seconds < 60


def test_the_same_seed_gives_the_same_rows(driven: Path) -> None:
    with open_store(driven) as store:
        laws: list[Any] = [kst.Workload.from_log(store, seed=seed).rows for seed in (3, 3, 4)]
    some = [[row for row, _ in zip(each, range(3_000), strict=False)] for each in laws]
    assert some[0] == some[1] != some[2]


def test_a_replay_that_is_far_off_says_so(driven: Path) -> None:
    """As one whose time is up long before its last write."""
    asked = ("compare-profiles", driven, "--replay-log", driven, "--seconds")
    early = given(*asked, "1", "--reads", "5")
    assert "It can't be replayed well: under its own profile" in early.err
    assert "times what was: it was stopped before its last write" in early.err
    assert "well" not in given(*asked, "30").err
    [told] = rows(given(*asked, "1", "--reads", "5", "--json").out)
    assert told["was"]["unlike"].endswith("it was stopped before its last write")


@pytest.mark.parametrize("name", ["kafka_streams", "spark"])
@pytest.mark.parametrize(("writes", "commit"), [(1_000, 500), (6_000, 1_000), (24_000, 3_000)])
def test_a_small_store_is_flushed_when_its_owner_flushed_it(
    name: str, writes: int, commit: int, tmp_path: Path
) -> None:
    """As at each commit: its memtables are never full, and most of its keys came once, or never."""
    profile = profile_named(name).changed(**SMALL)
    drive(tmp_path / "store", few, profile, writes=writes, commit=commit)
    was, now, replay = replayed(tmp_path / "store", tmp_path / "kept")
    assert was.num_flushes == now.num_flushes == writes // commit
    assert off(was.flush_bytes, now.flush_bytes) < 0.1
    assert off(was.write_amplification, now.write_amplification) < 0.1
    assert off(was.peak_sst_bytes, replay.peak_sst_bytes) < 0.25
    assert off(len(was.left), len(replay.left)) < 0.1


def test_values_that_grow_are_as_long_as_they_were(tmp_path: Path) -> None:
    """As lists that are added to: those that are there are far longer than those of the start."""
    profile, lists = profile_named("kafka_streams").changed(**SMALL), Counter[int]()
    draws, store = np.random.default_rng(11), Rdict(str(tmp_path / "s"), profile.to_rocksdict())
    for user in draws.integers(0, 2_000, 30_000).tolist():
        lists[user] += 1
        store.put(b"%08d" % user, draws.bytes(8 * lists[user]), profile.write_options())
    store.flush()
    store.close()
    was, now, replay = replayed(tmp_path / "s", tmp_path / "kept")
    assert was.value_bytes[-1] > 2 * was.value_bytes[0]
    assert off(was.num_flushes, now.num_flushes) < 0.1
    assert off(was.flush_bytes, now.flush_bytes) < 0.1
    assert replay.value_bytes[-1] > 2 * replay.value_bytes[0]


def test_the_command_tells_what_was_beside_what_would_be(driven: Path) -> None:
    asked = ("compare-profiles", "write_heavy", driven, "--replay-log", driven)
    told = given(*asked)
    assert told.code == 0
    assert told.out.startswith("As it was, by its log: 300,000 writes in ")
    assert "write_heavy" in told.out
    two = rows(given(*asked, "--json").out)
    assert [each["was"]["writes"] for each in two] == [300_000, 300_000]
    assert [each["was"]["unlike"] for each in two] == [None, None]
    own = rows(given("compare-profiles", "--replay-log", driven, "--json").out)
    assert [each["profile"] for each in own] == [str(driven)], "its own profile is always tried"
    none = given("compare-profiles")
    assert (none.code, none.err.splitlines()[0]) == (2, "Error: There is no PROFILE to try.")
    wrong = given(*asked, "--keys", 5)
    assert wrong.code == 2
    assert "--keys says what is written, and so does --replay-log" in wrong.err


def cut(path: Path, *, keep: int) -> None:
    """Leave the last lines of a log, as where it was rotated and removed."""
    lines = (path / "LOG").read_text().splitlines(keepends=True)
    (path / "LOG").write_text("".join(lines[-keep:]))


@pytest.fixture
def untold(driven: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(driven, tmp_path / "copy"))


def test_a_log_that_begins_later_than_its_store_can_t_be_replayed(untold: Path) -> None:
    cut(untold, keep=200)
    with open_store(untold) as store, pytest.raises(InputError, match="begins with write"):
        kst.Workload.from_log(store)


def test_a_log_that_ends_before_its_store_can_t_be_replayed(untold: Path) -> None:
    """As where its writer was killed, and the last lines were in memory alone."""
    lines = (untold / "LOG").read_text().splitlines(keepends=True)
    told_until = next(n for n, line in enumerate(lines) if '"flush_finished"' in line)
    (untold / "LOG").write_text("".join(lines[: told_until + 1]))
    with open_store(untold) as store, pytest.raises(InputError, match="of SST files, and"):
        kst.Workload.from_log(store)
    told = given("compare-profiles", "write_heavy", "--replay-log", untold)
    assert told.code == 2
    assert "it tells of " in told.err


def test_sizes_below_nothing_are_none(untold: Path) -> None:
    log = (untold / "LOG").read_text().replace('"file_size": ', '"file_size": -')
    (untold / "LOG").write_text(log)
    with open_store(untold) as store, pytest.raises(InputError, match="tells of no flush"):
        kst.Workload.from_log(store)


def rates_of(left: Sequence[tuple[float, int]], keys: int, writes: int) -> NDArray[np.float64]:
    """Return how often each key is written by the law, most often first."""
    shares, numbers = _law(left, keys, writes)
    return np.diff(np.interp(np.arange(int(numbers[-1]) + 1), numbers, shares))


def test_small_flushes_beside_large_ones_change_no_law() -> None:
    """Since Kafka Streams 4.3 each flush of rows comes with one of a few offsets."""
    large = [(1_000, 450)] * 6
    rates = rates_of(large, 600, 6_000)
    assert -np.expm1(-1_000 * rates).sum() == pytest.approx(450, rel=0.02)
    assert -np.expm1(-6_000 * rates).sum() == pytest.approx(600, rel=0.02)
    again = rates_of([*large, *[(5, 5)] * 7], 600, 6_035)
    assert np.cumsum(again)[:600] == pytest.approx(np.cumsum(rates)[:600], rel=0.02)


def test_a_law_that_merges_tell_of_has_as_many_keys_of_each_rate() -> None:
    """Of few that come often, and many that come seldom, a flush alone tells less."""
    rates = np.repeat([0.9 / 3_000, 0.1 / 57_000], [3_000, 57_000])
    writes = (6_000, 12_000, 30_000, 90_000, 300_000)
    left = [(n, int(-np.expm1(-n * rates).sum())) for n in writes]
    found = rates_of(left, left[-1][1], writes[-1])
    assert found[:3_000].sum() == pytest.approx(0.9, abs=0.05)


def test_a_law_has_keys_that_came_never() -> None:
    """Of 5,000 keys that were as likely, 900 draws have seen some 820: 900 more see others."""
    seen = round(5_000 * -np.expm1(-900 / 5_000))
    rates = rates_of([(300, 291)] * 3, seen, 900)
    assert -np.expm1(-900 * rates).sum() == pytest.approx(seen, rel=0.05)
    assert -np.expm1(-1_800 * rates).sum() > seen * 1.5


def test_a_log_without_flushes_can_t_be_replayed(
    untold: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Kafka Streams logs at level ERROR."""
    (untold / "LOG").write_text("")
    with open_store(untold) as store, pytest.raises(InputError, match="tells of no flush"):
        kst.Workload.from_log(store)
    state = next(each for each in states("4.3.1") if str(each) == "own-4.3.1-clean")
    stores = kst.discover(state.directory(tmp_path_factory))
    folder = next(each.path for each in stores if each.kind == "timestamped-key-value")
    with open_store(folder) as store, pytest.raises(InputError, match="tells of no flush"):
        kst.Workload.from_log(store)
