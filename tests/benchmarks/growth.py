"""How cost grows, one factor at a time, and all of it in a run of 200 million events.

python -m tests.benchmarks.growth [--only "a year"] [--by-the-hour] [--rounds 3] [--scale 0.01]
    [--out FILE]

Each row is one run over files of its own, which are removed after it. It changes one factor of the
first row. What comes out is held against numpy's count of the events as they were made: a row that
differs is an error.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from kstoolkit.units import format_bytes
from tests.benchmarks.measuring import Beside, Measured, measure
from tests.benchmarks.standing import Totals
from tests.benchmarks.statebytes import StateBytes
from tests.benchmarks.table import Row, aligned, machine
from tests.benchmarks.workloads import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 6 << 30
"""What the processes of a run may take together."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is counted, among how many buckets."""

    workload: Workload
    buckets: int = 8
    by_the_hour: bool = False

    def scaled(self, scale: float) -> Case:
        """Return it with a part of the events, in as many files: batches are as many, too."""
        events = max(int(self.workload.events * scale), self.workload.files)
        return replace(self, workload=replace(self.workload, events=events))


BASE = "10^6 users, 8 actions, 8 buckets, a day"
CASES = {
    BASE: Case(Workload()),
    "10^5 users": Case(Workload(users=100_000)),
    "10^7 users": Case(Workload(users=10_000_000)),
    "10,000 actions": Case(Workload(actions=10_000)),
    "one user with 30 % of all events": Case(Workload(hottest=0.3)),
    "64 buckets": Case(Workload(), buckets=64),
    "a year": Case(Workload(days=365)),
    "three times the events": Case(Workload(events=60_000_000, files=60)),
    "10^7 users, 200 million events": Case(
        Workload(users=10_000_000, events=200_000_000, files=200)
    ),
}
ALIKE = {
    "a day of 10^5 users": Case(Workload(events=8_000_000, users=100_000)),
    "a year of 30 users": Case(Workload(events=8_000_000, users=30, days=365)),
}
"""Run where they are asked for: by the hour, these have about as many counters an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What a case came to.

    Parameters
    ----------
    row
        Its time, its CPU, its memory; *steady* leaves the start and the first batch out.
    totals, truth
        What came out, and what numpy counted.
    state
        What the newest version of the state is made of.
    written_bytes
        All that came to lie in the checkpoint during the run, also what Spark has removed since.
    batch_seconds, batch_cpu_seconds
        From the end of each batch to the end of the next, and what all processes used meanwhile.
    """

    name: str
    case: Case
    row: Row
    totals: Totals
    truth: Totals
    state: StateBytes
    written_bytes: int
    batch_seconds: tuple[float, ...]
    batch_cpu_seconds: tuple[float, ...]

    @classmethod
    def of(
        cls, name: str, case: Case, measured: Measured, truth: Totals, state: StateBytes
    ) -> Growth:
        ends = pairwise(measured.marked("counted"))
        batches = [(a.seconds - b.seconds, a.cpu_seconds - b.cpu_seconds) for b, a in ends]
        totals = Totals.of(measured)
        windows = totals.events.keys()  # those that were asked for, of all that numpy counted
        both = ({name: each[name] for name in windows} for each in (truth.counters, truth.events))
        return cls(
            name=name,
            case=case,
            row=Row.of(name, measured),
            totals=totals,
            truth=Totals(*both),
            state=state,
            written_bytes=measured.written_bytes,
            batch_seconds=tuple(seconds for seconds, _ in batches),
            batch_cpu_seconds=tuple(cpu_seconds for _, cpu_seconds in batches),
        )

    @property
    def beside(self) -> str:
        """By how much the totals are off, in a few words."""
        return self.totals.beside(self.truth)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"beside": self.beside}


