from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.plots.keys import MOST_PREFIXES, key_text
from kstoolkit.records import Records
from kstoolkit.rocksdb.files.keystats import HotPrefix, Sizes
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts
from tests.plots.realstores import lengths, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    yield from opened()


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
def test_a_column_family_may_have_any_name(store: Store, name: str) -> None:
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
    assert len(row_names(axes)) == MOST_PREFIXES
    assert "the 40 hottest of 99 prefixes are drawn" in axes.get_xlabel()


@pytest.mark.parametrize("name", HOSTILE)
def test_keys_may_hold_anything(name: str) -> None:
    prefixes = [HotPrefix(name.encode(), 1, 1.0)]
    assert len(key_text(name.encode())) <= 20
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
