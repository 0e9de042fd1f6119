from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.history import find_in_windows
from kstoolkit.findings.rules import Ceiling, Unusual

if TYPE_CHECKING:
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window

    Levels = dict[Window | Duration, pa.Table]

MINUTE, HOUR = 60_000, 3_600_000


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
