from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.judged import serious
from tests.browser.names import focusable
from tests.stores.streamsstores import write_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

PANEL = "from kstoolkit.widgets.memory import MemoryPanel\nMemoryPanel({!r})"
OUTSIDE = """() => { const view = document.querySelector('.kst-view');
  return [...view.querySelectorAll('.form > *, .track, .sentence, .key')]
    .filter(each => each.getBoundingClientRect().right > view.getBoundingClientRect().right + 1)
    .map(each => each.outerHTML.slice(0, 100)) }"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rows = {f"user-{n:03}".encode(): bytes(100) for n in range(200)}
    return write_store(tmp_path / "<b>users", default=rows)


def test_a_plan_is_made_by_keyboard_beside_what_a_store_takes(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], store: Path
) -> None:
    lab.write("memory.ipynb", [PANEL.format(str(store)), "1 + 1"])
    with lab.opened(browser, "memory.ipynb", dark=True, width=800) as page:
        lab.run_all(page)
        panel, press = page.locator(".kst-panel"), page.keyboard.press
        expect(panel.get_by_text("Measured in this process: ")).to_be_visible(timeout=30_000)
        expect(panel.get_by_label("Key bytes")).to_have_value("8")
        panel.get_by_label("Partitions").focus()
        for value, told in (
            ("10", "10 x 1 x 1 = 10 RocksDB instances"),
            ("3", "10 x 3 x 1 = 30 RocksDB instances"),
            ("2", "10 x 3 x 2 = 60 RocksDB instances"),
        ):
            press("Control+A")
            page.keyboard.type(value)
            press("Tab")
            expect(panel.get_by_text(told)).to_be_visible()
        panel.get_by_label("Profile").select_option(label="spark")
        for label, before, after in (
            ("Memtable size", "64.0 MiB", "128.0 MiB"),
            ("Memtables", "2", "3"),
            ("Block cache", "8.0 MiB", "16.0 MiB"),
        ):
            slider = panel.get_by_role("slider", name=label, exact=True)
            expect(slider).to_have_attribute("aria-valuetext", before)
            slider.focus()
            press("ArrowRight")
            expect(slider).to_have_attribute("aria-valuetext", after)
        expect(panel.get_by_text("23.4 GiB").first).to_be_visible()
        limit = panel.get_by_label("Limit")
        limit.focus()
        page.keyboard.type("8 GiB")
        press("Enter")
        expect(panel.get_by_text("A limit of 8.0 GiB: 15.4 GiB over.")).to_be_visible()
        assert not [role for role, name in focusable(page) if not name]
        assert serious(page, ".kst-view") == []
        panel.get_by_role("button", name="Set it").focus()
        press("Enter")
        expect(panel.get_by_text("are left")).to_be_visible()
        screenshot(page, "memory-800-dark")
        expect(panel.locator("b").filter(has_text="users")).to_have_count(0)
        assert page.evaluate(OUTSIDE) == []


@pytest.mark.parametrize(
    "page_is", ["400 light", pytest.param("1280 dark", marks=pytest.mark.long)]
)
def test_a_plan_is_made_by_mouse(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], store: Path, page_is: str
) -> None:
    width, theme = page_is.split()
    lab.write("mouse.ipynb", [PANEL.format(str(store))])
    with lab.opened(browser, "mouse.ipynb", dark=theme == "dark", width=int(width)) as page:
        lab.run_all(page)
        page.keyboard.press("Escape")
        page.keyboard.press("Control+b")
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("Measured in this process: ")).to_be_visible(timeout=30_000)
        slider = panel.get_by_role("slider", name="Memtable size")
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        assert box is not None
        slider.click(position={"x": box["width"] - 2, "y": box["height"] / 2})
        expect(slider).to_have_attribute("aria-valuetext", "1.0 GiB")
        panel.get_by_label("Index and filter blocks in the cache").check()
        panel.get_by_label("Limit").fill("1 GiB")
        panel.get_by_label("Limit").press("Enter")
        expect(
            panel.get_by_text(re.compile("The smallest change that fits: write_b"))
        ).to_be_visible()
        expect(panel.locator(".track .limit")).to_have_count(2)
        panel.locator(".track .part").first.hover()
        expect(panel.get_by_role("tooltip")).to_contain_text("memtables: ")
        screenshot(page, f"memory-{width}-{theme}")
        panel.get_by_role("button", name="Measure again").click()
        expect(panel.get_by_text("Measured in this process: ")).to_be_visible()
        assert page.evaluate(OUTSIDE) == []
        assert serious(page, ".kst-view") == []
