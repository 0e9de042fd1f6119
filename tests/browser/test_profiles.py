from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser


def test_a_profile_is_edited_by_keyboard_and_copied_for_an_engine(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path]
) -> None:
    lab.write(
        "profile.ipynb",
        ["from kstoolkit.widgets.profiles import ProfilePanel\nProfilePanel('kafka_streams')"],
    )
    with lab.opened(browser, "profile.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("0 options that differ from kafka_streams")).to_be_visible()
        panel.get_by_label("Option").fill("write_buffer_size")
        page.keyboard.press("Tab")
        expect(panel.get_by_label("Value")).to_have_value("16777216")
        panel.get_by_label("Value").fill("32 MiB")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(panel.locator("td").nth(1)).to_have_text("33554432")
        panel.get_by_label("Copy for").select_option("Spark")
        expect(panel.get_by_label("Text")).to_have_value(re.compile("writeBufferSizeMB=32"))
        screenshot(page, "profile")
