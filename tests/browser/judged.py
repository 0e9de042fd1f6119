"""Another's judgement of a page: axe-core's, by the rules of WCAG 2.2 A and AA."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.jupyterlab import Lab

PAGES: list[Any] = [
    (740, True),
    *(
        pytest.param((width, dark), marks=pytest.mark.long)
        for width, dark in ((1280, False), (1280, True), (800, False), (800, True), (740, False))
    ),
]
"""Widths of JupyterLab's page, and whether it is dark: 740 leaves a panel some 400 pixels."""

_ASK = """async scope => (await axe.run(scope, {runOnly: [
  'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})).violations
  .filter(each => ['serious', 'critical'].includes(each.impact))
  .flatMap(each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 200)}: `
    + (node.any[0] ?? node.all[0] ?? node.none[0])?.message))"""


def serious(page: Page, scope: str) -> list[str]:
    """Return what is found serious, or worse, in the parts of a page that a selector names."""
    script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(f"() => {{ {script} }}")
    found: list[str] = page.evaluate(_ASK, scope)
    return found


@contextmanager
def judged(
    lab: Lab,
    browser: Browser,
    screenshot: Callable[[Page, str], Path],
    name: str,
    page_is: tuple[int, bool],
) -> Iterator[tuple[Page, Locator]]:
    """Give the page of a notebook that was written, run, and its panel; then judge how that looks.

    No script of the data may have run, the panel fits, and nothing is serious by another's rules.
    """
    width, dark = page_is
    with lab.opened(browser, f"{name}.ipynb", dark=dark, width=width) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        yield page, panel
        whole(page, panel)
        screenshot(page, f"{name}-{width}-{'dark' if dark else 'light'}")
        assert panel.evaluate("e => e.scrollWidth - e.clientWidth") <= 1
        assert serious(page, ".kst-view") == []


def whole(page: Page, panel: Locator) -> None:
    """Make the page so high that all of a panel is seen."""
    size, box = page.viewport_size, panel.bounding_box()
    assert size is not None
    assert box is not None
    page.set_viewport_size({"width": size["width"], "height": int(box["height"]) + 420})
    panel.scroll_into_view_if_needed()
