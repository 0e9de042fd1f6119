from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.judged import serious
from tests.browser.names import focusable
from tests.stores.spark.madecheckpoints import make_checkpoint
from tests.stores.streamsstores import int64, write_minutes, write_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

PANEL = "from kstoolkit.widgets.stores import StorePanel\npanel = StorePanel({!r})\npanel"
TABS = ("Overview", "Rows", "Growth", "Levels", "Memory", "Log", "Advice")
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quotes' & co",
    "right\u202eleft \u05d0\u05d1",
    "long" * 2_500,
)
OUTSIDE = """() => { const view = document.querySelector('.kst-view');
  return [...view.querySelectorAll('img, .v-strip, .form > *, [role=tab], .sentence, pre, dl')]
    .filter(each => each.getBoundingClientRect().right > view.getBoundingClientRect().right + 1)
    .map(each => each.outerHTML.slice(0, 100)) }"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with two stores, and a checkpoint beside it."""
    write_minutes(tmp_path / "app" / "0_0" / "clicks", ["anna", "annika", "bo"])
    users = {f"user-{n:03}".encode(): int64(n) for n in range(450)}
    write_store(tmp_path / "app" / "0_0" / "rocksdb" / "users", default=users, other={b"k": b"v"})
    make_checkpoint(tmp_path / "query")
    return tmp_path


def tree(panel: Locator) -> Locator:
    return panel.get_by_role("treegrid", name="Stores").locator(".body [role=row]")


def rows(panel: Locator) -> Locator:
    return panel.locator("[role=grid]").last.locator(".body [role=row]")


def turn(panel: Locator, tab: str) -> None:
    panel.get_by_role("tab", name=tab, exact=True).click()
    expect(panel.get_by_role("tab", name=tab, exact=True)).to_have_attribute(
        "aria-selected", "true"
    )
    expect(panel.get_by_text("Reading", exact=False)).to_have_count(0)


def test_a_store_is_found_and_looked_into_by_mouse(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], state: Path
) -> None:
    lab.write("store.ipynb", [PANEL.format(str(state))])
    with lab.opened(browser, "store.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("3 stores in")).to_be_visible()
        expect(tree(panel)).to_have_count(9)
        panel.get_by_role("searchbox", name="Search Stores").fill("users")
        expect(panel.get_by_text("1 of 3 stores")).to_be_visible()
        sizes = tree(panel).locator(".c-size")
        expect(sizes.first).to_have_text("")  # a group's is that of all in it, found or not
        expect(sizes.last).to_have_text(re.compile("iB$"))
        tree(panel).filter(has_text="users").click()
        expect(panel.get_by_text("451", exact=True)).to_be_visible()
        screenshot(page, "store-overview")
        assert not [role for role, name in focusable(page) if not name]
        turn(panel, "Rows")
        expect(panel.get_by_text("Rows 1 to 200, and more.")).to_be_visible()
        rows(panel).nth(3).click()
        expect(panel.get_by_text("75 73 65 72 2d 30 30 33")).to_be_visible()
        screenshot(page, "store-rows")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        panel.get_by_role("button", name="Copy").first.click()
        expect(panel.get_by_text("Copied")).to_be_visible()
        assert "'user-003'" in page.evaluate("() => navigator.clipboard.readText()")
        panel.get_by_role("button", name="Next").click()
        expect(panel.get_by_text("Rows 201 to 400, and more.")).to_be_visible()
        search_rows(panel)
        for tab in TABS:
            turn(panel, tab)
            assert page.evaluate(OUTSIDE) == [], tab


def search_rows(panel: Locator) -> None:
    field = panel.get_by_label("Search a key")
    field.fill("user-04")
    field.press("Enter")
    expect(panel.get_by_text("No such rows.")).to_be_visible()
    panel.get_by_label("Keys that begin so").check()
    expect(rows(panel)).to_have_count(10)
    panel.get_by_label("Values as").select_option(label="bytes")
    expect(panel.get_by_text("0x0000000000000028")).to_be_visible()
    panel.get_by_label("Family").select_option(label="other")
    expect(panel.get_by_text("No such rows.")).to_be_visible()
    panel.get_by_label("Family").select_option(label="as it seems")
    expect(rows(panel)).to_have_count(10)


def test_a_tree_its_tabs_and_rows_are_gone_through_by_keyboard(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], state: Path
) -> None:
    lab.write("store-keys.ipynb", [PANEL.format(str(state)), "1 + 1"])
    with lab.opened(browser, "store-keys.ipynb", dark=True) as page:
        lab.run_all(page)
        panel, press = page.locator(".kst-panel"), page.keyboard.press
        expect(tree(panel)).to_have_count(9)
        panel.get_by_role("treegrid").focus()
        press("ArrowDown")
        expect(tree(panel).first).to_have_attribute("aria-selected", "true")
        press("ArrowLeft")
        expect(tree(panel).first).to_have_attribute("aria-expanded", "false")
        press("ArrowRight")
        expect(tree(panel)).to_have_count(9)
        press("/")
        page.keyboard.type("clicks")
        expect(panel.get_by_text("1 of 3 stores")).to_be_visible()
        while page.evaluate("() => document.activeElement.getAttribute('role')") != "treegrid":
            press("Tab")
        press("End")
        expect(panel.get_by_role("tab", name="Log")).to_be_visible()
        while page.evaluate("() => document.activeElement.getAttribute('role')") != "tab":
            press("Tab")
        press("ArrowRight")
        expect(panel.get_by_text("Rows 1 to 54. Times are UTC.")).to_be_visible()
        expect(panel.get_by_role("tab", name="Rows")).to_be_focused()
        panel.get_by_label("Window size").focus()
        page.keyboard.type("10 minutes")
        press("Enter")
        expect(panel.get_by_role("columnheader", name="window end")).to_be_visible()
        panel.locator("[role=grid]").last.focus()
        press("ArrowDown")
        expect(panel.get_by_text("The row, whole")).to_be_visible()
        screenshot(page, "store-keys-dark")
        panel.get_by_role("tab", name="Rows").focus()
        press("End")
        expect(panel.get_by_role("tab", name="Advice")).to_have_attribute("aria-selected", "true")
        assert serious(page, ".kst-view") == []
        cell = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        assert page.evaluate(cell) == 0


