"""What a live run costs: CPU of its whole process tree, at a steady rate and when nothing comes.

    python -m tests.benchmarks.live [--rates 0 10000] [--triggers "10 seconds" "1 second"] [--plain]

A file of events lands each second, under a hidden name first. What the first half minute costs,
Java's start and its compiling, is left out. With ``--plain`` it is plain Spark streaming, one query
of the same three windows on RocksDB, whose counts go nowhere.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.measuring import TreeCpu
from tests.benchmarks.table import machine

WARM_FILES = 60
READY_SECONDS = 180


def land(folder: Path, number: int, rate: int) -> None:
    """Have so many events of the last second land in one file."""
    draws, now_ms = np.random.default_rng(number), time.time_ns() // 1_000_000
    users = draws.zipf(1.2, rate) % 800_000
    events = {
        "time": pa.array(
            now_ms - 1_000 + np.sort(draws.integers(1_000, size=rate)), pa.timestamp("ms", "UTC")
        ),
        "user": [f"user{user}" for user in users],
        "action": [f"action{action}" for action in draws.integers(8, size=rate)],
    }
    hidden = folder / f".{number}.parquet"
    pq.write_table(pa.table(events), hidden)
    hidden.rename(folder / f"{number}.parquet")


def live(folder: Path, rate: int, trigger: str, seconds: int, *, plain: bool) -> tuple[float, int]:
    """Return how many cores a live run takes, and how many micro-batches it begins meanwhile."""
    events, out = folder / "events", folder / "out"
    events.mkdir()
    land(events, 0, 1_000)
    names = ("--event-time", "time", "--user", "user", "--action", "action")
    asked = ["kstoolkit", "run", str(events), *names, "--out", str(out), "--follow"]
    commits = out / "checkpoint" / "commits"
    if plain:
        out.mkdir()
        asked = ["tests.benchmarks.spark_streaming", str(events), str(out)]
        commits = out / "checkpoint" / "all" / "commits"
    command = [sys.executable, "-m", *asked, "--trigger", trigger]
    with (folder / "said").open("wb") as said:
        run = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        _wait_for_batch(commits)
        cpu = TreeCpu()
        number = _steadily(events, 1, max(rate, 1_000), WARM_FILES, cpu)
        time.sleep(15)  # what came is counted
        spent, before, begun = cpu.seconds(), _batches(commits), time.monotonic()
        _steadily(events, number, rate, seconds, cpu)
        took = time.monotonic() - begun
        return (cpu.seconds() - spent) / took, _batches(commits) - before
    finally:
        run.send_signal(signal.SIGINT)
        run.wait()


def _steadily(events: Path, first: int, rate: int, seconds: int, cpu: TreeCpu) -> int:
    begun = time.monotonic()
    for number in range(first, first + seconds):
        if rate:
            land(events, number, rate)
        cpu.seconds()  # Spark ends workers that have nothing to do
        time.sleep(max(0, begun + number - first + 1 - time.monotonic()))
    return first + seconds


def _wait_for_batch(commits: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while not _batches(commits):
        if time.monotonic() > until:
            message = f"The run began no micro-batch within {READY_SECONDS} s."
            raise TimeoutError(message)
        time.sleep(0.2)


def _batches(commits: Path) -> int:
    numbers = (each.name for each in commits.glob("[0-9]*"))
    return max((int(each) + 1 for each in numbers if each.isdigit()), default=0)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", type=int, nargs="*", default=[0, 10_000])
    parser.add_argument("--triggers", nargs="*", default=["10 seconds", "1 second"])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    print(machine())
    for trigger in given.triggers:
        for rate in given.rates:
            with tempfile.TemporaryDirectory() as folder:
                cores, batches = live(Path(folder), rate, trigger, given.seconds, plain=given.plain)
            each = f", {cores / rate * 1e6:.1f} CPU-s a million events" if rate else ""
            print(f"{rate:>7,} events/s, {trigger}: {cores:.3f} cores, {batches} batches{each}")


if __name__ == "__main__":
    main()
