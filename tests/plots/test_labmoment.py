from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kstoolkit.plots.labmoment import MOST_TRIALS, plot_step, step_inches
from kstoolkit.rocksdb.lab.results import Moment
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts
from tests.plots.realstores import compared, lengths

HELD = Moment(
    profile="level",
    at_ms=1_250,
    writes=54_000,
    user_bytes=6 << 20,
    written_bytes=9 << 20,
    write_amplification=1.5,
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


def step(*moments: Moment, among: tuple[Moment, ...] = ()) -> Any:
    from kstoolkit.plots.axes import new_axes

    return plot_step(moments, among=among, ax=new_axes(None, step_inches(moments, among)))


def test_a_moment_shows_its_levels() -> None:
    axes: Any = HELD.plot()
    assert stays_inside(axes)
    assert row_names(axes) == ["L0", "L1", "L2"]
    assert seen(axes) == "After 1.25 s: 4.0 MiB in 9 files with level"
    assert texts(axes) == ["1.0 MiB, 2 files", "3.0 MiB, 7 files"]
    assert "54,000 writes, 64.0 KiB in memtables, 1.0 MiB to compact" in axes.get_xlabel()


def test_real_moments_of_two_trials_stand_beside_each_other() -> None:
    found = compared()
    last = [[each for each in found.series if each.profile == t.profile][-1] for t in found]
    axes = step(*last, among=tuple(found.series))
    assert stays_inside(axes)
    assert legend(axes) == ["level", "universal"]
    assert sorted(lengths(axes)) == sorted(size for m in last for size in m.level_bytes if size)
    assert len({(patch.get_facecolor(), patch.get_hatch()) for patch in axes.patches}) == 2


def test_every_step_has_the_same_axes() -> None:
    later = replace(HELD, level_files=(0, 0, 0, 1_200), level_bytes=(0, 0, 0, 40 << 20))
    steps = [step(each, among=(EMPTY, HELD, later)) for each in (EMPTY, HELD, later)]
    assert len({axes.get_xlim() for axes in steps}) == 1
    assert len({axes.figure.get_size_inches()[1] for axes in steps}) == 1
    assert all(row_names(axes) == ["L0", "L1", "L2", "L3"] for axes in steps)
    assert all(stays_inside(axes) for axes in steps)


def test_a_store_without_files_has_empty_levels() -> None:
    axes: Any = drawn(step(EMPTY))
    assert seen(axes) == "After 0.00 s: 0 B in 0 files with level"
    assert row_names(axes) == ["L0"]
    assert not texts(axes)


def test_many_trials_are_thinned_and_that_is_said() -> None:
    many = [replace(HELD, profile=f"profile {number}") for number in range(9)]
    axes = step(*many)
    assert legend(axes) == [f"profile {number}" for number in range(MOST_TRIALS)]
    assert "the first 6 of 9 trials are drawn" in axes.get_xlabel()
    assert stays_inside(axes)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    axes = step(replace(HELD, profile=name), replace(HELD, profile="other"))
    assert stays_inside(axes)
    assert len(seen(axes)) < 140
