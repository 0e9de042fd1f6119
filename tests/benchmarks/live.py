"""What a live run costs: CPU of its whole process tree, at a steady rate and when nothing comes.

    python -m tests.benchmarks.live [--rates 0 10000] [--triggers "10 seconds" "1 second"]

A file of events lands each second, under a hidden name first. What the first half minute costs,
Java's start and its compiling, is left out.
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
        "time": now_ms - 1_000 + np.sort(draws.integers(1_000, size=rate)),
        "user": [f"user{user}" for user in users],
        "action": [f"action{action}" for action in draws.integers(8, size=rate)],
    }
    hidden = folder / f".{number}.parquet"
    pq.write_table(pa.table(events), hidden)
    hidden.rename(folder / f"{number}.parquet")


def live(folder: Path, rate: int, trigger: str, seconds: int) -> tuple[float, int]:
    """Return how many cores a live run takes, and how many micro-batches it begins meanwhile."""
    events, out = folder / "events", folder / "out"
    events.mkdir()
    land(events, 0, 1_000)
    names = ("--event-time", "time", "--user", "user", "--action", "action")
    asked = [sys.executable, "-m", "kstoolkit", "run", str(events), *names, "--out", str(out)]
    with (folder / "said").open("wb") as said:
        run = subprocess.Popen([*asked, "--follow", "--trigger", trigger], stdout=said, stderr=said)
    try:
        _wait_for_batch(out)
        cpu = TreeCpu()
        number = _steadily(events, 1, max(rate, 1_000), WARM_FILES, cpu)
        time.sleep(15)  # what came is counted
        spent, before, begun = cpu.seconds(), _batches(out), time.monotonic()
        _steadily(events, number, rate, seconds, cpu)
        took = time.monotonic() - begun
        return (cpu.seconds() - spent) / took, _batches(out) - before
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


def _wait_for_batch(out: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while not _batches(out):
        if time.monotonic() > until:
            message = f"The run began no micro-batch within {READY_SECONDS} s."
            raise TimeoutError(message)
        time.sleep(0.2)


def _batches(out: Path) -> int:
    commits = (out / "checkpoint" / "commits").glob("[0-9]*")
    return max((int(each.name) + 1 for each in commits if each.name.isdigit()), default=0)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", type=int, nargs="*", default=[0, 10_000])
    parser.add_argument("--triggers", nargs="*", default=["10 seconds", "1 second"])
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    print(machine())
    for trigger in given.triggers:
        for rate in given.rates:
            with tempfile.TemporaryDirectory() as folder:
                cores, batches = live(Path(folder), rate, trigger, given.seconds)
            each = f", {cores / rate * 1e6:.1f} CPU-s a million events" if rate else ""
            print(f"{rate:>7,} events/s, {trigger}: {cores:.3f} cores, {batches} batches{each}")


if __name__ == "__main__":
    main()
