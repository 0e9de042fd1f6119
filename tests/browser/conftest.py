"""One JupyterLab for all browser tests, a browser for each file of them, and their screenshots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright

from tests.browser import chromium
from tests.browser.jupyterlab import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with started(tmp_path_factory.mktemp("lab") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium.found()
    if path is None:
        pytest.skip("no Chromium: make test installs it where it may")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def screenshot(request: pytest.FixtureRequest) -> Callable[[Page, str], Path]:
    """Keep a picture of a page, under a folder that KSTOOLKIT_SCREENSHOTS may name."""
    default = Path(request.config.rootpath) / ".pytest_cache" / "screenshots"
    folder = Path(os.environ.get("KSTOOLKIT_SCREENSHOTS", default))

    def taken(page: Page, name: str) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        return path

    return taken
