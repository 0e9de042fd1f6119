from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.marks import _MOST_BARS, MOST_MARKERS
from kstoolkit.plots.palette import COUNTED, FLAGGED
from kstoolkit.plots.users import _MOST_USERS, plot_users
from kstoolkit.records import Records
from kstoolkit.replica.records import UserCounts
from tests.changelog.changelogs import MINUTE
from tests.findings.made import CEILING, UNKNOWN, finding
from tests.plots.made import (
    COUNTS,
    HOSTILE,
    MORNING,
    OVER,
    TEN,
    drawn,
    found,
    legend,
    made_run,
    row_names,
    seen,
    stays_inside,
    texts,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run


HOUR = 3_600_000


def ranked(*users: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "user": users,
            "score": [9.0 - n / 10 for n in range(len(users))],
            "events": 100,
            "busiest_share": 0.01,
            "mix_share": 0.1,
        }
    )


def test_a_runs_users_are_drawn_by_score_each_in_its_parts(tmp_path: Path) -> None:
    frame = made_run(tmp_path / "out").users()
    axes: Any = plot_users(frame)
    assert row_names(axes) == frame["user"].tolist()
    assert legend(axes)[0] == "volume"
    ends = [max(b.get_x() + b.get_width() for b in axes.patches if round(b.get_y() + 0.36) == n)
            for n in range(len(frame))]  # fmt: skip
    assert ends == pytest.approx(frame["score"].tolist())


def test_parts_differ_by_colour() -> None:
    axes: Any = plot_users(ranked("Anna"))
    assert len({bar.get_facecolor() for bar in axes.patches}) == 3


def test_the_rest_of_many_users_is_announced() -> None:
    axes = plot_users(ranked(*(f"user {n}" for n in range(3_000))))
    assert len(row_names(axes)) == _MOST_USERS
    assert "2,980 users with lower scores are left out" in axes.get_xlabel()
    assert seen(axes) == "Highest of 3,000 scores: user 0, 9.0"
    assert stays_inside(axes)


def test_no_users_are_said_to_be_none() -> None:
    axes = drawn(plot_users(ranked()))
    assert (seen(axes), texts(axes)) == ("No users", ["no users"])


def test_another_frame_or_too_many_users_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no column 'score'"):
        plot_users(pd.DataFrame({"user": ["Anna"]}))
    with pytest.raises(ConfigurationError, match="top is 0"):
        plot_users(ranked("Anna"), top=0)


def test_hostile_names_are_text_and_stay_inside() -> None:
    axes = plot_users(ranked(*HOSTILE))
    assert stays_inside(axes)
    assert r"$\frac{" in row_names(axes)


def counts(user: str, told: dict[str, int], start_ms: int = TEN) -> UserCounts:
    return UserCounts(user, start_ms, start_ms + HOUR, told, start_ms)


def test_a_users_counts_in_a_window_are_drawn_by_action() -> None:
    axes: Any = counts("Anna", {"read": 3, "write": 9}).plot()
    assert row_names(axes) == ["write", "read"]
    assert [bar.get_width() for bar in axes.patches] == [9, 3]
    assert seen(axes) == "Anna: 12 in 1 hour from 2015-09-12 10:00 UTC"
    assert seen(drawn(counts("Anna", {}).plot())).startswith("Anna: nothing in 1 hour")


def test_of_many_actions_the_rest_is_summed_up() -> None:
    axes = counts("Anna", {f"action {n}": 10 for n in range(50)}).plot()
    assert row_names(axes)[-1] == "30 others together"
    assert "300: too long a bar to be drawn" in texts(axes)


def test_several_users_are_ranked_and_one_users_windows_are_a_series() -> None:
    both = Records([counts("Anna", {"read": 3}), counts("Bo", {"read": 9})], "users' counts")
    assert row_names(both.plot()) == ["Bo", "Anna"]
    over_time = Records(
        [counts("Anna", {"read": n}, TEN + n * HOUR) for n in range(1, 4)], "windows"
    )
    axes: Any = over_time.plot()
    bars, *_ = axes.patches[0].get_data()
    assert (bars / bars.max()).tolist() == pytest.approx([1 / 3, 2 / 3, 1])
    assert seen(axes) == "Anna: 6 events in 3 windows, 3 in the busiest"


def test_a_run_is_no_frame_of_its_users_and_the_error_names_what_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="This Run is no frame of users") as raised:
        plot_users(made_run(tmp_path / "out"))  # type: ignore[arg-type]
    assert raised.value.hint == "Give what run.users() returns."


# ruff: noqa: RUF001 - a range of numbers is written with an en dash


@pytest.fixture
def run(tmp_path: Path) -> Run:
    minute = found(**OVER, window_start_ms=TEN + 9 * MINUTE, count=10)
    return made_run(tmp_path / "out", findings=[found(), minute])


def heights(axes: Any, color: str) -> list[float]:
    """Return the highest step of each stairs of a colour, above its strip's base."""
    return [
        round(float(max(each.get_data().values)) - float(each.get_data().baseline), 6)
        for each in axes.patches
        if hasattr(each, "get_data") and to_rgb(each.get_facecolor()[:3]) == to_rgb(color)
    ]


