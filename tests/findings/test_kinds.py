"""Peers of one kind alone: services beside people, each kind as if there were no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.calibration import Everyone
from kstoolkit.findings.lasting import Watch
from kstoolkit.findings.peers import kinds_of, of_all_kinds, of_kinds, pools_of
from kstoolkit.findings.rulefiles import rules_from_json, rules_to_json
from kstoolkit.findings.rules import of_parts
from kstoolkit.findings.stories import find_in_windows
from tests.findings.made import HOUR

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUP = "^(?:svc|bot)-"
HOURS = 72
ODD = ["svc-", "bot-\x1d", "Anna", "", "a\x1db", "svc-\x1d\x1d", "名前"]


def world(seed: int = 3) -> dict[str, NDArray[np.int64]]:
    """Hourly counts: 60 people, a handful an hour, and 40 services, about a thousand."""
    draw = np.random.default_rng(seed)
    people = {f"p{n}": draw.poisson(draw.lognormal(0.5, 0.7, 1), HOURS) for n in range(60)}
    busy = {f"svc-{n}": draw.poisson(draw.lognormal(6.9, 0.2, 1), HOURS) for n in range(40)}
    return people | busy


def hours(world: dict[str, NDArray[np.int64]], action: str = "x") -> pa.Table:
    rows = [(h * HOUR, user, n) for user, c in world.items() for h, n in enumerate(c.tolist()) if n]
    start, user, count = zip(*rows, strict=True)
    names = {"window_start_ms": start, "user": user, "action": [action] * len(user)}
    return pa.table(names | {"count": pa.array(count)})


def pools(counts: pa.Table, group: str | None) -> dict[Any, dict[str, Any]]:
    baselines = Baselines.empty(HOUR, watch=Watch(group=group))
    everyone = Everyone(HOUR)
    everyone.add([baselines.close(counts, HOURS * HOUR).moments], [])
    told = pools_of(everyone.moments).to_pylist()
    return {(row.pop("window_start_ms"), row.pop("action")): row for row in told}


@pytest.mark.parametrize("what", ["x", ""])  # of sums over all actions it is empty
def test_each_kind_has_the_peers_that_it_has_alone(what: str) -> None:
    everybody = world()
    together = pools(hours(everybody, what), GROUP)
    for kind in ("svc-", ""):
        alone = {who: c for who, c in everybody.items() if who.startswith("svc-") == bool(kind)}
        apart = pools(hours(alone, what), None)
        for (start, action), told in apart.items():
            name = f"{kind}\x1e" if action is None else f"{kind}\x1d{action}"
            assert together[start, name] == pytest.approx(told, nan_ok=True)
    starts = {start for start, _ in together}
    assert len(together) == 5 * len(starts)  # x and all of each kind, and all of all


def found(world: dict[str, NDArray[np.int64]], **rule: Any) -> set[tuple[str, int]]:
    told = find_in_windows({"1 hour": hours(world)}, [kst.Unusual("1 hour", 1, **rule)])
    return {(each.user, each.window_start_ms // HOUR) for each in told}


def test_a_new_service_is_as_services_are_and_a_person_who_does_as_much_is_not() -> None:
    there = world()
    there["svc-new"] = np.array([0] * 60 + [950] * 12)
    there["nobody"] = np.array([0] * 60 + [950] * 12)
    new = {"svc-new", "nobody"}
    assert {user for user, _ in found(there, group=GROUP)} & new == {"nobody"}
    assert not {user for user, _ in found(there)} & new  # among both, a thousand is nothing much


def test_a_kind_of_few_is_judged_by_each_ones_own_past() -> None:
    there = world()
    there |= {f"bot-{n}": np.array([20 + n] * 70 + [500, 20]) for n in range(3)}
    of_bots = {each for each in found(there, group=GROUP) if each[0].startswith("bot-")}
    assert of_bots == {(f"bot-{n}", 70) for n in range(3)}
    told = find_in_windows({"1 hour": hours(there)}, [kst.Unusual("1 hour", 1, group=GROUP)])
    assert {each.peers for each in told if each.user.startswith("bot-")} == {0}


@pytest.mark.parametrize("other", [None, "^svc-", "[0-4]$"])
def test_who_is_among_other_kinds_keeps_its_own_past(other: str | None) -> None:
    whole, at = hours(world()), 40 * HOUR
    is_early = pc.less(whole["window_start_ms"], at)
    told = []
    for group in (GROUP, other):
        baselines = Baselines.empty(HOUR, watch=Watch(2.0, evenness=True, group=group))
        baselines.close(whole.filter(is_early), at)
        baselines = Baselines.decode(baselines.encode(), Watch(2.0, evenness=True, group=other))
        closed = baselines.close(whole.filter(pc.invert(is_early)), HOURS * HOUR)
        names = sorted(closed.lasting.to_pylist(), key=str)
        told.append((sorted(closed.material.to_pylist(), key=str), names))
        assert len(baselines.cells) == 100
    assert told[0] == told[1]


@pytest.mark.parametrize("dictionary", [False, True])
def test_any_name_has_a_kind_and_any_action_comes_back(*, dictionary: bool) -> None:
    users, actions = pa.array(ODD * len(ODD)), pa.array(np.repeat(ODD, len(ODD)).tolist())
    who, what = (pa.chunked_array([each]) for each in (users, actions))
    if dictionary:
        who, what = who.dictionary_encode(), what.dictionary_encode()
    told = of_kinds(who, what, GROUP).combine_chunks()
    texts = told.cast(pa.string())
    assert of_all_kinds(texts).to_pylist() == actions.to_pylist()
    kinds = kinds_of(users, GROUP).to_pylist()
    assert len({*zip(kinds, actions.to_pylist(), strict=True)}) == len(set(texts.to_pylist()))


def test_the_group_is_part_of_the_rule() -> None:
    rule = kst.Unusual("1 hour", group=GROUP)
    assert rules_from_json(rules_to_json([rule])) == (rule,)
    assert rule.name.endswith(f" among kinds by {GROUP}")
    shared = of_parts([kst.Budget(4), rule, kst.Unusual("1 day")], ["action"])
    assert shared[0] == kst.Unusual("1 hour", 2, group=GROUP)


@pytest.mark.parametrize("group", ["(", "(a)", 5, ["x"], "(?P<kind>a)", "\ud800"])
def test_what_tells_no_kinds_is_refused(group: Any) -> None:
    with pytest.raises(ConfigurationError, match="no regular expression that could tell kinds"):
        kst.Unusual("1 hour", group=group)


def test_two_rules_on_the_same_counts_have_the_same_kinds() -> None:
    one, other = kst.Unusual("1 hour", 1, group=GROUP), kst.Unusual("1 hour", 9)
    with pytest.raises(ConfigurationError, match="each among other kinds"):
        of_parts([one, other], ["action"])
    assert len(of_parts([one, kst.Unusual("1 hour", 9, by=[])], ["action"])) == 2


def test_an_action_that_looks_as_of_a_kind_has_the_peers_of_all() -> None:
    there = world()
    there["p7"][60] = 500
    told = [
        find_in_windows({"1 hour": hours(there, action)}, [kst.Unusual("1 hour", 1)])
        for action in ("a_b", "a\x1db")
    ]
    assert [each.user for each in told[0]] == [each.user for each in told[1]]
    rare = pa.concat_tables([hours(there, "x"), hours({"p7": there["p7"] * 0 + 1}, "a\x1db")])
    assert {each.peers for each in find_in_windows({"1 hour": rare}, [kst.Unusual("1 hour", 1)])}
