"""Who is alerted in tests, and of what: a server that may fail, and batches without Spark."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import kstoolkit as kst
from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.pipeline.alerting import LIVE_MS, Alerting, receivers_of
from kstoolkit.pipeline.batches import MicroBatch
from tests.changelog.changelogs import HOUR
from tests.plots.made import found

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kstoolkit.pipeline.alerting import Receiver
    from kstoolkit.pipeline.run import Run

NOW = time.time_ns() // 1_000_000
START = NOW - NOW % HOUR - 24 * HOUR
"""A window of yesterday."""
OVER = START + 4 * HOUR
"""When events have come up to here, what was found in the first window is over."""
HOOK = "/hook"


@dataclass(frozen=True)
class Request:
    """What a listener was told."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        return json.loads(self.body)  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


class Listener(ThreadingHTTPServer):
    """A server that answers as it is told to, and keeps what it took.

    ``answer`` returns a status for each request; or headers beside; or ``"break"``, to break off in
    the midst of its answer. It may wait as long as it likes.
    """

    daemon_threads, block_on_close, request_queue_size = True, False, 128

    def __init__(self, port: int = 0) -> None:
        self.came: list[Request] = []
        self.taken: list[Request] = []
        self.answer: Callable[[Request], Any] = lambda _: 200
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """Say nothing: whoever asked is gone."""

    def keys(self) -> list[str]:
        return [each.key for each in self.taken]

    def states(self) -> list[tuple[str, str]]:
        return [(each.told["id"], each.told["state"]) for each in self.taken]


class _Handler(BaseHTTPRequestHandler):
    server: Listener

    def log_message(self, *_: object) -> None:
        pass

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, dict(self.headers), body)
        self.server.came.append(request)
        answer = self.server.answer(request)
        if answer == "break":
            self.wfile.write(b"HTTP/1.1 2")
            self.close_connection = True
            return
        status, headers, text = (answer, {}, b"") if isinstance(answer, int) else answer
        if 200 <= status < 300:
            self.server.taken.append(request)
        with suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    do_GET = do_POST = _any  # noqa: N815 - http.server's names


@contextmanager
def listening(port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Listener]:
    """Return a listener that answers for as long as one is in this."""
    with Listener(port) as listener:
        if tls is not None:
            listener.socket = tls.wrap_socket(listener.socket, server_side=True)
            listener.url = listener.url.replace("http:", "https:")
        threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield listener
        finally:
            listener.shutdown()


def finding(user: str = "Anna", hours: float = 0, **changes: Any) -> dict[str, Any]:
    """Return a finding of an hour, so many hours after the first window."""
    start = START + int(hours * HOUR)
    return found(user=user, window_start_ms=start, first_seen_ms=0, **changes)


def add_batch(
    out: Path, number: int, *findings: dict[str, Any], clock_ms: int = NOW, reached_ms: int = START
) -> MicroBatch:
    """Write a batch as a run's sink does, and return it; nothing is resolved by it of itself."""
    if findings:
        told = [{**each, "first_seen_ms": clock_ms} for each in findings]
        folders = BatchFolders(out / "findings")
        table = pa.Table.from_pylist(told, FINDINGS_SCHEMA)
        pq.write_table(table, folders.begin(0, number) / "part-00000-3600000.parquet")
        folders.mark(0, number)
    done = MicroBatch(number, clock_ms, 0.1, findings=len(findings), reached_ms=reached_ms)
    done.save(BatchFolders(out / "statistics").begin(0, number))
    BatchFolders(out / "statistics").mark(0, number)
    return done


class Told(list[str]):
    """What a run said."""

    def __call__(self, line: str) -> None:
        self.append(line)


def tell(run: Run, *given: Any, seconds: float = 10, lasts_ms: int = LIVE_MS) -> Told:
    """Tell receivers what there is, as a run's end does, and return what was said."""
    said = Told()
    alerting = Alerting(run.folder, receivers_of(given), said, lasts_ms=lasts_ms)
    alerting.close(seconds)
    return said


def hook(listener: Listener, **options: Any) -> Receiver:
    return kst.webhook(f"{listener.url}{HOOK}", **options)
