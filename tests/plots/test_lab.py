from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.lab import FIGURES
from kstoolkit.plots.palette import UNKNOWN_HATCH
from kstoolkit.records import Records
from kstoolkit.rocksdb.lab.results import Comparison, Moment
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts
from tests.plots.realstores import compared, lengths, renamed

if TYPE_CHECKING:
    from kstoolkit.rocksdb.lab.results import Trial


def test_amplifications_of_the_profiles_stand_beside_each_other() -> None:
    found = compared()
    axes: Any = found.plot()
    assert stays_inside(axes)
    assert row_names(axes) == [
        *("write amplification", "read amplification", "space amplification"),
        "written per user byte",
    ]
    assert legend(axes) == ["level", "universal"]
    told = [getattr(each, name) for each in found for name in FIGURES["amplification"]]
    assert sorted(lengths(axes)) == sorted(told)
    assert texts(axes)[0] == f"{found[0].write_amplification:.2f}"
    assert axes.get_xlabel() == "times"
    assert seen(axes).startswith("Least of 2 profiles: write amplification")


def test_profiles_differ_by_colour_and_by_hatch() -> None:
    axes: Any = drawn(renamed(compared(), list("abcdefghij")).plot())
    looks = {(patch.get_facecolor(), patch.get_hatch()) for patch in axes.patches}
    assert len(looks) == 10


@pytest.mark.parametrize("figures", FIGURES)
def test_stalls_memory_latencies_and_disk_fit_their_figures(figures: str) -> None:
    axes: Any = compared().plot(figures=figures)
    assert stays_inside(axes)
    assert len(row_names(axes)) == len(FIGURES[figures])


