from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.records import Figure, Records, Source
from kstoolkit.rocksdb.advice.advice import Advice, AdviceList
from kstoolkit.rocksdb.advice.advising import RULES
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts
from tests.plots.realstores import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.store import Store

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
    assert seen(axes).startswith("1 piece of advice; 14 rules find nothing")


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
    assert axes.get_xlabel() == "the first 40 of 75 rows"


@pytest.mark.parametrize("text", HOSTILE)
def test_advice_may_hold_anything(text: str) -> None:
    odd = replace(ONE, column_family=text, direction=text)
    assert stays_inside(AdviceList([odd], {"tombstone density": text}).plot())
