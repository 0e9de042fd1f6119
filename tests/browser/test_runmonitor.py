from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import kstoolkit as kst
from tests.browser.judged import serious
from tests.pipeline.harness import write_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = [pytest.mark.browser, pytest.mark.spark]

LIVE = """
import kstoolkit as kst
from kstoolkit.pipeline.session import spark_session
from kstoolkit.widgets.runmonitor import RunMonitor
from tests.pipeline.harness import source

spark = spark_session("local[2]")
pipeline = kst.Pipeline(source=source(f"{FOLDER}/in"), buckets=2)
run = pipeline.start(f"{FOLDER}/<b>out", trigger="1 second")
"""
SHOWN = "monitor = RunMonitor(run, seconds=1)\nmonitor"
ROW = {"time": "2025-03-01T10:00:00Z", "user": "Ann", "action": "read"}


def test_a_live_run_is_watched_and_stopped_by_keyboard(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    lab.write("monitor.ipynb", [f"FOLDER = {str(tmp_path)!r}\n{LIVE}", SHOWN])
    with lab.opened(browser, "monitor.ipynb", dark=True, width=800) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.locator("h4")).to_have_text("Run <b>out")
        write_lines(tmp_path / "in" / "a.json", [ROW] * 7)
        events = panel.locator(".facts dl > div", has_text="events").locator("dd")
        expect(events).to_have_text(re.compile("^7 in "), timeout=60_000)
        panel.get_by_label("Look every, s").fill("3600")
        page.keyboard.press("Tab")
        write_lines(tmp_path / "in" / "b.json", [ROW] * 2)
        panel.get_by_role("button", name="Look now").focus()
        for _ in range(40):
            page.keyboard.press("Enter")
            page.wait_for_timeout(500)
            if (events.text_content() or "").startswith("9 in "):
                break
        expect(events).to_have_text(re.compile("^9 in "))
        spark = panel.locator(".v-spark").first
        spark.hover()
        expect(panel.get_by_role("tooltip")).to_contain_text("UTC: ")
        page.mouse.move(0, 0)
        assert serious(page, ".kst-view") == []
        screenshot(page, "monitor-dark-800")
        panel.get_by_role("button", name="Stop the run").click()
        expect(panel.get_by_text("Press once more to stop it.")).to_be_visible()
        panel.get_by_role("button", name="Keep counting").click()
        expect(panel.get_by_role("button", name="Keep counting")).to_be_hidden()
        panel.get_by_role("button", name="Stop the run").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_role("button", name="Really stop it")).to_be_focused()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("Stopped. Started again")).to_be_visible(timeout=30_000)
        expect(panel.locator(".badge").first).to_have_text("stopped")
        expect(panel.get_by_role("button", name="Stop the run")).to_be_disabled()
    found = kst.load_run(tmp_path / "<b>out")
    assert not found.folder.is_held()
    assert found.summary().events == 9
