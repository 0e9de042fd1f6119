"""What the driver's Python holds at most: of a run of many users and actions, and of what is asked.

    python -m tests.benchmarks.driver [--users 200000] [--actions 10000] [--buckets 64]

Each command is a process of its own, and its peak is what the kernel saw of it: ``VmHWM``, without
its children; those of Python that Spark started for a run's tasks are told beside. Java is not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kstoolkit as kst
from tests.benchmarks.table import machine

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BEGIN_MS = 20_500 * DAY_MS
USUAL_ACTIONS, FILES = 4, 8
ASKED = {
    "summary": "run.summary()",
    "findings": "run.findings",
    "users": "run.users()",
    "the first twenty users": "run.users(most=20)",
    "report": "run.report({html!r})",
}


def write_events(folder: Path, users: int, actions: int, days: int, seed: int = 1) -> int:
    """Write events as Parquet: each user does a few of all actions, some more often than others."""
    draw, folder = np.random.default_rng(seed), folder / "events"
    folder.mkdir(parents=True)
    usual = draw.integers(0, actions, (users, USUAL_ACTIONS))
    rate = np.minimum(draw.lognormal(0.3, 1.0, (users, USUAL_ACTIONS)), 60) * days
    number = draw.poisson(rate)
    user = np.repeat(np.arange(users), number.sum(axis=1))
    action = np.repeat(usual.ravel(), number.ravel())
    time_ms = BEGIN_MS + draw.integers(0, days * DAY_MS, len(user))
    odd = draw.choice(users, max(users // 2_000, 1), replace=False)  # do much in one hour
    user, action = np.append(user, odd.repeat(80)), np.append(action, usual[odd, 0].repeat(80))
    late_ms = BEGIN_MS + days * DAY_MS - 4 * HOUR_MS
    time_ms = np.append(time_ms, draw.integers(late_ms, late_ms + HOUR_MS, len(odd) * 80))
    order = np.argsort(time_ms)
    names = pa.array([f"user-{each:07d}" for each in range(users)])
    whats = pa.array([f"/api/v1/resource/{each:05d}" for each in range(actions)])
    for part, rows in enumerate(np.array_split(order, FILES)):
        table = {"time": pa.array(time_ms[rows], pa.timestamp("ms", tz="UTC"))}
        table |= {"user": names.take(pa.array(user[rows]))}
        table |= {"action": whats.take(pa.array(action[rows]))}
        pq.write_table(pa.table(table), folder / f"part-{part}.parquet")
    return len(user)


def count(folder: Path, buckets: int, windows: list[str]) -> None:
    """Run the pipeline over the events; say what it held."""
    rules = [kst.Unusual("1 hour", false_alarms_per_day=5)]
    source = kst.files(folder / "events", event_time="time", user="user", action="action")
    pipeline = kst.Pipeline(
        source=source, cascade=kst.Cascade(*windows), rules=rules, buckets=buckets
    )
    peaks: dict[int, int] = {}
    threading.Thread(target=_watch, args=(peaks,), daemon=True).start()
    run = pipeline.run(folder / "out")
    told = {"workers": max(peaks.values(), default=0), "findings": run.summary().findings}
    print(json.dumps(told | {"peak": peak_kib("self")}))


def _watch(peaks: dict[int, int]) -> None:
    while True:
        for pid in _descendants(os.getpid()):
            with suppress(OSError, ValueError):
                if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"java")[0]:
                    peaks[pid] = peak_kib(pid)
        time.sleep(0.3)


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(each.read_text().rsplit(")", 1)[1].split()[1])
            parents.setdefault(parent, []).append(int(each.parent.name))
    found, rest = [], [pid]
    while rest:
        children = parents.get(rest.pop(), [])
        found += children
        rest += children
    return found


def peak_kib(pid: int | str) -> int:
    """Return the most memory that a process ever held, by the kernel: KiB."""
    told = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(told.split("VmHWM:")[1].split()[0])


def ask(folder: Path, question: str) -> None:
    """Ask a run's folder; say what that held."""
    run = kst.load_run(folder / "out")
    eval(question.format(html=str(folder / "report.html")), {"run": run})  # noqa: S307 - our own
    print(json.dumps({"peak": peak_kib("self")}))


def _in_process(*words: object) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.driver", *map(str, words)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told | {"seconds": time.monotonic() - began}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.driver")
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--actions", type=int, default=10_000)
    parser.add_argument("--buckets", type=int, default=64)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--windows", nargs="+", default=["10 minutes", "1 hour", "1 day"])
    parser.add_argument("--folder", type=Path, help="where events and the run lie, and stay")
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="driver-"))
    if asked.count:
        return count(folder, asked.buckets, asked.windows)
    if asked.ask:
        return ask(folder, asked.ask)
    if not (folder / "events").exists():
        number = write_events(folder, asked.users, asked.actions, asked.days)
        print(f"{number:,} events of {asked.users:,} users and {asked.actions:,} actions")
    print(f"{json.dumps(machine())}\n\n| command | driver's peak, MiB | a task's Python, MiB | s |")
    print("|---|---|---|---|")
    shutil.rmtree(folder / "out", ignore_errors=True)
    given = ("--folder", folder, "--buckets", asked.buckets, "--windows", *asked.windows)
    told = _in_process("--count", *given)
    _say("run", told)
    print(f"({told['findings']:,} findings)", file=sys.stderr)
    for name, question in {"nothing": "run.settings", **ASKED}.items():
        _say(name, _in_process("--folder", folder, "--ask", question))
    if asked.folder is None:
        shutil.rmtree(folder)
    return None


def _say(name: str, told: dict[str, float]) -> None:
    tasks = f"{told['workers'] / 1024:,.0f}" if "workers" in told else ""
    print(f"| {name} | {told['peak'] / 1024:,.0f} | {tasks} | {told['seconds']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
