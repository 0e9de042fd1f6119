from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

LEAST_PX = 600
CELLS = [
    """
from ipywidgets import IntSlider
from kstoolkit.plots import plot_expected
from kstoolkit.widgets.panel import Panel
from kstoolkit.widgets.showing import Shown

shown, slider = Shown(), IntSlider(value=7, description="Count")

def show(change=None):
    shown.draw(lambda ax: plot_expected([0], [slider.value], window_ms=60_000, ax=ax))

slider.observe(show, "value")
show()
panel = Panel("A count <script>alert(1)</script>", [slider, shown], shown.html)
panel
"""
]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 800])
def test_a_panel_lives_in_jupyterlab_and_hides_its_static_picture(
    lab: Lab,
    browser: Browser,
    screenshot: Callable[[Page, str], Path],
    dark: bool,  # noqa: FBT001 - a parameter of the test
    width: int,
) -> None:
    lab.write("panel.ipynb", CELLS)
    with lab.opened(browser, "panel.ipynb", dark=dark, width=width) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.locator("h4")).to_have_text("A count <script>alert(1)</script>")
        expect(panel.locator("img")).to_have_attribute(
            "alt", "None of 1 window flagged; the highest count is 7, range unknown"
        )
        expect(page.locator(".kst-static").first).to_be_hidden()
        seen = panel.locator("img").bounding_box()
        assert seen is not None
        assert seen["width"] >= LEAST_PX  # it scrolls rather than shrinks until nobody reads it
        panel.locator("[role=slider]").focus()
        page.keyboard.press("ArrowRight")
        expect(panel.locator("img")).to_have_attribute(
            "alt", "None of 1 window flagged; the highest count is 8, range unknown"
        )
        screenshot(page, f"panel-{width}-{'dark' if dark else 'light'}")
