"""The pages keep their word: every command, program, rule file and query in them is run.

So it is with the README and with the guides of ``docs/``, in the order in which a newcomer reads
them, in one folder that begins as ``make run`` leaves it: that runs as in a shell, and so does the
first program; the others in this process, which has a Spark session already. What is not to be run
as it stands (other machines, other people's topics) is a ``text`` block, or a directive of
Sphinx's.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import kstoolkit as kst
from kstoolkit.kafka.broker import Broker
from tests.cli.commands import Answer, given
from tests.events.office import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[1]
GUIDES = (
    *("count", "find", "incidents", "parts", "sessions", "dataframes", "kafka", "operations"),
    *(
        "alerts",
        "cluster",
        "replicas",
        "questions",
        "stores",
        "checkup",
        "oom",
        "capacity",
        "slow",
        "lab",
    ),
)
PAGES = ("README.md", "docs/first_ten_minutes.md", *(f"docs/guides/{name}.md" for name in GUIDES))
SHOWN = {
    *("restore", "get", "inspect", "levels", "memory", "log", "advice", "profile"),
    *("compare-profiles", "stores", "rows", "growth", "diff", "export"),
    *("findings", "users", "counts", "compact", "report", "what-if"),
    *("incidents", "story", "unmark"),
}
"""The commands that are shown with what they print."""

MOST_LINES_OF_THE_README = 250


@dataclass(frozen=True)
class Command:
    """A command of a page, and what the page says that it prints, if it says so."""

    page: str
    text: str
    prints: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What is run; a comment behind it is not."""
        return tuple(shlex.split(self.text, comments=True))

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def blocks(page: str) -> list[tuple[str, str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def blocks_of(language: str, *pages: str) -> list[str]:
    return [text for page in pages or PAGES for name, text in blocks(page) if name == language]


def commands(page: str) -> Iterator[Command]:
    """Yield what a page has run, in its order."""
    for language, text in blocks(page):
        if language == "sh":
            lines = text.replace("\\\n", " ").splitlines()
            yield from (Command(page, line) for line in lines if line.startswith("kstoolkit "))
        if language == "console":
            for part in text.split("$ ")[1:]:
                command, *lines = part.splitlines()
                yield Command(page, command, tuple(line for line in lines if line.strip()))


COMMANDS = [command for page in PAGES for command in commands(page)]


def what_make_run_runs() -> Iterator[Command]:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nrun: ")[1].split("\n\n")[0]
    for line in recipe.splitlines()[1:]:
        yield Command("Makefile", line.strip().removeprefix("$(BIN)/"))


def run_apart(*arguments: str) -> Answer:
    """Run Python with these arguments, where it is now, as a shell does."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder like a clone, for all pages together."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "data").symlink_to(ROOT / "data")
    try:
        yield folder
    finally:
        Broker(folder / "runs" / "broker").kill()  # should a command have failed


@pytest.fixture(scope="module")
def said(place: Path, spark: SparkSession) -> dict[Command, Answer]:  # noqa: ARG001 - is active
    """What each command said, run one after the other; once, though two pages have it."""
    first = list(what_make_run_runs())
    with contextlib.chdir(place):
        found = {each.words: run_apart("-m", *each.words) for each in first}
        for each in COMMANDS:
            if each.words not in found:
                found[each.words] = given(*each.words[1:])
    return {each: found[each.words] for each in [*first, *COMMANDS]}


def shape(line: str) -> str:
    """Return a line without what differs from run to run: numbers, units of size, and widths."""
    plain = re.sub(r"\d[\d.,:]*", "0", re.sub(r"0x[0-9a-f]+", "0", line))
    return " ".join(re.sub(r"0 ([KMG]iB|B)\b", "0 B", plain).split())


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_the_commands_work_and_print_what_the_page_says(
    said: dict[Command, Answer], command: Command
) -> None:
    found = said[command]
    assert found.code == 0, found.err
    assert "Traceback" not in found.err
    if command.prints is not None:
        lines = [shape(line) for line in (found.out + found.err).splitlines()]
        assert [line for line in lines if line] == [shape(line) for line in command.prints]


def test_make_run_leaves_a_run_and_its_report(place: Path, said: dict[Command, Answer]) -> None:
    assert all(said[command].code == 0 for command in what_make_run_runs())
    assert (place / "out/run.json").exists()
    assert (place / "out/report.html").stat().st_size > 10_000


def test_every_command_on_results_and_stores_is_shown_with_what_it_prints() -> None:
    assert {each.text.split()[1] for each in COMMANDS if each.prints is not None} >= SHOWN


@pytest.mark.usefixtures("said")
def test_a_run_has_the_files_that_the_guide_promises(place: Path) -> None:
    promised = re.findall(
        r"^  (\S+?)/?  ", "\n".join(blocks_of("", "docs/guides/count.md")), flags=re.MULTILINE
    )
    assert promised
    assert set(promised) <= {path.name for path in (place / "runs/sample").iterdir()}


@pytest.mark.usefixtures("said")
def test_one_busy_address_is_one_incident_as_the_page_says(place: Path) -> None:
    run = kst.load_run(place / "runs/office")
    found = [each for each in run.findings if each.user == ADDRESS]
    page = (ROOT / "docs/guides/incidents.md").read_text(encoding="utf-8")
    assert f"{len(run.findings)} findings, {len(found)} of them about" in page
    assert [len(each.findings) for each in run.incidents() if each.user == ADDRESS] == [len(found)]


@pytest.mark.usefixtures("said")
def test_the_query_for_duckdb_gives_the_counts_of_the_run(place: Path) -> None:
    query = blocks_of("sql")[0].replace("runs/sample", str(place / "runs/sample"))
    relation = duckdb.sql(query)
    assert relation is not None
    found = relation.df()["count"].sum()
    counts = kst.load_run(place / "runs/sample").counts("1 hour")["count"]
    assert found == counts.sum() == 85_405


@pytest.mark.usefixtures("said")
def test_the_replica_gives_each_finding_its_own_count(place: Path) -> None:
    findings = kst.load_run(place / "out").findings
    assert len(findings) > 20
    with kst.WindowStore.open(place / "runs/replica") as replica:
        for each in findings:
            found = replica.get(each.user, window=each.window, at=each.window_start)
            assert found.counts[each.action] == each.count


@pytest.mark.usefixtures("said")
def test_the_rules_load_and_run_over_the_changelog(place: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(blocks_of("toml")[0], encoding="utf-8")
    found = kst.find(place / "runs/sample/changelog", kst.load_rules(rules))
    assert {finding.kind for finding in found} == {"Ceiling", "Unusual"}


PROGRAMS = {
    f"{page} {number}": program
    for page in PAGES
    for number, program in enumerate(blocks_of("python", page), start=1)
}


@pytest.mark.usefixtures("said")
def test_the_first_program_runs_as_it_stands(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    done = run_apart("-W", "error", "-c", PROGRAMS["README.md 1"])
    assert done.code == 0, done.err
    assert done.out.strip()


@pytest.mark.spark
@pytest.mark.usefixtures("said")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_run(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    exec(compile(PROGRAMS[name], name, "exec"), {"__name__": "__main__"})  # noqa: S102 - our pages
    assert capsys.readouterr().out.strip()


def test_the_commands_of_make_are_its_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in (*PAGES, "CONTRIBUTING.md"):
        for target in re.findall(r"^make (\w+)", (ROOT / page).read_text(), flags=re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *PAGES[1:]])
def test_every_picture_and_file_that_a_page_names_is_there(page: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        path = ((ROOT / page).parent / target).resolve()
        made = ROOT / "docs" / "notebooks", ROOT / "docs" / "reference"
        if not path.is_relative_to(made[0]) and not path.is_relative_to(made[1]):
            assert path.exists(), target


def test_every_public_name_has_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")
    pages = import_module("public_names")
    pages.check_groups()
    monkeypatch.delitem(pages.GROUPS, "replicas")
    with pytest.raises(ValueError, match="WindowStore"):
        pages.check_groups()


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES_OF_THE_README


def test_every_guide_is_run() -> None:
    assert {path.stem for path in (ROOT / "docs/guides").glob("*.md")} == set(GUIDES)
