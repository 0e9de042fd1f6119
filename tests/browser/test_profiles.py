from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.judged import PAGES, judged
from tests.browser.names import focusable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

CELL = "from kstoolkit.widgets.profiles import ProfilePanel\nProfilePanel('kafka_streams')"
HOSTILE = CELL.replace(
    "'kafka_streams'",
    "Profile(name='<i>\\u202e' + 'x' * 300, why={'block_size': '<b>why'}, block_size=8192)",
).replace("import ProfilePanel", "import Profile, ProfilePanel")


def options(panel: Locator) -> Locator:
    return panel.get_by_role("grid", name="Options")


def value(panel: Locator, option: str) -> Locator:
    rows = options(panel).locator(".body [role=row]")
    return rows.filter(has=panel.page.get_by_text(option, exact=True)).locator(".cell").nth(1)


def test_a_profile_is_searched_changed_and_copied_by_keyboard(lab: Lab, browser: Browser) -> None:
    lab.write("profile.ipynb", [CELL, "1 + 1"])
    with lab.opened(browser, "profile.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("0 options that differ from kafka_streams")).to_be_visible()
        cell = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        options(panel).focus()
        before = page.evaluate(cell)
        page.keyboard.press("/")
        page.keyboard.type("write_buffer_s")
        expect(panel.get_by_text("1 of 79 options")).to_be_visible()
        page.keyboard.press("Tab")
        while not options(panel).evaluate("e => e === document.activeElement"):
            page.keyboard.press("Tab")
        page.keyboard.press("Home")
        typed = panel.get_by_label("write_buffer_size")
        expect(typed).to_have_value("16.0 MiB")
        while not typed.evaluate("e => e === document.activeElement"):
            page.keyboard.press("Tab")
        page.keyboard.press("Control+a")
        page.keyboard.type("32")
        expect(panel.get_by_text("the least that RocksDB takes is 65536")).to_be_visible()
        page.keyboard.type(" MiB")
        expect(panel.get_by_text("would be 32.0 MiB: Enter sets it.")).to_be_visible()
        expect(panel.get_by_text("0 options that differ")).to_be_visible()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("1 option that differs from kafka_streams")).to_be_visible()
        expect(typed).to_be_focused()
        expect(value(panel, "write_buffer_size")).to_have_text("32.0 MiB")
        expect(panel.locator("pre")).to_contain_text("write_buffer_size=33554432")
        panel.get_by_role("tab", name="rocksdict").focus()
        page.keyboard.press("ArrowRight")
        expect(panel.locator("pre")).to_contain_text("writeBufferSizeMB=32")
        page.keyboard.press("End")
        expect(panel.locator("pre")).to_contain_text("setWriteBufferSize(33554432")
        panel.get_by_role("button", name="Undo all changes").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("0 options that differ from kafka_streams")).to_be_visible()
        assert page.evaluate(cell) == before
        assert not [role for role, name in focusable(page) if not name]


@pytest.mark.parametrize("page_is", PAGES)
def test_it_fits_and_nothing_is_serious_by_another_s_judgement(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], page_is: tuple[int, bool]
) -> None:
    lab.write("profile-looks.ipynb", [HOSTILE])
    with judged(lab, browser, screenshot, "profile-looks", page_is) as (_, panel):
        expect(panel.locator("p.note bdi").first).to_contain_text("<i>[U+202E]")
        panel.get_by_label("Compare with").select_option("low_disk")
        panel.get_by_role("button", name="differs", exact=True).click()
        value(panel, "compression").click()
        chosen = panel.get_by_role("combobox", name="compression", exact=True)
        chosen.select_option("bzip2")
        expect(value(panel, "compression")).to_have_text("bzip2")
        expect(panel.locator("pre")).to_have_text(re.compile("compression='bzip2'"))
