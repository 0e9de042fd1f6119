from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.widgets.lab import STEPS, TABLE, VIEWS, CompactionLab, moments_at, step_times
from tests.rocksdb.lab.smallprofile import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kstoolkit.rocksdb.lab.results import Comparison

UNIVERSAL = LEVEL.changed(name="universal", compaction_style="universal")
SMALL = Workload(writes=20_000, keys=10_000)
ENDLESS = Workload(writes=10**9, keys=20_000, writes_per_second=20_000)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare_profiles(SMALL, [LEVEL, UNIVERSAL], progress=False)


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[CompactionLab]:
    with CompactionLab(ENDLESS, [LEVEL, UNIVERSAL], folder=tmp_path) as lab:
        yield lab


def alt(lab: CompactionLab) -> str:
    """Return what the picture that is shown says it shows."""
    found = re.search(r'alt="([^"]*)"', lab._shown.value)
    return found[1] if found else ""


def until(so: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not so() and time.monotonic() < end:
        time.sleep(0.02)
    assert so()


def trials() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [each for each in children if "kstoolkit.rocksdb.lab.trial" in each.cmdline()]


def test_chosen_profiles_are_run_on_the_chosen_workload_and_shown() -> None:
    with CompactionLab(profiles=[LEVEL]) as lab:
        assert "press Run" in lab._shown.value
        lab.form.controls["kind"].value = "skewed"
        lab.form.controls["writes"].value = 20_000
        lab.form.controls["keys"].value = 5_000
        lab.profiles.boxes["spark"].value = True
        lab.button.click()
        assert lab.button.disabled
        lab.wait()
        assert not lab.button.disabled
        assert lab.cancelling.disabled
        assert lab.bar.value == 1
        assert lab.comparison is not None
        assert [each.profile for each in lab.comparison] == ["level", "spark"]
        assert lab.comparison.workload == Workload("skewed", writes=20_000, keys=5_000)
        assert "2 trials in" in lab._said.value
        assert alt(lab).startswith("Least of 2 profiles: write amplification")
        assert repr(lab) == "CompactionLab(skewed, 20,000 writes; level, spark: 2 trials)"


def test_every_view_of_a_comparison_is_shown(compared: Comparison) -> None:
    with CompactionLab(compared) as lab:
        lab.wait()
        seen = set()
        for view in VIEWS:
            lab.view.value = view
            seen.add(lab._shown.value)
            assert "<img" in lab._shown.value or view == TABLE
        assert len(seen) == len(VIEWS)
        assert "write amplification" in lab._shown.value
        assert f"{compared[0].write_amplification:.4g}" in lab._shown.value


def test_a_comparison_made_before_begins_with_its_workload_and_may_be_run_again(
    compared: Comparison,
) -> None:
    with CompactionLab(compared) as lab:
        assert lab.form.workload() == SMALL
        assert lab.comparison is compared
        lab.wait()
        assert repr(lab) == "CompactionLab(uniform, 20,000 writes; level, universal: 2 trials)"
        assert "level, universal: 2 trials" in lab.static_html()
        assert lab.profiles.names() == ["kafka_streams", "spark"]
        lab.choose("spark")
        lab.set(writes=1_000)
        lab.run()
        lab.wait()
        assert [each.writes for each in lab.comparison] == [1_000]


def test_the_levels_are_replayed_step_by_step(compared: Comparison) -> None:
    with CompactionLab(compared) as lab:
        assert lab.replay.layout.display == "none"
        lab.view.value = STEPS
        assert lab.replay.layout.display != "none"
        last = alt(lab)
        lab.replay.choice.index = 0
        first = alt(lab)
        assert first.startswith("After ")
        assert first != last
        lab.replay.button.click()
        assert lab.replay.button.description == "Pause"
        until(lambda: not lab.replay.is_playing)
        assert lab.replay.button.description == "Play"
        assert alt(lab) == last


def test_a_replay_that_is_paused_stays_where_it_is(compared: Comparison) -> None:
    with CompactionLab(compared) as lab:
        lab.view.value = STEPS
        lab.replay.button.click()
        until(lambda: lab.replay.choice.index > 0)
        lab.replay.button.click()
        index = lab.replay.choice.index
        time.sleep(0.6)
        assert lab.replay.choice.index == index
        assert not lab.replay.is_playing


def test_trials_are_seen_while_they_run_and_those_that_ended_are_kept_when_cancelled(
    endless: CompactionLab, tmp_path: Path
) -> None:
    endless.seconds.value = 1.0
    began = time.monotonic()
    endless.button.click()
    assert time.monotonic() - began < 1, "a cell goes on"
    assert not endless.cancelling.disabled
    until(lambda: "with level" in alt(endless))
    assert repr(endless).endswith("level, universal: running)")
    until(lambda: "Trial 2 of 2, universal:" in endless._said.value)
    assert 0.5 <= endless.bar.value < 1
    endless.seconds.value = 1e6
    endless.cancelling.click()
    endless.wait()
    assert "universal&#x27; was cancelled. 1 trial had ended before." in endless._said.value
    assert repr(endless).endswith("cancelled after 1 trial)")
    assert [each.profile for each in endless.comparison or ()] == ["level"]
    assert not trials()
    assert not list(tmp_path.iterdir())
    endless.view.value = STEPS
    assert "universal" in alt(endless), "what was seen of the one that was cancelled, too"


def test_closing_ends_the_trials_and_every_thread(endless: CompactionLab, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    endless.run()
    until(trials)
    endless.run()
    assert len(trials()) == 1, "a second Run does nothing"
    endless.close()
    assert not trials()
    assert not list(tmp_path.iterdir())
    assert set(threading.enumerate()) <= before
    endless.close()


def test_closing_ends_a_replay(compared: Comparison) -> None:
    lab = CompactionLab(compared)
    lab.view.value = STEPS
    lab.replay.play()
    lab.close()
    assert not lab.replay.is_playing


def test_what_makes_no_sense_is_said_and_nothing_runs() -> None:
    with CompactionLab(SMALL) as lab:
        lab.set(writes=0)
        assert "A workload's writes is 0" in lab._said.value.replace("&#x27;", "'")
        lab.choose("nonsense")
        assert "No profile &#x27;nonsense&#x27; is offered" in lab._said.value
        assert lab.profiles.names() == ["kafka_streams", "spark"]
        lab.choose()
        lab.run()
        lab.wait()
        assert "There are no profiles to compare." in lab._said.value
        assert repr(lab) == "CompactionLab(uniform, 20,000 writes; no profiles: failed)"
        assert not lab.button.disabled


@pytest.mark.parametrize("given", [7, [("key", "value")]])
def test_a_lab_begins_with_a_workload(given: object) -> None:
    with pytest.raises(ConfigurationError, match="A lab can't begin with"):
        CompactionLab(given)  # type: ignore[arg-type]


def test_rows_are_replayed_as_they_are() -> None:
    rows = [(b"%d" % number, b"value") for number in range(2_000)]
    with CompactionLab(Workload("replayed", rows=rows), ["spark"]) as lab:
        assert lab.form.controls["kind"].disabled
        assert lab.form.controls["writes"].disabled
        lab.run()
        lab.wait()
        assert lab.comparison is not None
        assert lab.comparison[0].writes == 2_000
        lab.run()
        lab.wait()
        assert lab.comparison[0].writes == 2_000


def test_rows_that_can_be_read_only_once_are_missed_the_second_time() -> None:
    rows = ((b"%d" % number, b"value") for number in range(2_000))
    with CompactionLab(Workload("replayed", rows=rows), ["spark"]) as lab:
        for said in ("1 trial in", "There are no rows to replay."):
            lab.run()
            lab.wait()
            assert said in lab._said.value


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "\u202etfel", "x" * 10_000, "'\"&", "a\x00b"]
)
def test_hostile_names_of_profiles_are_text(name: str) -> None:
    with CompactionLab(Workload(writes=1_000, keys=10), [LEVEL.changed(name=name)]) as lab:
        lab.run()
        lab.wait()
        shown = lab.static_html()
        for view in (TABLE, "Disk over time", STEPS):
            lab.view.value = view
            shown += lab.static_html()
        assert lab.comparison is not None
        said = lab._said.value + re.sub('data:[^"]*', "", shown)
        assert name not in said
        assert len(said) < 15_000
        assert len(repr(lab)) < 120


def test_the_static_page_says_what_was_found(compared: Comparison) -> None:
    with CompactionLab() as lab:
        assert "1,000,000 writes; kafka_streams, spark: not run yet." in lab.static_html()
    with CompactionLab(compared) as lab:
        lab.wait()
        page = lab.static_html()
        assert "2 trials" in page
        assert page.count("<table>") == 1
        assert page.count("<img") == 1
        lab.view.value = TABLE
        assert lab.static_html().count("<table>") == 1


def test_steps_are_equally_far_apart_and_few(compared: Comparison) -> None:
    times = step_times(compared.series)
    assert times[:2] == [0, 250]
    assert times[-1] == max(each.at_ms for each in compared.series)
    last = compared.series[-1]
    long = step_times([replace(last, at_ms=3_600_000)])
    assert len(long) <= 242
    assert step_times([]) == [0]


def test_each_trial_is_seen_at_its_last_moment_by_a_time(compared: Comparison) -> None:
    assert [each.profile for each in moments_at(compared.series, -1)] == ["level", "universal"]
    for profile, found in zip(
        ("level", "universal"), moments_at(compared.series, 400), strict=True
    ):
        early = [m for m in compared.series if m.profile == profile and m.at_ms <= 400]
        assert found == early[-1]
