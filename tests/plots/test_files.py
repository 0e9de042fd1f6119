from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.plots.files import _MOST_FILES, _MOST_PREFIXES, _MOST_ROWS, _key_text
from kstoolkit.records import Records
from kstoolkit.rocksdb.files.keystats import HotPrefix, Sizes
from kstoolkit.units import format_bytes
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts
from tests.plots.realstores import lengths, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.files.ssts import Level, Sst
    from kstoolkit.rocksdb.store import Store


MIB = 1 << 20


@pytest.fixture
def store() -> Iterator[Store]:
    yield from opened()


def levels_like(level: Level, number: int) -> Records[Level]:
    many = [replace(level, column_family=f"cf {n}", size_bytes=n) for n in range(1, number + 1)]
    return Records(many, "levels")


def ssts_like(sst: Sst, number: int) -> Records[Sst]:
    many = [replace(sst, name=f"{n:06}.sst", size_bytes=n) for n in range(1, number + 1)]
    return Records(many, "SST files")


def test_each_level_is_a_bar_with_its_files_and_bytes(store: Store) -> None:
    levels = store.levels()
    axes: Any = levels.plot()
    assert stays_inside(axes)
    assert row_names(axes) == [f"L{each.level}" for each in levels]
    assert lengths(axes) == [each.size_bytes for each in levels]
    for text, each in zip(texts(axes), levels, strict=True):
        assert f"{each.num_files} file" in text
        assert format_bytes(each.size_bytes) in text


def test_the_title_says_what_the_first_level_holds(store: Store) -> None:
    levels = store.levels()
    first = replace(levels[0], level=0, num_files=3)
    total = format_bytes(first.size_bytes + levels[-1].size_bytes)
    title = seen(Records([first, levels[-1]], "levels").plot())
    assert title.startswith(f"L0 holds 3 files, {format_bytes(first.size_bytes)} of {total}")


def test_column_families_differ_by_colour_and_name(store: Store) -> None:
    one, *others = store.levels()
    both = Records([one, replace(one, column_family="offsets"), *others], "levels")
    axes: Any = drawn(both.plot())
    assert row_names(axes)[:2] == [f"default L{one.level}", f"offsets L{one.level}"]
    first, second = axes.patches[:2]
    assert first.get_facecolor() != second.get_facecolor()


def test_many_levels_are_thinned_to_the_largest(store: Store) -> None:
    axes: Any = drawn(levels_like(store.levels()[0], 100).plot())
    assert len(row_names(axes)) == _MOST_ROWS
    assert min(lengths(axes)) == 100 - _MOST_ROWS + 1
    assert "the 40 largest of 100 levels are drawn" in axes.get_xlabel()


def test_a_size_that_files_do_not_tell_is_unknown_and_says_why(store: Store) -> None:
    one = replace(store.levels()[0], raw_bytes=None, unknown={"raw_bytes": "the files do not say"})
    axes: Any = drawn(Records([one], "levels").plot())
    assert "unknown (the files do not say)" in axes.get_xlabel()


def test_no_levels_are_said_to_be_none() -> None:
    nothing: Records[Level] = Records((), "levels")
    assert seen(drawn(nothing.plot())) == "No levels"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_column_family_may_have_any_name(store: Store, name: str) -> None:
    one = store.levels()[0]
    both = Records([one, replace(one, column_family=name)], "levels")
    assert stays_inside(both.plot())
    files = store.ssts()
    several = Records([files[0], replace(files[0], column_family=name)], "SST files")
    assert stays_inside(several.plot())


def test_each_file_is_a_mark_at_its_size(store: Store) -> None:
    axes: Any = store.ssts().plot()
    assert stays_inside(axes)
    files = axes.lines[0]
    assert sorted(files.get_xdata()) == sorted(each.size_bytes for each in store.ssts())
    assert row_names(axes) == [f"L{each.level}" for each in store.levels()]
    assert files.get_marker() != axes.lines[1].get_marker()


