from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.finding import Findings
from kstoolkit.findings.rules import Ceiling, Unusual
from kstoolkit.findings.stories import (
    find_in_windows,
    fold_stories,
    merge_findings,
    with_other_levels,
)
from kstoolkit.windows import Hop, as_window
from tests.findings.made import CEILING, DAY, HOUR, MINUTE, START, finding, findings

if TYPE_CHECKING:
    from kstoolkit.findings.finding import Finding
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window

    Levels = dict[Window | Duration, pa.Table]


def ceiling(window: str, window_ms: int, start_ms: int = START, **changed: Any) -> Finding:
    facts = CEILING | {"window": window, "window_ms": window_ms, "window_start_ms": start_ms}
    return finding(**facts | {"rule": f"Ceiling 9 per {window}"} | changed)


def folded(*records: Finding) -> list[Finding]:
    return list(Findings(fold_stories(findings(*records).table)))


def counts(*rows: tuple[int, str, str, int]) -> pa.Table:
    names = ("window_start_ms", "user", "action", "count")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_a_finding_told_again_is_listed_once_with_its_latest_count_and_first_sight() -> None:
    tables = [
        findings(finding(count=count, first_seen_ms=seen)).table
        for count, seen in ((20, 100), (61, 200), (60, 300))
    ]
    merged = list(Findings(merge_findings(tables)))
    assert [(f.count, f.first_seen_ms) for f in merged] == [(60, 100)]


def test_findings_of_another_rule_user_action_or_window_stay_apart() -> None:
    others = [
        finding(rule="another"), finding(user="b"), finding(action="b"),
        finding(window_start_ms=START + HOUR), finding(window="1 day", window_ms=DAY),
    ]  # fmt: skip
    assert merge_findings([findings(finding(), *others).table]).num_rows == 6


def test_what_turned_out_to_be_certain_is_a_finding_no_more_unless_it_is_one_again() -> None:
    first, second, third = (
        findings(finding(log10_probability=log10), finding(user="b", log10_probability=-9.0)).table
        for log10 in (-8.0, 0.0, -7.0)
    )
    told = [
        [(row.user, row.log10_probability) for row in Findings(merge_findings(tables))]
        for tables in ([first], [first, second], [first, second, third])
    ]
    other = ("b", -9.0)
    assert told == [[("ClueBot NG", -8.0), other], [other], [("ClueBot NG", -7.0), other]]


