"""What commands load: none more than it needs, and ``import kstoolkit`` next to nothing."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.face.asking import commands
from tests.face.goldens import check
from tests.face.keptrun import kept_run
from tests.face.loading import ASKED, LARGE, loaded_by

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys, time
begun = time.perf_counter()
import kstoolkit
print(time.perf_counter() - begun, *sys.modules)
"""
MOST_SECONDS = 0.050
TIMES = 7


def test_no_help_loads_more_than_it_did() -> None:
    found = loaded_by([[*command.split(), "--help"] for command in commands()], together=True)
    check("loaded-by-help.txt", told(["... --help"], found))


def test_commands_load_what_they_did(tmp_path: Path) -> None:
    kept_run(tmp_path)
    asked = [shlex.split(line.replace("TMP", str(tmp_path))) for line in ASKED]
    check("loaded.txt", told(ASKED, loaded_by(asked, TMPDIR=str(tmp_path))))


def told(lines: list[str], found: list[tuple[int, list[str]]]) -> str:
    """Return a line for each command: what was given, its exit code, and what it has loaded."""
    return "".join(
        f"$ kstoolkit {line}\nexit code {code}: {', '.join(names) or 'nothing'}\n\n"
        for line, (code, names) in zip(lines, found, strict=True)
    )


def test_the_package_is_imported_in_next_to_no_time_and_loads_nothing_large() -> None:
    took = []
    for _ in range(TIMES):
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, *modules = done.stdout.split()
        assert not LARGE.intersection(modules)
        took.append(float(seconds))
    assert min(took) < MOST_SECONDS  # the least: others may work on this machine meanwhile
