"""What keys of several columns cost, and sessions: CPU beside one action of as many values.

    python -m tests.benchmarks.keys [--events 2000000] [--rounds 5]

The same events are counted in turn, each time by processes of their own: by one column of 8,000
values; by three of 8, 20 and 50, which are the same counters; and by the one column in sessions
besides. Told are CPU seconds of the whole process tree, the median of the ratios in one round, and
CPU for each counter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kstoolkit as kst
from kstoolkit.environment import ENDS_WITH_ITS_COMMAND
from kstoolkit.pipeline.session import spark_session
from tests.benchmarks.contestant import CORES, mark
from tests.benchmarks.measuring import Measured, measure

ROOT = Path(__file__).resolve().parents[2]
START_MS = 1_767_225_600_000
WIDTHS = {"region": 8, "operation": 20, "client": 50}
ONE, PARTS, SESSIONS = "one action", "three parts", "one action, and sessions"
WINDOWS = ("1 minute", "1 hour", "1 day")
SESSION = kst.Session("30 minutes")


def write(folder: Path, events: int, files: int = 8) -> None:
    """Write events of six hours, in order of time, users by a Zipf law."""
    draws = np.random.default_rng(1)
    times = START_MS + np.sort(draws.integers(0, 6 * 3_600_000, events))
    users = pa.array([f"user-{number:06d}" for number in range(max(events // 10, 1))])
    for number, part in enumerate(np.array_split(times, files)):
        values = {name: draws.integers(0, width, len(part)) for name, width in WIDTHS.items()}
        texts = {
            name: pa.array([f"{name}-{each:02d}" for each in range(WIDTHS[name])]).take(pa.array(v))
            for name, v in values.items()
        }
        joined = pa.array(map("/".join, zip(*(t.to_pylist() for t in texts.values()), strict=True)))
        who = users.take(pa.array(draws.zipf(1.2, len(part)) % len(users)))
        columns = {"time": pa.array(part, pa.timestamp("ms", tz="UTC")), "user": who}
        table = pa.table({**columns, **texts, "action": joined})
        pq.write_table(table, folder / f"part-{number:02d}.parquet", compression="zstd")


def count(variant: str, events: Path, out: Path) -> None:
    """Count the events, and say how many counters that made."""
    ENDS_WITH_ITS_COMMAND.set()  # as a command's process does
    action = list(WIDTHS) if variant == PARTS else "action"
    levels = (*WINDOWS, SESSION) if variant == SESSIONS else WINDOWS
    run = kst.Pipeline(
        source=kst.files(events, event_time="time", user="user", action=action),
        cascade=kst.Cascade(*levels),
        rules=(),
    ).run(out, master=f"local[{CORES}]", max_files_per_batch=2, progress=False)
    mark("counted", events=run.summary().events)
    sizes = [kst.Cascade(*levels).levels[at].size_ms for at in range(len(levels))]
    mark("told", counters=sum(len(run.changelog.counters(size_ms)) for size_ms in sizes))
    spark_session().stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.keys")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", nargs=3, metavar=("VARIANT", "EVENTS", "OUT"))
    asked = parser.parse_args()
    if asked.count:
        count(asked.count[0], Path(asked.count[1]), Path(asked.count[2]))
        return 0
    spent: dict[str, list[Measured]] = {ONE: [], PARTS: [], SESSIONS: []}
    with tempfile.TemporaryDirectory(prefix="kstoolkit-benchmark-") as work:
        events = Path(work, "events")
        events.mkdir()
        write(events, asked.events)
        for number in range(asked.rounds):
            for variant, done in spent.items():
                place = Path(work, f"{number}-{len(variant)}")
                command = [sys.executable, "-m", "tests.benchmarks.keys", "--count", variant]
                command += [str(events), str(place)]
                done.append(measure(command, Path(work, "stderr.log"), cwd=ROOT))
    print(f"{asked.events:,} events, {asked.rounds} rounds\n")
    print("| counted by | CPU seconds | beside one action | counters | CPU µs a counter |")
    print("|---|---|---|---|---|")
    for variant, done in spent.items():
        ratio = median(
            mine.cpu_seconds / one.cpu_seconds for mine, one in zip(done, spent[ONE], strict=True)
        )
        seconds = median(each.cpu_seconds for each in done)
        counters = done[0].marked("told")[0].facts["counters"]
        each = f"{seconds / counters * 1e6:.1f}"
        print(f"| {variant} | {seconds:.1f} | {ratio:.2f} | {counters:,} | {each} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
