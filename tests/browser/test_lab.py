from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.names import focusable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

CELL = """
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.widgets.lab import CompactionLab

SMALL = dict(
    write_buffer_size=128 << 10, target_file_size_base=128 << 10, max_bytes_for_level_base=256 << 10
)
HOSTILE = "<i>\\u202e'\\"</i>" + "x" * 10_000
profiles = [
    Profile(name="level", **SMALL),
    Profile(name=HOSTILE, compaction_style="universal", **SMALL),
]
lab = CompactionLab(Workload(writes=20_000, keys=10_000), profiles)
lab
"""


def alt(panel: Locator, said: str) -> None:
    """Wait until the picture that is shown says so."""
    expect(panel.locator("img")).to_have_attribute("alt", re.compile(said), timeout=60_000)


def test_profiles_are_chosen_run_looked_at_and_replayed_with_mouse_and_keyboard(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path]
) -> None:
    lab.write("compactionlab.ipynb", [CELL, "lab.form.workload()"])
    with lab.opened(browser, "compactionlab.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("Choose a workload and profiles, and press Run.")).to_be_visible()
        screenshot(page, "compactionlab-before")
        panel.get_by_label("Workload").select_option("time_ordered")
        for label, typed in {"Writes": "30000", "Keys": "5000", "Value bytes": "120"}.items():
            panel.get_by_label(label, exact=True).fill(typed)
        for label, typed in {
            "Reads/write": "0.2",
            "Absent share": "0.5",
            "Writes/s": "20000",
            "Seed": "11",
            "Seconds": "30",
            "Disk, MiB": "512",
        }.items():
            panel.get_by_label(label, exact=True).fill(typed)
        page.keyboard.press("Tab")
        panel.get_by_label("low_disk").focus()
        page.keyboard.press("Space")
        panel.get_by_label("low_disk").uncheck()
        panel.get_by_role("button", name="Run").click()
        expect(panel.get_by_role("button", name="Run")).to_be_disabled()
        alt(panel, "^After .* with level$")
        expect(panel.get_by_text("2 trials in")).to_be_visible(timeout=60_000)
        alt(panel, "^Least of 2 profiles: write amplification")
        panel.locator("img, table").first.scroll_into_view_if_needed()
        screenshot(page, "compactionlab-amplification")
        panel.get_by_label("Show").select_option("Stalls")
        alt(panel, "stall")
        panel.get_by_label("Show").select_option("Levels, step by step")
        alt(panel, "^After .* with level; .*<i>.U.202E")
        last = str(panel.locator("img").get_attribute("alt"))
        assert not [role for role, name in focusable(page) if not name]
        panel.get_by_label("After").focus()
        for key in ("Space", "Home", "Enter"):
            page.keyboard.press(key)
        alt(panel, "^After 0")
        panel.get_by_role("button", name="Step on").press("Enter")
        expect(panel.get_by_label("After").locator("option:checked")).to_have_text("0.25 s")
        panel.get_by_role("button", name="Play").press("Enter")
        expect(panel.get_by_role("button", name="Pause")).to_be_visible()
        expect(panel.locator("img")).to_have_attribute("alt", last, timeout=60_000)
        expect(panel.get_by_role("button", name="Play")).to_be_visible()
        panel.locator("img, table").first.scroll_into_view_if_needed()
        screenshot(page, "compactionlab-levels")
        panel.get_by_label("Show").select_option("Table")
        expect(panel.locator("th").nth(2)).to_contain_text("<i>[U+202E]'")
        panel.locator("img, table").first.scroll_into_view_if_needed()
        screenshot(page, "compactionlab-table")


def test_trials_are_cancelled_in_a_narrow_dark_window_while_cells_go_on(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path]
) -> None:
    endless = CELL.replace("writes=20_000", "writes=10**9")
    lab.write("cancelled.ipynb", [endless, "lab.run()\nprint('went on')"])
    with lab.opened(browser, "cancelled.ipynb", dark=True, width=800) as page:
        lab.run_all(page)
        expect(page.get_by_text("went on", exact=True)).to_be_visible()
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("Trial 1 of 2, level:")).to_be_visible()
        alt(panel, "^After .* with level$")
        panel.locator("img, table").first.scroll_into_view_if_needed()
        screenshot(page, "compactionlab-running-dark-800")
        panel.get_by_role("button", name="Cancel").click()
        expect(panel.get_by_text("'level' was cancelled. 0 trials had ended")).to_be_visible()
        expect(panel.get_by_role("button", name="Cancel")).to_be_disabled()
        expect(panel.get_by_role("button", name="Run")).to_be_enabled()
        wide = "node => node.scrollWidth <= node.clientWidth + 1"
        assert panel.evaluate(wide), "nothing is wider than the panel"
