from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import kstoolkit as kst
from tests.browser.judged import PAGES, judged
from tests.browser.names import focusable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

CELL = "import kstoolkit as kst\nkst.explore(kst.plan_capacity(rate=50_000_000))"


def test_what_decides_is_told_at_each_rate_by_slider_by_arrows_and_by_a_click(
    lab: Lab, browser: Browser
) -> None:
    lab.write("capacity.ipynb", [CELL, "1 + 1"])
    with lab.opened(browser, "capacity.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        rate = panel.get_by_label("Events a second")
        expect(rate).to_have_attribute("aria-valuetext", "50,000,000")
        cell = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        rate.focus()
        before = page.evaluate(cell)
        page.keyboard.press("ArrowRight")
        plan = kst.plan_capacity(rate=73_000_000)
        expect(panel.get_by_text(f"{plan.machines} machines (")).to_be_visible()
        expect(rate).to_be_focused()
        page.keyboard.press("End")
        plan = kst.plan_capacity(rate=5e9)
        tile = panel.locator(".tile").filter(has_text=f"machines for {plan.limit}")
        expect(tile.locator("b")).to_have_text(f"{plan.machines:,}")
        expect(tile).to_contain_text("what decides")
        charts = panel.get_by_role("slider", name="What decides")
        charts.focus()
        page.keyboard.press("Home")
        told = kst.plan_capacity(rate=500_000).needed["memory"]
        expect(charts).to_have_attribute(
            "aria-valuetext", re.compile(f"at 500,000 events a second: .*for memory {told} machine")
        )
        page.keyboard.press("Enter")
        expect(rate).to_have_attribute("aria-valuetext", "500,000")
        box = panel.locator(".chart svg").bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
        expect(rate).to_have_attribute("aria-valuetext", "50,000,000")
        panel.get_by_label("Search Terms").fill("largest partition")
        expect(panel.get_by_text("1 of 34 terms")).to_be_visible()
        assert page.evaluate(cell) == before
        assert not [role for role, name in focusable(page) if not name]


@pytest.mark.parametrize("page_is", PAGES)
def test_it_fits_and_nothing_is_serious_by_another_s_judgement(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], page_is: tuple[int, bool]
) -> None:
    lab.write("capacity-looks.ipynb", [CELL])
    with judged(lab, browser, screenshot, "capacity-looks", page_is) as (_, panel):
        expect(panel.locator(".chart")).to_be_visible()
