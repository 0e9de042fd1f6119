from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.records import Figure, Records, Source
from kstoolkit.rocksdb.advice.advice import Advice, AdviceList
from kstoolkit.rocksdb.advice.rules import RULES
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts
from tests.plots.realstores import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.store import Store


def test_an_option_is_drawn_by_how_many_times_it_is_larger() -> None:
    mine = Profile(name="mine", write_buffer_size=256 << 20, max_open_files=-1, num_levels=4)
    axes: Any = drawn(mine.plot())
    assert row_names(axes) == ["write_buffer_size", "num_levels"]
    assert texts(axes) == ["256.0 MiB, 64.0 MiB", "4, 7"]
    at = {line.get_label(): line.get_xdata() for line in axes.lines}
    assert list(at["larger"]) == [2]
    assert -1 < at["smaller"][0] < 0
    assert seen(axes) == "mine differs from RocksDB's own in 2 options"


def test_words_and_unknown_values_stand_in_the_middle() -> None:
    mine = Profile(
        name="mine",
        compression="lz4",
        block_cache_bytes=None,
        unknown={"block_cache_bytes": "no file holds it"},
    )
    axes: Any = drawn(mine.plot())
    assert texts(axes) == ["unknown, 32.0 MiB", "lz4, snappy"]
    assert legend(axes) == ["other", "unknown"]
    markers = {line.get_label(): line.get_marker() for line in axes.lines}
    assert markers["other"] != markers["unknown"]


def test_what_is_far_apart_is_drawn_at_the_edge_and_said() -> None:
    axes: Any = drawn(
        Profile(name="mine", write_buffer_size=64 << 10, max_background_jobs=2).plot()
    )
    (marks,) = [line for line in axes.lines if line.get_label() == "smaller"]
    assert list(marks.get_xdata()) == [-8]
    assert "beyond 256 times: drawn at the edge" in axes.get_xlabel()


def test_another_profile_may_stand_beside() -> None:
    axes: Any = drawn(profile_named("kafka_streams").plot(beside="spark"))
    assert seen(axes).replace("\n", " ").startswith("kafka_streams differs from spark in ")
    other: Any = drawn(Profile(name="mine").diff(Profile(name="b", num_levels=3)).plot())
    assert seen(other) == "mine differs from b in 1 option"


def test_profiles_that_do_not_differ_say_so() -> None:
    assert seen(drawn(Profile(name="mine").plot())) == "mine does not differ from RocksDB's own"
    assert (
        seen(drawn(Profile().plot(beside=Profile(name="b"))))
        == "This profile does not differ from b"
    )


@pytest.mark.parametrize(("left", "right"), [*combinations(profile_names(), 2)][:6])
def test_named_profiles_fit_their_figures(left: str, right: str) -> None:
    assert stays_inside(profile_named(left).plot(beside=right))


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


ONE = Advice(
    rule="write amplification",
    symptom="each byte is written 20 times",
    evidence=(Figure("write_amplification", 20.0, Source.LOG),),
    option="compaction_style",
    direction="'universal'",
    effect="fewer writes",
    cost="more space",
    link="https://example.org/tuning",
)


@pytest.fixture
def store() -> Iterator[Store]:
    yield from opened()


def test_each_rule_is_a_row_with_its_verdict(store: Store) -> None:
    advice = store.advice()
    axes: Any = advice.plot()
    assert stays_inside(axes)
    marked = {line.get_label(): len(line.get_ydata()) for line in axes.lines}
    assert marked.get("set something otherwise", 0) == len(advice)
    assert marked["unknown"] == len(advice.unjudged)
    assert len(row_names(axes)) == len(RULES) - len({each.rule for each in advice}) + len(advice)
    assert sum(marked.values()) == len(row_names(axes))


def test_verdicts_differ_by_marker_colour_and_text() -> None:
    advice = AdviceList([ONE], {"tombstone density": "there are no SST files"})
    axes: Any = drawn(advice.plot())
    assert legend(axes) == ["set something otherwise", "nothing to advise", "unknown"]
    assert len({line.get_marker() for line in axes.lines}) == 3
    assert len({line.get_color() for line in axes.lines}) == 3
    assert texts(axes)[0] == "compaction_style: 'universal'"
    assert texts(axes)[-1] == "unknown (there are no SST files)"
    assert seen(axes).startswith("1 piece of advice; 27 rules find nothing")


def test_some_pieces_of_advice_alone_say_nothing_of_other_rules() -> None:
    axes: Any = drawn(AdviceList([ONE, ONE], {"tombstone density": "none"})[:1].plot())
    assert row_names(axes) == ["write amplification"]
    assert seen(axes) == "1 piece of advice"


def test_the_column_family_is_named() -> None:
    axes: Any = drawn(Records([replace(ONE, column_family="offsets")], "pieces of advice").plot())
    assert row_names(axes) == ["write amplification (offsets)"]


def test_much_advice_is_thinned() -> None:
    axes: Any = drawn(AdviceList([ONE] * 60, {}).plot())
    assert len(row_names(axes)) == 40
    assert axes.get_xlabel() == "the first 40 of 88 rows"


@pytest.mark.parametrize("text", HOSTILE)
def test_advice_may_hold_anything(text: str) -> None:
    odd = replace(ONE, column_family=text, direction=text)
    assert stays_inside(AdviceList([odd], {"tombstone density": text}).plot())
