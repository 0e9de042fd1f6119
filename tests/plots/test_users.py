from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.users import MOST_USERS, plot_users
from kstoolkit.records import Records
from kstoolkit.replica.records import UserCounts
from tests.plots.made import (
    HOSTILE,
    TEN,
    drawn,
    legend,
    made_run,
    row_names,
    seen,
    stays_inside,
    texts,
)

if TYPE_CHECKING:
    from pathlib import Path

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


def test_parts_differ_by_hatch_and_colour() -> None:
    axes: Any = plot_users(ranked("Anna"))
    assert len({bar.get_hatch() for bar in axes.patches}) == 3
    assert len({bar.get_facecolor() for bar in axes.patches}) == 3


def test_the_rest_of_many_users_is_announced() -> None:
    axes = plot_users(ranked(*(f"user {n}" for n in range(3_000))))
    assert len(row_names(axes)) == MOST_USERS
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
    assert bars.tolist() == [1, 2, 3]
    assert seen(axes) == "Anna: 6 events in 3 windows, 3 in the busiest"


def test_a_run_is_no_frame_of_its_users_and_the_error_names_what_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="This Run is no frame of users") as raised:
        plot_users(made_run(tmp_path / "out"))  # type: ignore[arg-type]
    assert raised.value.hint == "Give what run.users() returns."
