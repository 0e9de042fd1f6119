from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.rules import (
    DEFAULT_RULES,
    Ceiling,
    Exempt,
    Longer,
    Unusual,
    as_rules,
    check_windows,
    exempted,
    rules_on,
)
from kstoolkit.windows import Hop, Session, as_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.findings.rules import Rule


RULES = (
    Ceiling("1 minute", 100),
    Ceiling(Hop("5 minutes", every="1 minute"), 300, actions=["login", "ログイン"]),
    Unusual("1 hour", false_alarms_per_day=0.5, min_count=10),
    Longer(Session("30 minutes", longest="12 hours", by=[]), "90 minutes"),
    Exempt(["Anna", "Bob"]),
    Exempt(pattern="bot-[0-9]+"),
)


def test_rules_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(RULES)) == RULES  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Ceiling("1 hour", -1), "count = -1"),
        (lambda: Ceiling("1 hour", 1.5), "count = 1.5"),  # type: ignore[arg-type]
        (lambda: Ceiling("1 hour", 5, actions=[]), "actions = "),
        (lambda: Ceiling("1 hour", 5, actions="login"), "actions = 'login' is one text"),
        (lambda: Ceiling("soon", 5), "'soon' is not a duration"),
        (lambda: Unusual("1 hour", false_alarms_per_day=0), "false_alarms_per_day = 0"),
        (
            lambda: Unusual("1 hour", false_alarms_per_day=float("nan")),
            "false_alarms_per_day = nan",
        ),
        (lambda: Unusual("1 hour", min_count=0), "min_count = 0"),
        (lambda: Longer("1 hour", "6 hours"), "Windows of 1 hour all last"),
        (lambda: Longer("session 30 minutes", "1 day"), "No session 30 minutes is longer than 1 d"),
        (
            lambda: Ceiling(Session("5 minutes"), 9, by=[]),
            "a session 5 minutes of its own: there are no sums by= of them.",
        ),
        (Exempt, "either users or a pattern"),
        (lambda: Exempt(["a"], pattern="b"), "either users or a pattern"),
        (lambda: Exempt([1]), "users = "),  # type: ignore[list-item]
        (lambda: Exempt(pattern="(?=a)"), "is no regular expression"),
        (lambda: Exempt(pattern="["), "missing ]: [."),
        (lambda: Unusual("1 hour", group="svc-("), "missing ): svc-(."),
        (lambda: as_rules(["Unusual"]), "'Unusual' is no rule"),
        (lambda: as_rules("rules.toml"), "'rules.toml' is no rule"),
        (lambda: Exempt(pattern="a)(b"), "is no regular expression"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert told in str(caught.value)
    assert caught.value.hint


def test_names_tell_rules_apart() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert Ceiling("1 minute", 100).name == "Ceiling 100 per 1 minute"


def test_the_floor_is_the_smallest_count_that_any_rule_could_find() -> None:
    rules: list[Rule] = [*RULES, Ceiling("1 hour", 3)]
    assert rules_on(rules, "1 hour").floor == 4
    assert rules_on(RULES, "1 hour").floor == 10
    assert not rules_on(RULES, "1 day").looking


def test_only_what_compares_with_the_past_needs_a_baseline() -> None:
    assert rules_on(DEFAULT_RULES, "1 hour").need_baseline
    assert not rules_on(RULES, "1 minute").need_baseline


def test_a_rule_on_a_window_that_is_not_counted_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)looks at 1 hour.*Counted are: 1 minute\."):
        check_windows(DEFAULT_RULES, [as_window("1 minute")])


def test_users_are_exempt_by_name_or_by_a_pattern_that_takes_the_whole_name() -> None:
    users = pa.array(["Anna", "anna", "bot-12", "robot-12", "bot-12\n", "bot-x"])
    assert exempted(RULES, users).to_pylist() == [True, False, True, False, False, False]


def test_a_pattern_of_alternatives_takes_whole_names_too() -> None:
    users = pa.array(["ab", "a", "b"])
    assert exempted([Exempt(pattern="a|b")], users).to_pylist() == [False, True, True]
