from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.names import focusable
from tests.stores.streamsstores import write_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser


def drag(page: Page, handle: Locator, by: int) -> None:
    """Take hold of a slider's handle with the mouse, and let it go elsewhere."""
    handle.hover()
    box = handle.bounding_box()
    assert box is not None
    page.mouse.down()
    page.mouse.move(box["x"] + by, box["y"] + 5, steps=4)
    page.mouse.up()


def test_a_plan_is_made_by_keyboard_beside_what_a_store_takes(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    rows = {f"user-{n:03}".encode(): bytes(100) for n in range(200)}
    store = write_store(tmp_path / "<b>users", default=rows)
    lab.write(
        "memory.ipynb",
        [f"from kstoolkit.widgets.memory import MemoryPanel\nMemoryPanel({str(store)!r})"],
    )
    with lab.opened(browser, "memory.ipynb", dark=True, width=800) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("Measured in this process: ")).to_be_visible(timeout=30_000)
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
        assert not [role for role, name in focusable(page) if not name]
        handles = panel.locator(".kst-slider .noUi-handle")
        for number, (label, before, after, place) in enumerate(
            (
                ("Memtable size", "64.0 MiB", "128.0 MiB", "7.0"),
                ("Memtables", "2", "3", "2.0"),
                ("Block cache", "8.0 MiB", "16.0 MiB", "5.0"),
            )
        ):
            choice = panel.get_by_label(label, exact=True)
            expect(choice.locator("option:checked")).to_have_text(before)
            choice.focus()
            for key in ("Space", "ArrowDown", "Enter"):
                page.keyboard.press(key)
            expect(choice.locator("option:checked")).to_have_text(after)
            expect(handles.nth(number)).to_have_attribute("aria-valuenow", place)
        drag(page, panel.locator(".kst-slider .noUi-touch-area").first, -200)
        expect(panel.get_by_label("Memtable size").locator("option:checked")).to_have_text(
            "1.0 MiB"
        )
        panel.get_by_label("Memtable size").select_option("128.0 MiB")
        expect(panel.get_by_text("23.4 GiB").first).to_be_visible()
        panel.get_by_label("Families").fill("2")
        page.keyboard.press("Tab")
        expect(panel.get_by_text(re.compile("at most 45.9 GiB")).first).to_be_visible()
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
