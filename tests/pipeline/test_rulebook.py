"""Rules and marks that change while a run counts: what is in force, and since when."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.findings.marks import add_mark, mark_of
from kstoolkit.pipeline.rulebook import JudgedAnew
from kstoolkit.pipeline.runfolder import RunFolder
from tests.pipeline.harness import until

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.findings.rules import Rule
    from kstoolkit.pipeline.rulebook import Rulebook


def write(path: Path, *rules: dict[str, Any], beside: str = "") -> Path:
    tables = [
        "[[rule]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in rule.items())
        for rule in rules
    ]
    path.write_text("\n".join(tables) + beside)
    return path


def ceiling(count: int, window: str = "1 hour") -> dict[str, Any]:
    return {"kind": "Ceiling", "window": window, "count": count}


DISTINCT = {"kind": "Distinct", "item": "ip", "window": "1 hour"}


def pipeline(folder: Path, rules: Any) -> kst.Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    source = kst.files(str(folder / "in"), event_time="time", user="user", action="action")
    cascade = kst.Cascade("1 minute", "1 hour")
    return kst.Pipeline(source=source, cascade=cascade, rules=rules, buckets=2)


def book(folder: Path, *rules: dict[str, Any]) -> tuple[Rulebook, Path]:
    (folder / "out").mkdir()
    path = write(folder / "rules.toml", *rules)
    return pipeline(folder, path).rulebook(RunFolder(folder / "out")), path


def checked(rules: Rulebook) -> tuple[bool, list[str]]:
    """Return whether a batch would be judged anew, and what was said."""
    said: list[str] = []
    try:
        rules.check(7, said.append)
    except JudgedAnew:
        return True, said
    return False, said


def test_a_file_that_changed_is_in_force_from_the_next_batch_on(tmp_path: Path) -> None:
    rules, path = book(tmp_path, ceiling(20))
    before = rules.version
    assert checked(rules) == (False, [])
    write(path, ceiling(10), ceiling(9, "1 minute"))
    is_new, (said,) = checked(rules)
    assert is_new
    assert said == f"The rules have changed: from batch 7 on 2 rules, version {rules.version}."
    assert rules.version != before
    assert rules.rules == (kst.Ceiling("1 hour", 10), kst.Ceiling("1 minute", 9))
    assert checked(rules) == (False, [])
    write(path, ceiling(20))
    assert checked(rules)[0]
    assert rules.version == before


def test_what_says_the_same_in_other_words_changes_nothing(tmp_path: Path) -> None:
    rules, path = book(tmp_path, ceiling(20))
    write(path, ceiling(20), beside="# spoken of with Max\n")
    assert checked(rules) == (False, [])
    write(path, ceiling(20), beside='[[alert]]\nurl = "http://127.0.0.1:9093"\n')
    assert checked(rules) == (False, [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[rule]]\nkind = 'Ceil", "is no TOML"),
        ("[[rule]]\nkind = 'Ceilin'", "unknown kind 'Ceilin'"),
        ("[[rule]]\nkind = 'Ceiling'\nwindow = '1 hour'\ncount = 'x'", "count = 'x'"),
        ("[[rule]]\nkind = 'Ceiling'\nwindow = '1 day'\ncount = 1", "1 day, which is not counted"),
        ("[[rule]]\nkind = 'Distinct'\nitem = 'ip'\nwindow = '1 hour'", "not counted"),
        ("[[rule]]\nkind = 'Ceiling'\nwindow = '1 hour'\ncount = 1\nby = ['region']", "region"),
        ("\xff", "is no TOML"),
        ("a = " + "[" * 100_000, "is no TOML"),
        ("a = " + "1" * 5_000, "is no TOML"),
        (None, "No rules can be read"),
    ],
)
def test_a_file_that_makes_no_sense_is_told_once_and_what_was_in_force_stays(
    tmp_path: Path, text: str | None, why: str
) -> None:
    rules, path = book(tmp_path, ceiling(20))
    before = rules.rules
    path.unlink() if text is None else path.write_text(text)
    is_new, (said,) = checked(rules)
    assert not is_new
    assert why in said
    assert said.endswith("What was in force goes on.")
    assert checked(rules) == (False, [])
    assert rules.rules == before
    write(path, ceiling(20))
    assert checked(rules) == (False, [])
    write(path, ceiling(5))
    assert checked(rules)[0]


def test_items_that_are_counted_may_have_another_budget(tmp_path: Path) -> None:
    rules, path = book(tmp_path, DISTINCT, ceiling(20))
    write(path, DISTINCT | {"false_alarms_per_day": 1}, ceiling(20))
    assert checked(rules)[0]
    write(path, DISTINCT | {"item": "agent"}, ceiling(20))
    is_new, (said,) = checked(rules)
    assert not is_new
    assert "agent" in said


def test_a_file_without_rules_has_the_default_ones(tmp_path: Path) -> None:
    rules, path = book(tmp_path, ceiling(20))
    path.write_text('[[alert]]\nurl = "http://127.0.0.1:9093"\n')
    assert checked(rules)[0]
    assert rules.rules == (kst.Unusual("1 hour", 5),)


def test_who_is_known_is_exempt_from_the_next_batch_on_and_who_is_muted_is_not(
    tmp_path: Path,
) -> None:
    rules, path = book(tmp_path, ceiling(20))
    marks = tmp_path / "out" / "marks.toml"
    add_mark(marks, mark_of("Bo", "muted"))
    assert checked(rules) == (False, [])
    add_mark(marks, mark_of("Anna", "known", until="2026-04-01"))
    before = rules.version
    assert checked(rules) == (True, [])
    assert rules.known == (kst.Exempt(["Anna"], until="2026-04-01"),)
    assert rules.version == before, "a mark is no rule"
    marks.write_text("[[mark]]\nmark = 'known'\n")
    is_new, (said,) = checked(rules)
    assert not is_new
    assert "marks.toml" in said
    assert rules.known == (kst.Exempt(["Anna"], until="2026-04-01"),)
    write(path, ceiling(10))
    assert checked(rules)[0], "of two files, one that makes no sense keeps nothing from the other"
    marks.unlink()
    marks.mkdir()
    assert "can't be read: Is a directory" in checked(rules)[1][0]
    marks.rmdir()
    assert checked(rules) == (True, [])
    assert not rules.known


def test_each_version_that_was_in_force_is_noted_once_with_its_rules(tmp_path: Path) -> None:
    rules, path = book(tmp_path, ceiling(20))
    began_ms = time.time_ns() // 1_000_000
    rules.note()
    rules.note()
    write(path, ceiling(10))
    checked(rules)
    rules.note()
    lines = (tmp_path / "out" / "rules.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert first["rules"] == [ceiling(20)]
    assert second["rules"] == [ceiling(10)]
    assert second["version"] == rules.version != first["version"]
    assert began_ms <= first["since_ms"] <= second["since_ms"] <= time.time() * 1_000


def test_rules_that_are_given_in_python_do_not_change(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    given = pipeline(tmp_path, [kst.Ceiling("1 hour", 20)])
    assert checked(given.rulebook(RunFolder(tmp_path / "out"))) == (False, [])


def test_a_path_is_checked_as_the_pipeline_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No rules can be read"):
        pipeline(tmp_path, tmp_path / "none.toml")
    with pytest.raises(ConfigurationError, match="1 day, which is not counted"):
        pipeline(tmp_path, str(write(tmp_path / "rules.toml", ceiling(1, "1 day"))))


class Stream:
    """A live run over a folder, to which events are added."""

    def __init__(self, folder: Path, rules: Path) -> None:
        self.folder, self.came = folder, 0
        self.run = pipeline(folder, rules).start(folder / "out", trigger="200 milliseconds")

    def add(self, *counts: tuple[str, int]) -> None:
        """Add so many events of users, and wait until they are counted."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        rows = [{"time": now, "user": user, "action": "x"} for user, n in counts for _ in range(n)]
        hidden = self.folder / "in" / f".{self.came}"
        hidden.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        hidden.rename(self.folder / "in" / f"{self.came}.json")
        self.came += len(rows)
        until(lambda: self.run.summary().events == self.came, f"{self.came} events")


