"""How well users are ranked: on a day of Wikipedia's edits, and in worlds with labels.

    python -m tests.benchmarks.ranking [--seeds 11 12] [--worlds own lognormal]

prints average precision for ours and for ranking by counts alone (the mean rank of the busiest
1 minute, 5 minutes, 1 hour, and of the total), and their difference with 95 % of paired bootstrap
samples over users. The robot flag is the label only. The score was chosen on half of Wikipedia's
users, by a hash of their names, and on the worlds gamma, mixed, sittings, week and jobs, seeds 1
and 2; the other worlds, and other seeds, judge it.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from kstoolkit.findings.evaluation import ORDINARY
from kstoolkit.findings.ranking import rank_users
from kstoolkit.findings.rules import DEFAULT_RULES
from kstoolkit.findings.stories import find_in_windows
from tests.benchmarks.worlds import HOUR_MS, WORLDS, world

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.findings.rules import Rule

FILE = Path("wikiticker") / "wikiticker-2015-09-12-sampled.json.gz"


@dataclass(frozen=True, slots=True)
class Quality:
    average_precision: float
    auc: float
    precision_at_20: float
    precision_at_100: float

    def __str__(self) -> str:
        return (
            f"AP {self.average_precision:.3f}  AUC {self.auc:.3f}  "
            f"P@20 {self.precision_at_20:.2f}  P@100 {self.precision_at_100:.2f}"
        )


def data_file() -> Path:
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("KSTOOLKIT_DATA_DIR", root.parent / "shared" / "data")) / FILE


def read_edits(path: Path) -> pd.DataFrame:
    edits = pd.read_json(path, lines=True)[["time", "user", "namespace", "isRobot"]]
    times = pd.to_datetime(edits["time"], utc=True).dt.tz_localize(None)
    return edits.assign(time_ms=times.astype("datetime64[ms]").astype("int64"))


def ours(edits: pd.DataFrame, rules: Sequence[Rule] = DEFAULT_RULES) -> pd.Series:
    """Return users' scores, as ``run.users()`` tells them of a run with these rules."""
    totals = edits.groupby(["user", "namespace"]).size().rename("count").reset_index()
    peaks = busiest(edits, 60_000).rename("count").reset_index()
    hours = edits.assign(window_start_ms=edits["time_ms"] // HOUR_MS * HOUR_MS)
    keys = ["window_start_ms", "user", "namespace"]
    counts = pa.Table.from_pandas(hours.groupby(keys).size().rename("count").reset_index())
    found = find_in_windows(
        {"1 hour": counts.rename_columns([*keys[:2], "action", "count"])}, rules
    )
    names = ["user", "action", "count"]
    table = rank_users(
        pa.Table.from_pandas(totals, preserve_index=False).rename_columns(names),
        pa.Table.from_pandas(peaks, preserve_index=False),
        found.table,
    )
    return pd.Series(table["score"].to_pandas().to_numpy(), index=table["user"].to_pylist())


def by_counts(edits: pd.DataFrame) -> pd.Series:
    counts = [busiest(edits, size_ms) for size_ms in (60_000, 300_000, 3_600_000)]
    ranks = [count.rank() for count in (*counts, edits.groupby("user").size())]
    return sum(ranks[1:], start=ranks[0])


def busiest(edits: pd.DataFrame, size_ms: int) -> pd.Series:
    windows = edits["time_ms"] // size_ms
    return edits.groupby(["user", windows]).size().groupby("user").max()


def quality(score: pd.Series, robots: pd.Series) -> Quality:
    """Ties share their expectation: a tied group counts as if in random order."""
    truth = robots.reindex(score.index).to_numpy(dtype=float)
    order = np.argsort(-score.to_numpy(), kind="stable")
    value, truth = score.to_numpy()[order], truth[order]
    last = np.append(np.flatnonzero(np.diff(value)), len(value) - 1)
    hits, seen = np.cumsum(truth)[last], last + 1.0
    gained = np.diff(hits, prepend=0)
    group = np.diff(seen, prepend=0)
    negatives = group - gained
    ahead = hits - gained / 2
    auc = (negatives * ahead).sum() / (truth.sum() * (1 - truth).sum())
    expected = np.repeat(gained / group, group.astype(int))
    return Quality(
        average_precision=float((gained * hits / seen).sum() / truth.sum()),
        auc=float(auc),
        precision_at_20=float(expected[:20].mean()),
        precision_at_100=float(expected[:100].mean()),
    )


ABNORMAL = {"burst": 6, "ramp": 6, "low-and-slow": 6, "new-user-flood": 8, "shared-account": 8}
ABNORMAL |= {"eightfold-hour": 10, "25-fold-hour": 10, "doubled": 10, "slow-ramp": 6}
ABNORMAL |= {"campaign": 20}
UNSEEN = ["own", "lognormal", "pareto", "lasting", "surge", "newcomers", "service", "all of it"]


def of_world(name: str, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return a world's events as edits, and who is abnormal."""
    made = world(name, seed, abnormal=ABNORMAL)
    events = made.events().to_pandas().rename(columns={"action": "namespace"})
    time_ms = events["time"].dt.tz_localize(None).astype("datetime64[ms]").astype("int64")
    edits = events.assign(time_ms=time_ms, user=events["user"].astype(str))
    labels = made.labels().to_pandas()
    abnormal = labels[~labels["kind"].isin(ORDINARY)]["user"]
    users = edits["user"].unique()
    return edits, pd.Series(np.isin(users, abnormal), index=users)


def compared(edits: pd.DataFrame, truth: pd.Series) -> list[float]:
    """Return both average precisions, and 95 % of the differences over samples of users."""
    score, counts = ours(edits), by_counts(edits)
    score, truth = score.reindex(counts.index), truth.reindex(counts.index)
    draw, differences = np.random.default_rng(0), []
    for _ in range(500):
        rows = draw.integers(0, len(truth), len(truth))
        some = [each.iloc[rows].reset_index(drop=True) for each in (score, counts, truth)]
        aps = [quality(each, some[2]).average_precision for each in some[:2]]
        differences.append(aps[0] - aps[1])
    told = [quality(each, truth).average_precision for each in (score, counts)]
    return [*told, *np.quantile(differences, (0.025, 0.975))]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ranking")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    parser.add_argument("--worlds", nargs="*", choices=list(WORLDS), default=UNSEEN)
    asked = parser.parse_args()
    print(
        "| set | users() | mean rank of counts | difference, 95 % of samples |\n|---|---|---|---|"
    )
    edits = read_edits(data_file())
    robots = edits.groupby("user")["isRobot"].any()
    _say("Wikipedia's robots", [compared(edits.drop(columns="isRobot"), robots)])
    for name in asked.worlds:
        _say(name, [compared(*of_world(name, seed)) for seed in asked.seeds])


def _say(name: str, told: list[list[float]]) -> None:
    mine, counts, low, high = np.mean(told, axis=0)
    difference = f"{mine - counts:+.3f} ({low:+.3f} to {high:+.3f})"
    print(f"| {name} | {mine:.3f} | {counts:.3f} | {difference} |", flush=True)


if __name__ == "__main__":
    main()