def test_a_story_has_a_strip_for_each_level_of_the_cascade(run: Run) -> None:
    axes: Any = run.story(run.findings[0]).plot()
    assert [each for each in texts(axes) if each.startswith("1 ")] == [
        "1 day",
        "1 hour",
        "1 minute",
    ]
    assert [each.get_text() for each in axes.get_yticklabels()] == ["0", "85", "0", "55", "0", "10"]
    assert axes.get_xlabel() == "start of window, UTC"


def test_its_title_says_whose_counts_they_are_and_what_is_flagged(run: Run) -> None:
    assert seen(run.story(run.findings[0]).plot()) == (
        "Anna, “read”: 2 windows flagged (1 minute 1, 1 hour 1)"
    )
    assert seen(run.history("Bo").plot()) == "Bo, all actions: no windows flagged"


def test_flagged_windows_differ_by_marker_and_by_colour(run: Run) -> None:
    axes: Any = run.story(run.findings[0]).plot()
    marks = [line for line in axes.lines if line.get_marker() == "v"]
    assert [line.get_color() for line in marks] == [FLAGGED, FLAGGED]
    middle = (TEN + 30 * MINUTE) / 86_400_000
    assert marks[0].get_xdata()[0] == pytest.approx(middle)
    assert heights(axes, FLAGGED) == [0.7, 0.7]
    assert heights(axes, COUNTED) == [0.7, round(0.7 * 3 / 55, 6), 0.63]


def test_expected_ranges_and_ceilings_are_drawn_and_said_in_their_own_strip(run: Run) -> None:
    axes: Any = run.story(run.findings[0]).plot()
    assert {"expected 2–14", "ceiling 8"} <= set(texts(axes))
    assert legend(axes) == ["count", "expected range", "flagged", "ceiling"]


def test_the_range_of_one_action_is_not_held_against_the_sum_of_several(run: Run) -> None:
    history = run.history("Anna")
    hours = history.levels[1]
    assert (hours.expected_high, hours.counts.max()) == (None, 59)
    assert hours.flagged_ms.tolist() == [TEN]
    assert run.history("Anna", action="read").levels[1].expected_high == 14


def test_a_user_without_counts_is_said_to_have_none(run: Run) -> None:
    axes = drawn(run.history("Nobody", action="read").plot())
    assert seen(axes) == "No counts of Nobody, “read”"
    assert texts(axes) == ["no counts"]


def test_many_windows_and_findings_are_thinned_and_the_figure_says_so(tmp_path: Path) -> None:
    minutes = {(MORNING + n * MINUTE, "Anna", "read"): n % 7 + 1 for n in range(2_000)}
    flagged = [found(**OVER, window_start_ms=MORNING + n * MINUTE) for n in range(80)]
    run = made_run(tmp_path / "out", counts=COUNTS | {MINUTE: minutes}, findings=flagged)
    axes: Any = run.history("Anna", action="read").plot()
    steps = [each.get_data().values.size for each in axes.patches if hasattr(each, "get_data")]
    assert max(steps) <= _MOST_BARS
    assert (
        "1 minute: 2,000 windows drawn as 500 bars: each is the highest of 4" in axes.get_xlabel()
    )
    said = f"1 minute: markers at the highest {MOST_MARKERS} of 80 flagged windows"
    assert said in axes.get_xlabel()
    assert stays_inside(axes)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_in_a_history_are_text_and_stay_inside(tmp_path: Path, name: str) -> None:
    counts = {length: {(MORNING, name, name): 5} for length in COUNTS}
    run = made_run(tmp_path / "out", counts=counts)
    assert stays_inside(run.history(name, action=name).plot())
    assert stays_inside(finding(user=name, action=name).plot())


def test_it_is_drawn_on_paper(run: Run) -> None:
    axes = drawn(run.history("Anna").plot())
    assert np.asarray(axes.figure.canvas.buffer_rgba())[0, 0].tolist() == [255] * 4


def test_a_finding_alone_shows_its_window_and_those_of_other_levels() -> None:
    axes: Any = finding(other_levels={"1 minute": 7, "1 day": 300}).plot()
    assert seen(axes) == "ClueBot NG, “Main”: 61 in 1 hour, expected 2–14"
    assert [each.get_text() for each in axes.get_yticklabels()] == ["0", "300", "0", "61", "0", "7"]
    assert {"this window", "busiest window inside", "window around it"} <= set(legend(axes))
    assert "of 1 minute: the busiest window inside" in axes.get_xlabel()
    assert heights(axes, FLAGGED) == [0.7]
    assert stays_inside(axes)


def test_what_is_expected_does_not_lie_on_the_neighbour(run: Run) -> None:
    left, _ = Figure(figsize=(9, 4)).subplots(1, 2)
    axes: Any = drawn(run.story(run.findings[0]).plot(ax=left))
    said = [each for each in axes.texts if each.get_text().startswith("expected ")]
    assert said
    assert all(each.get_window_extent().x1 <= axes.bbox.x1 for each in said)


def test_a_finding_without_a_range_says_why() -> None:
    axes = finding(**UNKNOWN | CEILING).plot()
    assert seen(axes).endswith("expected unknown (no baseline), ceiling 100")
    assert "expected range" not in legend(axes)
    assert "ceiling" in legend(axes)
