"""A replay under a store's own profile, beside what its log tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import kstoolkit as kst
from kstoolkit.rocksdb.lab.replaying import LoggedWork, logged_work
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.rocksdb.lab.results import Trial


def replayed(path: Path, kept: Path, within_s: float = 5) -> tuple[LoggedWork, Trial, LoggedWork]:
    """Return what a store's log tells, its replay under its own profile, and what that's log tells.

    What the trial saw of the disk has its LOG and MANIFEST in it, a tenth of so small a store.
    """
    profile = Profile.from_options(path).changed(name="own")
    with open_store(path) as store:
        workload = kst.Workload.from_log(store, within_s=within_s)
        [now] = kst.compare_profiles(workload, [profile], progress=False, keep=kept)
    assert isinstance(workload.was, LoggedWork)
    with open_store(kept / "own") as store:
        return workload.was, now, logged_work(store)


def off(was: float, now: float | None) -> float:
    assert now is not None
    return abs(now / was - 1)
