from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.rulefile import load_rules, rules_from_json, rules_to_json
from kstoolkit.findings.rules import (
    DEFAULT_RULES,
    Ceiling,
    Exempt,
    Unusual,
    check_windows,
    exempted,
    material_floor,
    needs_baseline,
)
from kstoolkit.windows import Hop, as_window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kstoolkit.findings.rules import Rule

RULES = (
    Ceiling("1 minute", 100),
    Ceiling(Hop("5 minutes", every="1 minute"), 300, actions=["login", "ログイン"]),
    Unusual("1 hour", false_alarms_per_day=0.5, min_count=10),
    Exempt(["Anna", "Bob"]),
    Exempt(pattern="bot-[0-9]+"),
)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_rules_load_from_a_toml_file(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        [[rule]]
        kind = "Ceiling"
        window = "1 minute"
        count = 100

        [[rule]]
        kind = "Ceiling"
        window = "5 minutes every 1 minute"
        count = 300
        actions = ["login", "ログイン"]

        [[rule]]
        kind = "Unusual"
        window = "1 hour"
        false_alarms_per_day = 0.5
        min_count = 10

        [[rule]]
        kind = "Exempt"
        users = ["Anna", "Bob"]

        [[rule]]
        kind = "Exempt"
        pattern = "bot-[0-9]+"
        """,
    )
    assert load_rules(path) == RULES


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[rule]]\nkind = 'Cieling'", r"rule 1 has an unknown kind 'Cieling'.*mean 'Ceiling'"),
        ("[[rule]]\nwindow = '1 hour'", r"rule 1 has no kind.*Ceiling, Exempt, Unusual"),
        (
            "[[rule]]\nkind='Unusual'\nwindow='1 hour'\n[[rule]]\nkind='Ceiling'\ncuont=1",
            r"rule 2 \(Ceiling\) has an unknown field 'cuont'.*mean 'count'.*kind, window, count",
        ),
        ("[[rule]]\nkind='Ceiling'\nwindow='1 hour'", r"rule 1: Ceiling lacks 'count'"),
        (
            "[[rule]]\nkind='Ceiling'\nwindow='1 hour'\ncount='9'",
            r"rule 1: count = '9' is no whole",
        ),
        ("[[rule]]\nkind='Ceiling'\nwindow='1 hour'\ncount=true", r"rule 1: count = True is no"),
        ("[[rule]]\nkind='Ceiling'\nwindow=3600\ncount=9", r"rule 1: window = 3600 is no text"),
        ("[[rule]]\nkind='Ceiling'\nwindow='1 our'\ncount=9", r"rule 1: '1 our' is not a duration"),
        ("[[rule]]\nkind='Exempt'\npattern='('", r"rule 1: The pattern '\(' is no regular"),
        ("[[rule]]\nkind='Exempt'\nusers='Anna'", r"rule 1: users = 'Anna' is one text"),
        ("[[rules]]\nkind='Ceiling'", r"unknown table 'rules'.*mean 'rule'"),
        ("", r"has no \[\[rule\]\] table"),
        ("rule = 3", r"has no \[\[rule\]\] table"),
        ("[[rule]", r"is no TOML"),
    ],
)
def test_a_rule_that_makes_no_sense_is_named_with_its_file_and_number(
    tmp_path: Path, text: str, told: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError, match=rf"(?s)rules\.toml.*{told}"):
        load_rules(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"No rules can be read from .*none.toml"):
        load_rules(tmp_path / "none.toml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(b"\xff\xfe[[rule]]")
    with pytest.raises(ConfigurationError, match="is no TOML"):
        load_rules(path)


def test_rules_come_back_from_json_as_they_were() -> None:
    assert rules_from_json(rules_to_json(RULES)) == RULES


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
        (Exempt, "either users or a pattern"),
        (lambda: Exempt(["a"], pattern="b"), "either users or a pattern"),
        (lambda: Exempt([1]), "users = "),  # type: ignore[list-item]
        (lambda: Exempt(pattern="(?=a)"), "is no regular expression"),
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
    assert material_floor(rules, "1 hour") == 4
    assert material_floor(RULES, "1 hour") == 10
    assert material_floor(RULES, "1 day") is None


def test_only_what_compares_with_the_past_needs_a_baseline() -> None:
    assert needs_baseline(DEFAULT_RULES, "1 hour")
    assert not needs_baseline(RULES, "1 minute")


def test_a_rule_on_a_window_that_is_not_counted_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)looks at 1 hour.*Counted are: 1 minute\."):
        check_windows(DEFAULT_RULES, [as_window("1 minute")])


def test_users_are_exempt_by_name_or_by_a_pattern_that_takes_the_whole_name() -> None:
    users = pa.array(["Anna", "anna", "bot-12", "robot-12", "bot-12\n", "bot-x"])
    assert exempted(RULES, users).to_pylist() == [True, False, True, False, False, False]


def test_a_pattern_of_alternatives_takes_whole_names_too() -> None:
    users = pa.array(["ab", "a", "b"])
    assert exempted([Exempt(pattern="a|b")], users).to_pylist() == [False, True, True]
