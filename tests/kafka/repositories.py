"""Maven repositories on loopback: real ones, as far as Ivy can tell, which can fail on purpose."""

from __future__ import annotations

import hashlib
import io
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from zipfile import ZipFile, ZipInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.kafka.jars import Artifact

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{0.group}</groupId><artifactId>{0.name}</artifactId><version>{0.version}</version>
  <packaging>{1}</packaging>
  <dependencies>{2}</dependencies>
</project>
"""
_NEED = (
    "<dependency><groupId>{0.group}</groupId><artifactId>{0.name}</artifactId>"
    "<version>{0.version}</version></dependency>"
)


class Repository(ThreadingHTTPServer):
    """A repository: what was published in it, who asked for what, and how it behaves."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.failing = 0
        """How many requests to answer with 503 before it works."""
        self.open = threading.Event()
        """Cleared, it lets requests for jars wait."""
        self.open.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/maven"

    def publish(
        self, artifact: Artifact, *needs: Artifact, packaging: str = "jar", with_jar: bool = True
    ) -> None:
        """Add an artifact that needs others."""
        needed = "".join(_NEED.format(each) for each in needs)
        stem = f"/maven/{artifact.group.replace('.', '/')}/{artifact.name}/{artifact.version}"
        stem += f"/{artifact.name}-{artifact.version}"
        self._add(f"{stem}.pom", _POM.format(artifact, packaging, needed).encode())
        if with_jar:
            self._add(f"{stem}.jar", jar_of(artifact))

    def damage(self, end: str) -> None:
        """Spoil the files whose names end so; their checksums stay as they were."""
        for path in self.files:
            if path.endswith(end):
                self.files[path] = self.files[path][::-1]

    def jars_asked(self) -> list[str]:
        """Return the names of the jars that were sent."""
        return [path.rpartition("/")[2] for path in self.asked if path.endswith(".jar")]

    def _add(self, path: str, content: bytes) -> None:
        self.files[path] = content
        self.files[f"{path}.sha1"] = (
            hashlib.sha1(content, usedforsecurity=False).hexdigest().encode()
        )


def jar_of(artifact: Artifact) -> bytes:
    packed = io.BytesIO()
    with ZipFile(packed, "w") as jar:
        jar.writestr(ZipInfo("name.txt"), str(artifact))
    return packed.getvalue()


class _Answer(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        path = urlsplit(self.path).path  # a proxy is asked for a whole URL
        if self.server.failing:
            self.server.failing -= 1
            self._send(503, b"")
            return
        content = self.server.files.get(path)
        if content is not None and self.command == "GET":
            self.server.asked.append(path)
            if path.endswith(".jar"):
                self.server.open.wait(60)
        self._send(404 if content is None else 200, content or b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, code: int, content: bytes) -> None:
        try:
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            return  # who asked was killed

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Repository]:
    """Serve a repository, empty at first."""
    with Repository() as repository:
        thread = threading.Thread(target=repository.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield repository
        finally:
            repository.open.set()
            repository.shutdown()
            thread.join()
