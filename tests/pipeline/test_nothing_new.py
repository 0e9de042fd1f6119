"""A run over files that were all counted before starts no Java; one of anything else has to.

The Java that is given here says which one it is, notes that it was started, and ends: a run that
needs one ends with a sentence.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import COLUMNS, Answer, answered, started
from tests.pipeline.harness import Kept, events, write_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.spark

JAVA = """\
#!/bin/sh
case "$*" in
    *-XshowSettings:properties*)
        echo "    java.home = {home}"; echo "    java.version = 17.0.2"; exit 0 ;;
esac
touch "{home}/was-started"
exit 1
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A folder of three files, and of a run that has counted them."""
    folder: Path = tmp_path_factory.mktemp("counted") / "folder"
    write_files(folder / "in", events(600), 3)
    first = run(folder)
    assert first.code == 0, first.err
    return Kept(folder)


@pytest.fixture
def folder(kept: Kept) -> Path:
    return kept.again()


def run(folder: Path, *options: object, **environment: str) -> Answer:
    out = ("--out", folder / "out", "--json", *options)
    return answered(started("run", folder / "in", *COLUMNS, *out, **environment))


def by_this_java(folder: Path, *options: object) -> tuple[Answer, bool]:
    """Run with a Java that only says that it was started; return whether it was, too."""
    home = folder / "java"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(JAVA.format(home=home))
    program.chmod(0o755)
    return run(folder, *options, JAVA_HOME=str(home)), (home / "was-started").exists()


def inputs(folder: Path) -> list[Path]:
    return sorted((folder / "in").iterdir())


def test_what_was_counted_is_told_again_without_any_java(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*.parquet")}
    again, was_started = by_this_java(folder)
    assert again.code == 0, again.err
    assert not was_started
    assert json.loads(again.out)["events"] == 600
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*.parquet")}


def one_more(folder: Path) -> None:
    shutil.copy(inputs(folder)[0], folder / "in" / "more.jsonl")


def grown(folder: Path) -> None:
    with inputs(folder)[0].open("a") as file:
        file.write("{}\n")


def replaced_by_one_as_large(folder: Path) -> None:
    path = inputs(folder)[0]
    path.write_bytes(path.read_bytes().replace(b"2025", b"2024"))


def moved(folder: Path) -> None:
    inputs(folder)[0].rename(folder / "in" / "elsewhere.jsonl")


def touched(folder: Path) -> None:
    os.utime(inputs(folder)[0], (1, 1))


def with_what_is_left_unread(folder: Path) -> None:
    (folder / "in" / "notes.log").write_text("?")


def cut_off_before_the_commit(folder: Path) -> None:
    commits = folder / "out" / "checkpoint" / "commits"
    newest = max(commits.iterdir(), key=lambda path: path.name)
    newest.unlink()


def cut_off_before_the_plan(folder: Path) -> None:
    ledger = folder / "out" / "files.jsonl"
    last = json.loads(ledger.read_text().splitlines()[-1])
    shutil.copy(last["path"], folder / "in" / "admitted.jsonl")
    with ledger.open("a") as file:
        file.write(json.dumps(last | {"path": str(folder / "in" / "admitted.jsonl")}) + "\n")


def live_before(folder: Path) -> None:
    settings = folder / "out" / "run.json"
    told = json.loads(settings.read_text())
    settings.write_text(json.dumps(told | {"was_live": True}))


@pytest.mark.parametrize(
    "changed",
    [
        one_more,
        grown,
        replaced_by_one_as_large,
        moved,
        touched,
        with_what_is_left_unread,
        cut_off_before_the_commit,
        cut_off_before_the_plan,
        live_before,
    ],
)
def test_anything_else_is_looked_at_by_spark(folder: Path, changed: Callable[[Path], None]) -> None:
    changed(folder)
    told, was_started = by_this_java(folder)
    assert (told.code, was_started) == (2, True), told.err


def test_other_rules_are_noted_by_a_whole_run(folder: Path) -> None:
    told, was_started = by_this_java(folder, "--rules", "data/stricter.toml")
    assert (told.code, was_started) == (2, True), told.err


def test_settings_that_can_not_go_on_are_refused_as_ever(folder: Path) -> None:
    told, was_started = by_this_java(folder, "--windows", "1 minute,1 day")
    assert (told.code, was_started) == (2, False)
    assert "belongs to other windows" in told.err


def test_an_input_that_is_gone_is_still_an_error(folder: Path) -> None:
    shutil.rmtree(folder / "in")
    told, was_started = by_this_java(folder)
    assert (told.code, was_started) == (2, False)
    assert "No such file or folder" in told.err
