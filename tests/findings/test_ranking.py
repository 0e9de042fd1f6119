from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.ranking import _ALIKE, _RANKING_SCHEMA, rank_users
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
    """The definition, user by user, each beside all others but itself; no two have as many events
    where there are more than are alike."""
    n = {user: sum(mix.values()) for user, mix in counts.items()}
    actions = {action for mix in counts.values() for action in mix}
    votes = {a: sum(mix.get(a, 0) / n[u] for u, mix in counts.items()) for a in actions}
    peers = {a: (v + 0.5) / (len(counts) + 0.5 * len(actions)) for a, v in votes.items()}
    surprise = {
        user: round(sum(x / n[user] * math.log(x / n[user] / peers[a]) for a, x in mix.items()), 9)
        for user, mix in counts.items()
    }
    volumes = sorted({math.floor(2 ** (step / 8)) for step in range(200)})
    scores = {}
    for user in counts:
        others = [each for each in counts if each != user]
        at = []
        for volume in (v for v in volumes if n[user] / math.exp(4) < v <= n[user]):
            near = sorted(others, key=lambda each: (abs(math.log(n[each] / volume)), n[each]))
            alike = [user, *near[:_ALIKE]]
            burst = sum(peaks.get(o, 0) >= peaks.get(user, 0) for o in alike) / len(alike)
            mix = sum(surprise[o] >= surprise[user] for o in alike) / len(alike)
            at.append(math.log1p(volume) - math.log10(burst) - math.log10(mix))
        scores[user] = max(at)
    return scores


@settings(max_examples=25)
@given(st.integers(1, _ALIKE + 1), st.integers(1, 6), st.integers(0, 2**32 - 1))
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


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_each_user_is_compared_with_the_nearest_others(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.choice(np.arange(4, 4_000), 300, replace=False)
    counts = {}
    for number, n in enumerate(sizes.tolist()):
        some = int(random.integers(1, n))
        counts[f"u{number}"] = {"a": some, "b": n - some}
    peaks = {user: int(random.integers(1, 40)) for user in counts}
    ranked = rank_users(*tables(counts, peaks))
    told = dict(zip(ranked["user"].to_pylist(), ranked["score"].to_pylist(), strict=True))
    assert told == pytest.approx(oracle(counts, peaks))


@settings(max_examples=40)
@given(
    st.integers(2, 500), st.floats(0.005, 0.6), st.integers(0, 2**32 - 1), st.sampled_from([0, 1])
)
def test_one_event_more_never_lowers_a_score(
    users: int, often: float, seed: int, at_once: int
) -> None:
    random = np.random.default_rng(seed)
    sizes = random.geometric(often, users)
    counts = {f"u{number}": {"x": int(n)} for number, n in enumerate(sizes)}
    peaks = {u: 1 + int(random.binomial(mix["x"] - 1, 0.3)) for u, mix in counts.items()}
    user = f"u{random.integers(users)}"
    before = score_of(user, counts, peaks)
    counts[user]["x"] += 1
    peaks[user] += at_once
    assert score_of(user, counts, peaks) >= before


def test_from_31_events_to_32_nobody_loses_a_place() -> None:
    random = np.random.default_rng(1)
    counts = {f"u{number}": {"x": int(n)} for number, n in enumerate(random.geometric(0.04, 900))}
    peaks = {user: 1 + int(random.binomial(mix["x"] - 1, 0.2)) for user, mix in counts.items()}
    counts["mine"], peaks["mine"] = {"x": 31}, 7
    before = rank_users(*tables(counts, peaks))["user"].to_pylist().index("mine")
    counts["mine"] = {"x": 32}
    assert rank_users(*tables(counts, peaks))["user"].to_pylist().index("mine") <= before


def score_of(user: str, counts: dict[str, dict[str, int]], peaks: dict[str, int]) -> float:
    ranked = rank_users(*tables(counts, peaks))
    return float(ranked["score"][ranked["user"].to_pylist().index(user)].as_py())


def test_findings_lift_by_half_of_their_surprise_and_no_further_than_they_tell() -> None:
    counts = {name: {"x": 5} for name in ("a", "b", "c", "d")}
    chances = pa.table({"user": ["b", "c", "c", "e"], "log10_probability": [-4.0, -300, None, -9]})
    totals, peaks = tables(counts, dict.fromkeys(counts, 1))
    ranked = rank_users(totals, peaks, chances)
    scores = dict(zip(ranked["user"].to_pylist(), ranked["score"].to_pylist(), strict=True))
    assert scores["b"] - scores["a"] == pytest.approx(2)
    assert scores["c"] - scores["a"] == pytest.approx(4.5)
    assert ranked["reason"][0].as_py() == (
        "a finding of chance less than 1 in 10⁹; 5 events; all of them “x” (a usual mix); "
        "1 in the busiest minute (as is usual)."
    )


def test_a_reason_tells_of_incidents_and_of_the_finding_that_tells_most_of_them() -> None:
    counts = {name: {"x": 5} for name in ("a", "b", "c", "d")}
    totals, peaks = tables(counts, dict.fromkeys(counts, 1))
    chances = pa.table({"user": ["b", "c"], "log10_probability": [-4.0, -3.0]})
    incidents = pa.table(
        {"user": ["b", "b", "a", "z"], "state": ["open", "resolved", "open", "open"]}
    )
    for group in (None, "^[a-d]"):
        ranked = rank_users(totals, peaks, chances, incidents=incidents, group=group).to_pylist()
        told = {each["user"]: (each["incidents"], each["reason"]) for each in ranked}
        assert [told[user][0] for user in "abcd"] == [1, 2, 0, 0]
        both = "1 open incident and 1 resolved incident (a finding of chance 1 in 10,000); "
        assert told["b"][1].startswith(both)
        assert told["a"][1].endswith("; 1 open incident.")
        assert "a finding of chance 1 in 1,000; " in told["c"][1]
    assert rank_users(totals, peaks, chances)["incidents"].null_count == 4


def test_users_of_one_kind_are_compared_with_each_other_alone() -> None:
    counts = {f"svc-{n}": {"ping": 5 + n % 7} for n in range(50)}
    counts |= {f"user {n}": {"read": 5 + n % 7} for n in range(200)} | {"user 7": {"ping": 9}}
    peaks = dict.fromkeys(counts, 2)
    together = rank_users(*tables(counts, peaks))
    apart = rank_users(*tables(counts, peaks), group="^(?:svc|bot)-")
    share = {n: dict(zip(*(t[c].to_pylist() for c in ("user", "mix_share")), strict=True))
             for n, t in (("together", together), ("apart", apart))}  # fmt: skip
    assert share["together"]["user 7"] > share["apart"]["user 7"] == 1 / 100
    assert share["apart"]["svc-3"] == 1
    assert apart.num_rows == together.num_rows


@pytest.mark.parametrize("group", ["(", "(svc)-"])
def test_a_group_that_tells_no_kinds_is_refused(group: str) -> None:
    with pytest.raises(ConfigurationError, match="no regular expression that could tell kinds"):
        rank_users(*tables({"a": {"x": 1}}, {"a": 1}), group=group)


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
        "66 events; all of them “z” (1 % of comparably active users have as unusual a mix); "
        "20 in the busiest 5 minutes (1 % of comparably active users reach that)."
    )
    usual = rank_users(*tables(counts, peaks))["reason"].to_pylist()[-1]
    assert usual == (
        "66 events; 91 % of them “x” (a usual mix); 2 in the busiest minute (as is usual)."
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