def grown(name: str, case: Case, work: Path, files_per_batch: int) -> Growth:
    """Make a case's events, count them, and return what that came to; nothing is left of it."""
    events, place = work / "events", work / "run"
    place.mkdir()
    began = time.monotonic()
    try:
        truth = case.workload.write(events)
        print(f"{name}: events made in {time.monotonic() - began:.0f} s", flush=True)
        checkpoint = place / "out" / "checkpoint"
        measured = measure(
            [*_command(case, events, place), "--files-per-batch", str(files_per_batch)],
            place / "stderr.log",
            cwd=ROOT,
            beside=Beside(folders=(checkpoint,)),
        )
        found = Growth.of(name, case, measured, truth, StateBytes.of(checkpoint))
    finally:
        for folder in (events, place):
            shutil.rmtree(folder, ignore_errors=True)
    took = time.monotonic() - began
    print(f"{name}: {found.row.wall_seconds:.0f} s of {took:.0f} s in all", flush=True)
    return found


def _command(case: Case, events: Path, place: Path) -> list[str]:
    command = [sys.executable, "-m", "tests.benchmarks.ours", str(events), str(place)]
    hours = ["--by-the-hour"] * case.by_the_hour
    return [*command, "--by-bucket", "--buckets", str(case.buckets), *hours]


_HEADS = (
    "",
    "events",
    "totals",
    "CPU-s/M",
    "of all of it",
    "counters/event",
    "state, live",
    "state on disk",
    "checkpoint written",
    "peak memory",
    "batch s, median",
    "longest",
)


def markdown(rows: Sequence[Growth]) -> str:
    """Return the table, in Markdown."""
    return aligned(_HEADS, [_cells(each) for each in rows])


def _cells(each: Growth) -> tuple[str, ...]:
    cpu, batches = each.row.steady_cpu_seconds_per_million, each.batch_seconds
    events = each.case.workload.events
    return (
        each.name,
        f"{events:,}",
        each.beside,
        "-" if cpu is None else f"{cpu:.2f}",
        f"{each.row.cpu_seconds_per_million:.2f}",
        f"{each.row.all_counters / events:.2f}",
        format_bytes(each.state.live_bytes),
        format_bytes(each.state.on_disk_bytes),
        format_bytes(each.written_bytes),
        format_bytes(each.row.peak_bytes),
        f"{median(batches):.1f}" if batches else "-",
        f"{max(batches):.1f}" if batches else "-",
    )


def wrong_in(rows: Sequence[Growth]) -> Iterator[str]:
    """Yield what is not as it has to be."""
    for each in rows:
        if each.beside != "exact":
            yield f"{each.name}: {each.beside}"
        if each.row.peak_bytes > MOST_BYTES:
            peak, most = format_bytes(each.row.peak_bytes), format_bytes(MOST_BYTES)
            yield f"{each.name}: {peak} of memory, of {most}"


def main() -> int:
    asked = _asked()
    about = machine("tests.benchmarks.growth")
    rows: list[Growth] = []
    for name in [*(asked.only or CASES)] * asked.rounds:
        with tempfile.TemporaryDirectory(prefix="kstoolkit-growth-", dir=asked.folder) as work:
            case = replace((CASES | ALIKE)[name].scaled(asked.scale), by_the_hour=asked.by_the_hour)
            rows.append(grown(name, case, Path(work), asked.files_per_batch))
        if asked.out:
            told = {"machine": about, "rows": [each.to_dict() for each in rows]}
            asked.out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(f"\n{markdown(rows)}\n")
    print("  ".join(f"{name}={value}" for name, value in about.items()))
    wrong = list(wrong_in(rows))
    print("\n".join(wrong) or "All totals are numpy's, in the memory that there is for it.")
    return 1 if wrong else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.growth")
    parser.add_argument("--only", action="append", choices=CASES | ALIKE, help="just these")
    parser.add_argument("--scale", type=float, default=1.0, help="what part of the events")
    parser.add_argument("--rounds", type=int, default=1, help="all of them so often, in turn")
    parser.add_argument("--files-per-batch", type=int, default=2)
    parser.add_argument("--by-the-hour", action="store_true", help="count no minutes")
    parser.add_argument("--folder", type=Path, help="where to work; 20 GB have to be free")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
