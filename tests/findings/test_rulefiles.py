from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.findings.rulefiles import (
    _rules_to_toml,
    exempt_user,
    known_users,
    load_rules,
    rules_from_json,
    rules_to_json,
)
from kstoolkit.findings.rules import (
    Ceiling,
    Exempt,
    Longer,
    Unusual,
)
from kstoolkit.windows import Hop, Session

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


HOSTILE = (
    '"]\nkind = "Ceiling"',
    "'''\"\"\"\\",
    "# no comment",
    "\u202eabc\u2066",
    "a\x00\x7f\r\n\tb",
    "😀 \U000e0001",
    "<script>alert(1)</script>",
    "",
    "x" * 10_000,
)
WRITTEN = b"""\
# ours, by hand
[[rule]]   # as agreed
kind = 'Ceiling'
window = "1 minute"
count = 1_00

# the end"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rules.toml"


@pytest.mark.parametrize("user", HOSTILE)
def test_any_name_is_exempted_and_the_file_stays_readable(path: Path, user: str) -> None:
    path.write_bytes(WRITTEN)
    assert exempt_user(path, user, note=user)
    assert kst.load_rules(path) == (Ceiling("1 minute", 100), Exempt([user]))
    assert path.read_bytes().startswith(WRITTEN)
    assert known_users(path, [user, "somebody"]) == {user}


@given(st.lists(st.text(), min_size=1, max_size=4), st.text(max_size=30))
def test_names_come_back_as_they_are_each_once(users: list[str], note: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rules.toml"
        for user in [*users, *users]:
            exempt_user(path, user, note=note)
        assert kst.load_rules(path) == tuple(Exempt([user]) for user in dict.fromkeys(users))


def test_a_second_time_nothing_is_written(path: Path) -> None:
    exempt_user(path, "Anna")
    before = path.stat()
    assert not exempt_user(path, "Anna")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_who_is_exempted_by_a_pattern_is_known_already(path: Path) -> None:
    path.write_text("[[rule]]\nkind = 'Exempt'\npattern = 'bot-.*'\n")
    assert not exempt_user(path, "bot-7")
    assert exempt_user(path, "robot-7")


def test_a_new_file_may_begin_with_rules_so_that_it_can_be_used_as_it_is(path: Path) -> None:
    rules = (Unusual("1 hour", 0.5), Ceiling("1 day", 7, actions=["a", 'b"']), Exempt(pattern="x+"))
    assert exempt_user(path, "Anna", begin_with=rules)
    assert exempt_user(path, "Bo", begin_with=rules)
    assert kst.load_rules(path) == (*rules, Exempt(["Anna"]), Exempt(["Bo"]))


def test_comments_alone_are_no_mistake_and_line_ends_stay_as_they_are(path: Path) -> None:
    path.write_bytes(b"# nothing yet\r\n")
    exempt_user(path, "Anna")
    expected = b'# nothing yet\r\n\r\n[[rule]]\r\nkind = "Exempt"\r\nusers = ["Anna"]\r\n'
    assert path.read_bytes() == expected
    assert kst.load_rules(path) == (Exempt(["Anna"]),)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[[rule]\n", "is no TOML"),
        (b"other = 1\n", "unknown table 'other'"),
        (b"\xff\xfe", "is no UTF-8"),
        (b"rule = [{kind = 'Exempt', users = ['Bo']}]\n", "No rule can be added"),
    ],
)
def test_a_file_of_something_else_is_left_alone(path: Path, content: bytes, said: str) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        exempt_user(path, "Anna")
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="can't be written: No such file or directory"):
        exempt_user(tmp_path / "no" / "rules.toml", "Anna")
    with pytest.raises(ConfigurationError, match=r"No rules can be read.*Is a directory"):
        exempt_user(tmp_path, "Anna")


def test_half_a_character_is_said_to_be_none(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="half a character"):
        exempt_user(path, "a\ud800")
    assert not path.exists()


def test_a_link_stays_a_link_and_the_mode_stays(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_bytes(WRITTEN)
    real.chmod(0o640)
    path.symlink_to(real)
    exempt_user(path, "Anna")
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert known_users(real, ["Anna"]) == {"Anna"}


def test_of_many_who_add_at_the_same_time_none_loses_anothers(path: Path) -> None:
    users = [f"user {n}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda user: exempt_user(path, user), users))
    assert known_users(path, users) == set(users)


def test_rules_written_are_the_rules_read(path: Path) -> None:
    rules = (Ceiling("90 s", 0), Unusual("1 day", 1e-7, 3), Exempt(["a", 'b"\\']))
    path.write_text(_rules_to_toml(rules), encoding="utf-8")
    assert kst.load_rules(path) == rules


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
