"""A live run at a steady rate: how long from an event's arrival to its finding on disk.

python -m tests.benchmarks.latency

A writer in a process of its own drops a file of events in each half second, at a moment of it
that chance decides: under a hidden name first, and into its place whole. In each file one user, a
new one each time, crosses a ceiling. That user's file has arrived when it is renamed; the finding
is on disk when the done-marker of the micro-batch that holds it is.

Spark's trigger goes off at whole multiples of its interval since 1970. How long after one a file
arrives is its phase, which decides how long it waits at least: phases are told, in tenths.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

import kstoolkit as kst
from kstoolkit.changelog.changelog import DONE, BatchFolders
from kstoolkit.pipeline.session import spark_session
from kstoolkit.units import parse_duration
from tests.benchmarks.contestant import CORES

if TYPE_CHECKING:
    from numpy.typing import NDArray

RATE = 2_100
FILE_SECONDS = 0.5
CEILING = 100
CROSSINGS = 200
WARM_UP = 40
"""Crossings that come first and do not count: the first batch takes long."""
PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds from arrival to finding, over so many crossings at so many events a second.

    ``phase_tenths`` says how many of them arrived in each tenth of the trigger's interval.
    """

    crossings: int
    events_per_second: float
    trigger: str
    phase_tenths: tuple[int, ...]
    p50_seconds: float
    p99_seconds: float
    longest_seconds: float

    def __str__(self) -> str:
        return (
            f"From an event's arrival to its finding on disk, at {self.events_per_second:,.0f} "
            f"events/s and a trigger of {self.trigger}: p50 {self.p50_seconds:.2f} s, "
            f"p99 {self.p99_seconds:.2f} s, at most {self.longest_seconds:.2f} s "
            f"({self.crossings} crossings; they arrived in the tenths of the trigger's interval: "
            f"{', '.join(map(str, self.phase_tenths))})."
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
        target=_write, args=(incoming, arrivals, crossings + warm_up)
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
    return _latency(found, arrived[warm_up:], trigger)


def _latency(found: dict[str, float], arrived: list[dict[str, Any]], trigger: str) -> Latency:
    seconds = arrived[-1]["at"] - arrived[0]["at"]
    events = sum(each["events"] for each in arrived[1:])
    answered = [each for each in arrived if each["user"] in found]
    waits = [found[each["user"]] - each["at"] for each in answered]
    return Latency(
        crossings=len(waits),
        events_per_second=events / seconds,
        trigger=trigger,
        phase_tenths=phase_tenths(np.array([each["at"] for each in answered]), trigger),
        p50_seconds=float(np.percentile(waits, 50)),
        p99_seconds=float(np.percentile(waits, 99)),
        longest_seconds=max(waits),
    )


def phase_tenths(arrivals: NDArray[np.float64], trigger: str) -> tuple[int, ...]:
    """Return how many arrivals, in seconds since 1970, lie in each tenth of a trigger's interval.

    >>> phase_tenths(np.array([100.05, 107.0, 108.95]), "1 second")
    (2, 0, 0, 0, 0, 0, 0, 0, 0, 1)
    """
    phases = arrivals / (parse_duration(trigger) / 1000) % 1
    return tuple(np.histogram(phases, 10, (0, 1))[0].tolist())


def due_seconds(files: int) -> NDArray[np.float64]:
    """Return when files are due, in seconds from the begin: one in each slot, anywhere in it."""
    return (np.arange(files) + np.random.default_rng(2).random(files)) * FILE_SECONDS


def _follow(
    findings: Path, writer: multiprocessing.process.BaseProcess, crossings: int
) -> dict[str, float]:
    """Return when each user's first finding was on disk, by the time of the batch's marker."""
    found: dict[str, float] = {}
    folders, newest = BatchFolders(findings), -1
    deadline = None
    while len(found) < crossings:
        for batch in [each for each in folders.marked() if each.number > newest]:
            newest = batch.number  # not by how many there are: older ones are folded
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
    draws, begun = np.random.default_rng(1), time.time()
    for number, due in enumerate(begun + due_seconds(files)):
        crosser = f"crosser-{number}"
        users = draws.zipf(1.2, int(RATE * FILE_SECONDS) - CEILING - 1) % 10_000
        did = [(f"user-{rank}", f"action-{place % 8}") for place, rank in enumerate(users)]
        did += [(crosser, "cross")] * (CEILING + 1)
        hidden = incoming / f".{number:06d}.json"
        with hidden.open("w", encoding="utf-8") as file:
            for user, action in did:
                told = {"time": int(due * 1000), "user": user, "action": action}
                file.write(json.dumps(told) + "\n")
        time.sleep(max(0.0, due - time.time()))
        hidden.rename(incoming / f"{number:06d}.json")
        _note(arrivals, {"user": crosser, "at": time.time(), "events": len(did)})


def _note(arrivals: Path, told: dict[str, Any]) -> None:
    with arrivals.open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kstoolkit-latency-") as folder:
        print(live(Path(folder)))