@pytest.mark.parametrize("page_is", ["400 dark", pytest.param("800 light", marks=pytest.mark.long)])
def test_every_tab_fits_a_narrow_page(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], state: Path, page_is: str
) -> None:
    width, theme = page_is.split()
    code = f"{PANEL.format(str(state))}.choose('clicks')\npanel"
    lab.write("narrow.ipynb", [code])
    with lab.opened(browser, "narrow.ipynb", dark=theme == "dark", width=int(width)) as page:
        lab.run_all(page)
        page.keyboard.press("Escape")
        page.keyboard.press("Control+b")
        page.set_viewport_size({"width": int(width), "height": 2_400})  # what a tab tells is seen
        panel = page.locator(".kst-panel")
        for tab in TABS:
            turn(panel, tab)
            screenshot(page, f"store-{width}-{tab.lower()}")
            assert page.evaluate(OUTSIDE) == [], tab
            assert serious(page, ".kst-view") == [], tab


def test_hostile_keys_are_shown_as_text(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    users = {user.encode(): user.encode() for user in HOSTILE}
    write_store(tmp_path / "<b>bold & \u202ecrazy", default=users)
    lab.write("store-hostile.ipynb", [PANEL.format(str(tmp_path))])
    with lab.opened(browser, "store-hostile.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        turn(panel, "Rows")
        expect(rows(panel)).to_have_count(len(HOSTILE))
        for text in ("<script>alert(1)</script>", "\"quotes\\' & co", "characters left out"):
            expect(rows(panel).filter(has_text=text)).to_have_count(1)
        rows(panel).first.click()
        expect(panel.get_by_text("The row, whole")).to_be_visible()
        expect(panel.locator("b, script").filter(has_text="alert")).to_have_count(0)
        assert "\u202e" not in panel.inner_text()
        screenshot(page, "store-hostile")


def test_a_long_tree_is_shut_and_opens_to_what_is_chosen(
    lab: Lab, browser: Browser, tmp_path: Path
) -> None:
    for task in range(25):
        write_store(tmp_path / "app" / f"0_{task}" / "rocksdb" / "users", default={b"a": b"1"})
    chosen = tmp_path / "app" / "0_7" / "rocksdb" / "users"
    lab.write("long.ipynb", [f"{PANEL.format(str(tmp_path))}.choose({str(chosen)!r})\npanel"])
    with lab.opened(browser, "long.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        grid = panel.get_by_role("treegrid", name="Stores")
        expect(grid).to_have_attribute("aria-rowcount", "29")  # engine, application, 25, 1; heads
        expect(tree(panel).and_(panel.locator("[aria-selected=true]"))).to_contain_text("users")
        tree(panel).filter(has_text="task 0_6").locator(".twist").click()
        expect(grid).to_have_attribute("aria-rowcount", "30")
