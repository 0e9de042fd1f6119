from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.judged import PAGES, judged, serious, whole
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


def charts(panel: Locator) -> Locator:
    return panel.get_by_role("slider", name="Courses")


def at(panel: Locator) -> str:
    """Return what the charts tell of where they stand."""
    told = charts(panel).get_attribute("aria-valuetext")
    assert told is not None
    return told


def test_profiles_are_chosen_run_and_looked_at_with_mouse_and_keyboard(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path]
) -> None:
    lab.write("compactionlab.ipynb", [CELL, "lab.workload"])
    with lab.opened(browser, "compactionlab.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("Choose a workload and profiles, and press Run.")).to_be_visible()
        cell = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        panel.get_by_role("combobox", name="Workload").select_option("time_ordered")
        shown = {
            "Writes": "30k",
            "Keys": "5,000",
            "Value bytes": "400",
            "Reads per write": "0.2",
            "Absent share": "0.5",
            "Writes per second": "20000",
            "Seed": "11",
            "Seconds": "30",
            "Disk": "512 MiB",
        }
        for label, typed in shown.items():
            panel.get_by_label(label, exact=True).fill(typed)
        page.keyboard.press("Tab")
        shown |= {"Writes": "30,000", "Writes per second": "20,000", "Disk": "512.0 MiB"}
        for label, text in shown.items():
            expect(panel.get_by_label(label, exact=True)).to_have_value(text)
        panel.get_by_label("Absent share").fill("7")
        page.keyboard.press("Tab")
        expect(panel.get_by_text("absent_share is 7")).to_be_visible()
        expect(panel.get_by_label("Absent share")).to_have_value("0.5")
        panel.get_by_role("button", name="low_disk").focus()
        before = page.evaluate(cell)
        page.keyboard.press("Space")
        expect(panel.get_by_role("button", name="low_disk")).to_have_attribute(
            "aria-pressed", "true"
        )
        panel.get_by_role("button", name="low_disk").click()
        panel.get_by_role("button", name="Run").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_role("button", name="Run")).to_be_disabled()
        expect(panel.get_by_role("progressbar", name="Done")).to_be_visible()
        expect(panel.get_by_text("2 trials in")).to_be_visible(timeout=60_000)
        assert page.evaluate(cell) == before
        assert not [role for role, name in focusable(page) if not name]
        whole(page, panel)
        screenshot(page, "compactionlab-1280-light")
        assert serious(page, ".kst-view") == []
        expect(panel.get_by_role("columnheader").nth(2)).to_contain_text("<i>[U+202E]'")


def test_one_line_goes_through_all_charts_and_the_levels_are_those_of_its_moment(
    lab: Lab, browser: Browser
) -> None:
    paced = CELL.replace("keys=10_000", "keys=10_000, writes_per_second=10_000")
    lab.write("crossed.ipynb", [paced, "lab.run()\nlab.wait()"])
    with lab.opened(browser, "crossed.ipynb", dark=True) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.get_by_text("2 trials in")).to_be_visible(timeout=60_000)
        cell = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        charts(panel).focus()
        before = page.evaluate(cell)
        for key in ("Home", "ArrowRight", "ArrowDown"):
            told = at(panel)
            page.keyboard.press(key)
            assert at(panel) != told
        expect(panel.get_by_role("tooltip")).to_be_hidden()
        assert page.evaluate(cell) == before
        assert re.match(r"[\w ]+ at \d+\.\d\d s: level .*, <i>\[U\+202E\]", at(panel))
        steps = panel.get_by_label("Levels after")
        page.keyboard.press("Enter")
        place = at(panel).split(" at ")[1].split(":")[0]
        expect(steps).to_have_attribute("aria-valuetext", place)
        first = panel.locator(".track").first.get_attribute("aria-label")
        steps.focus()
        page.keyboard.press("End")
        expect(panel.locator(".track").first).not_to_have_attribute("aria-label", str(first))
        expect(panel.locator(".lines .told, .lines output")).to_contain_text("at ")
        box = panel.locator(".chart svg").nth(1).bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 20)
        crossed = panel.locator(".chart .cross")
        expect(crossed).to_have_count(panel.locator(".chart").count())
        assert len({each.get_attribute("x1") for each in crossed.all()}) == 1
        page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + 20)
        expect(panel.locator(".track").first).not_to_have_attribute("aria-label", str(first))


@pytest.mark.parametrize("page_is", PAGES)
def test_trials_are_cancelled_while_cells_go_on_and_it_fits(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], page_is: tuple[int, bool]
) -> None:
    endless = CELL.replace("writes=20_000", "writes=10**9")
    lab.write("lab-cancelled.ipynb", [endless, "lab.run()\nprint('went on')"])
    with judged(lab, browser, screenshot, "lab-cancelled", page_is) as (page, panel):
        expect(page.get_by_text("went on", exact=True)).to_be_visible()
        expect(panel.get_by_text("Trial 1 of 2, level:")).to_be_visible()
        expect(panel.locator(".chart").first).to_be_visible(timeout=20_000)
        panel.get_by_role("button", name="low_disk").focus()
        page.wait_for_timeout(1_500)
        expect(panel.get_by_role("button", name="low_disk")).to_be_focused()
        panel.get_by_role("button", name="Cancel").click()
        expect(panel.get_by_text("'level' was cancelled. 0 trials had ended")).to_be_visible()
        expect(panel.get_by_role("button", name="Cancel")).to_be_disabled()
        expect(panel.get_by_role("button", name="Run")).to_be_enabled()
        expect(panel.get_by_role("grid", name="Trials")).to_contain_text("unknown")
