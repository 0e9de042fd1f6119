from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.results import Comparison
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.views.still import still
from kstoolkit.widgets.lab import CompactionLab
from tests.rocksdb.lab.smallprofile import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kstoolkit.views.parts import Part

UNIVERSAL = LEVEL.changed(
    name="universal", compaction_style="universal", level0_file_num_compaction_trigger=10
)
SMALL = Workload(writes=40_000, keys=10_000)
ENDLESS = Workload(writes=10**9, keys=20_000, writes_per_second=20_000)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare_profiles(SMALL, [LEVEL, UNIVERSAL], progress=False)


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[CompactionLab]:
    with CompactionLab(ENDLESS, [LEVEL, UNIVERSAL], folder=tmp_path) as lab:
        yield lab


def hear(lab: CompactionLab, **told: Any) -> None:
    """Tell a lab what its view sends."""
    lab.face._handle_custom_msg(told, [])


def said(lab: CompactionLab) -> str:
    return str(lab.face.part("said").get("text", ""))


def fields(lab: CompactionLab) -> dict[str, Part]:
    return {each["name"]: each for each in lab.face.part("workload")["fields"]}


def disabled(lab: CompactionLab) -> list[bool]:
    """Return whether Run, and whether Cancel, can't be pressed."""
    return [each["disabled"] for each in lab.face.part("run")["buttons"]]


def chosen(lab: CompactionLab) -> list[str]:
    return [each["name"] for each in lab.face.part("profiles")["buttons"] if each["pressed"]]


def charts(lab: CompactionLab) -> dict[str, Part]:
    return {each["label"]: each for each in lab.face.part("courses")["charts"]}


def courses(lab: CompactionLab) -> list[str]:
    return [each["label"] for each in lab.face.part("courses").get("courses", ())]


def trials_of(lab: CompactionLab) -> dict[str, dict[str, str]]:
    """Return what the table tells of each trial, by figures."""
    figures, *columns = lab.face.part("trials")["columns"]
    names = [figures["words"][code] for code in figures["codes"]]
    return {each["name"]: dict(zip(names, each["texts"], strict=True)) for each in columns}


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
        assert "press Run" in said(lab)
        hear(lab, field=["workload", "kind", "skewed"])
        hear(lab, field=["workload", "writes", "20k"])
        hear(lab, field=["workload", "keys", "5,000"])
        hear(lab, pressed=["profiles", "spark"])
        assert said(lab) == ""
        hear(lab, pressed=["run", "run"])
        assert disabled(lab) == [True, False]
        lab.wait()
        assert disabled(lab) == [False, True]
        assert lab.comparison is not None
        assert [each.profile for each in lab.comparison] == ["level", "spark"]
        assert lab.comparison.workload == Workload("skewed", writes=20_000, keys=5_000)
        assert "2 trials in" in said(lab)
        assert courses(lab) == ["level", "spark"]
        assert repr(lab) == "CompactionLab(skewed, 20,000 writes; level, spark: 2 trials)"


def test_each_chart_has_the_figures_of_the_moments(compared: Comparison) -> None:
    with CompactionLab(compared) as lab:
        assert courses(lab) == ["level", "universal"]
        shown = charts(lab)["Written per user byte"]
        for place, profile in enumerate(("level", "universal")):
            moments = [each for each in compared.series if each.profile == profile]
            assert shown["values"][place] == [each.written_per_user_byte for each in moments]
            xs = lab.face.part("courses")["courses"][place]["xs"]
            assert xs == [round(each.at_ms / 1e3, 2) for each in moments]
        last = still(lab.face.part("courses"))
        assert all(text[-1] in last for text in shown["texts"])


def test_what_makes_no_difference_is_said_and_not_drawn(compared: Comparison) -> None:
    twice = compare_profiles(SMALL, [LEVEL, LEVEL.changed(name="again")], progress=False)
    with CompactionLab(twice) as lab:
        drawn, alike = charts(lab), lab.face.part("courses")["alike"]
        assert len(drawn) + len(alike) == 8
        written = [each.written_per_user_byte or 0.0 for each in twice]
        assert ("Written per user byte" in drawn) == (max(written) > 1.05 * min(written))
        if "Stall" not in drawn:
            assert any(each.startswith("Stall: ") for each in alike)
    with CompactionLab(compared) as lab:
        assert "Written per user byte" in charts(lab)
        for each in lab.face.part("courses")["alike"]:
            assert each in lab.static_html()


