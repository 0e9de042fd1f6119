"""What the tests of runs share: events in files, the same counts by DuckDB, runs of their own."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import duckdb
import psutil

import kstoolkit as kst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kstoolkit.events.sources import Files
    from kstoolkit.pipeline.run import Run

ROOT = Path(__file__).parents[2]
BEGIN = datetime(2025, 3, 1, tzinfo=UTC)
NAMES = (
    "Zoë",
    "O'Neil",
    "a b",
    "名前",
    'quo"te',
    "back\\slash",
    "tab\tnew\nline",
    "😀",
    "../up",
    "%s",
)
ACTIONS = ("read", "write", "läs", "Main/Talk")

FIELDS_OF_FINDINGS = (
    *("rule", "kind", "user", "action", "window", "window_ms", "window_start_ms", "window_end_ms"),
    *("count", "ceiling", "expected_low", "expected_high", "baseline_windows", "peers"),
    *("log10_probability", "first_seen_ms", "since_ms", "rules_version"),
)
"""What is told of a finding as soon as its batch has judged."""

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000

_COUNTS = """
SELECT epoch_ms(time) // {every} * {every} - {shift} AS start, "user", action, count(*) AS n
FROM read_json(?, format = 'newline_delimited', ignore_errors = true, columns =
     {{'time': 'TIMESTAMP', '{user}': 'VARCHAR', '{action}': 'VARCHAR'}})
     AS events(time, "user", action)
WHERE time IS NOT NULL AND time < '2090-01-01' AND "user" != '' AND action != ''
  AND epoch_ms(time) < epoch_ms(time) // {every} * {every} - {shift} + {size}
GROUP BY ALL
"""

Rows = list[dict[str, str]]
Counted = dict[tuple[int, str, str], int]


def events(number: int, *, seed: int = 1, users: int = 60, hours: float = 30) -> Rows:
    """Return events in no order: few users do much, and their names are hostile."""
    draw = random.Random(seed)
    names = [*NAMES, *(f"user {n}" for n in range(users))]
    return [
        {
            "time": _iso(BEGIN + timedelta(hours=draw.random() * hours)),
            "user": names[min(int(draw.paretovariate(0.7)) - 1, len(names) - 1)],
            "action": draw.choice(ACTIONS),
        }
        for _ in range(number)
    ]


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def write_lines(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    """Write a file of JSON lines at once, as a careful producer would; texts go as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return hidden.replace(path)


def write_files(folder: Path, rows: Rows, files: int) -> list[Path]:
    """Spread events over files, each of which then holds any time."""
    return [write_lines(folder / f"{n:02d}.json", rows[n::files]) for n in range(files)]


class Kept:
    """A folder as it is now, given back as often as one likes: in its place, with its times."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._kept = folder, folder.with_name(f"{folder.name}.kept")
        shutil.copytree(folder, self._kept)

    def again(self) -> Path:
        """Return the folder, as it was; it is the same each time, as runs know files by path."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._kept, self._folder)
        return self._folder


def source(path: Path | str, **options: Any) -> Files:
    """Return files as a source, under the column names of :func:`events`."""
    return kst.files(path, event_time="time", user="user", action="action", **options)


def oracle(
    paths: Sequence[Path], window: str, *, user: str = "user", action: str = "action"
) -> Counted:
    """Count the events of files by DuckDB, which knows nothing of ours."""
    wanted = kst.Cascade(window).windows[0] if " every " not in window else _hop(window)
    counted: Counted = {}
    for shift in range(0, wanted.size_ms, wanted.every_ms):
        span = {"size": wanted.size_ms, "every": wanted.every_ms}
        query = _COUNTS.format(shift=shift, **span, user=user, action=action)
        with duckdb.connect() as database:
            rows = database.execute(query, [[str(path) for path in paths]]).fetchall()
        for start, who, what, number in rows:
            counted[start, who, what] = counted.get((start, who, what), 0) + number
    return counted


def _hop(window: str) -> Any:
    size, every = window.split(" every ")
    return kst.Hop(size, every=every)


def counted(run: Run, window: str) -> Counted:
    """Return what a run says of a window; each key must be there once."""
    frame = run.counts(window, limit=None)
    starts = frame["window_start"].astype("int64") // 1_000_000
    if frame["window_start"].dtype.unit == "ms":  # type: ignore[union-attr]
        starts = frame["window_start"].astype("int64")
    keys = list(zip(starts, frame["user"], frame["action"], strict=True))
    assert len(keys) == len(set(keys)), "a counter is listed twice"
    return dict(zip(keys, frame["count"].tolist(), strict=True))


def differences(run: Run, window: str, expected: Counted) -> list[str]:
    """Return where a run's counts differ from what is expected; the first ten places."""
    found = counted(run, window)
    return [
        f"{key}: {found.get(key)} instead of {expected.get(key)}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key) != expected.get(key)
    ][:10]


def check_exact(run: Run, paths: Sequence[Path], **columns: str) -> None:
    """Raise unless the counts of every level equal DuckDB's of these files."""
    for window in run.settings.windows:
        expected = oracle(paths, window, **columns)
        assert expected, f"DuckDB counted nothing for {window}"
        assert differences(run, window, expected) == [], window


def told(run: Run) -> list[tuple[Any, ...]]:
    """Return a run's findings, but for when they were first seen."""
    return sorted(
        (f.rule, f.user, f.action, f.window, f.window_start_ms, f.count, f.log10_probability or 0.0)
        for f in run.findings
    )


def letters(run: Run) -> list[tuple[str, str, str]]:
    """Return a run's dead letters as (reason, raw text, name of the file)."""
    rows = run.dead_letters.table.to_pylist()
    return sorted((row["reason"], row["raw"], Path(row["file"] or "").name) for row in rows)


@contextmanager
def spawned(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program beside us, and have nothing left of it in the end."""
    process = spawn(program, *arguments)
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_group(process)


def spawn(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Run a program in a Python of its own, at the head of a process group of its own."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-c", dedent(program), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 240) -> tuple[int, str, str]:
    """Wait for a spawned program, and return its exit code and what it said."""
    try:
        out, errors = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            kill_group(process)
    return process.returncode, out, errors


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a program, its Java included, so that none of them can say goodbye."""
    family = [process.pid, *(child.pid for child in psutil.Process(process.pid).children())]
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not any(_runs(pid) for pid in family), "the killed processes to be gone")


def _runs(pid: int) -> bool:
    try:
        return str(psutil.Process(pid).status()) != str(psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def until(true: Callable[[], Any], what: str, *, seconds: float = 90, every: float = 0.05) -> Any:
    """Wait until something is true, and return it; looking takes a fifth of the time at most."""
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        if value := true():
            return value
        time.sleep(max(every, 4 * (time.monotonic() - began)))
    message = f"Waited {seconds} s for {what}."
    raise TimeoutError(message)


def newest(folder: Path) -> int:
    """Return the highest number that names a file in a folder of a checkpoint; -1 if none does."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)
