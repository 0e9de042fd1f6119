"""A run of many micro-batches, written without Spark: what each wrote, and what is to be read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.events.event import letters
from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.pipeline.batches import MicroBatch, StateSize
from kstoolkit.pipeline.run import Run, iter_dead_letters
from kstoolkit.pipeline.status import FindingCounts
from tests.changelog.changelogs import HOUR, MINUTE, Rows, newest, read, write
from tests.plots.made import MORNING, OVER, found, made_run

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("changelog", "findings", "dead_letters", "statistics")
PEOPLE = ["Anna", "Bo", "Čeněk", "名前"]
RULES = (("Ceiling 8 per 1 minute", 2), ("Unusual 1 hour, 5 false alarms a day", 3))


def begun(out: Path) -> Run:
    """Return a run that has no batch yet."""
    run = made_run(out, counts={})
    BatchFolders(out / "changelog").begin(0, 0).rmdir()
    return run


def counts_of(number: int) -> dict[int, Rows]:
    """Return what a batch, ten seconds after the one before, tells of minutes and hours."""
    start = MORNING + 10_000 * number
    minute, hour = (start - start % length for length in (MINUTE, HOUR))
    users = PEOPLE[number % 3 :]
    return {
        MINUTE: {(minute, user, "read"): number % 6 + 1 for user in users},
        HOUR: {(hour, user, "read"): number + 1 for user in users},
    }


def findings_of(number: int) -> list[dict[str, Any]]:
    start = MORNING + 10_000 * number
    told = []
    for (rule, every), more in zip(RULES, (OVER, {}), strict=True):
        if number % every == 0:
            length = MINUTE if more else HOUR
            about = {**more, "rule": rule, "count": 10 + number, "first_seen_ms": start}
            told.append(found(**about, window_start_ms=start - start % length))
    return told


def reasons_of(number: int) -> list[str]:
    return ["no_user"] * (number % 3) + ["no_time"] * (number % 5 == 0)


def batch_of(number: int) -> MicroBatch:
    return MicroBatch(
        number,
        MORNING + 10_000 * number,
        0.1 + number % 7 / 10,
        events=number % 50,
        counters_in=number % 11,
        late={"1 minute": number % 4, "1 hour": 0},
        changed={"1 minute": 3, "1 hour": 1},
        left_out={"1 minute": number % 2} if number % 9 else {},
        dead_letters=dict(Counter(reasons_of(number))),
        changelog_records=4,
        changelog_bytes=900 + number,
        findings=len(findings_of(number)),
    )


def state_of(number: int) -> StateSize:
    return StateSize(rows=100 + number, memory_bytes=2_000 + number)


def add(out: Path, number: int) -> None:
    """Write a batch, kind by kind in the order of the sink."""
    if findings_of(number):
        folder = BatchFolders(out / "findings").begin(0, number)
        table = pa.Table.from_pylist(findings_of(number), FINDINGS_SCHEMA)
        pq.write_table(table, folder / "part-00000-3600000.parquet")
        BatchFolders(out / "findings").mark(0, number)
    if reasons := reasons_of(number):
        folder = BatchFolders(out / "dead_letters").begin(0, number)
        raw = [f"{number}: {place}" for place in range(len(reasons))]
        for part in range(2):
            rows = pa.Table.from_batches([letters(reasons[part::2], raw[part::2])])
            pq.write_table(rows, folder / f"part-{part:05d}.parquet")
        BatchFolders(out / "dead_letters").mark(0, number)
    statistics = BatchFolders(out / "statistics")
    folder = statistics.begin(0, number)
    pq.write_table(pa.table({"level": [0]}), folder / "part-moments.parquet")
    batch_of(number).save(folder)
    statistics.mark(0, number)
    clock_ms = batch_of(number).batch_ms
    write(out / "changelog", number, counts_of(number), changed_ms=clock_ms)
    if number:
        state_of(number - 1).save(statistics.folder(0, number - 1))


def told(run: Run) -> dict[str, Any]:
    """Return all that a run tells of its batches."""
    summary = run.summary().to_dict()
    batches = run.batches()
    return {
        "counts": read(run.folder.path / "changelog"),
        "findings": Counter(
            (each["rule"], each["window_start_ms"], each["count"], each["first_seen_ms"])
            for each in run._reported().to_pylist()
        ),
        "reported": FindingCounts(run.folder).look(),
        "letters": [
            (row["batch"], row["reason"], row["raw"])
            for rows in iter_dead_letters(run.folder.path)
            for row in rows.to_pylist()
        ],
        "reasons": Counter(run.dead_letters.by_reason),
        "summary": summary,
        "batches": list(batches),
        "frame": batches.to_pandas().to_dict("list"),
    }


def expected(batches: int) -> dict[str, Any]:
    """Return what is to be told after so many batches, by Python alone."""
    numbers = range(batches)
    rows = [row for number in numbers for row in findings_of(number)]
    seen: dict[tuple[str, int], tuple[int, int]] = {}
    for row in rows:
        key = row["rule"], row["window_start_ms"]
        first = seen[key][1] if key in seen else row["first_seen_ms"]
        seen[key] = row["count"], min(first, row["first_seen_ms"])
    reasons = [reason for number in numbers for reason in reasons_of(number)]
    return {
        "counts": newest(*map(counts_of, numbers)),
        "findings": Counter((*key, *each) for key, each in seen.items()),
        "reported": Counter(row["rule"] for row in rows),
        "letters": [
            (number, reason, f"{number}: {place}")
            for number in numbers
            for reason, place in in_parts(reasons_of(number))
        ],
        "reasons": Counter(reasons),
    }


def in_parts(reasons: list[str]) -> list[tuple[str, int]]:
    placed = [(reason, place) for place, reason in enumerate(reasons)]
    return placed[0::2] + placed[1::2]
