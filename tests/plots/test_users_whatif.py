"""The timeline of what other rules gain, lose and keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.findings.incidents import Incidents, incidents_of
from kstoolkit.pipeline.whatif import WhatIf
from kstoolkit.plots.users import _MOST_POINTS, _MOST_USERS
from tests.findings.made import CEILING, HOUR, START, finding, findings
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.findings.finding import Finding

DAY = 86_400_000


def told(before: Sequence[Finding], after: Sequence[Finding]) -> WhatIf:
    """Compare what some findings tell with what others do."""
    was, now = (made(some) for some in (before, after))
    is_kept = now.touching(was)
    return WhatIf(
        since_ms=START,
        until_ms=START + DAY,
        before=was,
        after=now,
        gained=now.where(~is_kept),
        lost=was.where(~was.touching(now)),
        kept=now.where(is_kept),
        figures={},
    )


def made(some: Sequence[Finding]) -> Incidents:
    return incidents_of([findings(*some).table], reached_ms=START)


def points(axes: Any) -> list[Any]:
    return [each for each in axes.collections if hasattr(each, "get_sizes")]


def test_each_change_has_a_marker_and_each_user_a_row() -> None:
    before = [finding(user="Anna"), finding(user="Bo"), finding(user="Bo", action="Talk")]
    axes = told(before, [finding(user="Anna", **CEILING), finding(user="Cy")]).plot()
    assert seen(axes) == "2 incidents instead of 2: 1 gained, 1 lost"
    assert legend(axes) == ["gained (1)", "kept (1)", "lost (1)"]
    assert sorted(row_names(axes)) == ["Anna", "Bo", "Cy"]
    assert len({each.get_paths()[0].vertices.tobytes() for each in points(axes)}) == 3


def test_a_line_is_as_long_as_the_incident() -> None:
    hours = [finding(window_start_ms=START + n * HOUR) for n in (0, 3, 5)]
    axes = told([], hours).plot()
    (line,) = [each for each in axes.collections if not hasattr(each, "get_sizes")]
    path: Any = line.get_paths()[0]
    ends = [START / DAY, (START + 6 * HOUR) / DAY]
    assert path.vertices[:, 0].tolist() == pytest.approx(ends)
    assert points(axes)[0].get_offsets()[0, 0] == pytest.approx(sum(ends) / 2)


def test_no_incidents_are_said_to_be_none() -> None:
    axes = drawn(told([], []).plot())
    assert seen(axes) == "0 incidents instead of 0: 0 gained, 0 lost"
    assert texts(axes) == ["no findings"]


def test_of_many_the_first_to_look_at_are_drawn_and_users_share_a_row() -> None:
    many = [finding(user=f"user {n}", log10_probability=-1.0 - n) for n in range(_MOST_POINTS + 9)]
    axes = told(many, []).plot()
    names = row_names(axes)
    assert len(names) == _MOST_USERS
    assert names[0] == f"user {len(many) - 1}"
    assert names[-1] == "1,981 other users drawn"
    assert "2,000 of 2,009 incidents are drawn" in axes.get_xlabel()


@pytest.mark.parametrize("name", HOSTILE)
def test_names_do_no_harm(name: str) -> None:
    assert stays_inside(told([finding(user="Bo")], [finding(user=name, action=name)]).plot())
