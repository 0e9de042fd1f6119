"""Reports of stores and of whole applications, on screens and as Chromium prints them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from rocksdict import Rdict

import kstoolkit as kst
from tests.browser.judged import serious
from tests.browser.test_samplereport import BEYOND, NAVIGATION, OPEN, OVERFLOWING
from tests.stores.kafkastreams.archives import FOLDER, State

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

MOST_PAGES, MOST_BYTES = 7, 1_500_000
NAMES = ("application", "store", "segments", "spark", "checkpoints")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports: of real stores of Kafka Streams and Spark, and of one with much to advise."""
    made = tmp_path_factory.mktemp("reports")
    release = "4.3.1"
    state = State(FOLDER / f"{release}.tar.xz", release, "clean").directory(tmp_path_factory)
    (application,) = (each for each in state.iterdir() if each.is_dir())
    things = {
        "application": kst.checkup(application, bound_bytes=64 << 20),
        "store": advised(made / "advised"),
        "segments": application / "0_0" / "actions-1m",
        "spark": Path("data/stores/spark/count-by-user"),
        "checkpoints": Path("data/stores/spark"),
    }
    assert tuple(things) == NAMES
    for name, thing in things.items():
        kst.Report().add(thing).write(made / f"{name}.html")
    return made


def advised(path: Path) -> Path:
    small = kst.Profile(write_buffer_size=64 << 10, max_bytes_for_level_base=16 << 10)
    store = Rdict(str(path), small.to_rocksdict())
    for number in range(3_000):
        store[b"%08d" % number] = bytes(100)
    store.close()
    return path


def words(page: Page) -> Counter[str]:
    return Counter(page.inner_text("body").split())


@pytest.mark.parametrize("name", NAMES)
def test_all_words_of_the_screen_are_printed(browser: Browser, folder: Path, name: str) -> None:
    with browser.new_page(viewport={"width": 794, "height": 1123}) as page:
        page.goto((folder / f"{name}.html").as_uri())
        folded = words(page)
        page.evaluate(OPEN)
        on_screen = words(page)
        assert sum(on_screen.values()) > sum(folded.values())
        contents = Counter(page.inner_text(NAVIGATION).split())  # a list of links: headings' words
        page.reload()
        page.emulate_media(media="print")  # with all that was folded
        assert on_screen - contents == words(page)


@pytest.mark.parametrize("name", NAMES)
def test_print_cuts_nothing_and_takes_few_pages(browser: Browser, folder: Path, name: str) -> None:
    target = folder / f"{name}.html"
    assert target.stat().st_size < MOST_BYTES
    with browser.new_page(viewport={"width": 688, "height": 1020}) as page:  # A4 in its margins
        page.goto(target.as_uri())
        printed = page.pdf(prefer_css_page_size=True)
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= MOST_PAGES
        page.emulate_media(media="print")
        assert page.evaluate(OVERFLOWING) == []
        assert page.evaluate(BEYOND) == []


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (400, "dark"),
        (1280, "light"),
        *(
            pytest.param(width, scheme, marks=pytest.mark.long)
            for width, scheme in ((400, "light"), (800, "light"), (800, "dark"), (1280, "dark"))
        ),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_clipped_or_scrolls_sideways(
    browser: Browser, folder: Path, name: str, width: int, scheme: str
) -> None:
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with browser.new_page(**options) as page:  # type: ignore[arg-type] # options of its own
        page.goto((folder / f"{name}.html").as_uri())
        page.evaluate(OPEN)
        assert page.evaluate(OVERFLOWING) == []
        assert page.evaluate(BEYOND) == []
        assert serious(page, "body") == []


def test_on_a_narrow_screen_letters_of_charts_can_be_read(browser: Browser, folder: Path) -> None:
    with browser.new_page(viewport={"width": 400, "height": 900}) as page:
        page.goto((folder / "store.html").as_uri())
        texts = page.locator("figure svg:visible text").all()
        heights = [box["height"] for each in texts if (box := each.bounding_box()) is not None]
        assert len(heights) > 10
        assert min(heights) >= 8


@pytest.mark.parametrize("width", [400, pytest.param(1280, marks=pytest.mark.long)])
def test_of_more_stores_than_are_printed_all_can_be_searched(
    browser: Browser, folder: Path, width: int
) -> None:
    target = kst.Report().add(Path("data/stores"), limit=2).write(folder / "many.html")
    with browser.new_page(viewport={"width": width, "height": 900}) as page:
        page.goto(target.as_uri())
        grid = page.get_by_role("grid", name="Stores")
        expect(grid).to_have_attribute("aria-rowcount", "6")
        assert grid.evaluate("each => each.scrollWidth <= each.clientWidth")
        page.get_by_role("searchbox").fill("actions")
        expect(grid).to_have_attribute("aria-rowcount", "2")
        assert serious(page, "body") == []
        page.emulate_media(media="print")
        expect(page.get_by_text("First 2 of 5 stores shown")).to_be_visible()
        expect(grid).to_be_hidden()


def test_each_piece_of_advice_is_printed_whole_and_first(browser: Browser, folder: Path) -> None:
    with kst.open_store(folder / "advised") as store:
        advice = list(store.advice())
    assert advice
    with browser.new_page(viewport={"width": 688, "height": 1020}) as page:
        page.goto((folder / "store.html").as_uri())
        page.emulate_media(media="print")
        assert page.locator("h2").first.inner_text() == "Advice"
        told = " ".join(page.inner_text("section").split())
        for each in advice:
            told_of = (each.rule, each.symptom, each.option, each.direction, each.effect, each.cost)
            for part in (*told_of, *map(str, each.evidence)):
                assert " ".join(part.split()) in told
            assert page.get_by_role("link", name=each.link).count() == 1


def test_what_to_do_about_an_application_is_printed_whole_and_first(
    browser: Browser, folder: Path
) -> None:
    with browser.new_page(viewport={"width": 688, "height": 1020}) as page:
        page.goto((folder / "application.html").as_uri())
        page.emulate_media(media="print")
        assert page.locator("h2").first.inner_text() == "What to do"
        told = " ".join(page.inner_text("article.urgent").split())
        assert "Urgent memory over the bound: all stores may take " in told
        assert "evidence by the formula, memtables " in told
        assert "do bound them together, by a class for rocksdb.config.setter" in told
        assert "run kstoolkit profile bounded_memory --total 64MiB" in told
        assert "see https://github.com/facebook/rocksdb/wiki/Memory-usage-in-RocksDB" in told
