"""Incidents of two sets that touch, as all pairs say; and files and folds make no other ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.findings.incidents import Incidents, incidents_of
from kstoolkit.findings.lasting import NEWCOMERS
from tests.findings.made import HOUR, START, finding, findings

if TYPE_CHECKING:
    from kstoolkit.findings.finding import Finding
    from kstoolkit.findings.incidents import Incident

CAMPAIGN = {"kind": "Campaign", "rule": "Campaign 1 hour", "user": NEWCOMERS}


@st.composite
def found(draw: Any) -> Finding:
    """A finding of few users, of hours or of one that lasts; or a campaign, which names a user."""
    start_ms = START + draw(st.integers(0, 60)) * HOUR
    told = {"user": draw(st.sampled_from("abc")), "window_start_ms": start_ms}
    told |= {"action": draw(st.sampled_from("xy")), "rule": f"Unusual {draw(st.integers(0, 2))}"}
    if draw(st.booleans()):
        told["since_ms"] = start_ms - draw(st.integers(0, 9)) * HOUR
    return finding(**told | (CAMPAIGN if draw(st.integers(0, 5)) == 0 else {}))


MANY = st.lists(found(), max_size=25)


def made(some: list[Finding], gap: int) -> Incidents:
    return incidents_of([findings(*some).table], gap=gap, reached_ms=START)


def party(incident: Incident) -> Any:
    return incident.user or (incident.peak.by, incident.peak.action)


def touches(one: Incident, other: Incident, gap: int) -> bool:
    apart = max(one.since_ms, other.since_ms) - min(one.until_ms, other.until_ms)
    is_same_kind = (one.user is None) == (other.user is None)
    return is_same_kind and party(one) == party(other) and apart <= gap


@given(MANY, MANY, st.sampled_from([1, HOUR, 3 * HOUR, 7 * HOUR]))
def test_those_touch_of_which_a_pair_does(
    some: list[Finding], others: list[Finding], gap: int
) -> None:
    mine, theirs = made(some, gap), made(others, gap)
    right = [any(touches(one, other, gap) for other in theirs) for one in mine]
    assert mine.touching(theirs, gap).tolist() == right
    assert mine.touching(mine, gap).all()
    assert not mine.touching(Incidents.none(), gap).any()
    chosen = mine.where(np.array(right, bool))
    assert [each.id for each in chosen] == [
        e.id for e, is_so in zip(mine, right, strict=True) if is_so
    ]


@given(st.lists(MANY, max_size=4), st.data())
def test_files_of_a_batch_and_the_order_in_them_make_no_other_incidents(
    batches: list[list[Finding]], data: Any
) -> None:
    whole, parts = [], []
    for number, told in enumerate(batches):
        rows = numbered(told, number)
        whole.append(rows)
        order = data.draw(st.permutations(range(len(rows))))
        at = data.draw(st.integers(0, len(rows)))
        shuffled = rows.take(pa.array(order, pa.int64()))
        parts += [shuffled.slice(0, at), shuffled.slice(at)]
    folded = pa.concat_tables([numbered([], 0), *whole])
    right = facts(incidents_of(whole, reached_ms=START))
    assert facts(incidents_of(parts, reached_ms=START)) == right
    assert facts(incidents_of([folded], reached_ms=START)) == right


def numbered(told: list[Finding], batch: int) -> pa.Table:
    """Return what a batch told, each finding once."""
    keys = {(f.rule, f.user, f.action, f.window_ms, f.window_start_ms): f for f in told}
    rows = findings(*keys.values()).table
    return rows.append_column("batch", pa.array(np.full(len(rows), batch)))


def facts(told: Incidents) -> list[tuple[Any, ...]]:
    return [
        (e.id, e.state, e.merged_into, e.since_ms, e.until_ms, e.peak, list(e.findings))
        for e in told
    ]
