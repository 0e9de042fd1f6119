from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.names import focusable
from tests.stores.spark.madecheckpoints import make_checkpoint
from tests.stores.streamsstores import int64, write_minutes, write_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

PANEL = "from kstoolkit.widgets.stores import StorePanel\nStorePanel({!r})"
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quotes' & co",
    "right\u202eleft \u05d0\u05d1",
    "long" * 2_500,
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with two stores, and a checkpoint beside it."""
    write_minutes(tmp_path / "app" / "0_0" / "clicks", ["anna", "annika", "bo"])
    users = {f"user-{n:02}".encode(): int64(n) for n in range(45)}
    write_store(tmp_path / "app" / "0_0" / "rocksdb" / "users", default=users, other={b"k": b"v"})
    make_checkpoint(tmp_path / "query")
    return tmp_path


def test_a_store_is_found_chosen_read_and_searched_by_keyboard_and_mouse(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], state: Path
) -> None:
    lab.write("store.ipynb", [PANEL.format(str(state))])
    with lab.opened(browser, "store.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("3 stores in")).to_be_visible()
        screenshot(page, "store-tree")
        below = panel.get_by_role("button", name="Store below")
        below.focus()
        for _ in range(2):
            page.keyboard.press("Enter")
        expect(panel.get_by_label("Store", exact=True).locator("option:checked")).to_have_count(1)
        expect(below).to_be_focused()
        panel.get_by_label("Filter").fill("clicks")
        expect(panel.get_by_text("1 of them match the filter")).to_be_visible()
        panel.get_by_label("Filter").fill("")
        _choose(panel, "users")
        assert not [role for role, name in focusable(page) if not name]
        rows = panel.locator("table").nth(1).locator("tbody tr")
        expect(rows).to_have_count(20)
        for name in ("Keys as", "Values as"):
            expect(panel.get_by_label(name).locator("option:checked")).to_have_text("as it seems")
        expect(panel.get_by_text("closed", exact=True)).to_be_visible()
        panel.get_by_role("button", name="Next").click()
        expect(panel.get_by_text("Rows 21 to 40, and more.")).to_be_visible()
        panel.get_by_role("button", name="Next").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("Rows 41 to 45.")).to_be_visible()
        expect(panel.get_by_role("button", name="Next")).to_be_disabled()
        panel.get_by_role("button", name="Previous").click()
        expect(panel.get_by_text("Rows 21 to 40, and more.")).to_be_visible()
        _type(panel, "Search", "user-4")
        panel.get_by_label("Rows").select_option("keys that begin so")
        expect(rows).to_have_count(5)
        _type(panel, "Search", "user-07")
        expect(panel.get_by_text("No such rows.").or_(rows.first)).to_be_visible()
        expect(rows).to_have_count(1)
        panel.get_by_label("Values as").select_option("bytes")
        expect(panel.get_by_text("0x0000000000000007")).to_be_visible()
        panel.get_by_label("Raw bytes").check()
        expect(panel.get_by_text("00 00 00 00 00 00 00 07")).to_be_visible()
        panel.get_by_label("Keys as").select_option("bytes")
        _type(panel, "Search", "0x757365722d3039")
        expect(rows.locator("td").first).to_have_text("0x757365722d3039")
        panel.get_by_label("Family").select_option("other")
        expect(panel.get_by_text("No such rows.")).to_be_visible()


def test_windows_growth_and_versions_are_a_control_away(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], state: Path
) -> None:
    lab.write("store-more.ipynb", [PANEL.format(str(state))])
    with lab.opened(browser, "store-more.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        _choose(panel, "clicks")
        _type(panel, "Window size", "10 minutes")
        expect(panel.get_by_text("2023-11-14 23:10", exact=True).first).to_be_visible()
        screenshot(page, "store")
        panel.get_by_role("button", name="Growth").click()
        expect(panel.locator("ol li").first).to_be_visible()
        panel.locator("ol").scroll_into_view_if_needed()
        screenshot(page, "store-below")
        _choose(panel, "default")
        panel.get_by_label("Version").select_option("1")
        expect(panel.get_by_text('{"count": 1}')).to_be_visible()
        expect(panel.locator("ol")).to_have_count(0)


def test_hostile_keys_are_shown_as_text_in_a_narrow_dark_page(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    rows = {user.encode(): user.encode() for user in HOSTILE}
    write_store(tmp_path / "<b>bold & \u202ecrazy", default=rows)
    lab.write("store-hostile.ipynb", [PANEL.format(str(tmp_path))])
    with lab.opened(browser, "store-hostile.ipynb", dark=True, width=800) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        table = panel.locator("table").nth(1)
        expect(table.locator("tbody tr")).to_have_count(len(HOSTILE))
        expect(table).to_contain_text("<script>alert(1)</script>")
        expect(table).to_contain_text("\"quotes\\' & co")
        expect(table).to_contain_text(re.compile("characters left out"))
        expect(panel.locator("b, script")).to_have_count(0)
        screenshot(page, "store-800-dark")
        panel.get_by_label("Search").scroll_into_view_if_needed()
        screenshot(page, "store-800-dark-below")
        outside = page.evaluate(
            "() => [...document.querySelectorAll('.kst-panel .kst-wraps > *')].filter(e =>"
            " e.getBoundingClientRect().right >"
            " document.querySelector('.kst-panel').getBoundingClientRect().right + 1).length"
        )
        assert outside == 0


def _type(panel: Locator, label: str, text: str) -> None:
    """Type as a person does: only then does the browser say that a field has changed."""
    field = panel.get_by_label(label)
    field.press("Control+A")
    field.press_sequentially(text)
    field.press("Enter")


def _choose(panel: Locator, name: str) -> None:
    line = panel.locator("option").filter(has_text=re.compile(rf"^\s*{name}(\s\(|,)")).first
    expect(line).to_be_attached()
    panel.get_by_label("Store").select_option(index=line.evaluate("line => line.index"))
