from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.rulefiles import load_rules, rules_from_json, rules_to_json
from kstoolkit.findings.rules import Ceiling, Exempt, Longer, Unusual
from kstoolkit.windows import Hop, Session

if TYPE_CHECKING:
    from pathlib import Path

RULES = (
    Ceiling("1 minute", 100),
    Ceiling(Hop("5 minutes", every="1 minute"), 300, actions=["login", "ログイン"]),
    Unusual("1 hour", false_alarms_per_day=0.5, min_count=10),
    Longer(Session("30 minutes", longest="12 hours", by=[]), "90 minutes"),
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
        kind = "Longer"
        window = "session 30 minutes up to 12 hours over all actions"
        duration = "1.5 hours"

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
        (
            "[[rule]]\nwindow = '1 hour'",
            r"rule 1 has no kind.*Budget, Campaign, Ceiling, Distinct, Drift, Exempt",
        ),
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
        (
            "[[rule]]\nkind='Longer'\nwindow='session 5 minutes'\nduration=1.5",
            r"rule 1: duration = 1.5 is no text",
        ),
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
    with pytest.raises(ConfigurationError, match="is no UTF-8"):
        load_rules(path)


def test_rules_come_back_from_json_as_they_were() -> None:
    assert rules_from_json(rules_to_json(RULES)) == RULES


def test_an_exemption_has_an_end_rules_and_a_reason_in_a_file_and_in_a_run(tmp_path: Path) -> None:
    text = """
    [[rule]]
    kind = "Exempt"
    users = ["Anna"]
    until = 2026-12-01
    rules = ["Unusual", "Ceiling 100"]
    why = "nightly backup"
    """
    (rule,) = load_rules(written(tmp_path, text))
    assert rule == Exempt(
        ["Anna"], until="2026-12-01T00:00Z", rules=["Unusual", "Ceiling 100"], why="nightly backup"
    )
    assert rules_from_json(rules_to_json([rule])) == (rule,)
    assert rule.name == "Exempt Anna from Unusual, Ceiling 100 until 2026-12-01 00:00 UTC"
    with pytest.raises(ConfigurationError, match=r"rules.toml, rule 1: 'soon' is not a time"):
        load_rules(written(tmp_path, text.replace("2026-12-01", "'soon'")))


def test_a_file_that_an_editor_marked_as_utf_8_is_read_and_one_that_is_not_is_said(
    tmp_path: Path,
) -> None:
    text = '[[rule]]\nkind = "Exempt"\nusers = ["Zoë"]\n'
    path = tmp_path / "rules.toml"
    path.write_bytes(text.encode("utf-8-sig"))
    assert load_rules(path) == (Exempt(["Zoë"]),)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"rules.toml is no UTF-8 from byte 37 on.*"):
        load_rules(path)