def test_the_table_has_each_figure_and_how_far_they_are_apart(compared: Comparison) -> None:
    with CompactionLab(compared) as lab:
        table = trials_of(lab)
        for each in compared:
            told = table[each.profile]
            assert told["Write amplification"] == f"{each.write_amplification:.2f}"
            assert told["Stopped by"] == "nothing"
        written = [each.written_per_user_byte or 0.0 for each in compared]
        times = f"{max(written) / min(written):,.3g} times"
        assert table["most / least"]["Written per user byte"] == times
        assert table["most / least"]["Writes"] == ""


def test_a_sentence_says_which_profile_has_the_least_where_they_differ(
    compared: Comparison,
) -> None:
    alike: dict[str, Any] = {"written_per_user_byte": 2.0, "stall_ms": 0.0}
    rows = [
        replace(compared[0], peak_disk_bytes=100 << 20, put_p99_us=12.0, **alike),
        replace(compared[1], peak_disk_bytes=50 << 20, put_p99_us=None, **alike),
    ]
    made = (compared.series, compared.levels)
    with CompactionLab(Comparison(SMALL, rows, *made)) as lab:
        told = "".join(text for text, _ in lab.face.part("least")["told"])
        assert told == f"The least peak disk 50.0 MiB with {rows[1].profile} (up to 100.0 MiB)."
    with CompactionLab(Comparison(SMALL, rows[:1], *made)) as lab:
        assert lab.face.part("least") == {}


def test_a_comparison_made_before_begins_with_its_workload_and_may_be_run_again(
    compared: Comparison,
) -> None:
    with CompactionLab(compared) as lab:
        assert lab.workload == SMALL
        assert lab.comparison is compared
        assert repr(lab) == "CompactionLab(uniform, 40,000 writes; level, universal: 2 trials)"
        assert "level, universal: 2 trials" in lab.static_html()
        assert chosen(lab) == ["kafka_streams", "spark"]
        lab.choose("spark")
        lab.set(writes=1_000)
        lab.run()
        lab.wait()
        assert [each.writes for each in lab.comparison] == [1_000]


