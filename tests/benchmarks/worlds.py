"""How many false alarms there are in worlds of other laws than the detector's, and what is found.

    python -m tests.benchmarks.worlds [--seeds 11 12 13] [--rules default] [--worlds mixed jobs]
        [--days 8]

In each world 2,000 people do 550,000 things in 8 days, some of them eight and some 25 times as much
in one hour. A burst is *visible* if who knows the law, the user's rate and the hour, and all but
this hour's mood, would flag it at five false alarms a day. Rules look at complete hours, as
``kst.find`` does. Told are means over the seeds; worlds and seeds that something was chosen on are
not for judging it.

Beside all rules stand what lasts, too: even machines, users who do twice as much from some moment
on, or a tenth more each day, and a campaign of 500 new accounts. A doubling is *visible* within a
day if who knows all of the above would flag it by the sum of its first 24 hours.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

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
    from kstoolkit.findings.finding import Findings
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


BURSTS = MappingProxyType({BIG: 20, EIGHTFOLD: 40})


def world(
    name: str, seed: int, *, days: int = 8, abnormal: Mapping[str, int] = BURSTS
) -> Simulation:
    return kst.simulate(
        event_count=68_750 * days,
        users=2_000,
        duration=f"{days} days",
        start=pd.Timestamp("2026-03-02", tz="UTC").to_pydatetime(),
        actions=("view", "search", "edit"),
        seed=seed,
        abnormal=abnormal,
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


def visible_doubled(simulation: Simulation, counts: pa.Table) -> set[str]:
    """Return who does twice as much, as an oracle sees within a day."""
    labels = simulation.labels().to_pandas()
    per_hour = counts.to_pandas().groupby(["user", "window_start_ms"])["count"].sum()
    laws, span, habits = simulation._laws, simulation._span, simulation._habits()
    place = {name: row for row, name in enumerate(simulation._names().to_pylist())}
    rates = laws.rates(simulation.users) * simulation.event_count
    moods = laws.moods(Draws(1, "an oracle"), SAMPLE // 10, 24)
    draws = np.random.default_rng(1)
    seen = set()
    for label in labels[labels.kind == "doubled"].itertuples():
        user, start_ms = place[label.user], int(label.since.value // 10**6)
        usual = laws.usual(habits.phase[[user]], span)[0]
        hour = (start_ms - span.start_ms) // HOUR_MS
        mean = rates[user] * usual[hour : hour + 24] / usual.sum()
        mood = moods[:, : len(mean)]
        if laws.mood == "sittings":
            mood = draws.poisson(np.maximum(mean, 1e-9) / 5, mood.shape) * 5 / mean
        sums = draws.poisson(mean * mood).sum(axis=1)
        count = per_hour[label.user].loc[start_ms : start_ms + DAY_MS - 1].sum()
        if (sums >= count).mean() <= BUDGET / simulation.users:
            seen.add(label.user)
    return seen


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a world went; of what lasts, after how many hours each was found, NaN if it was not."""

    told: Evaluation
    visible: Evaluation
    hours: dict[str, list[float]]
    doubled: list[float]


def judged(name: str, seed: int, rules: tuple[Rule, ...], days: int) -> Outcome:
    is_all = any(isinstance(rule, kst.Budget) for rule in rules)
    abnormal = {**BURSTS, **(LASTING if is_all else {})}
    simulation = world(name, seed, days=days, abnormal=abnormal)
    counts = hours(simulation.events())
    found = find_in_windows({"1 hour": counts}, rules)
    labels = simulation.labels()
    seen = kst.evaluate(found, visible(simulation, counts))
    after = {kind: hours_until(found, labels.to_pandas(), kind) for kind in LASTING if is_all}
    some = visible_doubled(simulation, counts) if is_all else set()
    doubled = [each for user, each in after.get("doubled", {}).items() if user in some]
    told = kst.evaluate(found, labels)
    return Outcome(told, seen, {k: [*v.values()] for k, v in after.items()}, doubled)


def hours_until(found: Findings, labels: pd.DataFrame, kind: str) -> dict[Any, float]:
    """Return after how many hours each user of a kind is found, whose campaign is."""
    frame = found.to_pandas()
    until = dict[Any, float]()
    for label in labels[labels.kind == kind].itertuples():
        mine = (frame.user == label.user) | ((frame.kind == "Campaign") & (kind == "campaign"))
        mine &= (frame.window_end > label.since) & (frame.window_start < label.until)
        ended = frame.window_end[mine].min()
        until[label.user] = (ended - label.since).total_seconds() / 3600
    return until


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


def row_of_lasting(name: str, outcomes: list[Outcome]) -> list[str]:
    told = [each.told for each in outcomes]
    later = [each.later_alarms_a_day or 0.0 for each in told]
    first = [each.first_day_alarms or 0 for each in told]
    after = {kind: [h for each in outcomes for h in each.hours[kind]] for kind in LASTING}
    big = [kind for each in told for kind in each.kinds if kind.kind == BIG]
    doubled = [h for each in outcomes for h in each.doubled]
    ramps = [h for h in after["slow-ramp"] if h <= HOURS_TO_FIVEFOLD]
    return [
        name,
        f"{np.mean(later):.1f}",
        f"{np.mean(first):.0f}",
        f"{sum(each.found for each in big)}/{sum(each.labels for each in big)}",
        within_a_day(after["low-and-slow"]),
        within_a_day(after["doubled"]),
        within_a_day(doubled),
        f"{np.nanmedian(after['doubled']):.0f} h",
        f"{len(ramps)}/{len(after['slow-ramp'])}",
        f"{sum(h <= 1 for h in after['campaign'])}/{len(after['campaign'])}",
    ]


def within_a_day(hours: list[float]) -> str:
    return f"{sum(h <= 24 for h in hours)}/{len(hours)}"


HOURS_TO_FIVEFOLD = float(24 * np.log(5) / np.log(1.1))
LASTING_HEADS = ["world", "alarms a day after the first", "on the first day", "25-fold found"]
LASTING_HEADS += ["even machines in 24 h", "doubled in 24 h", "visible ones in 24 h"]
LASTING_HEADS += ["doubled, median", "ramps before fivefold", "campaign in its hour"]
HEADS = ["world", "alarms a day after the first", "on the first day", "of machines a day"]
HEADS += ["25-fold found", "visible 25-fold found", "visible eightfold found", "delay"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.worlds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    parser.add_argument("--rules", choices=list(RULES), default="default")
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    asked = parser.parse_args()
    is_all = asked.rules == "all"
    heads, told = (LASTING_HEADS, row_of_lasting) if is_all else (HEADS, row)
    numbers = ", ".join(map(str, asked.seeds))
    print(f"{len(asked.seeds)} seeds ({numbers}), {asked.days} days, rules: {asked.rules}\n")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for name in asked.worlds:
        outcomes = [judged(name, seed, RULES[asked.rules], asked.days) for seed in asked.seeds]
        print("| " + " | ".join(told(name, outcomes)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
