from __future__ import annotations

import subprocess
import sys

import pytest
import typer

import kstoolkit
from kstoolkit.cli import main
from kstoolkit.cli.application import app
from tests.cli.commands import PROGRAM, given

COMMANDS = [
    *(
        "run",
        "findings",
        "users",
        "counts",
        "summary",
        "report",
        "find",
        "what-if",
        "compact",
        "simulate",
    ),
    *(
        "data fetch",
        "produce",
        "lag",
        "reset",
        "broker start",
        "broker stop",
        "broker status",
        "doctor",
        "inspect",
        "levels",
        "profile",
        "restore",
        "get",
        "log",
        "memory",
        "advice",
        "compare-profiles",
    ),
]
SHOWN_COLUMNS = 80
HELP = ["--help", "run --help", "data fetch --help"]


def test_the_version_is_one_line() -> None:
    assert given("--version").out == f"kstoolkit {kstoolkit.__version__}\n"


def test_main_returns_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert main(["findings", "no/such/folder"]) == 2
    assert main(["frobnicate"]) == 2
    assert "No such command 'frobnicate'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", "run", "supervise"])
def test_help_names_every_exit_code(command: str) -> None:
    told = given(*command.split(), "--help").out.partition("Exit codes: ")[2]
    assert all(f"{code} " in told or f"{code}:" in told for code in (0, 1, 2, 75))


@pytest.mark.parametrize("arguments", ["--version", *HELP])
def test_neither_help_nor_version_loads_anything_large(arguments: str) -> None:
    program = f"""
import sys
from kstoolkit.cli import main
code = main({arguments.split()!r})
large = {{"pyspark", "pyarrow", "pandas", "numpy", "matplotlib", "rocksdict"}} & set(sys.modules)
sys.exit(repr(large) if large else code)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_no_commands_summary_is_cut_in_a_terminal_of_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(SHOWN_COLUMNS))
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined] # it is a group
    lines = given("--help").out.partition("Commands:\n")[2].splitlines()
    told = {name: line.split(maxsplit=1)[1] for name, line in zip(commands, lines, strict=False)}
    for name, command in commands.items():
        summary = command.help.splitlines()[0]
        assert told[name] == summary, name
        assert len(summary) <= 60, name


def test_the_help_lists_every_command_and_what_it_is_for() -> None:
    lines = given("--help").out.splitlines()
    for command in COMMANDS:
        told = next(line for line in lines if line.split()[:1] == command.split()[:1])
        assert len(told.split()) > 3
        assert not told.endswith("...")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained_with_its_default(command: str) -> None:
    group = typer.main.get_command(app)
    for name in command.split():
        group = group.commands[name]  # type: ignore[attr-defined] # a group, until the last
    for option in group.params:
        told = getattr(option, "help", None) or ""
        if getattr(option, "hidden", False):
            continue  # taken as before, under a name that is shown no more
        assert told, option.name
        is_told = "default" in told.lower() or "Required" in told
        assert option.required or option.default is not None or is_told, option.name


def test_no_arguments_give_the_help() -> None:
    answer = given()
    assert answer.code == 2
    assert answer.out + answer.err == given("--help").out


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"kstoolkit {kstoolkit.__version__}\n")
