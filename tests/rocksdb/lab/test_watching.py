"""Trials that are stopped, that fail, and that are left alone."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from threading import Thread
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from kstoolkit.rocksdb.lab import watching
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.faults import TrialFailed
from kstoolkit.rocksdb.lab.watching import Limits, trial_request, watch
from kstoolkit.rocksdb.lab.workloads import Workload
from tests.rocksdb.lab.smallprofile import LEVEL

if TYPE_CHECKING:
    from pathlib import Path


RESTING = LEVEL.changed(
    write_buffer_size=64 << 10,
    compaction_style="universal",
    level0_file_num_compaction_trigger=2,
    level0_slowdown_writes_trigger=2,
)
"""Two runs may rest unmerged, though a third makes writers wait."""

ENDLESS = """
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
    return trial_request(workload, LEVEL, path, rows=rows)


def test_what_rocksdb_refuses_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrialFailed, match="The trial of the profile 'level' failed: "):
        watch(request(tmp_path / "file" / "store"), Limits(10, 1 << 30), print)


def test_a_process_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    asked = request(tmp_path / "store", rows=tmp_path / "absent")
    with pytest.raises(TrialFailed, match=r"died: FileNotFoundError: .*absent'"):
        watch(asked, Limits(10, 1 << 30), print)


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
        [sys.executable, "-c", ENDLESS, str(tmp_path)],
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
        [sys.executable, "-c", ENDLESS, str(tmp_path)],
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
