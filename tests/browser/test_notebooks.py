"""The project's notebooks in JupyterLab: read as they are kept, and run."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.notebooks.running import FOLDER, complaints_of, laid_out, running_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbformat import NotebookNode
    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
OFTEN = ("4",)
"""Beginnings of those that are run with all tests: of stores."""
PANEL = "application/vnd.jupyter.widget-view+json"
WITH_PANELS = [name for name in NAMES if PANEL in (FOLDER / f"{name}.ipynb").read_text()]
BROKEN = re.compile("Error displaying widget|Loading widget|Error creating widget")
CLOSES_ITS_PANEL = "8_following_a_stream_live"
PROMISED_SECONDS, MOST_SECONDS, ENDING_SECONDS = 120, 480, 10
ERRORS = '[data-mime-type="application/vnd.jupyter.stderr"]'
WITHOUT_KERNEL = """async path => { await window.jupyterapp.restored;
  await window.jupyterapp.commands.execute('docmanager:open', {path, factory: 'Notebook',
    kernelPreference: {shouldStart: false, canStart: false, autoStartDefault: false}}) }"""

IDLE = """() => { const w = window.jupyterapp.shell.currentWidget,
  code = w.content.widgets.map(cell => cell.model).filter(model => model.type === 'code'),
  outputs = model => [...Array(model.outputs.length).keys()].map(i => model.outputs.get(i)),
  failed = model => outputs(model).some(output => output.type === 'error');
  return w.sessionContext.session.kernel.status === 'idle'
    && (code.every(model => model.executionCount) || code.some(failed)) }"""
SAVED = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
# What is out of sight is drawn, too, and so has the height that it takes.
UNFOLD = """() => document.querySelectorAll('.jp-Cell')
  .forEach(each => { each.style.contentVisibility = 'visible' })"""
PICTURES = """() => [...document.querySelectorAll('.jp-OutputArea-output img')]
  .every(each => each.complete && each.naturalWidth)"""
HEIGHT = """() => { const outer = document.querySelector('.jp-WindowedPanel-outer');
  outer.scrollTo(0, 0);
  const [end, seen] = [[...document.querySelectorAll('.jp-Cell')].at(-1), outer]
    .map(each => each.getBoundingClientRect().bottom);
  return Math.ceil(window.innerHeight + end - seen) + 20 }"""


@pytest.fixture
def beside(lab: Lab) -> Path:
    """A fresh clone's notebooks, below what JupyterLab shows."""
    return laid_out(Path(mkdtemp(dir=lab.folder)))


@pytest.mark.long
def test_kept_notebooks_show_their_pictures_where_nobody_trusts_them_and_nothing_runs(
    lab: Lab, beside: Path, browser: Browser, screenshot: Callable[[Page, str], Path]
) -> None:
    # Not by lab.opened(): ipywidgets complains of panels without a kernel.
    with browser.new_page() as page:
        page.goto(f"{lab.url}/lab?reset&token={lab.token}")
        page.wait_for_function("() => window.jupyterapp", timeout=60_000)
        for name in WITH_PANELS:
            page.evaluate(WITHOUT_KERNEL, _below(lab, beside / f"{name}.ipynb"))
            shown = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
            expect(shown.locator("div.kst-static").first).to_be_attached(timeout=30_000)
            expect(shown.locator(".jp-OutputArea-output img").first).to_be_attached()
            expect(shown.locator(ERRORS)).to_have_count(0)
            _show_all(page)
            for broken in shown.get_by_text(BROKEN).all():
                expect(broken).to_be_hidden()
            for static in shown.locator("div.kst-static").all():
                expect(static).to_be_visible()
            assert not page.evaluate(
                "() => window.jupyterapp.shell.currentWidget.content.widgets"
                ".some(cell => cell.model.type === 'code' && cell.model.trusted)"
            )
        screenshot(page, "notebook-kept")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.partition("_")[0] in OFTEN else pytest.mark.long)
        for name in NAMES
    ],
)
def test_a_notebook_runs_from_scratch_in_jupyterlab_and_leaves_nothing_running(
    *,
    lab: Lab,
    beside: Path,
    browser: Browser,
    screenshot: Callable[[Page, str], Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    path = beside / f"{name}.ipynb"
    dark, width = _number(name) % 2 == 0, 800 if _number(name) % 4 in {0, 3} else 1280
    with lab.opened(browser, _below(lab, path), dark=dark, width=width) as page:
        _click(page, "Edit", "Clear Outputs of All Cells")
        begun = time.monotonic()
        _click(page, "Run", "Run All Cells")
        page.wait_for_function(IDLE, timeout=MOST_SECONDS * 1000, polling=200)
        seconds = time.monotonic() - begun
        _click(page, "File", "Save Notebook")
        page.wait_for_function(SAVED)
        assert running_for(path), "the kernel, at least"
        _show_all(page)
        screenshot(page, f"notebook-{name}")
        done = _read(path)
        _assert_panels_are_seen(page, done, alive=name != CLOSES_ITS_PANEL)
    assert _errors_of(done) == []
    assert complaints_of(done) == ""
    counts = [cell.execution_count for cell in done.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert _left_after_a_while(path) == []
    if seconds > PROMISED_SECONDS:
        with capsys.disabled():
            sys.stdout.write(f"\n{name} took {seconds:.0f} s: {PROMISED_SECONDS} s are promised\n")


def _number(name: str) -> int:
    return int(name.partition("_")[0])


def _below(lab: Lab, path: Path) -> str:
    return str(path.relative_to(lab.folder))


def _click(page: Page, menu: str, entry: str) -> None:
    page.get_by_role("menuitem", name=menu, exact=True).click()
    page.get_by_role("menuitem", name=re.compile(rf"^{entry}( Ctrl|$)")).click()


def _show_all(page: Page) -> None:
    """Have all pictures drawn, in a window that is as high as the notebook is long."""
    page.evaluate(UNFOLD)
    page.wait_for_function(PICTURES)
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": size["width"], "height": page.evaluate(HEIGHT)})


def _read(path: Path) -> NotebookNode:
    import nbformat

    read: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return read


def _assert_panels_are_seen(page: Page, notebook: NotebookNode, *, alive: bool) -> None:
    """Assert that each panel lives, or that its static picture stands there once it is closed."""
    for place, cell in enumerate(notebook.cells):
        if any(PANEL in output.get("data", {}) for output in cell.get("outputs", ())):
            shown = page.locator(".jp-Notebook .jp-Cell").nth(place)
            expect(shown.locator(".kst-panel")).to_be_visible(visible=alive)
            expect(shown.locator(".kst-static")).to_be_visible(visible=not alive)


def _errors_of(notebook: NotebookNode) -> list[str]:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return ["\n".join(each.traceback) for each in outputs if each.output_type == "error"]


def _left_after_a_while(path: Path) -> list[str]:
    """Return what still runs once a Java that lost its kernel has had the time to notice."""
    until = time.monotonic() + ENDING_SECONDS
    while (left := running_for(path)) and time.monotonic() < until:
        time.sleep(0.1)
    return left
