from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from kstoolkit.pipeline.run import load_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

MADE = """
from pathlib import Path
from kstoolkit.widgets.findings import FindingsPanel
from tests.changelog.changelogs import HOUR
from tests.plots.made import HOSTILE, MORNING, OVER, TEN, found, made_run

told = [found(), found(user="Bo", count=7, log10_probability=-3.0),
        found(action="write", count=4, expected_high=1, log10_probability=-20.0),
        found(user="Cy", window_start_ms=TEN - HOUR, count=3, log10_probability=-2.0),
        found(user="Bo", **{**OVER, "window_start_ms": MORNING, "count": 9})]
"""
FILTERED = f"""{MADE}
panel = FindingsPanel(made_run(Path(FOLDER) / "out", findings=told))
panel
"""
HOSTILE = f"""{MADE}
names = [*HOSTILE, '\\"quoted\\"', "it's"]
told = [found(user=name, action=name, log10_probability=-99.0 + n) for n, name in enumerate(names)]
panel = FindingsPanel(made_run(Path(FOLDER) / "out", findings=told))
panel
"""


def test_findings_are_filtered_looked_at_and_marked_by_mouse_and_keyboard(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    lab.write("findings.ipynb", [f"FOLDER = {str(tmp_path)!r}\n{FILTERED}"])
    with lab.opened(browser, "findings.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("5 of 5 findings.")).to_be_visible()
        expect(panel.locator("img")).to_be_visible()
        screenshot(page, "findings")
        use_filters(page, panel)
        panel.get_by_label("Findings", exact=True).select_option(index=2)
        expect(panel.get_by_text("Bo did “read” 7 times")).to_be_visible()
        panel.get_by_role("button", name="Previous").click()
        panel.get_by_role("button", name="Previous").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("Anna did “write” 4 times")).to_be_visible()
        panel.get_by_role("button", name="Next").focus()
        page.keyboard.press("Space")
        expect(panel.get_by_text("Anna did “read” 55 times")).to_be_visible()
        expect(panel.locator("img")).to_have_attribute("alt", re.compile("^Anna, “read”: 1 window"))
        panel.get_by_role("button", name="Mark user as known").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("1 of 5 findings; 2 about known users left out.")).to_be_visible()
        expect(panel.get_by_text("Anna is known now")).to_be_visible()
        assert load_run(tmp_path / "out").marks.known == {"Anna"}
        panel.get_by_label("Show known").check()
        expect(panel.get_by_text("3 of 5 findings.")).to_be_visible()
        panel.get_by_role("button", name="Read again").click()
        expect(panel.get_by_text("3 of 5 findings.")).to_be_visible()


def use_filters(page: Page, panel: Locator) -> None:
    """Use each filter; in the end three findings are left."""
    panel.get_by_label("Rule", exact=True).select_option("Ceiling 8 per 1 minute")
    expect(panel.get_by_text("1 of 5 findings.")).to_be_visible()
    panel.get_by_label("Rule", exact=True).select_option("all rules")
    panel.get_by_label("Window", exact=True).select_option("1 hour")
    expect(panel.get_by_text("4 of 5 findings.")).to_be_visible()
    panel.get_by_label("User", exact=True).fill("ann")
    page.keyboard.press("Tab")
    expect(panel.get_by_text("2 of 5 findings.")).to_be_visible()
    panel.get_by_label("Action", exact=True).fill("read")
    page.keyboard.press("Tab")
    expect(panel.get_by_text("1 of 5 findings.")).to_be_visible()
    panel.get_by_label("Action", exact=True).fill("")
    panel.get_by_label("User", exact=True).fill("")
    page.keyboard.press("Tab")
    panel.get_by_label("From (UTC)").fill("2015-09-12T10:00")
    page.keyboard.press("Tab")
    expect(panel.get_by_text("3 of 5 findings.")).to_be_visible()
    panel.get_by_label("Until (UTC)").fill("2015-09-12T10:00")
    page.keyboard.press("Tab")
    expect(panel.get_by_text("0 of 5 findings.")).to_be_visible()
    panel.get_by_label("Until (UTC)").fill("2015-09-12T11:00")
    page.keyboard.press("Tab")
    expect(panel.get_by_text("3 of 5 findings.")).to_be_visible()


def test_hostile_names_are_text_on_a_dark_narrow_page(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    lab.write("hostile_findings.ipynb", [f"FOLDER = {str(tmp_path)!r}\n{HOSTILE}"])
    with lab.opened(browser, "hostile_findings.ipynb", dark=True, width=800) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        listed = panel.get_by_label("Findings", exact=True)
        expect(listed.locator("option")).to_have_count(8)
        for place in range(8):
            listed.select_option(index=place)
            expect(panel.locator("td").nth(1)).not_to_be_empty()
        listed.select_option(index=1)
        expect(panel.locator("td").nth(1)).to_have_text("<script>alert(1)</script>")
        expect(panel.locator("img")).to_have_attribute(
            "alt", re.compile("^No counts of <script>ale")
        )
        panel.get_by_role("button", name="Mark user as known").click()
        expect(panel.get_by_text("<script>alert(1)</script> is known now")).to_be_visible()
        screenshot(page, "findings-hostile-dark-800")
        wide = page.evaluate("e => e.scrollWidth - e.clientWidth", panel.element_handle())
        assert wide <= 1
