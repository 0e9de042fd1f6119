"""Rules on sessions: what they find is what DuckDB's islands say, in whatever order events come."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from tests.pipeline.harness import events, source, write_files
from tests.pipeline.test_sessions import ALL, EACH, expected

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.findings.finding import Findings
    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

MANY = 9
LONG = timedelta(minutes=40)
RULES = (
    kst.Ceiling(EACH, 2),
    kst.Longer(EACH, LONG),
    kst.Ceiling(ALL, MANY, by=[]),
    kst.Longer(ALL, "10 minutes"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that looked at sessions while they grew: files in no order of time, one by one."""
    folder: Path = tmp_path_factory.mktemp("session-rules")
    write_files(folder / "in", events(2_500, users=30, hours=20), 5)
    cascade = kst.Cascade("1 hour", EACH, ALL)
    looking = kst.Pipeline(source=source(folder / "in"), cascade=cascade, rules=RULES, buckets=3)
    looking.run(folder / "out", max_files_per_batch=1, progress=False)
    return folder


def in_all(rows: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """Return users' sessions, given those by action."""
    sums: dict[tuple[Any, ...], int] = {}
    for first, last, user, _, count in rows:
        sums[first, last, user, ""] = sums.get((first, last, user, ""), 0) + count
    return {(*key, count) for key, count in sums.items()}


def found(run: Run, rule: kst.Ceiling | kst.Longer) -> set[tuple[Any, ...]]:
    told = [each for each in run.findings if each.rule == rule.name]
    rows = {(e.window_start_ms, e.window_end_ms, e.user, e.action, e.count) for e in told}
    assert len(rows) == len(told)
    return rows


def test_sessions_with_too_many_and_too_long_ones_are_found_each_once_as_they_became(
    place: Path,
) -> None:
    run, paths = kst.load_run(place / "out"), sorted((place / "in").iterdir())
    each, together = expected(paths, EACH), in_all(expected(paths, ALL))
    right = [
        {row for row in each if row[-1] > 2},
        {row for row in each if row[1] - row[0] > LONG / timedelta(milliseconds=1)},
        {row for row in together if row[-1] > MANY},
        {row for row in together if row[1] - row[0] > 600_000},
    ]
    assert [found(run, rule) for rule in RULES] == right
    # Some were told and are no more: parts of sessions that grew together.
    told = pq.read_table(place / "out" / "findings", partitioning=None)
    spans = zip(
        *(told[name].to_pylist() for name in ("rule", "window_start_ms", "user")), strict=True
    )
    assert len(set(spans) - {(f.rule, f.window_start_ms, f.user) for f in run.findings}) > 20
    assert min(map(len, right)) > 5


def test_the_same_is_found_in_the_changelog_alone(place: Path) -> None:
    run = kst.load_run(place / "out")
    again = kst.find(place / "out", RULES)

    def facts(some: Findings) -> list[tuple[Any, ...]]:
        return [
            (f.rule, f.user, f.action, f.window_start_ms, f.window_end_ms, f.count) for f in some
        ]

    assert sorted(facts(again)) == sorted(facts(run.findings))
    with pytest.raises(ConfigurationError, match="which is not counted"):
        kst.find(place / "out", [kst.Ceiling(kst.Session("20 minutes", "7 days", by=[]), 5)])


def test_a_finding_tells_the_sessions_span(place: Path) -> None:
    findings = kst.load_run(place / "out").findings
    rows, frame = findings.to_json_rows(), findings.to_pandas()
    assert "session_end_ms" not in {*rows[0], *frame.columns}
    for each, row, end in zip(findings, rows, frame["window_end"], strict=True):
        session = EACH if each.window == EACH.label else ALL
        assert row["window_ms"] == -session.gap_ms
        assert row["window_end_ms"] == each.window_end_ms == end.timestamp() * 1_000
        assert "in one session of" in each.sentence
    late = kst.load_run(place / "out").findings.table["session_end_ms"].to_pylist()
    assert late == [each.window_end_ms for each in findings]


def test_the_hours_around_a_session_are_told_beside_it(place: Path) -> None:
    run = kst.load_run(place / "out")
    hours = run.counts("1 hour", limit=None)
    known = dict(
        zip(
            zip(hours["window_start"], hours["user"], hours["action"], strict=True),
            hours["count"],
            strict=True,
        )
    )
    told = [each for each in run.findings if each.window == EACH.label and each.other_levels]
    short = [each for each in told if each.window_end_ms - each.window_start_ms < 3_600_000]
    assert len(short) > 5
    for each in short:
        hour = each.window_start.replace(minute=0, second=0, microsecond=0)
        assert each.other_levels == {"1 hour": known[hour, each.user, each.action]}


def test_late_events_of_a_session_that_was_cut_end_no_run(tmp_path: Path) -> None:
    began, session = datetime(2026, 4, 1, 9, tzinfo=UTC), kst.Session("30 minutes")
    batches = [
        [began + timedelta(minutes=10 + 20 * n) for n in range(73)],  # a whole day
        [began + timedelta(minutes=5), began + timedelta(minutes=80, milliseconds=1)],
    ]
    (tmp_path / "in").mkdir()
    for number, times in enumerate(batches):
        rows = [{"time": time.isoformat(), "user": "bot", "action": "read"} for time in times]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "in" / f"{number}.json").write_text(lines)
    cascade = kst.Cascade("1 day", session)
    looking = kst.Pipeline(
        source=source(tmp_path / "in"), cascade=cascade, rules=[kst.Unusual(session)]
    )
    run = looking.run(tmp_path / "out", max_files_per_batch=1, progress=False)
    counts = run.counts(session, limit=None)
    assert counts["count"].sum() == 75
    assert (counts["window_end"] - counts["window_start"]).max() <= timedelta(days=1)


def test_what_is_usual_of_sessions_is_told_by_those_that_there_were(tmp_path: Path) -> None:
    day = datetime(2026, 4, 1, 9, tzinfo=UTC)
    rows = [
        {"time": (day + timedelta(days=d, minutes=10 * n)).isoformat(), "user": f"user {u}"}
        for d in range(15)
        for u in range(40)
        for n in range(1 + (d + u) % 3)
    ]
    rows += [
        {"time": (day + timedelta(days=15, seconds=n)).isoformat(), "user": "user 7"}
        for n in range(60)
    ]
    (tmp_path / "in").mkdir()
    for number in range(4):  # days come in no order
        some = "".join(json.dumps({**row, "action": "read"}) + "\n" for row in rows[number::4])
        (tmp_path / "in" / f"{number}.json").write_text(some)
    cascade = kst.Cascade("1 day", EACH)
    looking = kst.Pipeline(
        source=source(tmp_path / "in"), cascade=cascade, rules=[kst.Unusual(EACH)]
    )
    run = looking.run(tmp_path / "out", max_files_per_batch=1, progress=False)
    (one,) = run.findings
    assert (one.user, one.count, one.window_start) == ("user 7", 60, day + timedelta(days=15))
    assert one.baseline_windows == 15  # no day's pause is a session
    assert one.peers == 40
    (again,) = kst.find(run.folder.path, kst.Unusual(EACH))
    assert (again.count, again.window_end_ms, again.baseline_windows) == (60, one.window_end_ms, 15)
    assert one.expected_high is not None
    assert 3 <= one.expected_high < 10
    assert "it usually does" in one.sentence
    assert "(15 earlier sessions, 40 peers)" in one.sentence
