"""What labels say of findings, against plain Python: definitions written out, user by user."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.errors import ColumnError, ConfigurationError, InputError
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
START = datetime(2026, 3, 2, tzinfo=UTC)
START_MS = int(START.timestamp() * 1_000)


def finding(user: str, hour: int, *, action: str = "read", surprise: float = 6) -> dict[str, Any]:
    start_ms = START_MS + hour * HOUR_MS
    return {
        "rule": "Unusual 1 hour, 5 false alarms a day",
        "kind": "Unusual",
        "user": user,
        "action": action,
        "window": "1 hour",
        "window_ms": HOUR_MS,
        "window_start_ms": start_ms,
        "count": 9,
        "first_seen_ms": start_ms + HOUR_MS,
        "log10_probability": -surprise,
    }


def findings(*rows: dict[str, Any]) -> Findings:
    return Findings(pa.Table.from_pylist(list(rows), schema=FINDINGS_SCHEMA))


def label(user: str, hour: int, hours: int, **more: Any) -> dict[str, Any]:
    since = START + timedelta(hours=hour)
    return {"user": user, "kind": "burst", "action": None, "since": since} | {
        "until": since + timedelta(hours=hours),
        **more,
    }


def test_a_label_is_found_by_what_overlaps_it_and_is_about_its_action() -> None:
    labels = pd.DataFrame(
        [
            label("ann", 5, 2, action="read"),
            label("bo", 5, 2, action="write"),
            label("cy", 5, 2),
            label("di", 5, 2),
            label("ed", 5, 2, kind="ramp"),
        ]
    )
    found = findings(
        finding("ann", 6),  # within
        finding("bo", 6),  # another action
        finding("cy", 4),  # before
        finding("di", 5),
        finding("di", 6),  # twice: one label
        finding("nobody", 6),
    )
    told = kst.evaluate(found, labels)
    assert [(k.kind, k.labels, k.found, k.recall) for k in told.kinds] == [
        ("burst", 4, 2, 0.5),
        ("ramp", 1, 0, 0.0),
    ]
    assert told.kinds[0].delay_ms == 1.5 * HOUR_MS  # of 1 and 2 hours
    assert told.kinds[1].delay_ms is None
    assert (told.findings, told.days, told.alarms_a_day) == (6, 1, 3)
    assert told.alarms_error is told.later_alarms_a_day is None
    assert "one day" in told.unknown["alarms_error"]


def test_false_alarms_are_counted_by_day_and_machines_are_among_them() -> None:
    labels = pd.DataFrame([label("job", 0, 96, kind="nightly-job"), label("ann", 0, 96)])
    rows = [finding(f"user {n}", 5) for n in range(6)] + [finding("job", 24 * d) for d in range(4)]
    told = kst.evaluate(findings(*rows, finding("ann", 70)), labels)
    assert (told.days, told.alarms_a_day, told.first_day_alarms) == (4, 2.5, 7)
    assert told.later_alarms_a_day == 1
    assert told.alarms_error == pytest.approx(np.std([7, 1, 1, 1], ddof=1) / 2)
    assert told.ordinary_alarms == {"nightly-job": 4}
    assert [kind.kind for kind in told.kinds] == ["burst"]


def test_what_was_judged_may_be_said() -> None:
    told = kst.evaluate(findings(finding("ann", 5)), pa.table({"user": ["bo"]}), until="2026-03-12")
    assert (told.days, told.alarms_a_day, told.first_day_alarms) == (10, 0.1, 1)
    with pytest.raises(ConfigurationError, match="is not before until"):
        kst.evaluate(findings(), pa.table({"user": ["bo"]}), since="2026-03-12", until="2026-03-11")


def test_what_lies_outside_of_that_is_left_out() -> None:
    labels = pd.DataFrame([label("ann", 5, 2), label("ann", 100, 2, kind="ramp")])
    found = findings(finding("ann", 5), finding("bo", 5), finding("bo", 101))
    told = kst.evaluate(found, labels, since=START, until=START + timedelta(hours=30))
    assert [(kind.kind, kind.found) for kind in told.kinds] == [("burst", 1)]
    assert (told.findings, told.days, told.first_day_alarms) == (2, 1.25, 1)
    assert (told.later_alarms_a_day, told.alarms_error) == (0, None)
    assert told.unknown["alarms_error"] == "one day was judged"


def test_a_ranking_has_no_alarms_and_says_so() -> None:
    table = pd.DataFrame({"user": ["a", "b"], "score": [2.0, 1.0]})
    told = kst.evaluate(table, pa.table({"user": ["a"]}))
    assert repr(told) == "Evaluation(average precision 1)"
    assert {figure.name: figure.text for figure in told.figures()}["alarms_a_day"] == (
        "unknown (a ranking has no findings)"
    )


def plain_average_precision(scores: dict[str, float], abnormal: set[str]) -> float:
    """Return the area by its definition: over users from the highest score on, ties as one."""
    total, seen, hits, before = 0.0, 0, 0, 0
    for score in sorted(set(scores.values()), reverse=True):
        same = [user for user, each in scores.items() if each == score]
        seen, hits = seen + len(same), hits + len(abnormal.intersection(same))
        total += (hits - before) / len(abnormal) * hits / seen
        before = hits
    return total


users = st.sampled_from("abcdefghijklmnop")


@given(st.dictionaries(users, st.sampled_from([0.5, 1.0, 2.0, 3.5]), min_size=1), st.sets(users))
def test_average_precision_and_the_curve_are_those_of_the_definition(
    scores: dict[str, float], abnormal: set[str]
) -> None:
    table = pd.DataFrame({"user": list(scores), "score": list(scores.values())})
    told = kst.evaluate(table, pd.DataFrame({"user": pd.Series(sorted(abnormal), dtype=str)}))
    if not abnormal:
        assert told.average_precision is None
        return
    assert told.average_precision == pytest.approx(plain_average_precision(scores, abnormal))
    for point in told.curve:
        ranked = sorted(scores.values(), reverse=True)
        chosen = {user for user, each in scores.items() if each >= ranked[point.users - 1]}
        assert point.users == len(chosen)
        assert point.precision == pytest.approx(len(chosen & abnormal) / len(chosen))
        assert point.recall == pytest.approx(len(chosen & abnormal) / len(abnormal))


def test_what_samples_say_is_what_users_drawn_one_by_one_say() -> None:
    draw = random.Random(1)
    abnormal = {f"user {n}" for n in range(60)}
    scores = {
        f"user {n}": round(draw.gauss(1.0 if n < 60 else 0.0, 1), 1) for n in range(10, 1_000)
    }
    everybody = sorted(abnormal | scores.keys())
    samples = []
    for _ in range(400):
        drawn = draw.choices(everybody, k=len(everybody))
        named = {f"{user}#{n}": user for n, user in enumerate(drawn)}
        some = {name: scores[user] for name, user in named.items() if user in scores}
        wanted = {name for name, user in named.items() if user in abnormal}
        samples.append(plain_average_precision(some, wanted))
    table = pd.DataFrame({"user": list(scores), "score": list(scores.values())})
    told = kst.evaluate(table, pd.DataFrame({"user": sorted(abnormal)}))
    wide = np.quantile(samples, 0.975) - np.quantile(samples, 0.025)
    assert told.average_precision_low == pytest.approx(np.quantile(samples, 0.025), abs=wide / 5)
    assert told.average_precision_high == pytest.approx(np.quantile(samples, 0.975), abs=wide / 5)


def test_users_are_ranked_by_their_least_probable_finding() -> None:
    rows = [finding("a", 1, surprise=5), finding("a", 2, surprise=9), finding("b", 1, surprise=7)]
    told = kst.evaluate(findings(*rows), pa.table({"user": ["a", "gone"]}))
    assert [(p.users, p.precision, p.recall) for p in told.curve] == [(1, 1, 0.5), (2, 0.5, 0.5)]
    assert told.precision_at[10] == 0.1
    assert told.curve.to_pandas().columns.tolist() == ["users", "precision", "recall"]


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_labels_come_from_files_and_tables(form: str, tmp_path: Path) -> None:
    rows = [
        {
            "user": "<ann>",
            "kind": "burst",
            "since": "2026-03-02T05:00:00.000Z",
            "until": "2026-03-02T07:00:00.000Z",
            "action": None,
        },
        {"user": "bo", "kind": "", "since": None, "until": None, "action": "read"},
    ]
    given: Any = tmp_path / f"labels.{form}"
    if form == "json":
        given.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    elif form == "csv":
        pd.DataFrame(rows).to_csv(given, index=False)
    else:
        given = pd.DataFrame(rows)
    told = kst.evaluate(findings(finding("<ann>", 6), finding("bo", 90)), given)
    assert [(k.kind, k.found, k.delay_ms) for k in told.kinds] == [
        ("abnormal", 1, None),
        ("burst", 1, 2 * HOUR_MS),
    ]
    assert "&lt;ann&gt;" not in told._repr_html_()
    assert "<ann>" not in told._repr_html_()


@pytest.mark.parametrize(
    ("name", "text", "error", "says"),
    [
        ("no.json", None, InputError, "No such file"),
        ("a.json", "{", InputError, "No labels can be read"),
        ("a.json", '{"usr": "a"}', ColumnError, "Did you mean 'usr'?"),
        ("a.csv", "a\n1,2\n", InputError, "No labels can be read"),
        ("a.csv", "user,since\na,soon\n", ConfigurationError, "'soon' is not a time"),
    ],
)
def test_what_are_no_labels_is_said(
    name: str, text: str | None, error: type[Exception], says: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(error) as caught:
        kst.evaluate(findings(), tmp_path / name)
    assert says in str(caught.value)


def test_nothing_found_of_nobody_is_told_as_that() -> None:
    told = kst.evaluate(findings(), pa.table({"user": pa.array([], pa.string())}))
    assert "no labels" in repr(told)
    assert (len(told.curve), told.average_precision) == (0, None)
    assert "nobody" in told.unknown["average_precision"]
