from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kstoolkit.environment import doctor
from kstoolkit.events.sample import _WIKITICKER_FILE
from tests.changelog.changelogs import HOUR, MINUTE
from tests.cli.commands import given, rows
from tests.pipeline.longrun import add, begun, told
from tests.report.made import Made

FEW = ("--events", 300, "--users", 40, "--seed", 5)


def test_simulated_events_come_with_labels_and_the_command_that_counts_them(tmp_path: Path) -> None:
    answer = given("simulate", *FEW, "--files", 2, "--out", tmp_path)
    assert answer.code == 0
    names = sorted(path.name for path in (tmp_path / "events").iterdir())
    assert names == ["events-001.json.gz", "events-002.json.gz"]
    assert rows((tmp_path / "labels.json").read_text(encoding="utf-8"))
    assert f"kstoolkit run {tmp_path}/events --event-time time" in answer.out


def test_the_same_seed_makes_the_same_events_and_another_one_others(tmp_path: Path) -> None:
    made = {}
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        given("simulate", *FEW, "--seed", seed, "--out", tmp_path / name)
        made[name] = (tmp_path / name / "events" / "events-001.json.gz").read_bytes()
    assert made["a"] == made["b"] != made["c"]


@pytest.mark.parametrize(
    ("options", "name", "columns"),
    [
        ("--format parquet", "events-001.parquet", ["time", "user", "action"]),
        ("--format csv --compression none", "events-001.csv", ["time", "user", "action"]),
        ("--compression zstd", "events-001.json.zst", None),
    ],
)
def test_events_are_written_as_asked(
    options: str, name: str, columns: list[str] | None, tmp_path: Path
) -> None:
    assert given("simulate", *FEW, *options.split(), "--out", tmp_path).code == 0
    path = tmp_path / "events" / name
    if path.suffix == ".parquet":
        assert pq.read_schema(path).names == columns
    elif path.suffix == ".csv":
        assert path.read_text(encoding="utf-8").split("\n", 1)[0].split(",") == columns
    else:
        assert path.read_bytes().startswith(b"\x28\xb5\x2f\xfd")


def test_the_bundled_sample_is_made_again_by_the_command_that_its_readme_names(
    tmp_path: Path,
) -> None:
    answer = given("simulate", "--sample", "--out", tmp_path)
    assert answer.code == 0
    name = Path("sample") / "events-008.json.gz"
    bundled = Path(__file__).parents[2] / "data" / name
    assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(bundled.read_bytes())


def test_the_real_sample_that_is_there_is_checked_and_not_asked_for_again(
    wikiticker: Path, tmp_path: Path
) -> None:
    shutil.copy(wikiticker, tmp_path / _WIKITICKER_FILE)
    answer = given("data", "fetch", "wikiticker", "--to", tmp_path)
    assert (answer.code, answer.err) == (0, "")
    assert str(tmp_path / _WIKITICKER_FILE) in answer.out
    assert "--action namespace" in answer.out


def test_doctor_says_the_same_to_people_and_to_programs() -> None:
    told, as_json = given("doctor"), given("doctor", "--json")
    (found,) = rows(as_json.out)
    assert told.code == as_json.code == (0 if doctor().ok else 1)
    assert found["ok"] == (told.code == 0)
    assert [check["name"] for check in found["checks"]] == [
        line[:15].strip() for line in told.out.splitlines() if not line.startswith(" ")
    ]


