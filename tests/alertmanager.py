"""The system's Alertmanager: found, or installed with the system's packages where one may.

``python -m tests.alertmanager`` installs it where it is missing; ``make test`` does so. Debian's
reads its templates where its package puts them: unpacked elsewhere it does not start. Where systemd
runs, installing it starts a service, too; tests have processes of their own.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self
from urllib.request import urlopen

import pytest

from tests.systempackages import install

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Alertmanager", "found"]

PACKAGE = "prometheus-alertmanager"

_CONFIG = """
route:
  receiver: listener
  group_by: [user]
  group_wait: 500ms
  group_interval: 1s
  repeat_interval: 1h
receivers:
  - name: listener
    webhook_configs:
      - url: {listener}
        send_resolved: true
"""


def found() -> str | None:
    """Return the path of an Alertmanager; None if there is none."""
    return shutil.which(PACKAGE)


class Alertmanager:
    """A running Alertmanager, which passes on to a listener, grouped by user."""

    def __init__(self, folder: Path, listener: str, options: Sequence[str] = ()) -> None:
        program = found() or pytest.skip("no prometheus-alertmanager")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alertmanager.yml").write_text(_CONFIG.format(listener=listener))
        self._command = [
            program,
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
            *options,
        ]
        self._log = folder / "alertmanager.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def alerts(self) -> list[dict[str, Any]]:
        """Return what it has that is not over; nothing while it starts."""
        try:
            with urlopen(f"{self.url}/api/v2/alerts", timeout=5) as answer:  # noqa: S310 - http
                return json.load(answer)  # type: ignore[no-any-return]
        except OSError:
            return []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        """End it as a service is ended: killed, it would forget of what it has told."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
        self.kill()


if __name__ == "__main__":
    sys.stderr.write(f"{install('Alertmanager', found, (PACKAGE,))}\n")
