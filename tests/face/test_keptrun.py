"""A run that 0.1 counted, with its checkpoint, and a replica: they are opened, asked, continued."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import duckdb
import pytest

import kstoolkit as kst
from tests.face.keptrun import KeptRun, kept_run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

EVENTS, IN_THIRD, DEAD_LETTERS = 800, 388, {"no_user": 1, "unparseable": 1}
HOURS = {"1 minute": "minute", "1 hour": "hour", "1 day": "day"}
BUSIEST = ("amina.jones", "view", 10)
EXPECTED = """
SELECT date_trunc('{unit}', time) AS window_start, "user", action, count(*) AS count
FROM read_json(
    {files}, format = 'newline_delimited', ignore_errors = true,
    columns = {{time: 'TIMESTAMP', "user": 'VARCHAR', action: 'VARCHAR'}}
)
WHERE "user" IS NOT NULL
GROUP BY ALL
"""

Counts = dict[tuple[str, str, str], int]


@pytest.fixture
def kept(tmp_path: Path) -> KeptRun:
    return kept_run(tmp_path)


def expected(unit: str, *files: Path) -> Counts:
    """Count events as anybody would who has all of them at once."""
    names = [str(path) for path in files]
    found = duckdb.execute(EXPECTED.format(unit=unit, files=names)).fetchall()
    return {(f"{start:%F %T}", user, action): count for start, user, action, count in found}


def counted(run: kst.Run, window: str) -> Counts:
    """Return all counts of a run in a window."""
    found = run.counts(window, limit=None)
    starts = found["window_start"].dt.strftime("%F %T")
    keys = zip(starts, found["user"], found["action"], strict=True)
    return dict(zip(keys, found["count"].tolist(), strict=True))


def replicated(store: kst.WindowStore, counts: Counts, window: str) -> Counts:
    """Ask a replica for all that is expected of it."""
    asked = {(start, user) for start, user, _ in counts}
    return {
        (start, user, action): count
        for start, user in asked
        for action, count in store.get(user, window=window, at=start).counts.items()
    }


def test_the_kept_run_is_opened_and_asked(kept: KeptRun) -> None:
    run = kst.load_run(kept.out)
    summary = run.summary()
    assert (summary.events, summary.batches, summary.findings) == (EVENTS, 2, 2)
    assert summary.dead_letters == DEAD_LETTERS
    assert {(each.user, each.action, each.count) for each in run.findings} >= {BUSIEST}
    assert len(run.dead_letters) == 2
    ranked = run.users()
    assert ranked["events"].sum() == EVENTS
    for window, unit in HOURS.items():
        assert counted(run, window) == expected(unit, *kept.events.iterdir())


def test_the_kept_replica_is_opened_and_asked(kept: KeptRun) -> None:
    with kst.WindowStore.open(kept.replica) as store:
        for window, unit in HOURS.items():
            counts = expected(unit, *kept.events.iterdir())
            assert replicated(store, counts, window) == counts


def test_another_replica_is_restored_from_the_kept_run(kept: KeptRun, tmp_path: Path) -> None:
    with kst.WindowStore.restore(str(kept.out), path=tmp_path / "replica", progress=False) as store:
        for window, unit in HOURS.items():
            counts = expected(unit, *kept.events.iterdir())
            assert replicated(store, counts, window) == counts


@pytest.mark.spark
def test_the_kept_run_goes_on_through_its_checkpoint(kept: KeptRun, spark: SparkSession) -> None:
    assert spark.version
    shutil.move(kept.third, kept.events)

    source = kst.files(str(kept.events), event_time="time", user="user", action="action")
    pipeline = kst.Pipeline(source=source, rules=kst.load_rules(kept.rules), buckets=1)
    run = pipeline.run(kept.out, progress=False)

    assert run.summary().events == EVENTS + IN_THIRD
    assert run.summary().batches == 3
    for window, unit in HOURS.items():
        assert counted(run, window) == expected(unit, *kept.events.iterdir())
    with kst.WindowStore.restore(str(kept.out), path=kept.replica, progress=False) as store:
        counts = expected("day", *kept.events.iterdir())
        assert replicated(store, counts, "1 day") == counts