def by_minute(count: int) -> dict[str, Any]:
    return ceiling(count, "1 minute")


@pytest.mark.usefixtures("spark")
def test_a_live_run_judges_by_its_file_as_it_changes_and_each_finding_says_by_which(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "rules.toml", by_minute(40))
    (tmp_path / "in").mkdir()
    stream = Stream(tmp_path, path)
    try:
        stream.add(("Anna", 50), ("Bo", 20))
        write(path, by_minute(10))
        stream.add(("Cy", 11))
        path.write_text("[[rule]")
        stream.add(("Dan", 12))
        stream.run.mark("Eve", "known")
        stream.add(("Eve", 30), ("Finn", 13))
        write(path, by_minute(100))
        stream.add(("Gus", 50))
    finally:
        stream.run.stop()
    lines = (tmp_path / "out" / "rules.jsonl").read_text().splitlines()
    versions = {each["version"]: each["rules"][0]["count"] for each in map(json.loads, lines)}
    assert list(versions.values()) == [40, 10, 100]
    found = {each.user: versions[str(each.rules_version)] for each in stream.run.findings}
    assert found == {"Anna": 40, "Cy": 10, "Dan": 10, "Finn": 10}
    told = stream.run.findings.to_pandas().set_index("user")["rules_version"]
    assert versions[told["Cy"]] == 10
    counted = stream.run.counts("1 hour").groupby("user")["count"].sum().to_dict()
    assert counted == {"Anna": 50, "Bo": 20, "Cy": 11, "Dan": 12, "Eve": 30, "Finn": 13, "Gus": 50}
    assert stream.run.restarts == 0
    assert stream.run.settings.rules == json.dumps([by_minute(100)])


