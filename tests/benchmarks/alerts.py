"""How long alerts take: many at once, and where many were told long ago.

    python -m tests.benchmarks.alerts [--old 100000] [--burst 10000]

The receiver is a webhook of this machine, in a process of its own, that takes what comes at once.
Incidents that are resolved and told lie in the run's folder; then others open, all in one batch.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import kstoolkit as kst
from kstoolkit.pipeline import alerting
from kstoolkit.pipeline.alerting import LIVE_MS, Alerting, Note
from tests.benchmarks.table import machine
from tests.pipeline.alerted import NOW, OVER, add_batch, finding
from tests.plots.made import made_run

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

    from kstoolkit.pipeline.alerting import Receiver
    from kstoolkit.pipeline.run import Run


class _Taker(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()


def take(ports: Queue[int]) -> None:
    """Take whatever comes, at a port that is told."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Taker) as server:
        ports.put(server.server_port)
        server.serve_forever()


def timed(run: Run, to: Receiver, seconds: float) -> float:
    """Return how long it takes until all is told."""
    began = time.monotonic()
    Alerting(run.folder, [to], print, lasts_ms=LIVE_MS).close(seconds)
    return time.monotonic() - began


def remember(run: Run, to: Receiver, old: int) -> None:
    """Add resolved incidents, and notes that they were told."""
    users = (finding(f"old {number}") for number in range(old))
    add_batch(run.folder.path, 0, *users, clock_ms=NOW - 1, reached_ms=OVER)
    ids = run.incidents().table["id"].to_pylist()
    outbox = alerting._Outbox(run.folder.path / "alerts.json", [to.name], 0)
    outbox.note(to.name, {each: Note("resolved", 1, NOW, NOW, ("user", each)) for each in ids})
    outbox.close()


def main() -> None:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=int, default=100_000)
    parser.add_argument("--burst", type=int, default=10_000)
    given = parser.parse_args()
    ports: Queue[int] = multiprocessing.Queue()
    multiprocessing.Process(target=take, args=(ports,), daemon=True).start()
    to = kst.webhook(f"http://127.0.0.1:{ports.get()}/hook")
    with tempfile.TemporaryDirectory() as folder:
        run = made_run(Path(folder) / "out", counts={})
        timed(run, to, 10)
        remember(run, to, given.old)
        kept = run.folder.path / "alerts.json"
        print(f"{given.old:,} resolved incidents: alerts.json has {kept.stat().st_size:,} bytes")
        began = time.monotonic()
        found = run.incidents()
        print(f"they are found in {time.monotonic() - began:.2f} s")
        taken = alerting._read(kept)[to.name]
        began = time.monotonic()
        assert not list(alerting._news(found, taken, NOW, 0))
        print(f"a turn that finds nothing to tell takes {time.monotonic() - began:.2f} s")
        users = (finding(f"new {number}", hours=20) for number in range(given.burst))
        add_batch(run.folder.path, 1, *users, clock_ms=NOW, reached_ms=OVER)
        seconds = timed(run, to, 600)
        print(f"{given.burst:,} more that open at once are told in {seconds:.1f} s")
    print(machine(), file=sys.stderr)


if __name__ == "__main__":
    main()
