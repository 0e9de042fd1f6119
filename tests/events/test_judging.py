from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.events.dead_letters import REASONS
from kstoolkit.events.judging import DAY_MS, Judged, Limits, judge

NOW_MS = 1_442_018_818_771
LIMITS = Limits(text_bytes=8)
IN_ORDER = [
    "no_user",
    "no_action",
    "no_time",
    "bad_time",
    "future_time",
    "long_user",
    "long_action",
]


def judged(
    times: object, users: object, actions: object, limits: Limits = LIMITS, now_ms: int = NOW_MS
) -> Judged:
    return judge(pa.array(times), pa.array(users), pa.array(actions), now_ms=now_ms, limits=limits)


TIMES = st.sampled_from(
    [(None, "no_time"), ("never", "bad_time"), ("2099-01-01", "future_time"), ("2015-01-01", None)]
)
TEXTS = st.sampled_from([None, "", "ok", "12345678", "123456789", "ééééé"])


@given(st.lists(st.tuples(TIMES, TEXTS, TEXTS), min_size=1, max_size=30))
def test_of_all_that_is_wrong_the_first_reason_is_told(
    rows: list[tuple[tuple[str | None, str | None], str | None, str | None]],
) -> None:
    expected: dict[int, str] = {}
    for place, ((_, what), user, action) in enumerate(rows):
        wrong = {what}
        wrong |= {"no_user"} if not user else {"long_user"} if len(user.encode()) > 8 else set()
        wrong |= (
            {"no_action"} if not action else {"long_action"} if len(action.encode()) > 8 else set()
        )
        if found := [reason for reason in IN_ORDER if reason in wrong]:
            expected[place] = found[0]
    times = pa.array([time for (time, _), _, _ in rows], pa.string())
    users, actions = (pa.array([row[at] for row in rows], pa.string()) for at in (1, 2))
    found_all = judge(times, users, actions, now_ms=NOW_MS, limits=LIMITS)
    assert dict(zip(found_all.bad.tolist(), found_all.reasons, strict=True)) == expected
    good = [place for place in range(len(rows)) if place not in expected]
    assert found_all.users.to_pylist() == [rows[place][1] for place in good]
    assert found_all.actions.to_pylist() == [rows[place][2] for place in good]
    assert len(found_all.time_ms) == len(good)


def test_every_reason_code_is_explained() -> None:
    assert set(IN_ORDER) < set(REASONS)


def test_a_limit_itself_is_allowed_and_one_more_is_not() -> None:
    just = judged([NOW_MS + DAY_MS], ["12345678"], ["ää" * 2])
    assert just.reasons == []
    assert judged([NOW_MS + DAY_MS + 1], ["a"], ["x"]).reasons == ["future_time"]
    assert judged([0], ["123456789"], ["x"]).reasons == ["long_user"]
    assert judged([0], ["a"], ["ää" * 2 + "x"]).reasons == ["long_action"]


def test_the_unit_of_times_is_taken_from_the_limits() -> None:
    assert judged([5], ["a"], ["x"]).time_ms.tolist() == [5_000]
    assert judged([5], ["a"], ["x"], Limits(time_unit="ms")).time_ms.tolist() == [5]


def test_records_without_any_event_leave_empty_columns() -> None:
    found = judged([None, None], ["a", "b"], ["x", "x"])
    assert (len(found.time_ms), len(found.users), len(found.actions)) == (0, 0, 0)
    assert found.bad.tolist() == [0, 1]


def test_no_records_are_no_events() -> None:
    found = judge(*(pa.array([], pa.string()),) * 3, now_ms=0, limits=LIMITS)
    assert (len(found.time_ms), found.bad.tolist()) == (0, [])
