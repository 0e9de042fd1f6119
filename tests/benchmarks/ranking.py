"""How well users are ranked on a day of Wikipedia's edits; the robot flag is the label only.

    python tests/benchmarks/ranking.py

prints average precision, area under the curve and precision at 20 and 100, for ranking by counts
alone (the mean rank of the busiest 1 minute, 5 minutes, 1 hour, and of the total) and for ours.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from kstoolkit.findings.ranking import rank_users

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


def ranked(edits: pd.DataFrame) -> pa.Table:
    totals = edits.groupby(["user", "namespace"]).size().rename("count").reset_index()
    peaks = busiest(edits, 60_000).rename("count").reset_index()
    return rank_users(
        pa.table({"user": totals["user"], "action": totals["namespace"], "count": totals["count"]}),
        pa.table({"user": peaks["user"], "count": peaks["count"]}),
    )


def ours(edits: pd.DataFrame) -> pd.Series:
    table = ranked(edits)
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


def main() -> None:
    edits = read_edits(data_file())
    robots = edits.groupby("user")["isRobot"].any()
    print(f"counts  {quality(by_counts(edits), robots)}")
    print(f"ours    {quality(ours(edits), robots)}")


if __name__ == "__main__":
    main()