def test_many_files_are_thinned_to_the_largest(store: Store) -> None:
    many = ssts_like(store.ssts()[0], 3_000)
    axes: Any = drawn(many.plot())
    assert len(axes.lines[0].get_xdata()) == _MOST_FILES
    assert "the 2,000 largest of 3,000 files" in axes.get_xlabel()
    rows = [replace(each, level=number) for number, each in enumerate(many[:50])]
    levels: Any = drawn(Records(rows, "SST files").plot())
    assert len(row_names(levels)) == 40
    assert "the first 40 of 50 rows are drawn" in levels.get_xlabel()


def test_sizes_of_keys_and_values_are_two_rows(store: Store) -> None:
    stats = store.key_stats(sample=2_000)
    axes: Any = stats.plot()
    assert stays_inside(axes)
    assert row_names(axes) == ["keys", "values"]
    assert texts(axes) == ["8 B", "100 B"]
    assert "keys of 8 B and values of 100 B at the median of a sample of" in (
        seen(axes).replace("\n", " ")
    )
    assert "tombstones: " in axes.get_xlabel()


def test_least_median_mean_nearly_all_and_largest_are_marked() -> None:
    axes: Any = drawn(Sizes(8, 16, 18.5, 40, 64).plot())
    at = {line.get_label(): line.get_xdata().tolist() for line in axes.lines[1:]}
    assert at == {"median": [16], "mean": [18.5], "least and largest": [8, 64]}
    assert lengths(axes) == [40 - 8]
    assert len({line.get_marker() for line in axes.lines}) == len(axes.lines)
    assert legend(axes) == ["median", "mean", "least and largest", "99 of 100"]


def test_sizes_far_apart_get_a_logarithmic_axis_that_says_so() -> None:
    axes: Any = drawn(Sizes(0, 16, 18.5, 4_000, 1 << 20).plot())
    assert axes.get_xscale() == "symlog"
    assert "logarithmic axis" in axes.get_xlabel()
    assert [text.get_text() for text in axes.get_xticklabels()][-1] == "1 MiB"


def test_a_family_without_rows_says_so(store: Store) -> None:
    stats = replace(store.key_stats(sample=10), num_sampled=0, key_sizes=None, value_sizes=None)
    assert seen(drawn(stats.plot())) == "default has no rows"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_column_family_may_have_any_name_of_keys(store: Store, name: str) -> None:
    assert stays_inside(replace(store.key_stats(sample=10), column_family=name).plot())


def test_the_hottest_prefixes_are_on_top_with_their_shares() -> None:
    prefixes = [
        HotPrefix(b"cold", 1, 0.01),
        HotPrefix(b"warm", 60, 0.6),
        HotPrefix(b"\xff\x00", 5, 0.05),
    ]
    axes: Any = Records(prefixes, "prefixes").plot()
    assert stays_inside(axes)
    assert row_names(axes) == ["warm", "0xff00", "cold"]
    assert lengths(axes) == [60, 5, 1]
    assert texts(axes)[2] == "1 %, 1 row"
    assert seen(axes).startswith("The hottest prefix, warm, has 60 %")


def test_many_prefixes_are_thinned() -> None:
    prefixes = [HotPrefix(b"%d" % n, n, n / 10_000) for n in range(1, 100)]
    axes: Any = drawn(Records(prefixes, "prefixes").plot())
    assert len(row_names(axes)) == _MOST_PREFIXES
    assert "the 40 hottest of 99 prefixes are drawn" in axes.get_xlabel()


@pytest.mark.parametrize("name", HOSTILE)
def test_keys_may_hold_anything(name: str) -> None:
    prefixes = [HotPrefix(name.encode(), 1, 1.0)]
    assert len(_key_text(name.encode())) <= 20
    assert stays_inside(Records(prefixes, "prefixes").plot())


def test_the_folder_of_a_store_is_drawn_part_by_part(store: Store) -> None:
    summary = store.summary()
    axes: Any = summary.plot()
    assert stays_inside(axes)
    *files, disk = lengths(axes)
    assert sum(files) == summary.apparent_bytes
    assert files[0] == summary.sst_bytes
    assert disk == summary.disk_bytes
    assert seen(axes).startswith(f"{summary.num_files} SST files")