def test_figures_may_be_chosen_by_name() -> None:
    axes: Any = drawn(compared().plot(figures=["num_files", "sorted_runs"]))
    assert row_names(axes) == ["files", "sorted runs"]
    one: Any = drawn(compared().plot(figures="settle_s"))
    assert row_names(one) == ["settle"]


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (["writes", "stall_ms"], "different units: count, ms"),
        (["content_sha256"], "no figure 'content_sha256'"),
        ("nonsense", "no figure 'nonsense'"),
        ([], "no figure ''"),
    ],
)
def test_figures_that_cannot_be_drawn_are_refused(figures: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        compared().plot(figures=figures)


def test_an_unknown_figure_is_hatched_and_says_why() -> None:
    one, other = compared()
    why = {"write_amplification": "nothing was flushed"}
    trial = replace(other, write_amplification=None, unknown=why, stopped_by="time")
    axes: Any = drawn(Records([one, trial], "trials").plot())
    assert "unknown" in texts(axes)
    assert "unknown" in legend(axes)
    assert UNKNOWN_HATCH in {patch.get_hatch() for patch in axes.patches}
    assert "universal: write amplification: unknown (nothing was flushed)" in axes.get_xlabel()
    assert "universal was stopped by time" in axes.get_xlabel()


def test_one_trial_alone_is_drawn_alike() -> None:
    axes: Any = drawn(compared()[0].plot(figures="disk"))
    assert len(lengths(axes)) == 4
    assert seen(axes).startswith("level: sst ")


def test_many_profiles_are_thinned_and_the_figure_says_so() -> None:
    many = renamed(compared(), [f"profile {n}" for n in range(30)])
    axes: Any = drawn(many.plot())
    assert len(legend(axes)) == 10
    assert "the first 10 of 30 profiles are drawn" in axes.get_xlabel()
    lines: Any = drawn(many.series.plot())
    assert len(lines.lines) == 12
    assert "not drawn: profile 12, profile 13, profile 14 and 15 others" in lines.get_xlabel()


def test_no_trials_are_said_to_be_none() -> None:
    found = compared()
    nothing: Records[Trial] = Records((), "trials")
    assert seen(drawn(nothing.plot())) == "No trials"
    empty = Comparison(found.workload, [], Records([], "moments"), Records([], "levels"))
    assert seen(drawn(empty.plot())) == "No trials"
    assert seen(drawn(empty.series.plot())) == "No moments"
    assert seen(drawn(empty.levels.plot())) == "No levels"


@pytest.mark.parametrize("name", [*HOSTILE, "_hidden"])
def test_profiles_may_have_any_name(name: str) -> None:
    found = renamed(compared(), ["mine", name])
    assert stays_inside(found.plot())
    assert len(legend(found.plot())) == 2
    drawn(found.series.plot())
    work = [replace(each, profile=name) for each in found.levels]
    assert stays_inside(Records([*found.levels, *work], "levels").plot())


def test_each_trial_is_a_line_over_time() -> None:
    found = compared()
    axes: Any = drawn(found.series.plot(figure="level0_files"))
    for line, trial in zip(axes.lines, found, strict=True):
        series = [each for each in found.series if each.profile == trial.profile]
        assert line.get_xdata().tolist() == [each.at_ms / 1e3 for each in series]
        assert line.get_ydata().tolist() == [each.level0_files for each in series]
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()
    assert axes.lines[0].get_marker() != axes.lines[1].get_marker()
    assert axes.get_ylabel() == "L0 files"
    assert seen(axes).startswith("L0 files over time. The most was ")


def test_levels_grow_over_time_a_line_each() -> None:
    found = compared()
    series = [each for each in found.series if each.profile == "level"]
    axes: Any = drawn(Records(series, "moments").plot(figure="level_files"))
    last = {line.get_label(): line.get_ydata()[-1] for line in axes.lines}
    assert last == {
        f"L{level}": number
        for level, number in enumerate(series[-1].level_files)
        if any(each.level_files[level : level + 1] > (0,) for each in series)
    }
    assert seen(axes).startswith("Files of levels over time. The most was ")
    both: Any = drawn(found.series.plot(figure="level_bytes"))
    assert {str(line.get_label()).split()[0] for line in both.lines} == {"level", "universal"}


def test_a_figure_that_no_moment_knows_is_unknown() -> None:
    blind = [replace(each, get_p99_us=None) for each in compared().series]
    axes: Any = drawn(Records(blind, "moments").plot(figure="get_p99_us"))
    assert seen(axes) == "Get p99: unknown at every moment"
    first = [replace(each, get_p99_us=None if each.profile == "level" else 5.0) for each in blind]
    half: Any = drawn(Records(first, "moments").plot(figure="get_p99_us"))
    assert [line.get_label() for line in half.lines] == ["universal"]
    assert "level: unknown at every moment" in half.get_xlabel()
    with pytest.raises(ConfigurationError, match="no figure 'depth'"):
        compared().series.plot(figure="depth")


def test_work_by_level_is_a_bar_with_its_jobs() -> None:
    levels = compared().levels
    axes: Any = levels.plot()
    assert stays_inside(axes)
    assert lengths(axes) == [each.written_bytes for each in levels if each.written_bytes]
    assert "flush" in texts(axes)[0]
    many: Any = drawn(Records([levels[0]] * 50, "levels").plot())
    assert len(row_names(many)) == 40
    assert "the first 40 of 50 levels are drawn" in many.get_xlabel()


HELD = Moment(
    profile="level",
    at_ms=1_250,
    writes=54_000,
    user_bytes=6 << 20,
    written_bytes=9 << 20,
    write_amplification=1.2,
    written_per_user_byte=1.5,
    disk_bytes=5 << 20,
    level0_files=2,
    pending_compaction_bytes=1 << 20,
    stall_ms=509.0,
    level_files=(2, 0, 7),
    level_bytes=(1 << 20, 0, 3 << 20),
    memtable_bytes=64 << 10,
    block_cache_bytes=0,
    block_cache_pinned_bytes=0,
    table_readers_bytes=0,
    put_p99_us=None,
    get_p99_us=None,
)
EMPTY = replace(HELD, at_ms=0, writes=0, level0_files=0, level_files=(), level_bytes=())


def test_a_moment_shows_its_levels() -> None:
    axes: Any = HELD.plot()
    assert stays_inside(axes)
    assert row_names(axes) == ["L0", "L1", "L2"]
    assert seen(axes) == "After 1.25 s: 4.0 MiB in 9 files with level"
    assert texts(axes) == ["1.0 MiB, 2 files", "0 B, 0 files", "3.0 MiB, 7 files"]
    assert "54,000 writes, 64.0 KiB in memtables, 1.0 MiB to compact" in axes.get_xlabel()


def test_real_moments_have_a_bar_for_each_level_that_holds_something() -> None:
    for moment in {each.profile: each for each in compared().series}.values():
        axes: Any = drawn(moment.plot())
        assert stays_inside(axes)
        assert lengths(axes) == [size for size in moment.level_bytes if size]


def test_a_store_without_files_has_empty_levels() -> None:
    axes: Any = drawn(EMPTY.plot())
    assert seen(axes) == "After 0.00 s: 0 B in 0 files with level"
    assert row_names(axes) == ["L0"]
    assert texts(axes) == ["0 B, 0 files"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    axes: Any = replace(HELD, profile=name).plot()
    assert stays_inside(axes)
    assert len(seen(axes)) < 140
