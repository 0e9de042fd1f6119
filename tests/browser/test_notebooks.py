"""The project's notebooks in JupyterLab: read as they are kept, and run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.jupyterlab import READY
from tests.notebooks.running import FOLDER, laid_out

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))
WITH_PANELS = [name for name in NAMES if name.startswith(("1_", "4_"))]
QUICK = [name for name in NAMES if name.startswith(("3_", "4_"))]
"""Those that run in a quarter of a minute; tests of the notebooks run them all."""

ERRORS = '[data-mime-type="application/vnd.jupyter.stderr"], [data-mime-type$="error"]'
WITHOUT_KERNEL = """path => window.jupyterapp.commands.execute('docmanager:open', {path,
  factory: 'Notebook', kernelPreference:
  {shouldStart: false, canStart: false, autoStartDefault: false}})"""


@pytest.fixture(scope="module")
def beside(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the notebooks below the one that JupyterLab shows."""
    there = laid_out(tmp_path_factory.mktemp("notebooks"))
    shutil.copytree(there.parent, lab.folder / "clone")
    return f"clone/{there.name}"


def test_kept_notebooks_show_their_pictures_where_nobody_trusts_them_and_nothing_runs(
    lab: Lab, beside: str, browser: Browser, screenshot: Callable[[Page, str], Path]
) -> None:
    lab.write("empty.ipynb", ["1"])
    # Not by lab.opened(): ipywidgets complains of panels without a kernel.
    with browser.new_page() as page:
        page.goto(f"{lab.url}/lab/tree/empty.ipynb?reset&token={lab.token}")
        page.wait_for_function(READY, timeout=60_000)
        for name in WITH_PANELS:
            page.evaluate(WITHOUT_KERNEL, f"{beside}/{name}")
            shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
            expect(shown.locator("div.kst-static").first).to_be_attached(timeout=30_000)
            expect(shown.locator(".jp-OutputArea-output img").first).to_be_attached()
            expect(shown.locator(ERRORS)).to_have_count(0)
            assert not page.evaluate(
                "() => window.jupyterapp.shell.currentWidget.content.widgets"
                ".some(cell => cell.model.type === 'code' && cell.model.trusted)"
            )
        screenshot(page, "notebook-kept")


@pytest.mark.parametrize("name", QUICK)
def test_a_notebook_runs_in_jupyterlab_without_an_error(
    lab: Lab, beside: str, browser: Browser, name: str
) -> None:
    with lab.opened(browser, f"{beside}/{name}") as page:
        page.set_default_timeout(180_000)
        lab.run_all(page)
        expect(page.locator(ERRORS)).to_have_count(0)
        counts = page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.content.widgets"
            ".filter(cell => cell.model.type === 'code').map(cell => cell.model.executionCount)"
        )
        assert None not in counts
        assert len(counts) > 5
