"""A month of a live run: its folder, made by the real writers, folded as it goes, then asked.

python -m tests.benchmarks.years [--batches 259200] [--users 10000] [--folder FOLDER]

A batch every ten seconds, with what Spark's tasks would write of it: counts of minutes, hours and
days, statistics and moments, a finding and a dead letter now and then; the counts are a million in
the end. They are folded beside, after every sixteenth batch, as a live run does, and the time of
that is told apart. All of it lies in memory where the machine has a folder for that: a disk's waits
are not asked for here. Then three commands are given, five times each: the shortest times count.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.compaction import NEIGHBOURS
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.counters.counters import Counters, buckets_of
from kstoolkit.events.event import letters
from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.findings.peers import MOMENTS_SCHEMA
from kstoolkit.findings.rulefiles import rules_to_json
from kstoolkit.findings.rules import DEFAULT_RULES
from kstoolkit.pipeline.batches import MicroBatch, StateSize
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from kstoolkit.pipeline.tidying import tidy
from tests.benchmarks.table import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKETS, SECOND, MINUTE, HOUR, DAY = 8, 1_000, 60_000, 3_600_000, 86_400_000
BEGIN = 1_754_006_400_000
ACTIONS = 4


@dataclass(slots=True)
class Month:
    """Writes the batches: every ten seconds a few users do something.

    A counter is a user's action in a window. Each minute has ``per_minute`` of them, of users of
    one bucket, the next minute of the next one; each is told twice, as it grows. Hours and days are
    told with the last batch of each ten minutes. The moments are the same file each time.
    """

    out: Path
    batches: int
    users: int
    per_minute: int
    by_bucket: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = np.array([f"user-{each:05d}" for each in range(self.users)])
        bucket = buckets_of(pa.array(names), BUCKETS)
        self.by_bucket = [names[bucket == each] for each in range(BUCKETS)]

    def begin(self) -> None:
        self.out.mkdir(parents=True)
        settings = Settings(
            windows=("1 minute", "1 hour", "1 day"),
            buckets=BUCKETS,
            columns={"event_time": "time", "user": "user", "action": "action"},
            time="event",
            feed="files",
            partitions=2,
            rules=rules_to_json(DEFAULT_RULES),
            source="events",
        )
        RunFolder(self.out).save(settings)

    @property
    def moments(self) -> Path:
        """A file of moments, which is made once, and no part of the folder."""
        path = self.out.with_name("moments.parquet")
        if not path.exists():
            pq.write_table(MOMENTS_SCHEMA.empty_table(), path, compression="zstd")
        return path

    def write(self, number: int) -> None:
        """Write one batch in the order of the sink."""
        now_ms = BEGIN + 10 * SECOND * number
        counts = self.counts(number, now_ms)
        found = self.findings(number, now_ms)
        kinds = ("findings", "dead_letters", "statistics", "changelog")
        folders = {kind: BatchFolders(self.out / kind) for kind in kinds}
        place = {kind: folders[kind].begin(0, number) for kind in kinds}
        rows = self.write_counts(place["changelog"], counts, now_ms)
        reasons = ["no_user"] if number % 30 == 0 else []
        if reasons:
            table = pa.Table.from_batches([letters(reasons, [f'{{"time": "{number}"}}'])])
            pq.write_table(table, place["dead_letters"] / "part-00000.parquet", compression="zstd")
        if found:
            table = pa.Table.from_pylist(found, FINDINGS_SCHEMA)
            name = "part-00003-3600000.parquet"
            pq.write_table(table, place["findings"] / name, compression="zstd")
        shutil.copyfile(self.moments, place["statistics"] / "part-moments.parquet")
        MicroBatch(
            number,
            now_ms,
            1.25,
            events=5 * rows,
            counters_in=2 * rows,
            late={"1 minute": number % 3, "1 hour": 0, "1 day": 0},
            backlog={"1 minute": 0, "1 hour": 0, "1 day": 0},
            changed={"1 minute": rows, "1 hour": 0, "1 day": 0},
            left_out={"1 minute": 0, "1 hour": 0, "1 day": 0},
            dead_letters=dict.fromkeys(reasons, 1),
            changelog_records=rows,
            changelog_bytes=40 * rows,
            findings=len(found),
        ).save(place["statistics"])
        for kind in kinds:
            folders[kind].mark(0, number)
        if number:
            state = StateSize(rows=448, memory_bytes=64 << 20)
            state.save(folders["statistics"].folder(0, number - 1))

    def counts(self, number: int, now_ms: int) -> dict[int, Counters]:
        """Return what a batch tells: of a minute always, of longer windows at their flush."""
        minute = number // 6
        mine = self.by_bucket[minute % BUCKETS]
        names = mine[(minute // BUCKETS * self.per_minute + np.arange(self.per_minute)) % len(mine)]
        order = np.arange(len(names))
        found = {}
        for length in [MINUTE, *([HOUR, DAY] if number % 60 == 59 else [])]:
            # Each is told twice within its minute.
            chosen = np.array_split(order, 3)[number % 3] if length == MINUTE else order
            found[length] = Counters.of(
                np.full(len(chosen), now_ms - now_ms % length),
                pa.array(names[chosen]),
                pa.array(np.char.add("action-", (chosen % ACTIONS).astype(str))),
                np.full(len(chosen), 1 + number % 6 // 3 + number // 60 % 6, np.uint64),
            )
        return found

    def write_counts(self, folder: Path, counts: dict[int, Counters], now_ms: int) -> int:
        """Write the counts as a task does."""
        path = folder / "part-00000.parquet"
        writer = ChangelogWriter(path, buckets=BUCKETS, changed_ms=now_ms)
        for length, counters in counts.items():
            for bucket, part in counters.by_bucket(BUCKETS):
                writer.write(bucket, length, part)
        writer.close()
        return writer.rows

    def findings(self, number: int, now_ms: int) -> list[dict[str, Any]]:
        if number % 60:
            return []
        told = {
            "rule": DEFAULT_RULES[0].name,
            "kind": "Unusual",
            "user": f"user-{number % self.users:05d}",
            "action": "action-1",
            "window": "1 hour",
            "window_ms": HOUR,
            "window_start_ms": now_ms - now_ms % HOUR,
            "count": 60 + number % 9,
            "expected_low": 2,
            "expected_high": 14,
            "baseline_windows": 10,
            "peers": 400,
            "log10_probability": -8.5,
            "first_seen_ms": now_ms,
        }
        return [told]


def written(month: Month) -> tuple[float, float, float]:
    """Write all batches, and return seconds of writing, of folding, and of the longest fold."""
    folding = [0.0]
    there = BatchFolders(month.out / "statistics").marked()
    began = time.perf_counter()
    with ProcessPoolExecutor(1, get_context("spawn")) as beside:
        fold = beside.submit(folded, month.out)
        for number in range(there[-1].number + 1 if there else 0, month.batches):
            month.write(number)
            if (number + 1) % NEIGHBOURS == 0:
                folding.append(fold.result())
                fold = beside.submit(folded, month.out)
            if number % 10_000 == 9_999:
                print(f"{number + 1:,} batches", flush=True)
        folding.append(fold.result())
    return time.perf_counter() - began, sum(folding), max(folding)


def folded(out: Path) -> float:
    """Fold what is due as a run does, and return how many seconds that took."""
    began = time.perf_counter()
    folder = RunFolder(out)
    settings = folder.settings()
    if settings is not None:
        tidy(folder, settings.cascade)
    return time.perf_counter() - began


def asked(out: Path) -> Iterator[tuple[str, float]]:
    """Ask the folder by commands, each five times, and tell the shortest time of each."""
    commands = {
        "summary": ["summary", str(out)],
        "counts --user": ["counts", str(out), "--window", "1 minute", "--user", "user-00042"],
        "users": ["users", str(out)],
    }
    for name, command in commands.items():
        times = []
        for _ in range(5):
            began = time.perf_counter()
            program = [sys.executable, "-m", "kstoolkit", *command]
            subprocess.run(program, check=True, capture_output=True)
            times.append(time.perf_counter() - began)
        yield name, min(times)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.years")
    parser.add_argument("--batches", type=int, default=259_200)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--per-minute", type=int, default=20, help="counters of a minute")
    parser.add_argument("--folder", type=Path, help="where to; what is there goes on")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kstoolkit-years-", dir=_memory()) as work:
        out = given.folder or Path(work) / "out"
        month = Month(out, given.batches, given.users, given.per_minute)
        figures: dict[str, Any] = {"batches": given.batches, "machine": machine()}
        if not out.exists():
            month.begin()
        names = ("writing_seconds", "folding_seconds", "longest_fold_seconds")
        figures |= dict(zip(names, written(month), strict=True))
        files = [path for path in out.rglob("*") if path.is_file()]
        figures["files"] = len(files)
        figures["bytes"] = sum(path.stat().st_size for path in files)
        changelog = [b for b in BatchFolders(out / "changelog").marked() if b.fold is not None]
        figures["counts"] = sum(
            pq.read_metadata(path).num_rows for b in changelog for path in b.files(".parquet")
        )
        figures |= {f"{name}_seconds": seconds for name, seconds in asked(out)}
        print(json.dumps(figures, indent=2))


def _memory() -> str | None:
    """Return a folder in memory, if there is one: the disk's own waits are not asked for here."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


if __name__ == "__main__":
    main()