def test_doctor_ends_with_code_1_if_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    answer = given("doctor", "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["ok"] is False
    assert "unset SPARK_HOME" in answer.out


RAW = ('{"user": "", "action": "read"}', '{"user": "", "action": "write"}', "Zoë\x1b[2J")


@pytest.fixture
def with_letters(tmp_path: Path) -> Path:
    """A run with 40 records without a user, of two kinds, two that are none, a damaged file."""
    made = Made(tmp_path / "out")
    made.statistics(dead_letters={"no_user": 40, "unparseable": 2, "broken_file": 1})
    made.letters(
        [*["no_user"] * 40, "unparseable", "unparseable", "broken_file"],
        raws=[*(RAW[n % 2] for n in range(40)), RAW[2], "x" * 70_000, ""],
        file="/in/a.json",
        details=[*[None] * 42, "cut short"],
    )
    return made.out


def test_dead_letters_are_told_by_reason_with_some_that_differ(with_letters: Path) -> None:
    answer = given("dead-letters", with_letters)
    by_reason, _, samples = answer.out.partition("\n\n")
    assert [line.split()[:2] for line in by_reason.splitlines()] == [
        ["reason", "records"],
        *(["no_user", "40"], ["unparseable", "2"], ["broken_file", "1"]),
    ]
    assert [line.count(each) for each in RAW[:2] for line in [samples]] == [1, 1]
    assert "Zoë\\x1b[2J" in samples, "nothing that a terminal obeys"
    assert "cut short" in samples
    assert len(samples) < 2_000
    assert samples.endswith("each differs from the others; --json prints all.\n")
    few = given("dead-letters", with_letters, "--reason", "no_user", "--limit", 1).out
    assert few.endswith(
        "1 of 40 dead letters are shown; each differs from the others; "
        "--json prints all; --limit N more.\n"
    )


def test_dead_letters_are_printed_for_programs_and_written_out_again(with_letters: Path) -> None:
    found = rows(given("dead-letters", with_letters, "--json").out)
    assert [list(each) for each in found] == [["batch", "reason", "raw", "file", "detail"]] * 43
    assert found[-1]["detail"] == "cut short"
    assert len(rows(given("dead-letters", with_letters, "--json", "--reason", "no_user").out)) == 40
    again = given("dead-letters", with_letters, "--raw")
    assert again.out.splitlines() == [*(RAW[n % 2] for n in range(40)), RAW[2]]
    assert again.err.splitlines() == [
        "1 dead letter left out: of whole files there is no text.",
        "1 dead letter left out: of texts as long, only the start is kept.",
    ]


def test_dead_letters_that_are_not_there_are_said_so(tmp_path: Path, with_letters: Path) -> None:
    none = given("dead-letters", Made(tmp_path / "other").out)
    assert (none.code, none.out) == (0, "")
    assert none.err == "No dead letters: every record was read and counted.\n"
    assert given("dead-letters", with_letters, "--reason", "no_time").err == (
        "No dead letters of no_time.\n"
    )
    assert given("dead-letters", with_letters, "--reason", "nouser").err.startswith(
        "Error: --reason 'nouser' is none.\nHint: Did you mean 'no_user'? There are: "
    )
    assert given("dead-letters", with_letters, "--raw", "--json").code == 2
    assert given("dead-letters", tmp_path / "nowhere").code == 2


def test_a_runs_batches_are_folded_kind_by_kind_and_told(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = begun(out)
    for number in range(40):
        add(out, number)
    before = told(run)
    said = given("compact", out).out.splitlines()
    assert [line.split(":")[0] for line in said] == [
        "changelog",
        "findings",
        "dead letters",
        "statistics",
    ]
    assert said[0].startswith("changelog: 39 batches folded: ")
    assert told(run) == before
    assert given("compact", out).out == "Nothing to fold.\n"
    figures = json.loads(given("compact", out, "--json").out)
    assert figures["batches_folded"] == figures["beside"]["statistics"]["batches_folded"] == 0


def test_what_is_to_expire_is_said_by_window(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = begun(out)
    for number in range(90):
        add(out, number)
    before = told(run)["counts"]
    given("compact", out, "--expire", "1 minute=5 minutes, 1 hour=1 year")
    found = told(run)["counts"]
    assert found[HOUR] == before[HOUR]
    assert 0 < len(found[MINUTE]) < len(before[MINUTE])


@pytest.mark.parametrize(
    ("expire", "why"),
    [
        ("5 minutes=1 day", "5 minutes"),
        ("1 minute", "does not name each window once"),
        ("1 minute=soon", "soon"),
        ("1 minute=7 days,1 minute=8 days", "does not name each window once"),
        ("1 minute=0 s", "not positive"),
    ],
)
def test_what_can_not_expire_so_is_a_mistake(tmp_path: Path, expire: str, why: str) -> None:
    begun(tmp_path / "out")
    add(tmp_path / "out", 0)
    said = given("compact", tmp_path / "out", "--expire", expire)
    assert said.code == 2
    assert why in said.err
