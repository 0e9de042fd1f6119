from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.findings.ranking import _FEWEST_ALIKE, _RANKING_SCHEMA, rank_users
from tests.benchmarks.ranking import by_counts, ours, quality, read_edits

if TYPE_CHECKING:
    from pathlib import Path


def tables(counts: dict[str, dict[str, int]], peaks: dict[str, int]) -> tuple[pa.Table, pa.Table]:
    totals = [(user, action, n) for user, mix in counts.items() for action, n in mix.items()]
    user, action, n = zip(*totals, strict=True) if totals else ((), (), ())
    text = pa.string()
    return (
        pa.table({"user": pa.array(user, text), "action": pa.array(action, text),
                  "count": pa.array(n, pa.int64())}),
        pa.table({"user": pa.array(peaks, text), "count": pa.array(peaks.values(), pa.int64())}),
    )  # fmt: skip


def oracle(counts: dict[str, dict[str, int]], peaks: dict[str, int]) -> dict[str, float]:
    """The definition, user by user."""
    n = {user: sum(mix.values()) for user, mix in counts.items()}
    actions = {action for mix in counts.values() for action in mix}
    votes = {a: sum(mix.get(a, 0) / n[u] for u, mix in counts.items()) for a in actions}
    peers = {a: (v + 0.5) / (len(counts) + 0.5 * len(actions)) for a, v in votes.items()}
    surprise = {
        user: round(sum(x / n[user] * math.log(x / n[user] / peers[a]) for a, x in mix.items()), 9)
        for user, mix in counts.items()
    }
    groups: list[list[str]] = []
    group: list[str] = []
    for octave in range(64, -1, -1):
        group = group + [user for user in counts if int(math.log2(n[user])) == octave]
        if len(group) >= _FEWEST_ALIKE:
            groups, group = [*groups, group], []
    if groups:
        groups[-1] += group
    else:
        groups = [group]
    scores = {}
    for alike in groups:
        for user in alike:
            burst = sum(peaks.get(other, 0) >= peaks.get(user, 0) for other in alike) / len(alike)
            mix = sum(surprise[other] >= surprise[user] for other in alike) / len(alike)
            scores[user] = math.log1p(n[user]) - math.log10(burst) - math.log10(mix)
    return scores


@settings(max_examples=25)
@given(st.integers(1, 400), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_scores_are_those_of_the_definition(users: int, actions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    counts, peaks = {}, {}
    for number in range(users):
        chosen = random.choice(actions, random.integers(1, actions + 1), replace=False)
        sizes = random.geometric(random.choice([0.9, 0.2, 0.01]), len(chosen))
        counts[f"u{number}"] = {f"a{a}": int(n) for a, n in zip(chosen, sizes, strict=True)}
        peaks[f"u{number}"] = int(random.integers(1, 6))
    ranked = rank_users(*tables(counts, peaks))
    known = oracle(counts, peaks)
    ours_ = dict(zip(ranked["user"].to_pylist(), ranked["score"].to_pylist(), strict=True))
    assert ours_ == pytest.approx(known)


def test_the_most_abnormal_come_first_and_ties_by_name() -> None:
    counts = {name: {"x": 1} for name in ("c", "a", "b")} | {"z": {"x": 50, "y": 1}}
    ranked = rank_users(*tables(counts, dict.fromkeys(counts, 1)))
    assert ranked["user"].to_pylist() == ["z", "a", "b", "c"]
    assert ranked.schema == _RANKING_SCHEMA


def test_it_does_not_matter_in_which_order_counts_come() -> None:
    counts = {"a": {"x": 4, "y": 4}, "b": {"x": 4, "y": 4, "z": 1}, "c": {"z": 7}}
    totals, peaks = tables(counts, dict.fromkeys(counts, 1))
    backwards = totals.take(list(reversed(range(totals.num_rows))))
    assert rank_users(backwards, peaks).equals(rank_users(totals, peaks))


def test_one_action_alone_makes_no_mix_unusual() -> None:
    counts = {f"u{number}": {"x": number + 1} for number in range(50)}
    ranked = rank_users(*tables(counts, dict.fromkeys(counts, 1)))
    assert set(ranked["mix_share"].to_pylist()) == {1.0}


def test_reasons_say_volume_mix_and_busiest_window() -> None:
    counts = {f"u{number}": {"x": 60, "y": 6} for number in range(199)} | {"odd": {"z": 66}}
    peaks = dict.fromkeys(counts, 2) | {"odd": 20}
    first = rank_users(*tables(counts, peaks), window="5 minutes")["reason"].to_pylist()[0]
    assert first == (
        "66 events, all of them “z” (0.5 % of comparably active users have as unusual a mix); "
        "20 in the busiest 5 minutes (0.5 % of comparably active users reach that)."
    )
    usual = rank_users(*tables(counts, peaks))["reason"].to_pylist()[-1]
    assert usual == (
        "66 events, 91 % of them “x” (a usual mix); 2 in the busiest minute (as is usual)."
    )


def test_a_user_without_a_peak_counts_with_none() -> None:
    ranked = rank_users(*tables({"a": {"x": 3}}, {"somebody else": 9}))
    assert ranked["busiest"].to_pylist() == [0]


def test_nobody_is_ranked_without_events() -> None:
    assert rank_users(*tables({}, {})).num_rows == 0


def test_the_real_days_robots_are_ranked_better_than_by_counts(wikiticker: Path) -> None:
    edits = read_edits(wikiticker)
    robots = edits.groupby("user")["isRobot"].any()
    counted = quality(by_counts(edits), robots)
    assert counted.average_precision == pytest.approx(0.347, abs=0.003)
    ranked = quality(ours(edits.drop(columns="isRobot")), robots)
    assert ranked.average_precision >= 0.385
    assert ranked.auc > counted.auc
