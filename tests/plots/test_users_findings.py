from __future__ import annotations

from typing import Any

import pytest

from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
from kstoolkit.plots.users import _MOST_POINTS, _MOST_USERS
from tests.findings.made import CEILING, HOUR, START, finding, findings
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts


def points(axes: Any) -> list[Any]:
    return [each for each in axes.collections if hasattr(each, "get_sizes")]


def test_the_title_counts_findings_and_users() -> None:
    axes = findings(finding(), finding(user="Bo", log10_probability=-9.9)).plot()
    assert seen(axes) == "2 findings about 2 users; first to look at: Bo"
    assert row_names(axes) == ["Bo", "ClueBot NG"]


def test_each_kind_of_rule_has_a_marker_and_a_colour_of_its_own() -> None:
    axes = findings(finding(), finding(**CEILING)).plot()
    ceiling, unusual = points(axes)
    assert ceiling.get_paths()[0].vertices.shape != unusual.get_paths()[0].vertices.shape
    assert ceiling.get_edgecolor().tolist() != unusual.get_edgecolor().tolist()
    assert legend(axes) == ["Ceiling (1)", "Unusual (1)"]


def test_the_more_severe_the_larger_and_each_stands_in_the_middle_of_its_window() -> None:
    rows = [finding(log10_probability=-float(n), window_start_ms=START + n * HOUR) for n in (2, 9)]
    axes = findings(*rows).plot()
    (shown,) = points(axes)
    assert shown.get_sizes()[0] > shown.get_sizes()[1]  # the most severe comes first
    middles = [(START + n * HOUR + HOUR / 2) / 86_400_000 for n in (9, 2)]
    assert shown.get_offsets()[:, 0].tolist() == pytest.approx(middles)


def test_no_findings_are_said_to_be_none() -> None:
    axes = drawn(Findings(FINDINGS_SCHEMA.empty_table()).plot())
    assert (seen(axes), texts(axes)) == ("No findings", ["no findings"])


def test_of_many_users_the_rest_share_a_row() -> None:
    many = [finding(user=f"user {n}", log10_probability=-float(n)) for n in range(50)]
    names = row_names(findings(*many).plot())
    assert len(names) == _MOST_USERS
    assert (names[0], names[-1]) == ("user 49", "31 other users")


def test_users_of_findings_that_are_not_drawn_are_not_counted_with_those_that_are() -> None:
    many = [finding(user=f"user {n}") for n in range(_MOST_POINTS + 500)]
    assert row_names(findings(*many).plot())[-1] == "1,981 other users drawn"


def test_of_many_findings_the_most_severe_are_drawn_and_the_figure_says_so() -> None:
    many = [finding(window_start_ms=START + n * HOUR) for n in range(_MOST_POINTS + 500)]
    axes: Any = findings(*many).plot()
    (shown,) = points(axes)
    assert len(shown.get_offsets()) == _MOST_POINTS
    assert "the most severe 2,000 of 2,500 findings are drawn" in axes.get_xlabel()
    assert stays_inside(axes)


def test_hostile_names_are_text_and_stay_inside() -> None:
    axes = findings(*(finding(user=name, kind=name) for name in HOSTILE[:4])).plot()
    assert stays_inside(axes)
    assert r"$\frac{" in row_names(axes)
    assert stays_inside(findings(*(finding(user=name) for name in HOSTILE)).plot())
    assert stays_inside(findings(*(finding(kind=name) for name in HOSTILE)).plot())
