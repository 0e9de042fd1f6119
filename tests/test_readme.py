"""The README keeps its word: every command, program, rule file and query in it is run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import kstoolkit as kst
from kstoolkit.kafka.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


STORE_COMMANDS = {
    *("restore", "get", "inspect", "levels", "memory", "log", "advice", "profile"),
    *("compare-profiles", "stores", "rows", "growth", "diff", "export"),
}


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("kstoolkit ")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder like a clone, in which the README's commands have been run."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "data").symlink_to(ROOT / "data")
    try:
        run_all(folder)
        yield folder
    finally:
        Broker(folder / "out" / "broker").kill()  # should a command have failed


def run_all(folder: Path) -> None:
    for command in commands():
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert "Traceback" not in done.stderr


def test_the_commands_of_the_readme_work_and_leave_what_they_promise(place: Path) -> None:
    assert (place / "out/sample.html").stat().st_size > 10_000
    names = {path.name for path in (place / "out/sample").iterdir()}
    promised = re.findall(r"^  (\S+?)/?  ", "\n".join(blocks("")), flags=re.MULTILINE)
    assert promised
    assert set(promised) <= names


def printed_lines(command: list[str], place: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=place, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines() + done.stderr.splitlines()


def shape(line: str) -> str:
    """Return a line without what differs from run to run: numbers, units of size, and widths."""
    plain = re.sub(r"\d[\d.,:]*", "0", re.sub(r"0x[0-9a-f]+", "0", line))
    return " ".join(re.sub(r"0 ([KMG]iB|B)\b", "0 B", plain).split())


def shown() -> list[tuple[str, list[str]]]:
    """Return the commands that the README shows with what they print, and those lines."""
    parts = [part for block in blocks("console") for part in block.split("$ ")[1:]]
    return [(part.splitlines()[0], part.splitlines()[1:]) for part in parts]


@pytest.mark.parametrize(("command", "lines"), shown(), ids=[command for command, _ in shown()])
def test_what_the_readme_says_is_printed_is(place: Path, command: str, lines: list[str]) -> None:
    found = [shape(line) for line in printed_lines(shlex.split(command), place)]
    wanted = [shape(line) for line in lines if line.strip()]
    assert [line for line in found if line] == wanted


def test_every_command_on_stores_is_shown_with_what_it_prints() -> None:
    verbs = {command.split()[1] for command, _ in shown()}
    assert verbs >= STORE_COMMANDS


def test_the_query_for_duckdb_gives_the_counts_of_the_run(place: Path) -> None:
    query = blocks("sql")[0].replace("out/sample", str(place / "out/sample"))
    relation = duckdb.sql(query)
    assert relation is not None
    found = relation.df()["count"].sum()
    assert found == kst.load_run(place / "out/sample").counts("1 hour")["count"].sum() == 85_405


def test_the_replica_gives_each_finding_its_own_count(place: Path) -> None:
    findings = kst.load_run(place / "out/sample").findings
    assert len(findings) > 50
    with kst.WindowStore.open(place / "out/replica") as replica:
        for each in findings:
            found = replica.get(each.user, window=each.window, at=each.window_start)
            assert found.counts[each.action] == each.count


def test_the_rules_of_the_readme_load_and_run_over_the_changelog(
    place: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(blocks("toml")[0], encoding="utf-8")
    found = kst.find(place / "out/sample/changelog", kst.load_rules(rules))
    assert {finding.kind for finding in found} == {"Ceiling", "Unusual"}


@pytest.mark.spark
@pytest.mark.parametrize(
    "program",
    blocks("python"),
    ids=["pipeline", "session", "panels", "memory", "spark_memory", "stores"],
)
def test_the_programs_of_the_readme_run(program: str, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)


def test_every_picture_and_file_that_the_readme_names_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
