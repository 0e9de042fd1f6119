"""How many incidents one story makes, and how right an incident's certainty is.

    python -m tests.benchmarks.incidents [--seeds 21 22 23] [--worlds own week] [--gap "3 hours"]

A story is a label of the simulator: of ten kinds, in worlds of other laws, at all levels of the
cascade, under all rules. Told are, by kind, how many stories were found, by how many findings, and
how many incidents each makes, merged ones apart; and by certainty, how many incidents are of an
abnormal user. Who made the labels knows nothing of gaps.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import kstoolkit as kst
from kstoolkit.findings.evaluation import ORDINARY
from kstoolkit.findings.incidents import CERTAINTIES, GAP, MERGED, Incidents, incidents_of
from kstoolkit.findings.stories import find_in_windows
from tests.benchmarks.worlds import BURSTS, LASTING, WORLDS, world

if TYPE_CHECKING:
    import pandas as pd

MOMENTS_MS = {"1 minute": 60_000, "1 hour": 3_600_000, "1 day": 86_400_000}
RULES = (
    kst.Ceiling("1 minute", 60),
    kst.Unusual("1 minute"),
    kst.Unusual("1 hour"),
    kst.Unusual("1 day"),
    kst.Unusual("1 hour", by=[]),
    kst.Drift("1 hour", by=[]),
    kst.TooEven("1 hour"),
    kst.Campaign("1 hour"),
    kst.Budget(10),
)
OTHERS = {"burst": 8, "ramp": 8, "new-user-flood": 8, "shared-account": 8}


def levels(events: pa.Table) -> dict[str, pa.Table]:
    """Return complete counts of each level."""
    found = {}
    for label, size_ms in MOMENTS_MS.items():
        start = pc.multiply(pc.divide(events["time"].cast(pa.int64()), size_ms), size_ms)
        keys = pa.table(
            {"window_start_ms": start, "user": events["user"], "action": events["action"]}
        )
        counts = keys.group_by(keys.column_names).aggregate([([], "count_all")])
        found[label] = counts.rename_columns([*keys.column_names, "count"])
    return found


def of_stories(
    told: Incidents, labels: pd.DataFrame, made: defaultdict[str, list[tuple[int, int]]]
) -> set[int]:
    """Put in how many incidents, and findings, each story has; return whose incidents are true."""
    frame = told.to_pandas()
    frame = frame[frame["state"] != MERGED]
    true: set[int] = set()
    for kind, some in labels.groupby("kind"):
        for number, label in enumerate(some.itertuples()):
            mine = frame["user"] == label.user
            if kind == "campaign":
                mine |= frame["user"].isna()
            mine &= (frame["until"] > label.since) & (frame["since"] < label.until)
            if kind not in ORDINARY:
                true |= set(frame.index[mine])
            if mine.any() and (kind != "campaign" or not number):
                made[str(kind)].append((int(mine.sum()), int(frame["findings"][mine].sum())))
    return true


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22, 23])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS))
    parser.add_argument("--gap", default=GAP)
    parser.add_argument("--days", type=int, default=8)
    given = parser.parse_args()
    made: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    right, wrong = Counter[str](), Counter[str]()
    for name in given.worlds:
        for seed in given.seeds:
            abnormal = {**BURSTS, **LASTING, **OTHERS}
            simulation = world(name, seed, days=given.days, abnormal=abnormal)
            found = find_in_windows(levels(simulation.events()), RULES)
            last_ms = int(found.table["window_start_ms"].to_numpy().max(initial=0))
            told = incidents_of([found.table], gap=given.gap, reached_ms=last_ms)
            true = of_stories(told, simulation.labels().to_pandas(), made)
            for number, each in enumerate(told):
                if each.state != MERGED:
                    (right if number in true else wrong)[each.certainty] += 1
    print(f"gap {given.gap}; worlds {', '.join(given.worlds)}; seeds {given.seeds}\n")
    print("| kind | stories found | findings each, median | incidents: 1 | 2 | more | most |")
    print("|---|---|---|---|---|---|---|")
    for kind, counts in sorted(made.items()):
        incidents, findings = np.array(counts).T
        some = [(incidents == 1).sum(), (incidents == 2).sum(), (incidents > 2).sum()]
        cells = [kind, len(counts), f"{np.median(findings):.0f}", *some, incidents.max()]
        print(f"| {' | '.join(map(str, cells))} |")
    print("\n| certainty | incidents | of abnormal users |\n|---|---|---|")
    for grade in CERTAINTIES:
        total = right[grade] + wrong[grade]
        print(f"| {grade} | {total} | {right[grade] / max(total, 1):.0%} |")


if __name__ == "__main__":
    main()
