"""A real service on loopback that is slow, fails and hangs when it is told to, and a client."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LookupServer", "country_of", "lookup_server"]


def country_of(user: str) -> str | None:
    """What the service knows: nobody whose name begins with "eve"."""
    return None if user.startswith("eve") else f"of {user}"


@dataclass(slots=True)
class LookupServer:
    """What the service does, and what it saw."""

    url: str = ""
    seconds: float = 0.0
    fail_each: int | None = None
    down: bool = False
    go_on: threading.Event = field(default_factory=threading.Event)
    requests: list[list[str]] = field(default_factory=list)
    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def request(self, users: list[str]) -> Iterator[int]:
        with self.lock:
            self.requests.append(users)
            number = len(self.requests)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            yield number
        finally:
            with self.lock:
                self.now -= 1

    def is_bad(self, number: int, users: list[str]) -> bool:
        on_turn = self.fail_each is not None and number % self.fail_each == 0
        return self.down or on_turn or any("poison" in user for user in users)

    def client(self, limit_seconds: float = 10.0) -> Callable[[list[str]], dict[str, str]]:
        """Return what asks the service; it refers to nothing that can't be pickled."""
        url = self.url

        def ask(users: list[str]) -> dict[str, str]:
            request = Request(url, data=json.dumps(users).encode())  # noqa: S310 - loopback
            with urlopen(request, timeout=limit_seconds) as answer:  # noqa: S310
                found: dict[str, str] = json.load(answer)
                return found

        return ask


@contextmanager
def lookup_server(**behaviour: Any) -> Iterator[LookupServer]:
    server = LookupServer(**behaviour)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            users = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.request(users) as number:
                time.sleep(server.seconds)
                if any("hang" in user for user in users):
                    server.go_on.wait(20)
                status = 500 if server.is_bad(number, users) else 200
            self.answer(status, users)  # the client may call again before this returns

        def answer(self, status: int, users: list[str]) -> None:
            found = {user: name for user in users if (name := country_of(user))}
            body = json.dumps(found).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:  # the client has gone away
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Leave the test's output alone."""

    class Listener(ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

    with Listener(("127.0.0.1", 0), Handler) as listener:
        server.url = f"http://127.0.0.1:{listener.server_address[1]}/"
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            listener.shutdown()
            thread.join()
