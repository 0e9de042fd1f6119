"""A run's users in a span of time, without some, and by kind: no Spark is needed to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.rules import Exempt
from tests.changelog.changelogs import HOUR, MINUTE
from tests.cli.commands import given, rows
from tests.plots.made import DAY, MORNING, found, made_run

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run
    from tests.changelog.changelogs import Rows

NOON = MORNING + 12 * HOUR
USERS = ("Anna", "Bo", "svc-1", "svc-2")
EVENTS = [
    *((MORNING + number * HOUR, user) for number in range(24) for user in USERS),
    *((NOON + 2 * MINUTE, "Anna") for _ in range(9)),
    *((NOON + number * MINUTE, "svc-1") for number in range(50)),
    *((MORNING + DAY + number, "Bo") for number in range(40)),
]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    counts: dict[int, Rows] = {size: {} for size in (MINUTE, HOUR, DAY)}
    for time, user in EVENTS:
        for size, level in counts.items():
            key = (time - time % size, user, "read")
            level[key] = level.get(key, 0) + 1
    return made_run(
        tmp_path / "out",
        counts=counts,
        findings=[found(window_start_ms=NOON), found(user="Bo", window_start_ms=MORNING + DAY)],
    )


def events_of(run: Run, **asked: Any) -> dict[str, tuple[int, int]]:
    ranked = run.users(**asked)
    figures = zip(ranked["events"], ranked["busiest"], strict=True)
    return dict(zip(ranked["user"], figures, strict=True))


def told(since: int, until: int, users: tuple[str, ...] = USERS) -> dict[str, tuple[int, int]]:
    inside = [(time, user) for time, user in EVENTS if since <= time < until]
    minutes = [(time - time % MINUTE, user) for time, user in inside]
    return {
        each: (
            sum(user == each for _, user in inside),
            max(minutes.count(key) for key in minutes if key[1] == each),
        )
        for each in {user for _, user in inside if user in users}
    }


@pytest.mark.parametrize(
    ("since", "until", "levels"),
    [
        (None, None, [DAY, MINUTE]),
        (MORNING, MORNING + DAY, [DAY, MINUTE]),
        (NOON, None, [HOUR, MINUTE]),
        (MORNING + DAY, None, [DAY, MINUTE]),
        (None, NOON + MINUTE, [MINUTE]),
        (NOON + 2 * MINUTE, NOON + 3 * MINUTE, [MINUTE]),
    ],
)
def test_a_span_is_ranked_by_the_fewest_counts_that_tell_it(
    run: Run,
    since: int | None,
    until: int | None,
    levels: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, latest = [], Changelog._latest

    def noted(changelog: Changelog, window_ms: int, *of: Any) -> Any:
        read.append(window_ms)
        return latest(changelog, window_ms, *of)

    monkeypatch.setattr(Changelog, "_latest", noted)
    asked = events_of(run, since=since, until=until)
    assert asked == told(since or 0, until or MORNING + 9 * DAY)
    assert read == levels


def test_findings_count_within_the_span_alone(run: Run) -> None:
    chances = run.users().set_index("user")["log10_probability"]
    assert chances[["Anna", "Bo"]].tolist() == [-8.5, -8.5]
    early = run.users(until="2015-09-13").set_index("user")["log10_probability"]
    assert early["Anna"] == -8.5
    assert early[["Bo", "svc-1"]].isna().all()
    assert run.users(since="2015-09-14").empty


def test_incidents_are_counted_within_the_span_alone(run: Run) -> None:
    whole = run.users().set_index("user")
    assert whole["incidents"].to_dict() == {"Anna": 1, "Bo": 1, "svc-1": 0, "svc-2": 0}
    assert "1 open incident (a finding of chance 3 in 10⁹)" in whole["reason"]["Bo"]
    early = run.users(until="2015-09-13").set_index("user")["incidents"]
    assert early.to_dict() == {"Anna": 1, "Bo": 0, "svc-1": 0, "svc-2": 0}


def test_exempted_users_are_neither_shown_nor_compared_with(run: Run) -> None:
    without = run.users(exempt=["Bo", Exempt(pattern="svc-.*")])
    assert without["user"].tolist() == ["Anna"]
    assert without["alike_users"].tolist() == [1]
    assert events_of(run, exempt=["Anna"]).keys() == {"Bo", "svc-1", "svc-2"}


def test_kinds_are_compared_within_themselves(run: Run) -> None:
    together = run.users().set_index("user")["alike_users"]
    apart = run.users(group="^svc-").set_index("user")["alike_users"]
    assert set(together) == {4}
    assert apart.to_dict() == dict.fromkeys(USERS, 2)


@pytest.mark.parametrize("group", [None, "^svc-"])
def test_some_users_are_told_as_among_all(run: Run, group: str | None) -> None:
    whole = run.users(group=group)
    assert whole.index.tolist() == [0, 1, 2, 3]
    for most, also, places in (
        (1, [], [0]),
        (2, [whole["user"][3], "nobody"], [0, 1, 3]),
        (0, [whole["user"][2]], [2]),
        (9, [whole["user"][0]], [0, 1, 2, 3]),
    ):
        some = run.users(group=group, most=most, also=also)
        pd.testing.assert_frame_equal(some, whole.loc[places], check_index_type=False)
        assert some.attrs["users"] == len(whole)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"since": "noon"}, "'noon' is not a time"),
        ({"since": "2015-09-13", "until": "2015-09-12"}, "since='2015-09-13' is not before until="),
        ({"group": "("}, "group = '\\(' is no regular expression"),
    ],
)
def test_what_makes_no_sense_is_said_so(run: Run, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run.users(**asked)
    flags = [each for name, value in asked.items() for each in (f"--{name}", value)]
    answer = given("users", run.folder.path, *flags)
    assert answer.code == 2
    assert message.split("=", maxsplit=1)[0].strip() in answer.err


def test_the_command_asks_the_same(run: Run) -> None:
    span = ("--since", "2015-09-12T12:00Z", "--until", NOON + HOUR)
    flags = (*span, "--exempt", "Bo", "--exempt", "svc-2", "--group", "^svc-", "--json")
    answer = rows(given("users", run.folder.path, *flags).out)
    told_ = run.users(since=NOON, until=NOON + HOUR, exempt=["Bo", "svc-2"], group="^svc-")
    assert [(row["user"], row["score"]) for row in answer] == [
        tuple(row) for row in told_[["user", "score"]].to_numpy().tolist()
    ]
    assert {row["user"]: row["events"] for row in answer} == {"Anna": 10, "svc-1": 51}
