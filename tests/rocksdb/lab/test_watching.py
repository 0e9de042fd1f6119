"""Trials that are stopped, that fail, and that are left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.watching import Limits, TrialFailed, watch
from kstoolkit.rocksdb.lab.workloads import Workload
from tests.rocksdb.lab.smallprofile import LEVEL

if TYPE_CHECKING:
    from pathlib import Path


def test_a_trial_whose_time_is_up_is_stopped_and_says_so() -> None:
    endless = Workload(writes=100_000_000, keys=1_000, writes_per_second=100)
    found = compare_profiles(endless, [LEVEL], seconds=0.5, progress=False)
    trial = found[0]
    assert (trial.stopped_by, trial.settled) == ("time", False)
    assert trial.writes == 1_000, "the pace of a thousand is ten seconds: it isn't slept out"
    assert found.series[-1].at_ms < 9_000
    assert trial.live_rows > 0


def test_a_trial_that_takes_too_much_disk_is_stopped_and_says_so() -> None:
    large = Workload(writes=10_000_000, keys=10_000_000, value_bytes=1_000)
    trial = compare_profiles(large, [LEVEL], disk_bytes=5 << 20, progress=False)[0]
    assert (trial.stopped_by, trial.settled) == ("disk", False)
    assert trial.peak_disk_bytes > 5 << 20
    assert trial.writes < 1_000_000


def request(path: Path, rows: Path | None = None) -> dict[str, Any]:
    workload = Workload(writes=1_000_000) if rows is None else Workload("replayed", rows=[])
    profile = {"name": "level", "options": LEVEL.options(), "unknown": {}}
    told = None if rows is None else str(rows)
    return {"workload": workload.to_dict(), "profile": profile, "rows": told, "path": str(path)}


def test_what_rocksdb_refuses_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrialFailed, match="The trial of the profile 'level' failed: "):
        watch(request(tmp_path / "file" / "store"), Limits(10, 1 << 30), print)


def test_a_process_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    asked = request(tmp_path / "store", rows=tmp_path / "absent")
    with pytest.raises(TrialFailed, match=r"died: FileNotFoundError: .*absent'"):
        watch(asked, Limits(10, 1 << 30), print)


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
    assert end["stopped"]
    assert end["writes"] < 1_000_000
