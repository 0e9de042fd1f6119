"""How long one trigger takes to see that nothing is new among many files.

They are made in memory, each with one event, and taken in by the feed's own reader; then it is
asked again and again, as Spark asks it at each trigger::

    python -m tests.benchmarks.listing --files 1000000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from kstoolkit.events.event import Columns, Limits
from kstoolkit.pipeline.feeds import CountingReader, FileFeedPlan
from kstoolkit.pipeline.shuffle import Grain

_LINE = b'{"time":"2025-03-01T10:00:00Z","user":"Ann","action":"read"}\n'
_A_FOLDER = 10_000


def main() -> None:
    """Make the files, and print what each look takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--looks", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as base:
        folder = Path(base, "in")
        for number in range(given.files):
            place = folder / f"{number // _A_FOLDER:04}"
            if number % _A_FOLDER == 0:
                place.mkdir(parents=True)
            (place / f"events-{number:07}.json").write_bytes(_LINE)
        reader = _reader(folder, Path(base, "out"))
        _timed("all taken in", reader)
        again = _reader(folder, Path(base, "out"))
        before = _resident_bytes()
        _timed("ledger read, nothing new", again, given.files)
        print(f"{(_resident_bytes() - before) / given.files:,.0f} bytes a file")
        for _ in range(given.looks):
            _timed("nothing new", again, given.files)


def _reader(folder: Path, out: Path) -> CountingReader:
    columns, grain = Columns("time", "user", "action"), Grain(60_000, 8)
    ledger = str(out / "files.jsonl")
    plan = FileFeedPlan(str(folder), None, columns, Limits(), ledger, grain, 2, 10_000, 256 << 20)
    return CountingReader(plan)


def _timed(what: str, reader: CountingReader, taken: int = 0) -> None:
    began, cpu = time.monotonic(), time.process_time()
    reader.latestOffset({"files": taken}, reader.getDefaultReadLimit())
    spent, busy = time.monotonic() - began, time.process_time() - cpu
    print(f"{what}: {spent:.1f} s, {busy:.1f} s of CPU")


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    main()
