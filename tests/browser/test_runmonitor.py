from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import kstoolkit as kst
from kstoolkit.pipeline.batches import MicroBatch
from tests.browser.judged import PAGES, judged, serious
from tests.pipeline.harness import write_lines
from tests.plots.made import HOSTILE, add_batch, add_findings, add_letters, found, made_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

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


@pytest.mark.spark
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
        expect(panel.get_by_role("button", name="Stop the run")).to_be_focused()
        panel.get_by_role("button", name="Stop the run").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_role("button", name="Really stop it")).to_be_focused()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("Stopped. Started again")).to_be_visible(timeout=30_000)
        expect(panel.locator(".badge").first).to_have_text("stopped")
        expect(panel.get_by_role("button", name="Stop the run")).to_be_disabled()
        expect(panel.get_by_role("button", name="Look now")).to_be_focused()
    found = kst.load_run(tmp_path / "<b>out")
    assert not found.folder.is_held()
    assert found.summary().events == 9


CLOCK = 1_700_000_000_000  # 14 November 2023, 22:13:20 UTC
WATCHED = """
import kstoolkit as kst
from kstoolkit.widgets.runmonitor import RunMonitor

monitor = RunMonitor(kst.load_run(f"{FOLDER}/out"), seconds=0.2)
monitor
"""
RAWS = [*HOSTILE[:-1], *(f'{{"user": "u{n}", "action": "read"}}' for n in range(30))]


def ended(number: int, **told: object) -> MicroBatch:
    facts = {"events": 1_000 + 100 * number, "dead_letters": {}, "findings": 0} | told
    parts = {"counting": 0.4, "input": 0.02, "planning": 0.1, "logs": 0.03, "other": 0.01}
    clock = CLOCK + 1_000 * number
    return MicroBatch(number, clock, 0.5, parts_seconds=parts, **facts)  # type: ignore[arg-type]


def watched(lab: Lab, tmp_path: Path, name: str) -> None:
    """Make a run of some batches, and a notebook in which it is watched."""
    people = [found(user=f"user {n:02}", log10_probability=-60.0 + n) for n in range(40)]
    people += [found(user=HOSTILE[1], action=HOSTILE[2], log10_probability=-80.0)]
    first = ended(0, findings=len(people), late={"1 minute": 7}, backlog={"1 hour": 12})
    letters = {"dead_letters": {"no_time": len(RAWS), "unparseable": 1_234_567}}
    run = made_run(tmp_path / "out", findings=people, batches=[first])
    for number in range(1, 6):
        add_batch(run.folder.path, ended(number, **letters if number == 5 else {}))
    add_letters(run.folder.path, ["no_time"] * len(RAWS), RAWS)
    lab.write(name, [f"FOLDER = {str(tmp_path)!r}\n{WATCHED}", "1 + 1"])


def tile(panel: Locator, label: str) -> Locator:
    return panel.locator(".tile").filter(has=panel.page.get_by_text(label, exact=True))


def people(panel: Locator) -> Locator:
    return panel.get_by_role("grid", name="Users")


def chosen(panel: Locator) -> Locator:
    return people(panel).locator(".body [role=row][aria-selected=true] .c-text").first


def scrolled(place: Locator) -> float:
    top: float = place.evaluate("e => e.scrollTop")
    return top