def session(start: int, end: int, **changed: Any) -> Finding:
    facts = {"window": "session 30 minutes", "window_ms": -HOUR // 2, "kind": "Longer"}
    times = {"window_start_ms": START + start * MINUTE, "session_end_ms": START + end * MINUTE}
    return finding(
        **facts | {"rule": "Longer than 1 hour per session 30 minutes"} | times | changed
    )


def test_a_session_that_became_part_of_another_is_that_one() -> None:
    first = findings(session(0, 70), session(200, 300), session(0, 70, user="b"))
    later = findings(session(-9, 120), session(400, 500), session(200, 310, user="b"))
    last = findings(session(-9, 330))
    merged = Findings(merge_findings([first.table, later.table, last.table]))
    told = [
        ((f.window_start_ms - START) // MINUTE, (f.window_end_ms - START) // MINUTE, f.user[0])
        for f in merged
    ]
    assert told == [(-9, 330, "C"), (0, 70, "b"), (200, 310, "b"), (400, 500, "C")]


def test_what_came_before_a_part_of_it_was_found_stays() -> None:
    tables = [findings(each).table for each in (session(0, 300), session(100, 200))]
    assert len(Findings(merge_findings(tables))) == 2


def test_sessions_and_windows_are_stories_of_their_own() -> None:
    day = ceiling("1 day", DAY, START - START % DAY)
    both = folded(session(0, 50, kind="Ceiling"), ceiling("1 hour", HOUR), day)
    assert {each.window for each in both} == {"1 day", "session 30 minutes"}


def test_a_session_that_is_counted_as_part_of_another_is_told_no_more() -> None:
    told = findings(session(0, 70), session(200, 300), session(0, 70, user="b")).table
    times = [START - 9 * MINUTE, START + 200 * MINUTE, START]
    ends = [START + 120 * MINUTE, START + 300 * MINUTE, START + 80 * MINUTE]
    counts = pa.table(
        {"window_start_ms": times, "user": ["ClueBot NG", "ClueBot NG", "b"]}
        | {"action": ["Main"] * 3, "count": [7, 8, 9], "end_ms": ends}
    )
    kept = Findings(with_other_levels(told, {as_window("session 30 minutes"): counts}))
    assert [(each.user, each.window_start_ms) for each in kept] == [
        ("ClueBot NG", START + 200 * MINUTE),
        ("b", START),
    ]
    gone = findings(session(0, 70)).table
    assert not len(with_other_levels(gone, {as_window("session 30 minutes"): counts}))
    nothing = {as_window("session 30 minutes"): counts.slice(0, 0)}
    assert len(Findings(with_other_levels(told, nothing))) == 3


def test_merging_nothing_is_nothing() -> None:
    assert merge_findings([]).num_rows == 0


def test_the_same_story_in_a_finer_window_is_folded_into_the_coarser() -> None:
    minute = ceiling("1 minute", MINUTE, START + 7 * MINUTE, first_seen_ms=5)
    hour = ceiling("1 hour", HOUR, first_seen_ms=9)
    kept = folded(minute, hour)
    assert [(f.window, f.first_seen_window, f.first_seen_ms) for f in kept] == [
        ("1 hour", "1 minute", 5)
    ]


def test_three_levels_of_a_story_are_one_that_names_the_finest() -> None:
    levels = [
        ceiling("1 hour", HOUR), ceiling("1 minute", MINUTE, START + MINUTE),
        ceiling("1 day", DAY, START - 10 * HOUR), ceiling("1 minute", MINUTE, START + HOUR),
    ]  # fmt: skip
    kept = folded(*levels)
    assert [(f.window, f.first_seen_window) for f in kept] == [("1 day", "1 minute")]


def test_another_user_action_kind_or_time_is_another_story() -> None:
    hour = ceiling("1 hour", HOUR)
    others = [
        ceiling("1 minute", MINUTE, user="b"), ceiling("1 minute", MINUTE, action="b"),
        ceiling("1 minute", MINUTE, START + HOUR), ceiling("1 minute", MINUTE, START - MINUTE),
        ceiling("1 minute", MINUTE, kind="Unusual"),
    ]  # fmt: skip
    assert len(folded(hour, *others)) == 6


def test_a_window_inside_any_hop_is_folded_into_it() -> None:
    hop = ceiling("5 minutes every 1 minute", 5 * MINUTE)
    first, last, after = (ceiling("1 minute", MINUTE, START + n * MINUTE) for n in (0, 4, 5))
    assert [f.window_start_ms for f in folded(hop, first, last, after)] == [
        START,
        START + 5 * MINUTE,
    ]


def test_a_window_is_inside_the_earliest_hop_that_holds_it_though_none_divides_the_other() -> None:
    hop = ceiling("5 minutes every 2 minutes", 5 * MINUTE)
    inside, after = (ceiling("1 minute", MINUTE, START + n * MINUTE) for n in (4, 5))
    assert [f.window_start_ms for f in folded(hop, inside, after)] == [START, START + 5 * MINUTE]


def test_folding_nothing_is_nothing() -> None:
    assert folded() == []


def test_other_levels_are_the_window_around_and_the_busiest_inside() -> None:
    levels = {
        as_window("1 minute"): counts(
            (START - MINUTE, "ClueBot NG", "Main", 99), (START, "ClueBot NG", "Main", 3),
            (START + 59 * MINUTE, "ClueBot NG", "Main", 8),
            (START + HOUR, "ClueBot NG", "Main", 98),
            (START, "ClueBot NG", "Talk", 97), (START, "other", "Main", 96),
        ),
        as_window("1 hour"): counts((START, "ClueBot NG", "Main", 61)),
        as_window("1 day"): counts((START - 10 * HOUR, "ClueBot NG", "Main", 129)),
        Hop("2 hours", every="1 hour"): counts((START, "ClueBot NG", "Main", 70)),
    }  # fmt: skip
    found = findings(finding(), finding(user="unknown"), finding(window_start_ms=START + DAY))
    told = list(Findings(with_other_levels(found.table, levels)))
    expected = {"1 minute": 8, "1 day": 129, "2 hours every 1 hour": 70}
    assert [f.other_levels for f in told] == [expected, {}, {}]


def test_without_other_levels_or_findings_nothing_is_put_beside() -> None:
    assert with_other_levels(findings(finding()).table, {}).num_rows == 1
    levels = {as_window("1 day"): counts((START, "a", "b", 1)).slice(0, 0)}
    assert with_other_levels(findings().table, levels).num_rows == 0
    assert Findings(with_other_levels(findings(finding()).table, levels))[0].other_levels == {}


def test_a_window_that_ends_after_a_hop_is_not_inside_it() -> None:
    hop = ceiling("5 minutes every 1 minute", 5 * MINUTE)
    inside, across = (ceiling("2 minutes", 2 * MINUTE, START + n * MINUTE) for n in (3, 4))
    starts = [f.window_start_ms for f in folded(hop, inside, across)]
    assert starts == [START, START + 4 * MINUTE]


def test_a_finding_tells_the_final_count_of_its_window() -> None:
    told = findings(finding(count=10))
    user, action = told[0].user, told[0].action
    grown = counts((START, user, action, 25))
    final = Findings(with_other_levels(told.table, {as_window(told[0].window): grown}))
    assert final[0].count == 25
    assert final[0].other_levels == {}


def level(every_ms: int, window: Any, user: Any, count: Any) -> pa.Table:
    return pa.table(
        {
            "window_start_ms": np.asarray(window, np.int64) * every_ms,
            "user": [f"user {number}" for number in user],
            "action": ["x"] * len(count),
            "count": np.asarray(count, np.int64),
        }
    )


@pytest.fixture(scope="module")
def levels() -> Levels:
    random = np.random.default_rng(8)
    hours = random.poisson(random.gamma(3, 1, (200, 1)), (200, 50))
    hours[17, 40] = 90
    user, hour = np.nonzero(hours)
    shuffled = random.permutation(len(user))
    user, hour = user[shuffled], hour[shuffled]
    minutes = level(MINUTE, [40 * 60 + 5, 40 * 60 + 6], [17, 17], [80, 10])
    return {"1 minute": minutes, "1 hour": level(HOUR, hour, user, hours[user, hour])}


def test_the_planted_outbreak_is_found_and_little_else(levels: Levels) -> None:
    findings = find_in_windows(levels, [Unusual("1 hour", false_alarms_per_day=0.5)])
    outbreak = [f for f in findings if (f.user, f.window_start_ms) == ("user 17", 40 * HOUR)]
    assert len(outbreak) == 1
    assert outbreak[0].other_levels == {"1 minute": 80}
    assert len(findings) <= 3


def test_one_story_over_two_levels_is_one_finding(levels: Levels) -> None:
    findings = find_in_windows(levels, [Ceiling("1 minute", 50), Ceiling("1 hour", 60)])
    assert [(f.window, f.first_seen_window) for f in findings] == [("1 hour", "1 minute")]


def test_the_order_of_rows_does_not_matter(levels: Levels) -> None:
    rules = [Unusual("1 hour", false_alarms_per_day=50)]
    hours = levels["1 hour"].sort_by([("count", "descending"), ("user", "ascending")])
    once, again = (find_in_windows({"1 hour": table}, rules) for table in (levels["1 hour"], hours))
    assert len(once) > 3
    for one, other in zip(once, again, strict=True):
        assert one.sentence == other.sentence
        assert one.log10_probability == pytest.approx(other.log10_probability)


def test_a_rule_without_its_level_is_refused(levels: Levels) -> None:
    with pytest.raises(ConfigurationError, match="looks at 1 day, which is not counted"):
        find_in_windows(levels, [Ceiling("1 day", 5)])


def test_no_counts_or_no_rules_find_nothing(levels: Levels) -> None:
    empty = {name: table.slice(0, 0) for name, table in levels.items()}
    assert len(find_in_windows(empty, [Unusual("1 hour"), Ceiling("1 minute", 1)])) == 0
    assert len(find_in_windows(levels, [])) == 0
