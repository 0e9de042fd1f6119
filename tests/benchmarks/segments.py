"""What a batch costs that touches a little of a large segment of counts, or of many baselines.

    python -m tests.benchmarks.segments [--counters 1200000] [--share 0.01] [--batches 20]

The blocks lie in a dict: nothing of Spark's is measured.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa

from kstoolkit.counters.bucket import Place, Segments
from kstoolkit.counters.counters import Counters
from kstoolkit.findings.baselines import Baselines
from tests.benchmarks.table import machine

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def drawn(draws: np.random.Generator, number: int, users: int) -> Counters:
    """Return so many counts of a day's hours, of users and actions at random."""
    starts = draws.integers(24, size=number) * HOUR_MS
    who = pa.array([f"user{user}" for user in draws.integers(users, size=number)])
    what = pa.array([f"action{action}" for action in draws.integers(8, size=number)])
    return Counters.of(starts, who, what)


def of_baselines(cells: int, share: float, closings: int) -> str:
    """Return what closing an hour costs in which a share of the cells had counts."""
    draws, blocks = np.random.default_rng(1), dict[str, bytes]()
    written, spent, size = 0, 0.0, 0
    for hour in range(closings + 1):
        who = np.arange(cells) if hour == 0 else draws.choice(cells, int(cells * share), False)
        counts = {
            "window_start_ms": np.full(len(who), hour * HOUR_MS),
            "user": pa.array([f"user{cell // 4}" for cell in who]),
            "action": pa.array([f"action{cell % 4}" for cell in who]),
            "count": draws.integers(1, 9, len(who)),
        }
        before, begun = dict(blocks), time.process_time()
        learnt = Baselines.at(blocks, "history/1") or Baselines.empty(HOUR_MS)
        learnt.close(pa.table(counts), (hour + 1) * HOUR_MS, 100)
        learnt.put(blocks, "history/1")
        if hour:
            spent += time.process_time() - begun
            written += sum(len(b) for key, b in blocks.items() if before.get(key) is not b)
        else:
            size = sum(map(len, blocks.values()))
    return (
        f"{cells:,} baselines of {size / 1e6:.1f} MB, {share:.1%} of them changed at each of "
        f"{closings} closings: {spent / closings / cells * 1e9:.0f} ns a baseline held, "
        f"{written / closings / 1e6:.2f} MB written a closing."
    )


def main() -> None:
    """Measure, and print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counters", type=int, default=1_200_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--batches", type=int, default=20)
    given = parser.parse_args()
    draws, blocks = np.random.default_rng(1), dict[str, bytes]()
    segments, users = Segments(blocks, "counts/1/", DAY_MS), given.counters // 4
    segments.add(drawn(draws, given.counters, users))
    came = [drawn(draws, int(given.counters * given.share), users) for _ in range(given.batches)]
    written, spent, held = 0, 0.0, len(segments.at(Place(0)))
    for delta in came:
        before, begun = dict(blocks), time.process_time()
        segments.add(delta)
        spent += time.process_time() - begun
        written += sum(len(block) for key, block in blocks.items() if before.get(key) is not block)
    print(machine())
    print(
        f"{held:,} counters held, {given.share:.1%} of them touched in each of {given.batches} "
        f"batches: {spent / given.batches / held * 1e9:.0f} ns a counter held, "
        f"{written / given.batches / 1e6:.2f} MB written a batch."
    )
    print(of_baselines(given.counters, given.share, given.batches))


if __name__ == "__main__":
    main()
