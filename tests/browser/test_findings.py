from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from kstoolkit.pipeline.run import load_run
from tests.browser.judged import serious

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
        found(action="write", count=4, expected_low=0, expected_high=1, log10_probability=-20.0),
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


def rows(panel: Locator) -> Locator:
    return panel.get_by_role("grid", name="Users").locator(".body [role=row]")


def chosen(panel: Locator) -> Locator:
    return panel.locator(".body [role=row][aria-selected=true] .c-text").first


def test_findings_are_gone_through_and_marked_by_mouse(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    lab.write("findings.ipynb", [f"FOLDER = {str(tmp_path)!r}\n{FILTERED}"])
    with lab.opened(browser, "findings.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("3 users", exact=True)).to_be_visible()
        expect(panel.get_by_text("Anna stood out in 1 window")).to_be_visible()
        screenshot(page, "findings")
        use_filters(panel)
        rows(panel).filter(has_text="Bo").click()
        expect(panel.get_by_text("Bo did “read” 7 times")).to_be_visible()
        panel.get_by_role("group", name="Incidents of this user").get_by_role("button").nth(
            1
        ).click()
        expect(panel.get_by_text("Bo did “read” 9 times")).to_be_visible()
        rows(panel).filter(has_text="Anna").click()
        expect(panel.get_by_text("Anna stood out in 1 window")).to_be_visible()
        look_at_a_window(page, panel)
        panel.get_by_role("button", name="Known", exact=True).click()
        expect(panel.get_by_text("Anna is known now")).to_be_visible()
        expect(panel.get_by_role("button", name="Known", exact=True)).to_have_attribute(
            "aria-pressed", "true"
        )
        assert load_run(tmp_path / "out").marks.known == {"Anna"}
        expect(rows(panel).filter(has_text="Anna").locator(".badge")).to_have_text("known")
        panel.get_by_role("button", name="Undo").click()
        expect(panel.get_by_text("1 mark taken back")).to_be_visible()
        assert not load_run(tmp_path / "out").marks
        assert serious(page, ".kst-view") == []


def use_filters(panel: Locator) -> None:
    """Use each filter; in the end all users are there."""
    panel.get_by_role("group", name="rule").get_by_text("Ceiling 8 per 1 minute").click()
    expect(panel.get_by_text("1 of 3 users")).to_be_visible()
    panel.get_by_role("group", name="rule").get_by_text("Ceiling 8 per 1 minute").click()
    panel.get_by_role("group", name="window").get_by_text("1 hour").click()
    expect(panel.get_by_text("3 users", exact=True)).to_be_visible()
    panel.get_by_role("searchbox").fill("an")
    expect(panel.get_by_text("1 of 3 users")).to_be_visible()
    panel.get_by_role("searchbox").fill("")
    panel.get_by_role("group", name="window").get_by_text("1 hour").click()
    brush = panel.locator(".brush")
    box = brush.bounding_box()
    assert box is not None
    brush.hover(position={"x": 1, "y": 8})
    brush.page.mouse.down()
    brush.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 8)
    brush.page.mouse.up()
    expect(panel.get_by_text("1 of 3 users")).to_be_visible()
    expect(rows(panel).locator(".c-text").first).to_have_text("Bo")
    panel.locator(".brush").dblclick(position={"x": 30, "y": 8})
    expect(panel.get_by_text("3 users", exact=True)).to_be_visible()
    panel.get_by_role("columnheader", name="user").get_by_role("button").click()
    panel.get_by_role("columnheader", name="user").get_by_role("button").click()
    expect(rows(panel).locator(".c-text").first).to_have_text("Cy")
    panel.get_by_role("columnheader", name="user").get_by_role("button").click()
    expect(rows(panel).locator(".c-text").first).to_have_text("Anna")


def look_at_a_window(page: Page, panel: Locator) -> None:
    """Hover tells a figure, a click what was done, twice shows all time."""
    hour = panel.locator("svg.v-strip").nth(1)
    hour.locator("rect.flagged").hover()
    expect(panel.get_by_role("tooltip")).to_have_text(
        "2015-09-12 10:00 to 11:00 UTC: 4, expected 0–1, flagged"  # noqa: RUF001
    )
    before = hour.locator("rect.flagged").get_attribute("width")
    hour.locator("rect.flagged").click()
    expect(panel.get_by_role("grid", name="Done between")).to_contain_text("read")
    assert hour.locator("rect.flagged").get_attribute("width") != before
    panel.get_by_title("Read them once more from their files").click()
    expect(panel.get_by_text("None of 59 events is found in the files now")).to_be_visible()
    panel.get_by_role("button", name="All time").click()
    expect(panel.get_by_role("button", name="All time")).to_be_hidden()
    page.mouse.move(0, 0)


def test_all_of_it_is_reached_by_keyboard_and_the_notebook_keeps_still(
    lab: Lab, browser: Browser, tmp_path: Path
) -> None:
    lab.write("keyed.ipynb", [f"FOLDER = {str(tmp_path)!r}\n{FILTERED}", "1 + 1"])
    with lab.opened(browser, "keyed.ipynb", dark=True, width=1280) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("3 users", exact=True)).to_be_visible()
        cell = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        grid = panel.get_by_role("grid", name="Users")
        grid.focus()
        before = page.evaluate(cell)
        page.keyboard.press("ArrowDown")
        expect(chosen(panel)).to_have_text("Bo")
        expect(panel.get_by_text("Bo did “read” 7 times")).to_be_visible()
        page.keyboard.press("End")
        expect(chosen(panel)).to_have_text("Cy")
        page.keyboard.press("Home")
        expect(chosen(panel)).to_have_text("Anna")
        page.keyboard.press("/")
        page.keyboard.type("cy")
        expect(panel.get_by_text("1 of 3 users")).to_be_visible()
        page.keyboard.press("ControlOrMeta+a")
        page.keyboard.press("Delete")
        expect(panel.get_by_text("3 users", exact=True)).to_be_visible()
        strips = panel.get_by_role("application", name=re.compile("^Counts of Anna"))
        strips.focus()
        page.keyboard.press("ArrowRight")
        heard = panel.locator(".heard")
        expect(heard).to_contain_text("1 hour, 2015-09-12 10:00 to 11:00 UTC: 4")
        page.keyboard.press("ArrowDown")
        expect(heard).to_contain_text("1 day, 2015-09-12 (UTC): 4")
        page.keyboard.press("0")
        expect(panel.get_by_role("button", name="All time")).to_be_hidden()
        page.keyboard.press("+")
        expect(panel.get_by_role("button", name="All time")).to_be_visible()
        page.keyboard.press("Enter")
        expect(panel.get_by_role("grid", name="Done on 12 September 2015")).to_be_visible()
        brush = panel.locator(".brush")
        brush.focus()
        page.keyboard.press("+")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        expect(panel.get_by_text("1 of 3 users")).to_be_visible()
        page.keyboard.press("0")
        expect(panel.get_by_text("3 users", exact=True)).to_be_visible()
        panel.get_by_role("button", name="Muted", exact=True).focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("Anna is muted now")).to_be_visible()
        expect(panel.get_by_role("button", name="Muted", exact=True)).to_be_focused()
        assert page.evaluate(cell) == before
        assert serious(page, ".kst-view") == []


@pytest.mark.parametrize("width", [pytest.param(800, marks=pytest.mark.long), 740])
def test_hostile_names_are_text_on_a_narrow_page(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path, width: int
) -> None:
    lab.write("hostile_findings.ipynb", [f"FOLDER = {str(tmp_path)!r}\n{HOSTILE}"])
    with lab.opened(browser, "hostile_findings.ipynb", dark=width == 800, width=width) as page:
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(rows(panel)).to_have_count(8)
        for place in range(8):
            rows(panel).nth(place).click()
            expect(rows(panel).nth(place)).to_have_attribute("aria-selected", "true")
            expect(panel.locator("p.large")).not_to_be_empty()
        rows(panel).nth(1).click()
        expect(panel.locator("p.large bdi").first).to_have_text("<script>alert(1)</script>")
        panel.get_by_role("button", name="Known", exact=True).click()
        expect(panel.get_by_text("<script>alert(1)</script> is known now")).to_be_visible()
        screenshot(page, f"findings-hostile-{width}")
        wide = page.evaluate("e => e.scrollWidth - e.clientWidth", panel.element_handle())
        assert wide <= 1
        assert serious(page, ".kst-view") == []
