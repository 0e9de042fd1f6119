"""A real JupyterLab for the tests: one server, a folder of notebooks, pages of a real browser."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from playwright.sync_api import expect

from tests.notebooks.running import WARNINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from playwright.sync_api import Browser, Page

__all__ = ["Lab", "started"]

ROOT = Path(__file__).parents[2]
READY = """() => { const w = window.jupyterapp?.shell.currentWidget,
  c = w?.sessionContext, k = c?.session?.kernel;
  return !!(c?.isReady && k?.connectionStatus === 'connected'
            && k.status === 'idle' && w.content.widgets.length) }"""
OPEN = """async path => { const { commands, shell } = window.jupyterapp;
  const opened = await commands.execute('docmanager:open', {path});
  [...shell.widgets('main')].filter(each => each !== opened).forEach(each => each.dispose()) }"""
CLOSE = "() => window.jupyterapp.shell.currentWidget.dispose()"
SETTINGS = {
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "docmanager-extension/plugin": {"autosave": False},
    "extensionmanager-extension/plugin": {"enabled": False},
    "apputils-extension/themes": {"adaptive-theme": True},
}
START_SECONDS, STOP_SECONDS = 60, 15
FOLDERS = (
    *("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"),
    *("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "JUPYTER_PATH"),
)
# A warning fails a cell. The server itself is not ours to be strict with.
KERNEL = {
    "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
    "env": {"PYTHONWARNINGS": WARNINGS},
}


@dataclass(frozen=True, slots=True)
class Lab:
    """A running JupyterLab.

    Parameters
    ----------
    url, token
        Where it answers, and to whom.
    folder
        Where its notebooks lie.
    """

    url: str
    token: str = field(repr=False)
    folder: Path

    def write(self, name: str, cells: Sequence[str]) -> None:
        """Write a notebook of code cells."""
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
            "cells": [_cell(number, each) for number, each in enumerate(cells)],
        }
        (self.folder / name).write_text(json.dumps(notebook))

    @contextmanager
    def opened(
        self, browser: Browser, name: str, *, dark: bool = False, width: int = 1280
    ) -> Iterator[Page]:
        """Open a notebook with a kernel that is ready, and close it and end that.

        A browser loads the page once: that takes longer than most of what is tested on it. Where a
        test has failed, the next one gets another. The page may not complain of anything, nor ask
        any other machine for anything.
        """
        page = browser.contexts[0].pages[0] if browser.contexts else browser.new_page()
        complaints: list[str] = []
        with ExitStack() as left, ExitStack() as failed:
            left.callback(self.end_kernels)
            failed.callback(page.close)
            left.enter_context(_heard(page, "pageerror", lambda e: complaints.append(str(e))))
            left.enter_context(_heard(page, "request", lambda r: complaints.extend(_far(r.url))))
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme="dark" if dark else "light")
            self._show(page, name)
            light = "false" if dark else "true"
            expect(page.locator("body")).to_have_attribute("data-jp-theme-light", light)
            yield page
            page.evaluate(CLOSE)
            failed.pop_all()
        assert not complaints, complaints

    def _show(self, page: Page, name: str) -> None:
        if page.url.startswith(self.url):
            page.evaluate(OPEN, name)
        else:
            page.goto(f"{self.url}/lab/tree/{name}?reset&token={self.token}")
        page.wait_for_function(READY, timeout=START_SECONDS * 1000)

    @staticmethod
    def run_all(page: Page) -> None:
        """Run all cells, and wait until they have run."""
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def end_kernels(self) -> None:
        """Shut all kernels down: one that is left goes on taking memory, and ticking."""
        for session in json.loads(self._asked("GET", "")):
            self._asked("DELETE", f"/{session['id']}")

    def _asked(self, method: str, below: str) -> bytes:
        url, told = f"{self.url}/api/sessions{below}", {"Authorization": f"token {self.token}"}
        with urlopen(Request(url, headers=told, method=method), timeout=START_SECONDS) as answer:  # noqa: S310 - ours
            read: bytes = answer.read()
        return read


@contextmanager
def started(home: Path) -> Iterator[Lab]:
    """Start JupyterLab with all that it keeps under a folder, and stop it."""
    notebooks = home / "notebooks"
    notebooks.mkdir(parents=True)
    _configure(home)
    token, port = secrets.token_hex(16), _free_port()
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            _command(notebooks, token, port),
            env=os.environ
            | {name: str(home / name) for name in FOLDERS}
            | {"PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    lab = Lab(f"http://127.0.0.1:{port}", token, notebooks)
    try:
        _await(lab, server, home / "server.log")
        yield lab
    finally:
        _stop(server)


def _cell(number: int, source: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"outputs": [], "execution_count": None, "metadata": {}}
    return {"cell_type": "code", "id": f"cell-{number}", "source": source.strip()} | shown


@contextmanager
def _heard(page: Page, event: Any, hear: Callable[[Any], None]) -> Iterator[None]:
    page.on(event, hear)
    yield
    page.remove_listener(event, hear)


def _far(url: str) -> list[str]:
    return [url] if urlsplit(url).hostname not in {None, "127.0.0.1"} else []


def _configure(home: Path) -> None:
    for plugin, settings in SETTINGS.items():
        path = home / "JUPYTERLAB_SETTINGS_DIR" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
    kernel = home / "JUPYTER_PATH" / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps(KERNEL))


def _command(notebooks: Path, token: str, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
        *(f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
        *(f"--ServerApp.root_dir={notebooks}", "--LabApp.expose_app_in_browser=True"),
        *("--LabApp.news_url=None", "--LabApp.extension_manager=readonly"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--ServerApp.terminals_enabled=False",
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(lab: Lab, server: subprocess.Popen[Any], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(f"{lab.url}/api/status?token={lab.token}", timeout=5):  # noqa: S310 - ours
                return
        except (URLError, ConnectionError):
            time.sleep(0.05)
    message = f"JupyterLab did not start:\n{log.read_text()}"
    raise RuntimeError(message)


def _stop(server: subprocess.Popen[Any]) -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
