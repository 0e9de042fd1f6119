"""Stores that stay when their trials are over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.rocksdb.log.storelog import read_log
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.lab.smallprofile import LEVEL

if TYPE_CHECKING:
    from pathlib import Path

WORKLOAD = Workload("uniform", writes=3_000, keys=1_000)


def test_a_kept_store_has_its_rows_its_log_and_a_note_beside_it(tmp_path: Path) -> None:
    keep = tmp_path / "lab" / "stores"
    (trial,) = compare_profiles(WORKLOAD, [LEVEL], keep=keep, progress=False)
    with open_store(keep / "level") as store:
        assert sum(1 for _ in store.iter_rows()) == trial.live_rows
    assert len(read_log(keep / "level").flushes()) == trial.num_flushes
    note = json.loads((keep / "level.trial.json").read_text())
    assert note["options"] == LEVEL.changes()
    assert note["workload"]["writes"] == WORKLOAD.writes


def test_the_next_comparison_replaces_what_was_kept_and_nothing_else(tmp_path: Path) -> None:
    compare_profiles(WORKLOAD, [LEVEL], keep=tmp_path, progress=False)
    (tmp_path / "level" / "old").touch()
    other = LEVEL.changed(name="other")
    (_, trial) = compare_profiles(WORKLOAD, [other, LEVEL], keep=tmp_path, progress=False)
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
        compare_profiles(WORKLOAD, [LEVEL], keep=tmp_path / "keep", progress=False)
    assert [each.name for each in place.parent.iterdir()] == ["level"]


@pytest.mark.parametrize(
    "name", ["..", ".", "a/b", "a\\b", "a\nb", "\udc80", "x" * 201, "level.trial.json"]
)
def test_a_name_that_is_no_folder_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be kept"):
        compare_profiles(WORKLOAD, [LEVEL.changed(name=name)], keep=tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="can't be kept in"):
        compare_profiles(WORKLOAD, [LEVEL], keep=tmp_path / "file" / "lab", progress=False)