def test_a_run_to_the_end_is_judged_by_the_rules_that_it_began_with(tmp_path: Path) -> None:
    """One question has one answer, also if its files take hours."""
    rules, path = book(tmp_path, ceiling(20))
    given: tuple[Rule, ...] = rules.rules
    write(path, ceiling(10))
    assert rules.rules == given


def test_names_with_ends_of_lines_and_a_cut_off_last_one_do_not_spoil_the_notes(
    tmp_path: Path,
) -> None:
    odd = {"kind": "Exempt", "users": ["a\u2028b", "c\x85d"]}
    rules, path = book(tmp_path, ceiling(20))
    path.write_text(
        f"[[rule]]\nkind = 'Exempt'\nusers = {json.dumps(odd['users'], ensure_ascii=False)}\n"
    )
    assert checked(rules)[0]
    rules.note()
    rules.note()
    notes = tmp_path / "out" / "rules.jsonl"
    assert [json.loads(line)["rules"] for line in notes.read_text().split("\n")[:-1]] == [[odd]]
    notes.write_text(notes.read_text().rstrip("\n"))  # as some editors do
    write(path, ceiling(10))
    assert checked(rules)[0]
    rules.note()
    assert len(list(map(json.loads, notes.read_text().split("\n")[:-1]))) == 2


@pytest.mark.parametrize("damage", [b'{"version": "x", "ru', b"\xff\n", b"[]\n", b"{}\n"])
def test_notes_that_are_damaged_are_told_with_what_to_do_and_stay(
    tmp_path: Path, damage: bytes
) -> None:
    rules, _ = book(tmp_path, ceiling(20))
    notes = tmp_path / "out" / "rules.jsonl"
    notes.write_bytes(damage)
    with pytest.raises(OutputError, match=r"rules.jsonl: its last line is damaged") as caught:
        rules.note()
    assert "move it away" in str(caught.value.hint)
    assert notes.read_bytes() == damage


def test_notes_for_which_there_is_no_place_are_told(tmp_path: Path) -> None:
    rules, _ = book(tmp_path, ceiling(20))
    (tmp_path / "out").rmdir()
    with pytest.raises(OutputError, match=r"can't be noted in .*: No such file or directory\."):
        rules.note()


def test_a_pipe_in_the_place_of_a_file_is_told_and_not_waited_for(tmp_path: Path) -> None:
    rules, path = book(tmp_path, ceiling(20))
    marks = tmp_path / "out" / "marks.toml"
    path.unlink()
    for each in (path, marks):
        os.mkfifo(each)
    is_new, said = checked(rules)
    assert not is_new
    assert [each for each in said if "is a pipe" in each] == said
    assert len(said) == 2
    assert checked(rules) == (False, [])


@pytest.mark.parametrize("until", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_moment_that_no_calendar_has_is_told_with_its_file(tmp_path: Path, until: str) -> None:
    rules, path = book(tmp_path, ceiling(20))
    path.write_text(f"[[rule]]\nkind = 'Exempt'\nusers = ['a']\nuntil = {until}\n")
    (said,) = checked(rules)[1]
    assert "rules.toml, rule 1: " in said
    (tmp_path / "out" / "marks.toml").write_text(
        f"[[mark]]\nmark = 'known'\nuser = 'a'\nuntil = {until}\n"
    )
    (said,) = checked(rules)[1]
    assert "marks.toml, mark 1: until = " in said


def test_marks_that_no_run_could_take_are_told_with_their_file(tmp_path: Path) -> None:
    rules, _ = book(tmp_path, ceiling(20))
    marks = tmp_path / "out" / "marks.toml"
    endless = ["a = " + "[" * 100_000, "a = " + "1" * 5_000]
    for text in (*endless, "[[mark]]\nmark = 'known'\nuser = 'a'\nrules = []\n"):
        marks.write_text(text)
        is_new, (said,) = checked(rules)
        assert not is_new
        assert "marks.toml" in said
    with pytest.raises(ConfigurationError, match="no list of names"):
        mark_of("Anna", "known", rules=[])