def test_ticks_take_neither_focus_nor_choice_nor_what_is_open(
    lab: Lab, browser: Browser, tmp_path: Path
) -> None:
    watched(lab, tmp_path, "ticks.ipynb")
    with lab.opened(browser, "ticks.ipynb") as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(tile(panel, "events/s").locator("b")).to_have_text("3,000")
        row = people(panel).locator(".body [role=row]").filter(has_text="user 01")
        row.click()
        expect(panel.get_by_text("user 01 did “read” 55 times")).to_be_visible()
        people(panel).evaluate("e => { e.scrollTop = 420 }")
        reason = panel.get_by_role("button", name="it has no time")
        reason.click()
        raw = panel.locator(".cards dd")
        expect(raw).to_have_count(20)
        expect(panel.locator(".cards h5")).to_have_text(f"20 that differ, of {len(RAWS)}")
        held = [
            reason,
            people(panel),
            panel.get_by_role("searchbox"),
            people(panel).get_by_role("columnheader").first.get_by_role("button"),
            panel.locator(".brush"),
            panel.get_by_role("button", name="Look now"),
            panel.get_by_role("slider", name="last batch, its course"),
        ]
        for number, place in enumerate(held, 6):
            place.focus()
            more = found(user=f"new {number}", log10_probability=-70.0 - number)
            add_findings(tmp_path / "out", [more], number)
            letters = {"no_time": 1}
            add_batch(tmp_path / "out", ended(number, findings=1, dead_letters=letters))
            rate = f"{(1_000 + 100 * number) * 2:,}"
            expect(tile(panel, "events/s").locator("b")).to_have_text(rate)
            expect(panel.get_by_text(f"{41 + number - 5} users", exact=True)).to_be_visible()
            expect(place).to_be_focused()
            expect(reason).to_contain_text(str(len(RAWS) + number - 5))
        page.keyboard.press("Home")
        first = "2023-11-14 22:13:20 UTC: 0.50 s"
        add_batch(tmp_path / "out", ended(6 + len(held)))
        expect(tile(panel, "last batch").locator("b ~ .label")).to_contain_text("2,300 events")
        expect(held[-1]).to_have_attribute("aria-valuetext", first)
        expect(panel.get_by_role("tooltip")).to_have_text(first)
        assert scrolled(people(panel)) == 420
        expect(panel.locator(".cards h5")).to_have_text(f"20 that differ, of {len(RAWS)}")
        expect(reason).to_have_attribute("aria-pressed", "true")
        expect(panel.get_by_text("user 01 did “read” 55 times")).to_be_visible()
        people(panel).focus()
        people(panel).evaluate("e => { e.scrollTop = 0 }")
        expect(chosen(panel)).to_have_text("user 01")
        reason.click()
        expect(raw).to_have_count(0)


def test_courses_and_all_else_are_gone_through_by_keyboard(
    lab: Lab, browser: Browser, tmp_path: Path
) -> None:
    watched(lab, tmp_path, "keyed_monitor.ipynb")
    with lab.opened(browser, "keyed_monitor.ipynb", dark=True) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(tile(panel, "events/s").locator("b")).to_have_text("3,000")
        cell = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
        panel.get_by_role("button", name="Look now").focus()
        before = page.evaluate(cell)
        rates = panel.get_by_role("slider", name="events/s, its course")
        while not rates.evaluate("e => e === document.activeElement"):
            page.keyboard.press("Tab")
        told = {
            "ArrowLeft": "2023-11-14 22:13:24 UTC: 2,800",
            "Home": "2023-11-14 22:13:20 UTC: 2,000",
            "ArrowRight": "2023-11-14 22:13:21 UTC: 2,200",
            "End": "2023-11-14 22:13:25 UTC: 3,000",
        }
        for key, text in told.items():
            page.keyboard.press(key)
            expect(rates).to_have_attribute("aria-valuetext", text)
            expect(panel.get_by_role("tooltip")).to_have_text(text)
        page.keyboard.press("Tab")
        expect(panel.get_by_role("slider", name="last batch, its course")).to_be_focused()
        expect(panel.get_by_role("tooltip")).to_be_hidden()
        people(panel).focus()
        page.keyboard.press("End")
        expect(chosen(panel)).to_have_text("user 39")
        expect(panel.get_by_text("user 39 did “read” 55 times")).to_be_visible()
        panel.get_by_role("button", name="it has no time").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_text("20 that differ")).to_be_visible()
        expect(panel.get_by_role("button", name="it has no time")).to_be_focused()
        page.keyboard.press("Space")
        expect(panel.get_by_text("20 that differ")).to_be_hidden()
        assert page.evaluate(cell) == before


@pytest.mark.parametrize("page_is", PAGES)
def test_it_fits_and_nothing_is_serious_by_another_s_judgement(
    lab: Lab,
    browser: Browser,
    screenshot: Callable[[Page, str], Path],
    tmp_path: Path,
    page_is: tuple[int, bool],
) -> None:
    watched(lab, tmp_path, "monitor-looks.ipynb")
    with judged(lab, browser, screenshot, "monitor-looks", page_is) as (_, panel):
        people(panel).locator(".body [role=row]").first.click()
        expect(panel.locator("p.large bdi").first).to_have_text(HOSTILE[1])
        panel.get_by_role("button", name="it has no time").click()
        raw = panel.locator(".cards article dd")
        expect(raw.nth(1)).to_have_text(HOSTILE[1])
        rates = panel.get_by_role("slider", name="events/s, its course")
        box = rates.bounding_box()
        assert box is not None
        rates.hover(position={"x": box["width"] * 0.5, "y": 10})
        expect(panel.get_by_role("tooltip")).to_have_text("2023-11-14 22:13:22 UTC: 2,400")
