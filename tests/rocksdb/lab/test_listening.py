"""Comparisons that somebody hears, and cancels."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING

import psutil
import pytest

from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.faults import TrialCancelled
from kstoolkit.rocksdb.lab.listening import Listener
from kstoolkit.rocksdb.lab.workloads import Workload
from tests.rocksdb.lab.smallprofile import LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kstoolkit.rocksdb.lab.results import Moment

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
