"""A live run at a steady rate: how long from an event's arrival to its finding on disk.

python -m tests.benchmarks.latency

A writer in a process of its own drops a file of events each half second, under a hidden name first,
and into its place whole. In every second file one user, a new one each time, crosses a ceiling.
That user's file has arrived when it is renamed; the finding is on disk when the done-marker of the
micro-batch that holds it is.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import kstoolkit as kst
from kstoolkit.changelog.changelog import DONE, BatchFolders
from kstoolkit.pipeline.session import spark_session
from tests.benchmarks.contestant import CORES

RATE = 2_000
FILE_SECONDS = 0.5
CEILING = 100
CROSSINGS = 60
WARM_UP = 20
"""Crossings that come first and do not count: the first batch takes long."""
PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds from arrival to finding, over so many crossings at so many events a second."""

    crossings: int
    events_per_second: float
    trigger: str
    p50_seconds: float
    p99_seconds: float
    longest_seconds: float

    def __str__(self) -> str:
        return (
            f"From an event's arrival to its finding on disk, at {self.events_per_second:,.0f} "
            f"events/s and a trigger of {self.trigger}: p50 {self.p50_seconds:.2f} s, "
            f"p99 {self.p99_seconds:.2f} s, at most {self.longest_seconds:.2f} s "
            f"({self.crossings} crossings)."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def live(
    work: Path, *, crossings: int = CROSSINGS, warm_up: int = WARM_UP, trigger: str = "1 second"
) -> Latency:
    """Run live until so many crossings are found, and return how long they took."""
    incoming = work / "incoming"
    incoming.mkdir(parents=True)
    arrivals = work / "arrivals.jsonl"
    writer = multiprocessing.get_context("spawn").Process(
        target=_write, args=(incoming, arrivals, 2 * (crossings + warm_up))
    )
    spark = spark_session(f"local[{CORES}]", log_path=work / "spark.log")
    source = kst.files(incoming, event_time="time", user="user", action="action", format="json")
    pipeline = kst.Pipeline(
        source=source, rules=[kst.Ceiling("1 minute", CEILING, actions=["cross"])]
    )
    run = pipeline.start(work / "out", trigger=trigger)
    writer.start()
    try:
        found = _follow(work / "out" / "findings", writer, crossings + warm_up)
    finally:
        writer.terminate()
        writer.join()
        run.stop()
        spark.stop()
    arrived = [json.loads(line) for line in arrivals.read_text(encoding="utf-8").splitlines()]
    waits = [found[each["user"]] - each["at"] for each in arrived if each["user"] in found]
    return _latency(waits[warm_up:], arrived, trigger)


def _latency(waits: list[float], arrived: list[dict[str, Any]], trigger: str) -> Latency:
    seconds = arrived[-1]["at"] - arrived[0]["at"]
    events = sum(each["events"] for each in arrived[1:])
    return Latency(
        crossings=len(waits),
        events_per_second=events / seconds,
        trigger=trigger,
        p50_seconds=float(np.percentile(waits, 50)),
        p99_seconds=float(np.percentile(waits, 99)),
        longest_seconds=max(waits),
    )


def _follow(
    findings: Path, writer: multiprocessing.process.BaseProcess, crossings: int
) -> dict[str, float]:
    """Return when each user's first finding was on disk, by the time of the batch's marker."""
    found: dict[str, float] = {}
    folders, seen = BatchFolders(findings), 0
    deadline = None
    while len(found) < crossings:
        for batch in folders.marked()[seen:]:
            seen += 1
            marked = (batch.folder / DONE).stat().st_mtime
            for path in batch.files(".parquet"):
                for user in pq.ParquetFile(path).read(["user"])["user"].to_pylist():
                    found.setdefault(user, marked)
        if not writer.is_alive():
            deadline = deadline or time.monotonic() + PATIENCE_SECONDS
            if time.monotonic() > deadline:
                break
        time.sleep(0.02)
    return found


def _write(incoming: Path, arrivals: Path, files: int) -> None:
    draws = np.random.default_rng(1)
    usual = int(RATE * FILE_SECONDS)
    due = time.time()
    for number in range(files):
        crosser = f"crosser-{number}" if number % 2 else None
        users = [f"user-{rank % 10_000}" for rank in draws.zipf(1.2, usual)]
        users += [crosser] * (CEILING + 1) if crosser else []
        now_ms = int(time.time() * 1000)
        lines = (
            json.dumps({"time": now_ms, "user": user, "action": f"action-{place % 8}"})
            if user != crosser
            else json.dumps({"time": now_ms, "user": user, "action": "cross"})
            for place, user in enumerate(users)
        )
        hidden = incoming / f".{number:06d}.json"
        hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
        hidden.rename(incoming / f"{number:06d}.json")
        if crosser:
            _note(arrivals, {"user": crosser, "at": time.time(), "events": len(users) + usual})
        due += FILE_SECONDS
        time.sleep(max(0.0, due - time.time()))


def _note(arrivals: Path, told: dict[str, Any]) -> None:
    with arrivals.open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kstoolkit-latency-") as folder:
        print(live(Path(folder)))
