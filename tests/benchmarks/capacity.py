"""How near a law of users comes to what is counted, at 10⁴, 10⁵ and 10⁶ events a second.

    python -m tests.benchmarks.capacity [--rates 1e4 1e5 1e6] [--folder FOLDER]

Events are drawn one by one, by users of whom the n-th does ``1 / n`` as much as the first, and
counted: a micro-batch for each ten seconds of them. What the law expects stands beside what was
counted; and what a plan by the slowest run expects of the others, by more users of the kind.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kstoolkit as kst
from kstoolkit.operations.traffic import zipf
from tests.benchmarks.table import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.pipeline.run import Run

BEGIN_MS, BATCH_S, BATCHES, PARTS = 1_772_409_600_000, 10, 6, 2
USERS_A_RATE, ACTIONS = 10, 8
BUCKETS = 8


def write_events(folder: Path, rate: float) -> None:
    """Write the events of a minute, a file for each five seconds."""
    users, draws = int(rate) * USERS_A_RATE, np.random.default_rng(7)
    share = np.cumsum(1.0 / np.arange(1, users + 1))
    span_ms = BATCH_S * 1_000 // PARTS
    for part in range(BATCHES * PARTS):
        number = draws.poisson(rate * span_ms / 1_000)
        user = np.searchsorted(share, draws.random(number) * share[-1])
        time = np.sort(draws.integers(0, span_ms, number)) + BEGIN_MS + part * span_ms
        columns = {
            "time": pa.array(time, pa.timestamp("ms", tz="UTC")),
            "user": pa.array(user).cast(pa.string()),
            "action": pa.array(draws.integers(0, ACTIONS, number)).cast(pa.string()),
        }
        pq.write_table(pa.table(columns), folder / f"{part:03d}.parquet")


def counted(folder: Path, rate: float) -> Run:
    """Count them, a micro-batch for each ten seconds."""
    (folder / "in").mkdir(parents=True)
    write_events(folder / "in", rate)
    source = kst.files(folder / "in", event_time="time", user="user", action="action")
    pipeline = kst.Pipeline(source=source, rules=[], buckets=BUCKETS)
    run = pipeline.run(folder / "out", max_files_per_batch=PARTS)
    shutil.rmtree(folder / "in")
    return run


def beside(run: Run, rate: float) -> Iterator[tuple[str, float, float]]:
    """Yield what the law expects of a run, and what it counted."""
    traffic = zipf(rate, users=int(rate) * USERS_A_RATE, actions=ACTIONS)
    batches = run.batches()
    events = sum(each.events for each in batches)
    changed = sum(each.changed["1 minute"] for each in batches)
    yield "counters that an event of 10 s changes", traffic.changes(BATCH_S), changed / events
    minute = len(run.changelog.counters(60_000))
    yield "counters of a minute", traffic.counters(60), minute
    records = 3 * traffic.changes(BATCH_S) * events
    yield "records of the changelog", records, sum(each.changelog_records for each in batches)
    loads = [run.changelog.counters(60_000, bucket=n).total for n in range(BUCKETS)]
    yield "share of the largest bucket", traffic.largest_share(BUCKETS), max(loads) / sum(loads)


def planned(first: Run, run: Run, rate: float) -> Iterator[tuple[str, float, float]]:
    """Yield what a plan by the first run expects of another, and what that counted."""
    plan, told = kst.plan_capacity(first, rate=rate), run.summary()
    kept = 11  # a minute, and ten minutes of grace
    minute = plan["rows of 1 minute"] / kept
    yield "by the slowest: counters of a minute", minute, len(run.changelog.counters(60_000))
    each = told.changelog_bytes / told.changelog_records
    yield "by the slowest: bytes of a counter", plan["a counter"], each


def main() -> None:
    """Print a table."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--rates", type=float, nargs="+", default=[1e4, 1e5, 1e6])
    asked.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = asked.parse_args()
    sys.stdout.write(f"{machine()}\n| events/s | what | expected | counted | off |\n")
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for rate in given.rates:
            run = counted(Path(folder, f"{rate:.0f}"), rate)
            rows = [*beside(run, rate), *(planned(runs[0], run, rate) if runs else ())]
            for what, expected, found in rows:
                off = f"{100 * (expected / found - 1):+.2f} %"
                sys.stdout.write(
                    f"| {rate:,.0f} | {what} | {expected:,.4g} | {found:,.4g} | {off} |\n"
                )
            runs.append(run)


if __name__ == "__main__":
    main()
