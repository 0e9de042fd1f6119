"""Incidents over time, the windows of one of them, and where they lie in a user's story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.findings.incidents import Incidents, incidents_of
from kstoolkit.plots.palette import FLAGGED
from kstoolkit.plots.users import _MOST_STRIPS
from tests.findings.made import CEILING, HOUR, START, UNKNOWN, finding, findings
from tests.plots.made import HOSTILE, found, legend, made_run, seen, stays_inside, texts
from tests.plots.test_users import heights

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.findings.finding import Finding

DAY = 86_400_000


def made(*some: Finding, reached_ms: int = START + DAY) -> Incidents:
    return incidents_of([findings(*some).table], reached_ms=reached_ms)


def tops(axes: Any) -> list[str]:
    """Return the highest value of each strip, from the top to the bottom."""
    return [each.get_text() for each in axes.get_yticklabels()][::-1][::2]


def test_an_incident_has_a_strip_for_each_action_and_window_before_what_was_expected() -> None:
    later = finding(window_start_ms=START + HOUR, count=20, expected_high=200)
    over = finding(action="Talk", count=130, **UNKNOWN | CEILING)
    (incident,) = made(finding(), later, over)
    axes: Any = incident.plot()
    assert seen(axes) == "ClueBot NG: 3 findings in 2 windows, sure"
    assert {"Main\n1 hour", "Talk\n1 hour"} <= set(texts(axes))
    assert sorted(tops(axes)) == ["130", "200"], "what was expected has room, too"
    assert set(legend(axes)) == {"expected at most", "ceiling", "flagged"}
    assert sorted(heights(axes, FLAGGED)) == pytest.approx([0.7 * 61 / 200, 0.7])
    assert axes.get_xlim() == pytest.approx((START / DAY, (START + 2 * HOUR) / DAY))


def test_under_a_ceiling_that_was_lowered_nothing_is_found() -> None:
    later = finding(window_start_ms=START + HOUR, count=40, **UNKNOWN | CEILING | {"ceiling": 30})
    (incident,) = made(finding(count=130, **UNKNOWN | CEILING), later)
    axes: Any = incident.plot()
    (line,) = [each for each in axes.lines if each.get_label() == "ceiling"]
    assert line.get_ydata()[0] == pytest.approx(0.7 * 30 / 130)


def test_a_bar_lies_inside_its_window_and_neighbours_do_not_touch() -> None:
    hours = [finding(window_start_ms=START + n * HOUR) for n in range(3)]
    axes: Any = made(*hours)[0].plot()
    expected, bars = (each.get_data() for each in axes.patches)
    assert expected.edges == pytest.approx([(START + n * HOUR) / DAY for n in (0, 1, 1, 2, 2, 3)])
    assert bars.values.tolist()[1::2] == [float(bars.baseline)] * 2
    first, last = (each.edges.reshape(-1, 2) for each in (expected, bars))
    assert (first[:, 0] < last[:, 0]).all()
    assert (last[:, 1] < first[:, 1]).all()


def test_of_many_strips_the_foremost_are_drawn_and_the_figure_says_so() -> None:
    many = [finding(action=f"{n}", log10_probability=-9.0 - n) for n in range(_MOST_STRIPS + 3)]
    axes: Any = made(*many)[0].plot()
    assert "the foremost 8 of 11 findings are drawn" in axes.get_xlabel()
    assert "10\n1 hour" in texts(axes)
    assert "0\n1 hour" not in texts(axes)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_in_an_incident_stay_inside(name: str) -> None:
    assert stays_inside(made(finding(user=name, action=name))[0].plot())


def test_open_incidents_are_thick_and_said_to_be_so_only_if_there_are_some() -> None:
    some = [finding(), finding(user="Bo", window_start_ms=START + 20 * HOUR)]
    axes: Any = made(*some).plot()
    assert "thick" not in axes.get_xlabel()
    axes = made(*some, reached_ms=START + 21 * HOUR).plot()
    assert "thick: open" in axes.get_xlabel()
    (lines,) = axes.collections
    assert list(lines.get_linewidths()) == [2.5, 6.0], "the legend has the first one's width"


def test_a_story_names_its_user_and_the_shade_of_its_incidents(tmp_path: Path) -> None:
    told = [found(), found(window_start_ms=START + 9 * HOUR)]
    axes: Any = made_run(tmp_path / "out", findings=told).story("Anna").plot()
    assert seen(axes) == "Anna: 89 events, 2 incidents"
    assert legend(axes).count("incident") == 1
