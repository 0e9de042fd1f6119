"""How long commands take from their start to their end: written down to be read, never compared."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.face.asking import PLAIN, ROOT
from tests.face.goldens import keep
from tests.face.keptrun import kept_run
from tests.face.loading import ASKED

__all__ = ["write_times"]

TIMES = 3


def write_times() -> None:
    """Measure what the tests of loading ask, and write it to ``golden/start-times.md``."""
    with TemporaryDirectory() as folder:
        kept_run(Path(folder))
        lines = ["--help", *ASKED]
        rows = "".join(f"| `{line}` | {_seconds(line, folder):.2f} |\n" for line in lines)
    about = f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, the least of {TIMES}"
    keep("start-times.md", f"# Start times: {about}\n\n| kstoolkit | s |\n| --- | ---: |\n{rows}")


def _seconds(line: str, folder: str) -> float:
    command = [sys.executable, "-m", "kstoolkit", *shlex.split(line.replace("TMP", folder))]
    took = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=os.environ | PLAIN, capture_output=True, check=False)
        took.append(time.perf_counter() - begun)
    return min(took)
