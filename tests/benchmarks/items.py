"""What a rule on different items is worth: outbreaks among users of other laws than a count's.

    python -m tests.benchmarks.items [--seeds 11 12 13]

Two thousand users for eight days, of moods that make busy and idle hours. What they touch: one to
four ``addresses`` each, ``pages`` by Zipf's law, or ``tokens``, another at each event. In an
outbreak somebody touches 40 that nobody else ever had, in one hour after the first day. Told are
false alarms a day after the first and on the first, and how many outbreaks are found, of 10, 30 or
100 in all.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import kstoolkit as kst
from kstoolkit.counters.distinct import Touched
from kstoolkit.findings.stories import find_in_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_MS, USERS, DAYS, ITEMS, BUDGET = 3_600_000, 2_000, 8, 40, 5
KINDS = ("addresses", "pages", "tokens")
NEW = 10**8


def touched(kind: str, seed: int, outbreaks: int) -> tuple[pa.Table, set[tuple[str, int]]]:
    """Return how many items each user touched each hour, and where outbreaks are."""
    draw = np.random.default_rng(seed)
    rate, hours = draw.lognormal(0, 1.2, USERS), DAYS * 24
    events = draw.poisson(rate[:, None] * draw.gamma(2, 0.5, (USERS, hours)))
    user, hour = np.nonzero(events)
    each = np.repeat(np.arange(len(user)), events[user, hour])
    user, hour = user[each], hour[each]
    items: Any = np.arange(len(user))
    if kind == "addresses":
        own = draw.integers(1, 5, USERS)
        items = user * 10 + (draw.random(len(user)) * own[user]).astype(np.int64)
    elif kind == "pages":
        items = np.minimum(draw.zipf(1.3, len(user)), NEW // 10)
    who, when = draw.choice(USERS, outbreaks, replace=False), draw.integers(24, hours, outbreaks)
    names = np.array([f"user {number}" for number in range(USERS)])
    columns = (
        np.append(hour, np.repeat(when, ITEMS)) * HOUR_MS,
        names[np.append(user, np.repeat(who, ITEMS))],
        np.append(items, NEW + np.arange(outbreaks * ITEMS)).astype(str),
    )
    sketches = Touched.of(columns[0], *map(pa.array, columns[1:]))
    counts = sketches.counts("items", ("",)).to_table().replace_schema_metadata(None)
    return counts, set(zip(names[who].tolist(), when.tolist(), strict=True))


def rows(seeds: list[int]) -> Iterator[tuple[str, int, float, float, float]]:
    """Yield kind, outbreaks, false alarms a day after the first and on it, share of found ones."""
    for kind in KINDS:
        for outbreaks in (10, 30, 100):
            told = []
            for seed in seeds:
                counts, there = touched(kind, seed, outbreaks)
                # As a run does: the number of items is judged as a count is.
                found = find_in_windows({"1 hour": counts}, [kst.Unusual("1 hour", BUDGET)])
                keys = {(each.user, each.window_start_ms // HOUR_MS) for each in found}
                false = [hour for _, hour in keys - there]
                first = sum(hour < 24 for hour in false)
                later = (len(false) - first) / (DAYS - 1)
                told.append((later, first, len(keys & there) / outbreaks))
            later, first, share = np.mean(told, axis=0)
            yield kind, outbreaks, later, first, share


def main() -> None:
    """Print the table."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    print("| items | outbreaks | false alarms a day after the first | on the first | found |")
    print("|---|---|---|---|---|")
    for kind, outbreaks, later, first, share in rows(given.parse_args().seeds):
        print(f"| {kind} | {outbreaks} | {later:.1f} | {first:.1f} | {share:.0%} |", flush=True)


if __name__ == "__main__":
    main()
