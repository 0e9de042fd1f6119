"""How many false alarms there are in worlds of other laws than the detector's, and what is found.

    python -m tests.benchmarks.worlds [--seeds 11 12 13] [--rules default] [--worlds mixed jobs]

In each world 2,000 people do 550,000 things in 8 days, some of them eight and some 25 times as much
in one hour. A burst is *visible* if who knows the law, the user's rate and the hour, and all but
this hour's mood, would flag it at five false alarms a day. Rules look at complete hours, as
``kst.find`` does. Told are means over the seeds; worlds and seeds that something was chosen on are
not for judging it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

import kstoolkit as kst
from kstoolkit.events.worlds import Draws, Laws
from kstoolkit.findings.stories import find_in_windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.events.simulator import Simulation
    from kstoolkit.findings.evaluation import Evaluation
    from kstoolkit.findings.rules import Rule

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
ALL = ("mixed", "week", "surge", "newcomers", "jobs", "service")
WORLDS = {
    "own": (),
    **{name: (name,) for name in ("gamma", "lognormal", "pareto", "mixed", "lasting", "sittings")},
    **{name: ("gamma", name) for name in ("week", "surge", "newcomers", "jobs", "service")},
    "all of it": ALL,
}
RULES: dict[str, tuple[Rule, ...]] = {
    "default": (kst.Unusual("1 hour", false_alarms_per_day=5),),
    "all": (
        kst.Budget(5),
        kst.Unusual("1 hour"),
        kst.Drift("1 hour", by=[]),
        kst.TooEven("1 hour"),
        kst.Campaign("1 hour"),
    ),
}
LASTING = {"low-and-slow": 12, "doubled": 20, "slow-ramp": 10, "campaign": 500}
"""Beside bursts, where all rules look."""
EIGHTFOLD, BIG = "eightfold-hour", "25-fold-hour"
BUDGET, SAMPLE = 5.0, 200_000


def world(
    name: str, seed: int, *, days: int = 8, also: Mapping[str, int] = MappingProxyType({})
) -> Simulation:
    return kst.simulate(
        event_count=68_750 * days,
        users=2_000,
        duration=f"{days} days",
        start=pd.Timestamp("2026-03-02", tz="UTC").to_pydatetime(),
        actions=("view", "search", "edit"),
        seed=seed,
        abnormal={BIG: 20, EIGHTFOLD: 40, **also},
        world=WORLDS[name],
    )


def hours(events: pa.Table) -> pa.Table:
    """Return complete counts of each hour."""
    start = pc.multiply(pc.divide(events["time"].cast(pa.int64()), HOUR_MS), HOUR_MS)
    keys = pa.table({"window_start_ms": start, "user": events["user"], "action": events["action"]})
    counts = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    return counts.rename_columns([*keys.column_names, "count"])


def visible(simulation: Simulation, counts: pa.Table) -> pd.DataFrame:
    """Return the labels of bursts that an oracle sees."""
    labels = simulation.labels().to_pandas()
    labels = labels[labels.kind.isin([EIGHTFOLD, BIG])]
    frame = counts.to_pandas().set_index(["user", "action", "window_start_ms"])["count"]
    laws, span, habits = simulation._laws, simulation._span, simulation._habits()
    place = {name: row for row, name in enumerate(simulation._names().to_pylist())}
    rates = laws.rates(simulation.users) * simulation.event_count
    first = laws.first_hours(simulation.users, span)
    moods = laws.moods(Draws(1, "an oracle"), SAMPLE // 100, 100).ravel()
    cells = simulation.users * len(simulation.actions)
    seen = []
    for label in labels.itertuples():
        user, start_ms = place[label.user], int(label.since.value // 10**6)
        usual = laws.usual(habits.phase[[user]], span)[0]
        usual[: first[user]] = 0
        hour = (start_ms - span.start_ms) // HOUR_MS
        share = habits.mix[user] / habits.mix[user].sum()
        action = simulation.actions.index(label.action)
        mean = rates[user] * usual[hour] / usual.sum() * share[action]
        count = int(frame.get((label.user, label.action, start_ms), 0))
        seen.append(chance(count, mean, moods, laws) <= BUDGET / (cells * 24))
    some: pd.DataFrame = labels[np.array(seen, bool)]
    return some


def chance(count: int, mean: float, moods: np.ndarray, laws: Laws) -> float:
    """Return how probable so many are where the mood, or the number of sittings, may be any."""
    draws = np.random.default_rng(1)
    if laws.mood == "sittings":
        moods = draws.poisson(mean / 5, len(moods)) * 5 / mean
    return float((draws.poisson(mean * moods) >= count).mean())


@dataclass(frozen=True, slots=True)
class Outcome:
    told: Evaluation
    visible: Evaluation


def judged(name: str, seed: int, rules: tuple[Rule, ...]) -> Outcome:
    simulation = world(name, seed)
    counts = hours(simulation.events())
    found = find_in_windows({"1 hour": counts}, rules)
    seen = kst.evaluate(found, visible(simulation, counts))
    return Outcome(kst.evaluate(found, simulation.labels()), seen)


def row(name: str, outcomes: list[Outcome]) -> list[str]:
    told = [outcome.told for outcome in outcomes]
    later = [each.later_alarms_a_day or 0.0 for each in told]
    first = [each.first_day_alarms or 0 for each in told]
    machines = np.mean([sum(each.ordinary_alarms.values()) for each in told]) / 8
    kinds = [{kind.kind: kind for kind in each.kinds} for each in told]
    big = [each[BIG] for each in kinds]
    delays = [each.delay_ms for each in big if each.delay_ms is not None]
    spread = np.std(later, ddof=1) if len(later) > 1 else float("nan")
    return [
        name,
        f"{np.mean(later):.1f} ± {spread:.1f}",
        f"{np.mean(first):.0f}",
        f"{machines:.1f}",
        f"{sum(each.found for each in big)}/{sum(each.labels for each in big)}",
        of_visible(outcomes, BIG),
        of_visible(outcomes, EIGHTFOLD),
        f"{np.median(delays) / 60_000:.0f} min" if delays else "none found",
    ]


def of_visible(outcomes: list[Outcome], kind: str) -> str:
    seen = [each for outcome in outcomes for each in outcome.visible.kinds if each.kind == kind]
    return f"{sum(each.found for each in seen)}/{sum(each.labels for each in seen)}"


HEADS = ["world", "alarms a day after the first", "on the first day", "of machines a day"]
HEADS += ["25-fold found", "visible 25-fold found", "visible eightfold found", "delay"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.worlds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    parser.add_argument("--rules", choices=list(RULES), default="default")
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    asked = parser.parse_args()
    print(f"{len(asked.seeds)} seeds ({', '.join(map(str, asked.seeds))}), rules: {asked.rules}\n")
    print("| " + " | ".join(HEADS) + " |")
    print("|" + "---|" * len(HEADS))
    for name in asked.worlds:
        outcomes = [judged(name, seed, RULES[asked.rules]) for seed in asked.seeds]
        print("| " + " | ".join(row(name, outcomes)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
