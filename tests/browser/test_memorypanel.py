from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.stores.streamsstores import write_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser


def test_a_plan_is_made_by_keyboard_beside_what_a_store_takes(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    rows = {f"user-{n:03}".encode(): bytes(100) for n in range(200)}
    store = write_store(tmp_path / "<b>users", default=rows)
    lab.write(
        "memory.ipynb",
        [f"from kstoolkit.widgets.memorypanel import MemoryPanel\nMemoryPanel({str(store)!r})"],
    )
    with lab.opened(browser, "memory.ipynb", dark=True, width=800) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("Measured in this process: ")).to_be_visible()
        expect(panel.get_by_label("Key bytes")).to_have_value("8")
        for name, value, told in (
            ("Partitions", "10", "10 x 1 x 1 = 10 RocksDB instances"),
            ("Segments", "3", "10 x 3 x 1 = 30 RocksDB instances"),
            ("Stores", "2", "10 x 3 x 2 = 60 RocksDB instances"),
        ):
            panel.get_by_label(name, exact=True).fill(value)
            page.keyboard.press("Tab")
            expect(panel.get_by_text(told)).to_be_visible()
        panel.get_by_label("Profile").select_option("spark")
        sliders, readouts = panel.locator("[role=slider]"), panel.locator(".widget-readout")
        expect(readouts).to_have_text(["64.0 MiB", "2", "8.0 MiB"])
        for number in range(3):
            sliders.nth(number).focus()
            page.keyboard.press("ArrowRight")
        expect(readouts).to_have_text(["128.0 MiB", "3", "16.0 MiB"])
        expect(panel.get_by_text("23.4 GiB").first).to_be_visible()
        panel.get_by_label("Families").fill("2")
        page.keyboard.press("Tab")
        expect(panel.get_by_text(re.compile("at least 45.9 GiB")).first).to_be_visible()
        for name, text in (
            ("Keys", "1,000,000"),
            ("Key bytes", "20"),
            ("Value bytes", "50"),
            ("Iterators", "0"),
        ):
            field = panel.get_by_label(name, exact=True)
            field.press("Control+A")  # typed as a person does: else the browser sees no change
            field.press_sequentially(text)
            field.press("Enter")
        expect(panel.get_by_text("Not in it")).to_have_count(0)
        expect(panel.locator("img")).to_have_attribute(
            "alt", re.compile("^RocksDB needs at most .* for 60 instances by the formula")
        )
        panel.get_by_label("Index and filter blocks in the cache").check()
        expect(panel.locator("img")).to_have_attribute(
            "alt", re.compile("^RocksDB needs at most 45.9 GiB for 60 instances")
        )
        panel.get_by_role("button", name="Measure again").click()
        expect(panel.get_by_text("Measured in this process: ")).to_be_visible()
        expect(panel.locator("b")).to_have_count(0)
        panel.locator("h4").scroll_into_view_if_needed()
        screenshot(page, "memory-800-dark")
        panel.locator("img").scroll_into_view_if_needed()
        screenshot(page, "memory-800-dark-below")
