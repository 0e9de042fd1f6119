"""A run's folder filled without Spark, and the findings that are put into one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.events.event import letters
from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.findings.rulefiles import rules_to_json
from kstoolkit.findings.rules import DEFAULT_RULES
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from tests.changelog.changelogs import HOUR, MINUTE, Rows, write

if TYPE_CHECKING:
    from collections.abc import Sequence

TEN = 1_442_052_000_000  # 10:00 on 12 September 2015
SETTINGS = Settings(
    windows=("1 minute", "1 hour"),
    buckets=4,
    columns={"event_time": "time", "user": "user", "action": "action"},
    time="event",
    feed="files",
    partitions=2,
    rules=rules_to_json(DEFAULT_RULES),
    source="data/edits.json.gz",
)
HOURS: Rows = {
    **{(TEN + n * HOUR, "Anna", "read"): n + 1 for n in range(5)},
    (TEN + 5 * HOUR, "Anna", "read"): 61,
    (TEN + 6 * HOUR, "Anna", "read"): 55,
    (TEN, "Anna", "write"): 7,
    (TEN, "Bo", "read"): 3,
}
MINUTES: Rows = {(TEN + 59 * MINUTE, "Anna", "read"): 4, (TEN, "Bo", "read"): 3}


def unusual(user: str, log10_probability: float, **changes: Any) -> dict[str, Any]:
    found = {
        "rule": "Unusual 1 hour, 5 false alarms a day",
        "kind": "Unusual",
        "user": user,
        "action": "read",
        "window": "1 hour",
        "window_ms": HOUR,
        "window_start_ms": TEN + 5 * HOUR,
        "count": 61,
        "expected_low": 2,
        "expected_high": 14,
        "baseline_windows": 19,
        "peers": 4112,
        "log10_probability": log10_probability,
        "first_seen_ms": TEN + 6 * HOUR + 1_234,
    }
    return found | changes


def over(user: str, count: int, **changes: Any) -> dict[str, Any]:
    found = {
        "rule": "Ceiling 10 per 1 minute",
        "kind": "Ceiling",
        "user": user,
        "action": "read",
        "window": "1 minute",
        "window_ms": MINUTE,
        "window_start_ms": TEN,
        "count": count,
        "ceiling": 10,
        "first_seen_ms": TEN,
    }
    return found | changes


class Made:
    """A run's folder, filled without Spark."""

    def __init__(self, out: Path, settings: Settings = SETTINGS) -> None:
        out.mkdir(parents=True)
        self.run = Run(RunFolder(out))
        self.out = out
        self.run.folder.save(settings)

    def counts(self, told: dict[int, Rows]) -> None:
        write(self.out / "changelog", 0, told)

    def findings(self, found: Sequence[dict[str, Any]], number: int = 0) -> None:
        path = self._batch("findings", number) / "part-00000-3600000.parquet"
        pq.write_table(pa.Table.from_pylist(list(found), FINDINGS_SCHEMA), path)
        BatchFolders(self.out / "findings").mark(0, number)

    def letters(self, reasons: Sequence[str], number: int = 0, **told: Any) -> None:
        raws = [f"{reason} {n}" for n, reason in enumerate(reasons)]
        named = {"raws": raws, "file": str(Path.cwd() / "data" / "a.json"), "details": None}
        path = self._batch("dead_letters", number) / "part-00000.parquet"
        pq.write_table(pa.Table.from_batches([letters(reasons, **(named | told))]), path)
        BatchFolders(self.out / "dead_letters").mark(0, number)

    def statistics(self, **told: Any) -> None:
        MicroBatch(0, TEN, 1.5, **told).save(self._batch("statistics"))
        BatchFolders(self.out / "statistics").mark(0, 0)

    def _batch(self, kind: str, number: int = 0) -> Path:
        return BatchFolders(self.out / kind).begin(0, number)


def made_run(out: Path) -> Run:
    """Return a run with a bit of everything: counts, a finding, users, dead letters."""
    made = Made(out)
    made.counts({HOUR: HOURS, MINUTE: MINUTES})
    made.statistics(events=39_244, dead_letters={"unparseable": 1_200, "no_user": 3})
    made.findings([unusual("Anna", -8.5)])
    made.letters(["no_user"], number=4, raws=['{"user":\nnull}'], file="a.json")
    return made.run