def test_the_levels_are_looked_at_step_by_step(compared: Comparison) -> None:
    with CompactionLab(compared) as lab:
        last = lab.face.part("levels")
        [slider] = lab.face.part("step")["fields"]
        steps = [value for value, _ in slider["options"]]
        assert steps[-1] == max(each.at_ms for each in compared.series)
        hear(lab, field=["step", "at", steps[0]])
        first = lab.face.part("levels")
        assert first != last
        assert first["most"] == last["most"], "bars of every step are as long as they are large"
        assert lab.face.chosen == {"courses": round(steps[0] / 1e3, 2)}
        middle = steps[len(steps) // 2]
        hear(lab, at=["courses", round(middle / 1e3, 2)])
        assert lab.face.part("step")["fields"][0]["value"] == middle
        for bar, profile in zip(
            lab.face.part("levels")["bars"], ("level", "universal"), strict=True
        ):
            held = [m for m in compared.series if m.profile == profile and m.at_ms <= middle][-1]
            assert [each["value"] for each in bar["parts"]] == [*held.level_bytes]


def test_trials_are_seen_while_they_run_and_are_kept_when_cancelled(
    endless: CompactionLab, tmp_path: Path
) -> None:
    endless.set(seconds=1.0)
    began = time.monotonic()
    hear(endless, pressed=["run", "run"])
    assert time.monotonic() - began < 1, "a cell goes on"
    assert disabled(endless) == [True, False]
    until(lambda: courses(endless) == ["level"])
    assert endless.face.part("step") == {}
    assert repr(endless).endswith("level, universal: running)")
    endless.set(seconds=1e6)
    until(lambda: "Trial 2 of 2, universal:" in said(endless))
    assert 0.5 <= endless.face.part("said")["share"] < 1
    time.sleep(0.5)
    hear(endless, pressed=["run", "cancel"])
    endless.wait()
    assert "universal' was cancelled. 1 trial had ended before." in said(endless)
    assert repr(endless).endswith("cancelled after 1 trial)")
    assert [each.profile for each in endless.comparison or ()] == ["level"]
    assert not trials()
    assert not list(tmp_path.iterdir())
    assert courses(endless) == ["level", "universal"], "what was seen of the one cancelled, too"
    table = trials_of(endless)
    assert table["level"]["Stopped by"] == "time"
    assert table["universal"]["Stopped by"] == "cancelled"
    assert table["universal"]["Gets"] == "unknown"
    assert table["universal"]["Writes"] != "0"


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


def test_what_makes_no_sense_is_said_and_nothing_runs() -> None:
    with CompactionLab(SMALL) as lab:
        lab.set(writes=0)
        assert "A workload's writes is 0" in said(lab)
        for name, typed in {"writes": "0", "keys": "many", "absent_share": "2"}.items():
            before = fields(lab)
            hear(lab, field=["workload", name, typed])
            assert said(lab)
            assert fields(lab) == before, "the field has what holds again"
        hear(lab, field=["workload", "writes_per_second", "0"])
        assert lab.workload == SMALL
        lab.choose("nonsense")
        assert "No profile 'nonsense' is offered" in said(lab)
        assert chosen(lab) == ["kafka_streams", "spark"]
        lab.choose()
        lab.run()
        lab.wait()
        assert "There are no profiles to compare." in said(lab)
        assert repr(lab) == "CompactionLab(uniform, 40,000 writes; no profiles: failed)"
        assert disabled(lab) == [False, True]


def test_limits_are_typed_with_units() -> None:
    with CompactionLab(SMALL) as lab:
        hear(lab, field=["workload", "disk_bytes", "512 MiB"])
        hear(lab, field=["workload", "seconds", "1.5"])
        assert fields(lab)["disk_bytes"]["value"] == "512.0 MiB"
        assert fields(lab)["seconds"]["value"] == "1.5"


@pytest.mark.parametrize("given", [7, [("key", "value")]])
def test_a_lab_begins_with_a_workload(given: object) -> None:
    with pytest.raises(ConfigurationError, match="A lab can't begin with"):
        CompactionLab(given)  # type: ignore[arg-type]


def test_rows_are_replayed_as_they_are() -> None:
    rows = [(b"%d" % number, b"value") for number in range(2_000)]
    with CompactionLab(Workload("replayed", rows=rows), ["spark"]) as lab:
        assert fields(lab)["kind"]["disabled"]
        assert fields(lab)["writes"]["disabled"]
        assert not fields(lab)["seed"]["disabled"]
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
        for told in ("1 trial in", "There are no rows to replay."):
            lab.run()
            lab.wait()
            assert told in said(lab)


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "\u202etfel", "x" * 10_000, "'\"&", "a\x00b"]
)
def test_hostile_names_of_profiles_are_text(name: str) -> None:
    with CompactionLab(Workload(writes=1_000, keys=10), [LEVEL.changed(name=name)]) as lab:
        lab.run()
        lab.wait()
        assert lab.comparison is not None
        told = said(lab) + re.sub('data:[^"]*', "", lab.static_html())
        assert name not in told
        assert len(told) < 15_000
        assert len(repr(lab)) < 120


def test_the_static_page_says_what_was_found(compared: Comparison) -> None:
    with CompactionLab() as lab:
        assert "1,000,000 writes; kafka_streams, spark: not run yet." in lab.static_html()
    with CompactionLab(compared) as lab:
        page = lab.static_html()
        assert "2 trials" in page
        assert page.count("<img") == 2
        assert "Least of 2 profiles: write amplification" in page


def test_of_a_long_trial_few_points_are_sent_and_none_of_the_highest_is_lost() -> None:
    long = Workload(writes=10**6, keys=20_000, writes_per_second=20_000)
    with CompactionLab(long, [LEVEL], seconds=65) as lab:
        lab._trying._moments = [
            *_repeated(compare_profiles(SMALL, [LEVEL], progress=False), times=200)
        ]
        lab._show()
        [xs] = [each["xs"] for each in lab.face.part("courses").get("courses", ())]
        assert len(xs) <= 240
        highest = max(each.disk_bytes for each in lab._trying._moments)
        assert max(charts(lab)["Disk"]["values"][0]) == highest


def _repeated(found: Comparison, times: int) -> Iterator[Any]:
    for number in range(times):
        for each in found.series:
            high = each.disk_bytes << 2 if number == times // 2 else each.disk_bytes + number
            yield replace(each, at_ms=each.at_ms + 10_000 * number, disk_bytes=high)
