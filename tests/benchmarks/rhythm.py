"""Whether a rhythm of the day predicts the days to come, of people whom nobody simulated.

    python -m tests.benchmarks.rhythm REPOSITORY [--since 2015] [--until 2025] [--commits 200]

Those who wrote to a git repository, each year of each apart: hours in which how many commits were
made. Each midnight from the third on it is asked whether a rhythm is shown by what there was, and
if so, how much more likely it makes each of the 24 hours that follow than the mean alone does.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import defaultdict
from datetime import UTC, datetime

import numpy as np

from kstoolkit.findings.peers import spread_of
from kstoolkit.findings.rhythm import busy_at, rhythm_of
from kstoolkit.findings.tails import PRIOR_DISPERSION, log_upper_tail, own_dispersion

HOUR, DAY, HOURS = 3_600_000, 86_400_000, 24


def years(repository: str, since: int, until: int, commits: int) -> list[tuple[int, np.ndarray]]:
    """Return for each author and year when the first hour begins, and the counts of all from it."""
    log = ["git", "-C", repository, "log", "--format=%at %ae"]
    told = subprocess.run(log, check=True, capture_output=True, text=True).stdout
    seconds = defaultdict[tuple[str, int], list[int]](list)
    for line in told.splitlines():
        at, _, author = line.partition(" ")
        year = datetime.fromtimestamp(int(at), UTC).year
        if since <= year < until:
            seconds[author, year].append(int(at))
    some = (np.array(each) // 3600 for each in seconds.values() if len(each) >= commits)
    return [(int(hour.min()) * HOUR, np.bincount(hour - hour.min())) for hour in some]


def gains(first_ms: int, counts: np.ndarray) -> list[float]:
    """Return by how much the log likelihood of each day that is predicted rises, where any is."""
    start = first_ms + np.arange(len(counts)) * HOUR
    waves, is_odd = counts * np.exp(2j * np.pi * (start % DAY) / DAY), start // DAY % 2 == 1
    found = []
    for n in range(2 * HOURS, len(counts) - HOURS, HOURS):
        known, next_day = counts[:n], slice(n, n + HOURS)
        history = (np.array([n]), np.array([known.sum()]), np.array([float(known @ known)]))
        halves = (np.array([waves[:n][~is_odd[:n]].sum()]), np.array([waves[:n][is_odd[:n]].sum()]))
        rhythm = rhythm_of(halves, history, np.array([first_ms]), HOUR)
        if rhythm[0]:
            busy = busy_at(start[next_day], np.repeat(rhythm, HOURS))
            with_it, without = (
                likelihood(counts[next_day], known.mean() * each, history, spread)
                for each, spread in ((busy, spread_of(rhythm)), (np.ones(HOURS), np.zeros(1)))
            )
            found.append(with_it - without)
    return found


def likelihood(
    counts: np.ndarray,
    mean: np.ndarray,
    history: tuple[np.ndarray, np.ndarray, np.ndarray],
    spread: np.ndarray,
) -> float:
    dispersion = own_dispersion(*history, np.array(PRIOR_DISPERSION), spread)
    variance = mean + dispersion * mean * mean
    each, more = (np.exp(log_upper_tail(counts + at, mean, variance)) for at in (0, 1))
    return float(np.log(each - more).sum())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rhythm")
    parser.add_argument("repository")
    parser.add_argument("--since", type=int, default=2015)
    parser.add_argument("--until", type=int, default=2025)
    parser.add_argument("--commits", type=int, default=200)
    asked = parser.parse_args()
    told = [
        gains(*each) for each in years(asked.repository, asked.since, asked.until, asked.commits)
    ]
    days = np.concatenate([np.empty(0), *map(np.array, told)])
    error = days.std() / max(len(days), 1) ** 0.5
    print(
        f"{sum(map(bool, told))} of {len(told)} years of an author have a rhythm; log likelihood "
        f"rises by {days.mean():.3f} ± {error:.3f} a day on {len(days)} days after it was shown, "
        f"{(days > 0).mean():.0%} of them better"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
