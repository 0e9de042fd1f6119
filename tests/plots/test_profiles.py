from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from kstoolkit.records import Records
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts


def test_an_option_is_drawn_by_how_many_times_it_is_larger() -> None:
    mine = Profile(name="mine", write_buffer_size=256 << 20, max_open_files=-1, num_levels=4)
    axes: Any = drawn(mine.plot())
    assert row_names(axes) == ["write_buffer_size", "num_levels"]
    assert texts(axes) == ["256.0 MiB, 64.0 MiB", "4, 7"]
    larger, smaller = (bar.get_width() for bar in axes.patches)
    assert larger == 2
    assert -1 < smaller < 0
    assert seen(axes) == "mine differs from RocksDB's own in 2 options"


def test_words_and_unknown_values_have_no_bar() -> None:
    mine = Profile(
        name="mine",
        compression="lz4",
        block_cache_bytes=None,
        unknown={"block_cache_bytes": "no file holds it"},
    )
    axes: Any = drawn(mine.plot())
    assert texts(axes) == ["unknown, 32.0 MiB", "lz4, snappy"]
    assert [bar.get_width() for bar in axes.patches] == [0, 0]
    assert not legend(axes)


def test_what_is_far_apart_is_drawn_at_the_edge_and_said() -> None:
    axes: Any = drawn(
        Profile(name="mine", write_buffer_size=64 << 10, max_background_jobs=2).plot()
    )
    assert [bar.get_width() for bar in axes.patches] == [-8]
    assert "beyond 256 times: drawn at the edge" in axes.get_xlabel()


def test_another_profile_may_stand_beside() -> None:
    axes: Any = drawn(profile_named("kafka_streams").diff("spark").plot())
    assert seen(axes).replace("\n", " ").startswith("kafka_streams differs from spark in ")
    other: Any = drawn(Profile(name="mine").diff(Profile(name="b", num_levels=3)).plot())
    assert seen(other) == "mine differs from b in 1 option"


def test_profiles_that_do_not_differ_say_so() -> None:
    assert seen(drawn(Profile(name="mine").plot())) == "mine does not differ from RocksDB's own"
    same = Profile().diff(Profile(name="b"))
    assert seen(drawn(same.plot())) == "No options that differ"


@pytest.mark.parametrize(("left", "right"), [*combinations(profile_names(), 2)][:6])
def test_named_profiles_fit_their_figures(left: str, right: str) -> None:
    assert stays_inside(profile_named(left).diff(right).plot())


def test_many_options_are_thinned() -> None:
    one = Profile(name="a").diff(Profile(name="b", num_levels=3))[0]
    many = Records([replace(one, option=f"option {n}") for n in range(70)], "options that differ")
    axes: Any = drawn(many.plot())
    assert len(row_names(axes)) == 40
    assert "the first 40 of 70 options are drawn" in axes.get_xlabel()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_profile_may_have_any_name(name: str) -> None:
    axes: Any = drawn(Profile(name=name, num_levels=3).plot())
    assert len(seen(axes)) < 200
    assert stays_inside(axes)


def test_a_profile_is_a_table_of_all_its_options() -> None:
    mine = Profile(num_levels=3, block_cache_bytes=None, unknown={"block_cache_bytes": "no file"})
    table = mine.to_pandas().set_index("option")
    assert list(table.index) == list(mine.options())
    assert table.loc["num_levels", "value"] == 3
    assert table.loc["num_levels", "rocksdb"] == 7
    assert table.loc["block_cache_bytes", "why_unknown"] == "no file"
