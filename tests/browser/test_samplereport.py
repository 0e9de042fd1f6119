"""The report of the bundled sample, as it is read on screens and as Chromium prints it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from kstoolkit.pipeline.run import load_run
from tests.browser.judged import serious

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
RUN = ("run", "data/sample", "--event-time", "time", "--user", "user", "--action", "action")
MOST_PAGES, MOST_BYTES = 5, 1_500_000
NAVIGATION = "nav"
OVERFLOWING = """() => [...document.querySelectorAll('body *')].filter(each =>
    !each.closest('svg') && each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1
    && getComputedStyle(each).display != 'inline' && !each.matches('.axis > div')
).map(each => each.outerHTML.slice(0, 200))"""
BEYOND = """() => [...document.querySelectorAll('body *')].filter(each => {
    const box = each.getBoundingClientRect()
    return box.width > 0 && !each.closest('svg > *')
        && (box.left < -0.5 || box.right > innerWidth + 0.5)
}).map(each => each.outerHTML.slice(0, 200))"""
OPEN = "() => document.querySelectorAll('details').forEach(each => each.open = true)"


def kstoolkit(*words: str) -> None:
    command = [sys.executable, "-m", "kstoolkit", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over the sample, and its report, as the README makes them."""
    folder = tmp_path_factory.mktemp("sample") / "out"
    kstoolkit(*RUN, "--out", str(folder))
    kstoolkit("report", str(folder))
    return folder


@pytest.fixture
def page(browser: Browser, out: Path) -> Iterator[Page]:
    """The report, without scripts of its own; on an A4 sheet's width if nobody says another."""
    with browser.new_page(viewport={"width": 794, "height": 1123}) as shown:
        shown.goto((out / "report.html").as_uri())
        yield shown


def test_it_prints_on_five_pages_of_a4(page: Page) -> None:
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= MOST_PAGES
    assert set(re.findall(rb"/MediaBox \[0 0 (\d+)[.\d]* (\d+)[.\d]*\]", printed)) <= {
        (b"595", b"842"),
        (b"594", b"841"),
    }


def words(page: Page) -> Counter[str]:
    """What is read, without the charts: those of a screen live, which print can't."""
    charts = Counter(" ".join(page.locator(".living").all_inner_texts()).split())
    return Counter(page.inner_text("body").split()) - charts


def test_all_words_of_the_screen_are_printed(page: Page) -> None:
    folded = words(page)
    page.evaluate(OPEN)
    on_screen = words(page)
    assert sum(on_screen.values()) > sum(folded.values()) + 16
    contents = Counter(page.inner_text(NAVIGATION).split())  # a list of links: headings' words
    page.reload()
    page.emulate_media(media="print")  # with all that was folded
    assert on_screen - contents == words(page)


def test_charts_that_live_say_what_those_say_that_stand_still(page: Page) -> None:
    assert page.locator(".lives").count() == page.locator("article .strips").count() == 16
    for chart in page.locator(".living").all():
        still = chart.locator(".still .strips > div:not(.axis)")
        levels = [each.text_content() or "" for each in still.locator(".level").all()]
        figures = [each.locator("div div").all_text_contents() for each in still.all()]
        told = [f"{name} · {', '.join(said)}" for name, said in zip(levels, figures, strict=True)]
        lives = chart.locator(".kst-view .label").all_inner_texts()
        assert [re.sub(r", \d+ flagged$", "", each) for each in lives] == told
    flagged = page.locator(".kst-view rect.flagged").count()
    assert flagged >= page.locator(".kst-view .v-flag").count() > 0


def test_a_chart_is_hovered_zoomed_and_reset_and_judged_by_another(page: Page) -> None:
    chart = page.locator(".living").first
    bar = chart.locator("rect.flagged").first
    bar.hover()
    expect(chart.get_by_role("tooltip")).to_contain_text("172, expected 1–4, flagged")  # noqa: RUF001
    before = bar.get_attribute("width")
    bar.click()
    expect(chart.get_by_role("button", name="All time")).to_be_visible()
    assert chart.locator("rect.flagged").first.get_attribute("width") != before
    chart.locator(".kst-view svg").first.dblclick()
    expect(chart.get_by_role("button", name="All time")).to_be_hidden()
    chart.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    expect(chart.locator(".heard")).to_contain_text("2026-03-04")
    assert serious(page, "body") == []


def test_every_incident_stands_there_as_a_sentence_and_every_user_once(
    page: Page, out: Path
) -> None:
    incidents = load_run(out).incidents()
    assert len(incidents) == 16
    text = " ".join(page.inner_text("body").split())
    assert [each.sentence for each in incidents if each.sentence not in text] == []
    headings = page.locator("article h3 bdi:first-of-type").all_inner_texts()
    users = [each.who for each in incidents]
    assert Counter(each for each in headings if each in users) == Counter(users)
    assert page.locator("article.user[id]").count() == len(users)


def test_nobody_learns_where_it_was_made(out: Path) -> None:
    told = (out / "report.html").read_text(encoding="utf-8")
    assert len(told.encode()) < MOST_BYTES
    assert str(ROOT) not in told
    assert str(out.parent) not in told
    assert "data/sample/events-005.json.gz" in told


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1280, 1600])
def test_nothing_is_cut_or_scrolls_sideways(
    browser: Browser, out: Path, screenshot: Callable[[Page, str], Path], width: int, scheme: str
) -> None:
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with browser.new_page(**options) as page:  # type: ignore[arg-type] # options of its own
        page.goto((out / "report.html").as_uri())
        screenshot(page, f"sample-report-{width}-{scheme}")
        page.evaluate(OPEN)
        assert page.evaluate(OVERFLOWING) == []
        assert page.evaluate(BEYOND) == []


def test_print_cuts_nothing(page: Page) -> None:
    page.set_viewport_size({"width": 688, "height": 1020})  # A4 within its margins
    page.emulate_media(media="print")
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(BEYOND) == []


def test_the_first_screen_tells_of_every_user(browser: Browser, out: Path) -> None:
    with browser.new_page(viewport={"width": 1280, "height": 900}) as page:
        page.goto((out / "report.html").as_uri())
        last = page.locator(".look li").last.bounding_box()
        assert last is not None
        assert last["y"] + last["height"] <= 900
        assert page.locator(".look li").count() == 16
