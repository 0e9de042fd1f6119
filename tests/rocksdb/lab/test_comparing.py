"""Trials as they are: real stores, each in a process of its own, kept, heard, stopped, failing."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from itertools import count
from threading import Thread
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from kstoolkit.errors import ConfigurationError, InputError, OutputError
from kstoolkit.rocksdb.lab import comparing as watching
from kstoolkit.rocksdb.lab.comparing import _trial_request, _TrialLimits, _watch, compare_profiles
from kstoolkit.rocksdb.lab.results import Listener, TrialCancelled, TrialFailed
from kstoolkit.rocksdb.lab.workloads import Workload, generated
from kstoolkit.rocksdb.log.storelog import read_log
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.rocksdb.lab.smallprofile import LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kstoolkit.rocksdb.lab.results import Comparison, Moment


UNIVERSAL = LEVEL.changed(name="universal", compaction_style="universal")
WORKLOAD = Workload("delete_heavy", writes=20_000, keys=5_000, reads_per_write=0.2)


def live_rows(workload: Workload) -> dict[bytes, bytes]:
    """Return what a dictionary would hold after the same writes."""
    rows: dict[bytes, bytes] = {}
    for batch in generated(workload):
        for key, value in zip(batch.keys, batch.values, strict=True):
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    return rows


def digest(rows: dict[bytes, bytes]) -> str:
    found = hashlib.sha256()
    for key in sorted(rows):
        found.update(b"%d %d " % (len(key), len(rows[key])) + key + rows[key])
    return found.hexdigest()


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("lab")
    found = compare_profiles(
        WORKLOAD, [LEVEL, UNIVERSAL, profile_named("point_lookup")], folder=folder, progress=False
    )
    assert not list(folder.iterdir()), "stores are removed"
    return found


def test_a_trial_is_found_by_the_name_of_its_profile(compared: Comparison) -> None:
    assert compared.of("universal") is compared[1]
    with pytest.raises(ConfigurationError, match="no trial of a profile 'fifo'"):
        compared.of("fifo")


def test_every_profile_ends_with_what_a_dictionary_would_hold(compared: Comparison) -> None:
    rows = live_rows(WORKLOAD)
    assert len(rows) > 1_000
    for trial in compared:
        assert trial.content_sha256 == digest(rows)
        assert trial.live_rows == len(rows)
        assert trial.live_bytes == sum(len(key) + len(value) for key, value in rows.items())


def test_every_profile_is_given_the_same_writes_and_gets(compared: Comparison) -> None:
    done = {(t.writes, t.deletes, t.gets, t.gets_found, t.user_bytes) for t in compared}
    ((writes, deletes, gets, found, user_bytes),) = done
    assert (writes, gets) == (20_000, 4_000)
    assert user_bytes == 16 * writes + 100 * (writes - deletes)
    assert 0 < found < gets


def test_trials_that_came_to_their_end_say_so(compared: Comparison) -> None:
    assert [(t.stopped_by, t.settled) for t in compared] == [(None, True)] * 3
    not_asked = {f"{kind}_block_hit_ratio" for kind in ("data", "index", "filter")}
    assert all(t.unknown.keys() <= not_asked | {"filter_usefulness"} for t in compared)
    assert compared.of("level").unknown["filter_usefulness"] == "no filter was asked"


def test_amplifications_are_the_tickers_to_what_was_flushed_and_written(
    compared: Comparison,
) -> None:
    for t in compared:
        written = t.flush_bytes + t.compaction_write_bytes
        assert t.write_amplification == pytest.approx(written / t.flush_bytes)
        assert t.written_per_user_byte == pytest.approx(written / t.user_bytes)
        assert t.space_amplification == pytest.approx(t.sst_bytes / t.live_bytes)
        assert t.peak_space_amplification == pytest.approx(t.peak_disk_bytes / t.live_bytes)
        assert t.peak_disk_bytes >= t.sst_bytes > 0


def test_memtables_that_hold_all_write_less_and_read_no_files(compared: Comparison) -> None:
    small, large = compared.of("level"), compared.of("point_lookup")
    assert small.compaction_write_bytes > 0 == large.compaction_write_bytes
    assert (small.write_amplification or 0) > (large.write_amplification or 0)
    assert (small.blocks_per_get or 0) > 0.1
    assert (large.blocks_per_get or 0) < 0.01, "opening a file reads some"
    assert large.peak_memtable_bytes > small.peak_memtable_bytes


def test_bytes_by_level_are_what_the_tickers_count(compared: Comparison) -> None:
    for trial in compared:
        levels = [each for each in compared.levels if each.profile == trial.profile]
        flushed = next(each for each in levels if each.level == 0)
        # A flush's ticker is some 150 bytes above the size of the file.
        written = sum(each.written_bytes for each in levels)
        tickers = trial.flush_bytes + trial.compaction_write_bytes
        assert written == pytest.approx(tickers, rel=0.02)
        assert flushed.num_flushes >= 1
        assert len({each.level for each in levels}) == len(levels)


def test_the_series_grows_to_the_figures_of_the_end(compared: Comparison) -> None:
    for trial in compared:
        moments = [each for each in compared.series if each.profile == trial.profile]
        for name in ("at_ms", "writes", "user_bytes", "written_bytes", "stall_ms"):
            values = [getattr(each, name) for each in moments]
            assert values == sorted(values)
        last = moments[-1]
        assert (last.writes, last.user_bytes) == (trial.writes, trial.user_bytes)
        assert last.write_amplification == pytest.approx(trial.write_amplification)
        assert last.written_per_user_byte == pytest.approx(trial.written_per_user_byte)
        assert all(each.disk_bytes > 0 for each in moments)
        assert max(each.disk_bytes for each in moments) == trial.peak_disk_bytes


def test_latencies_are_of_every_put_and_get(compared: Comparison) -> None:
    for trial in compared:
        for p50, p99 in (
            (trial.put_p50_us, trial.put_p99_us),
            (trial.get_p50_us, trial.get_p99_us),
        ):
            assert p50 is not None
            assert p99 is not None
            assert 0 < p50 <= p99
        assert trial.put_p50_us is not None
        assert trial.put_s * 1e6 > trial.put_p50_us * trial.writes / 2


def test_a_comparison_shows_itself_as_text_table_and_json(compared: Comparison) -> None:
    assert "3 trials of Workload(delete_heavy" in repr(compared)
    assert list(compared.to_pandas()["profile"]) == ["level", "universal", "point_lookup"]
    assert compared[0].content_sha256 in compared._repr_html_()
    assert "rocksdb.stall.micros" not in compared._repr_html_()
    assert "amplification: write" in repr(compared[0])
    told = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    assert {"workload", "trials", "series", "levels"} == set(told)


def test_the_same_seed_writes_the_same_and_another_does_not() -> None:
    first, second, other = (
        compare_profiles(
            Workload("skewed", writes=2_000, keys=500, seed=seed), [LEVEL], progress=False
        )[0]
        for seed in (1, 1, 2)
    )
    assert first.content_sha256 == second.content_sha256 != other.content_sha256


def test_rows_are_replayed_in_their_order_under_each_profile() -> None:
    rows: list[tuple[bytes, bytes | None]] = [(b"a", b"1"), (b"b", b""), (b"a", b"2")]
    rows += [(b"c", b"3"), (b"c", None)]
    found = compare_profiles(iter(rows), [LEVEL, UNIVERSAL], progress=False)
    assert {t.content_sha256 for t in found} == {digest({b"a": b"2", b"b": b""})}
    assert {(t.writes, t.deletes, t.live_rows) for t in found} == {(5, 1, 2)}
    assert found.workload.writes == 5


HOSTILE = [b"", b"\x00", b"\xff" * 300, b"a", b"a\x00absent", b"\n\r\x1b[2J", bytes(200_000)]


def test_keys_of_any_kind_are_replayed_under_every_named_profile() -> None:
    rows = [(key, key[::-1]) for key in HOSTILE] * 2 + [(b"key %d" % n, b"") for n in range(999)]
    found = compare_profiles(rows, list(profile_names()), progress=False)
    assert {t.content_sha256 for t in found} == {digest(dict(rows))}
    assert {t.live_rows for t in found} == {len(dict(rows))}


def test_a_single_profile_may_be_named_without_a_list() -> None:
    found = compare_profiles(Workload(writes=1_000), "spark", progress=False)
    assert [t.profile for t in found] == ["spark"]


def test_profiles_without_a_name_are_numbered() -> None:
    found = compare_profiles(
        Workload(writes=1_000), [LEVEL, Profile(), Profile(block_size=8192)], progress=False
    )
    assert [t.profile for t in found] == ["level", "profile 2", "profile 3"]


def test_ratios_of_the_cache_and_the_filters_are_those_of_the_tickers() -> None:
    filtered = LEVEL.changed(
        name="filtered", bloom_bits_per_key=3.0, cache_index_and_filter_blocks=True
    )
    workload = Workload(writes=10_000, keys=10_000, reads_per_write=0.5, absent_share=0.5)
    found = compare_profiles(workload, [filtered], progress=False)
    trial = found[0]
    count = {name.removeprefix("rocksdb."): n for name, n in trial.tickers.items()}
    for kind in ("data", "index", "filter"):
        hit, miss = count[f"block.cache.{kind}.hit"], count[f"block.cache.{kind}.miss"]
        assert getattr(trial, f"{kind}_block_hit_ratio") == hit / (hit + miss)
    let = count["bloom.filter.full.positive"]
    right = count["bloom.filter.useful"] + count["bloom.filter.full.true.positive"]
    assert trial.filter_usefulness == right / (count["bloom.filter.useful"] + let) < 1
    assert trial.num_entries >= trial.live_rows
    assert (trial.num_deletions, trial.unknown) == (0, {})
    flushed = next(each for each in found.levels if each.level == 0)
    assert trial.num_flushes == flushed.num_flushes


def test_stalls_are_counted_by_their_cause_and_timed() -> None:
    tight = LEVEL.changed(
        name="tight",
        write_buffer_size=64 << 10,
        level0_file_num_compaction_trigger=2,
        level0_slowdown_writes_trigger=2,
        level0_stop_writes_trigger=3,
        max_background_jobs=1,
    )
    trial = compare_profiles(Workload(writes=20_000), [tight], progress=False)[0]
    assert trial.l0_file_count_limit_stops + trial.l0_file_count_limit_delays > 0
    assert 0 < trial.longest_stall_ms <= trial.stall_ms * 1.01
    assert trial.num_stalls > 0
    assert trial.pending_compaction_bytes_stops == 0


def test_a_pace_is_kept() -> None:
    paced = Workload(writes=3_000, keys=100, writes_per_second=6_000)
    found = compare_profiles(paced, [LEVEL], progress=False)
    assert found.series[-1].at_ms >= 450


def test_figures_of_gets_are_unknown_when_nothing_is_asked_for() -> None:
    trial = compare_profiles(Workload(writes=1_000, reads_per_write=0), [LEVEL], progress=False)[0]
    assert trial.get_p99_us is None is trial.blocks_per_get
    assert trial.unknown["get_p99_us"] == "nothing was asked for"


def test_options_that_could_not_be_set_are_told() -> None:
    silent = LEVEL.changed(name="silent", info_log_level="error")
    trial = compare_profiles(Workload(writes=1_000), [silent], progress=False)[0]
    assert "info_log_level" in trial.unset


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        (["uniform", []], {}, ConfigurationError, "no profiles"),
        (["uniform", ["spark", "spark"]], {}, ConfigurationError, "Two profiles are called"),
        (["uniform", ["spork"]], {}, ConfigurationError, "spork"),
        (["unifrom", ["spark"]], {}, ConfigurationError, "unifrom"),
        (["uniform", ["spark"]], {"seconds": 0}, ConfigurationError, "seconds is 0"),
        (["uniform", ["spark"]], {"disk_bytes": -1}, ConfigurationError, "disk_bytes is -1"),
        (["uniform", ["spark"]], {"folder": "no/such"}, InputError, "no folder 'no/such'"),
        ([[], ["spark"]], {}, InputError, "no rows to replay"),
        ([{b"ab": b"c"}, ["spark"]], {}, ConfigurationError, "Row 1 to replay is b'ab'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_tried(
    arguments: list[Any], options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        compare_profiles(*arguments, **options, progress=False)


SMALL = Workload("uniform", writes=3_000, keys=1_000)


def test_a_kept_store_has_its_rows_its_log_and_a_note_beside_it(tmp_path: Path) -> None:
    keep = tmp_path / "lab" / "stores"
    (trial,) = compare_profiles(SMALL, [LEVEL], keep=keep, progress=False)
    with open_store(keep / "level") as store:
        assert sum(1 for _ in store.iter_rows()) == trial.live_rows
    log = read_log(keep / "level")
    assert len(log.flushes()) == trial.num_flushes
    # One figure, wherever it is told; the ticker of a flush is some 150 bytes above the file's.
    told = log.write_amplification().write_amplification
    assert trial.write_amplification == pytest.approx(told, rel=0.02)
    note = json.loads((keep / "level.trial.json").read_text())
    assert note["options"] == LEVEL.changes()
    assert note["workload"]["writes"] == SMALL.writes


def test_the_next_comparison_replaces_what_was_kept_and_nothing_else(tmp_path: Path) -> None:
    compare_profiles(SMALL, [LEVEL], keep=tmp_path, progress=False)
    (tmp_path / "level" / "old").touch()
    other = LEVEL.changed(name="other")
    (_, trial) = compare_profiles(SMALL, [other, LEVEL], keep=tmp_path, progress=False)
    assert not (tmp_path / "level" / "old").exists()
    with open_store(tmp_path / "level") as store:
        assert sum(1 for _ in store.iter_rows()) == trial.live_rows
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == ["level", "other"]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_no_trial_left_is_not_touched(tmp_path: Path, kind: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    place = tmp_path / "keep" / "level"
    place.parent.mkdir()
    if kind == "folder":
        place.mkdir()
    elif kind == "file":
        place.touch()
    else:
        place.symlink_to(mine)
    with pytest.raises(OutputError, match="no store that a trial left"):
        compare_profiles(SMALL, [LEVEL], keep=tmp_path / "keep", progress=False)
    assert [each.name for each in place.parent.iterdir()] == ["level"]


@pytest.mark.parametrize(
    "name", ["..", ".", "a/b", "a\\b", "a\nb", "\udc80", "x" * 201, "level.trial.json"]
)
def test_a_name_that_is_no_folder_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be kept"):
        compare_profiles(SMALL, [LEVEL.changed(name=name)], keep=tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="can't be kept in"):
        compare_profiles(SMALL, [LEVEL], keep=tmp_path / "file" / "lab", progress=False)


ENDLESS = Workload(writes=10**9, keys=20_000)


class Heard(Listener):
    """Hears all, and cancels the trial of a profile when it has some writes."""

    def __init__(self, cancel: str | None = None) -> None:
        self.cancel = cancel
        self.planned: list[tuple[int, list[str]]] = []
        self.moments: list[Moment] = []
        self.cancelled_s = 0.0

    def begin(self, workload: Workload, profiles: Sequence[str]) -> None:
        self.planned.append((workload.writes, list(profiles)))

    def hear(self, moment: Moment) -> None:
        self.moments.append(moment)

    def is_cancelled(self) -> bool:
        last = self.moments[-1] if self.moments else None
        if last is None or last.profile != self.cancel or not last.writes:
            return False
        self.cancelled_s = self.cancelled_s or time.monotonic()
        return True


def test_a_listener_hears_what_is_planned_and_every_moment() -> None:
    heard = Heard()
    universal = LEVEL.changed(name="universal", compaction_style="universal")
    workload = Workload(writes=20_000, keys=5_000)
    found = compare_profiles(workload, [LEVEL, universal], progress=False, listener=heard)
    assert heard.planned == [(20_000, ["level", "universal"])]
    assert heard.moments == list(found.series)


def test_a_moment_says_what_each_level_has() -> None:
    workload = Workload(writes=20_000, keys=20_000)
    found = compare_profiles(workload, [LEVEL], progress=False)
    last = found.series[-1]
    assert sum(last.level_bytes) == found[0].sst_bytes
    assert sum(last.level_files) == found[0].num_files
    assert len(last.level_files) > 1
    assert last.level_files[-1] > 0
    assert all(each.level_files[:1] in {(), (each.level0_files,)} for each in found.series)


def test_rows_to_replay_are_counted_before_the_first_trial() -> None:
    heard = Heard()
    rows = [(b"%d" % number, b"value") for number in range(1_500)]
    compare_profiles(rows, ["spark"], progress=False, listener=heard)
    assert heard.planned == [(1_500, ["spark"])]


def test_a_comparison_that_is_cancelled_ends_at_once_and_keeps_the_trials_before(
    tmp_path: Path,
) -> None:
    heard = Heard(cancel="second")
    second, third = LEVEL.changed(name="second"), LEVEL.changed(name="third")
    with pytest.raises(TrialCancelled, match="trial of the profile 'second' was canc") as caught:
        compare_profiles(
            ENDLESS,
            [LEVEL, second, third],
            seconds=0.5,
            folder=tmp_path,
            progress=False,
            listener=heard,
        )
    assert time.monotonic() - heard.cancelled_s < 2
    assert [trial.profile for trial in caught.value.found or []] == ["level"]
    assert not list(tmp_path.iterdir())
    running = [child.cmdline() for child in psutil.Process().children()]
    assert not [line for line in running if "kstoolkit.rocksdb.lab.trial" in line]


def test_rows_without_an_end_are_no_longer_read_when_that_is_cancelled(tmp_path: Path) -> None:
    class Impatient(Listener):
        asked = 0

        def is_cancelled(self) -> bool:
            self.asked += 1
            return self.asked > 3

    def endless() -> Iterator[tuple[bytes, bytes | None]]:
        yield from ((b"%d" % number, b"value") for number in count())

    with pytest.raises(TrialCancelled, match="before its first trial"):
        compare_profiles(
            endless(), ["spark"], folder=tmp_path, progress=False, listener=Impatient()
        )
    assert not list(tmp_path.iterdir())


RESTING = LEVEL.changed(
    write_buffer_size=64 << 10,
    compaction_style="universal",
    level0_file_num_compaction_trigger=2,
    level0_slowdown_writes_trigger=2,
)
"""Two runs may rest unmerged, though a third makes writers wait."""

ORPHANED = """
import sys
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.workloads import Workload
compare_profiles(Workload(writes=10**9), ["spark"], folder=sys.argv[1], progress=False)
"""


def test_a_trial_whose_time_is_up_is_stopped_and_says_so() -> None:
    endless = Workload(writes=100_000_000, keys=1_000, writes_per_second=100)
    found = compare_profiles(endless, [LEVEL], seconds=0.5, progress=False)
    trial = found[0]
    assert (trial.stopped_by, trial.finished, trial.settled) == ("time", False, False)
    assert trial.writes == 1_000, "the pace of a thousand is ten seconds: it isn't slept out"
    assert found.series[-1].at_ms < 9_000
    assert trial.live_rows > 0


def test_more_gets_than_fit_into_memory_are_asked_for_some_at_a_time() -> None:
    greedy = Workload(writes=1_000, keys=1_000, reads_per_write=1e9)
    trial = compare_profiles(greedy, ["spark"], seconds=1, progress=False)[0]
    assert (trial.stopped_by, trial.finished) == ("time", False)
    assert 10_000 <= trial.gets < 1e9
    assert (trial.write_amplification, trial.space_amplification) == (None, None)
    assert "nothing was flushed" in trial.unknown["write_amplification"]
    assert "nothing was flushed" in trial.unknown["space_amplification"]
    assert "write unknown" in repr(trial)


def test_a_trial_that_has_written_all_and_settles_too_long_says_so() -> None:
    slow = LEVEL.changed(
        name="slow", write_buffer_size=32 << 20, rate_limit_bytes_per_second=1 << 20
    )
    workload = Workload(writes=10_000, keys=10_000, reads_per_write=0)
    trial = compare_profiles(workload, [slow], seconds=0.5, progress=False)[0]
    assert (trial.stopped_by, trial.settled, trial.writes) == ("time", False, 10_000)
    assert trial.finished


def test_a_last_flush_that_takes_too_much_disk_is_said() -> None:
    workload = Workload(writes=20_000, keys=20_000, reads_per_write=0)
    flushed_late = LEVEL.changed(write_buffer_size=64 << 20, compression="none")
    trial = compare_profiles(workload, [flushed_late], disk_bytes=1 << 20, progress=False)[0]
    assert (trial.stopped_by, trial.finished, trial.writes) == ("disk", True, 20_000)
    assert trial.peak_disk_bytes > 1 << 20


def test_a_trial_that_takes_too_much_disk_is_stopped_and_says_so() -> None:
    large = Workload(writes=10_000_000, keys=10_000_000, value_bytes=1_000)
    trial = compare_profiles(large, [LEVEL], disk_bytes=5 << 20, progress=False)[0]
    assert (trial.stopped_by, trial.finished, trial.settled) == ("disk", False, False)
    assert trial.peak_disk_bytes > 5 << 20
    assert trial.writes < 1_000_000


def request(path: Path, rows: Path | None = None) -> dict[str, Any]:
    workload = Workload(writes=1_000_000) if rows is None else Workload("replayed", rows=[])
    return _trial_request(workload, LEVEL, path, rows=rows)


def test_what_rocksdb_refuses_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrialFailed, match="The trial of the profile 'level' failed: "):
        _watch(request(tmp_path / "file" / "store"), _TrialLimits(10, 1 << 30), print)


def test_a_process_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    asked = request(tmp_path / "store", rows=tmp_path / "absent")
    with pytest.raises(TrialFailed, match=r"died: FileNotFoundError: .*absent'"):
        _watch(asked, _TrialLimits(10, 1 << 30), print)


@pytest.mark.kill
def test_a_process_that_is_killed_is_told_with_the_signal(tmp_path: Path) -> None:
    def kill() -> None:
        _wait_for_a_store(tmp_path)
        for child in psutil.Process().children():
            if "kstoolkit.rocksdb.lab.trial" in child.cmdline():  # and not Spark's Java
                child.kill()

    killer = Thread(target=kill)
    killer.start()
    with pytest.raises(TrialFailed, match=r"died: Killed \(signal 9\)"):
        compare_profiles(Workload(writes=10**9), [LEVEL], folder=tmp_path, progress=False)
    killer.join()
    assert not list(tmp_path.iterdir())


def _wait_for_a_store(folder: Path) -> None:
    until = time.monotonic() + 60
    while not list(folder.glob("*/store/LOG")) and time.monotonic() < until:
        time.sleep(0.05)


@pytest.mark.kill
def test_what_a_killed_comparison_left_goes_when_the_next_one_begins(tmp_path: Path) -> None:
    asking = subprocess.Popen(
        [sys.executable, "-c", ORPHANED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    _wait_for_a_store(tmp_path)
    (child,) = psutil.Process(asking.pid).children()
    asking.kill()
    asking.wait()
    child.wait(60)
    (left,) = tmp_path.iterdir()
    compare_profiles(Workload(writes=1_000), [LEVEL], folder=tmp_path, progress=False)
    assert left.name.startswith("kstoolkit-lab-")
    assert not list(tmp_path.iterdir())


@pytest.mark.kill
@pytest.mark.parametrize("everyone", [True, False], ids=["the terminal", "the process alone"])
def test_what_is_interrupted_leaves_no_process_and_no_folder(
    tmp_path: Path, *, everyone: bool
) -> None:
    asking = subprocess.Popen(
        [sys.executable, "-c", ORPHANED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    seen = psutil.Process(asking.pid)
    _wait_for_a_store(tmp_path)
    (child,) = seen.children()
    os.killpg(asking.pid, signal.SIGINT) if everyone else asking.send_signal(signal.SIGINT)
    _, said = asking.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said
    assert b"TrialFailed" not in said
    assert not child.is_running()
    assert not list(tmp_path.iterdir())


def test_a_profile_that_stops_writes_for_good_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_STOP_S", 1.0)
    stuck = RESTING.changed(name="stuck", level0_stop_writes_trigger=2)
    workload = Workload(writes=20_000, keys=20_000)
    with pytest.raises(TrialFailed, match="'stuck' lets no write through") as caught:
        compare_profiles(
            workload, [LEVEL, stuck, "spark"], seconds=2, folder=tmp_path, progress=False
        )
    assert "level0_stop_writes_trigger" in str(caught.value.hint)
    assert [trial.profile for trial in caught.value.found or []] == ["level"]
    assert not list(tmp_path.iterdir())


def test_a_last_flush_does_not_wait_for_runs_that_are_never_merged() -> None:
    # Without writers in need of it, RocksDB would hold the flush back for ever.
    waiting = RESTING.changed(name="waiting", level0_stop_writes_trigger=20)
    workload = Workload(writes=20_000, keys=20_000)
    trial = compare_profiles(workload, [waiting], seconds=20, progress=False)[0]
    assert trial.settled
    assert trial.writes == 20_000


def test_more_files_than_select_can_watch_may_be_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2_000:
        pytest.skip(f"no more than {hard} files can be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        trial = compare_profiles(Workload(writes=1_000), [LEVEL], progress=False)[0]
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert trial.writes == 1_000


def test_a_trial_whose_parent_is_gone_ends_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kstoolkit.rocksdb.lab.trial"],
        input=json.dumps(request(tmp_path / "store")) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    (end,) = [json.loads(line)["end"] for line in done.stdout.splitlines() if '"end"' in line]
    assert not end["finished"]
    assert end["writes"] < 1_000_000


def test_what_a_profile_does_not_set_is_as_the_engine_leaves_it(tmp_path: Path) -> None:
    mine = Profile(name="mine", block_size=8192)
    few = Workload("uniform", writes=500, keys=100)
    compare_profiles(few, ["spark", mine], engine="kafka_streams", keep=tmp_path, progress=False)
    found = Profile.from_options(tmp_path / "mine")
    assert (found.block_size, found.compaction_style) == (8192, "universal")
    assert (found.write_buffer_size, found.compression) == (16 << 20, "none")
    assert Profile.from_options(tmp_path / "spark").compression == "lz4"
