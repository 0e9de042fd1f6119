"""Reports in a browser without scripts: hostile names stay text, and nothing is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import kstoolkit as kst
from tests.plots.made import COUNTS, HOSTILE, made_run
from tests.plots.made import found as finding

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a run whose users and actions mean harm."""
    folder = tmp_path_factory.mktemp("hostile")
    counts = {
        size: rows | {(start, name, name): 7 for start, _, _ in list(rows)[:1] for name in HOSTILE}
        for size, rows in COUNTS.items()
    }
    findings = [finding(), *(finding(user=name, action=name, count=7) for name in HOSTILE)]
    run = made_run(folder / "out", counts=counts, findings=findings, reasons=[*HOSTILE[1:3]])
    report = kst.Report("<script>alert(0)</script>").add(run).add(run.findings, title='"><b>')
    return report.write(folder / "report.html")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (800, "dark")])
def test_a_report_reads_without_scripts_and_shows_hostile_names_as_text(
    browser: Browser,
    page_path: Path,
    screenshot: Callable[[Page, str], Path],
    width: int,
    scheme: str,
) -> None:
    context = browser.new_context(
        java_script_enabled=False,
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": 900},
    )
    asked: list[str] = []
    with context.new_page() as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_path.as_uri())
        expect(page.locator("h1")).to_have_text("<script>alert(0)</script>")
        expect(page.locator("b, iframe, object, embed")).to_have_count(0)
        expect(page.get_by_text("<script>alert(1)</script>").first).to_be_visible()
        expect(page.get_by_text("characters left out").first).to_be_visible()
        assert page.locator("svg").count() >= 2
        body = page.locator("body").bounding_box()
        assert body is not None
        assert body["width"] <= width
        screenshot(page, f"report-{width}-{scheme}")
        page.emulate_media(media="print")
        for above in ("h2", "p.line"):  # neither stands alone at the foot of a page
            expect(page.locator(above).first).to_have_css("break-after", "avoid")
    context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_the_same_report_lives_with_scripts_allowed_and_runs_none(
    browser: Browser, page_path: Path
) -> None:
    dialogs: list[str] = []
    complaints: list[str] = []
    with browser.new_page() as page:
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(page_path.as_uri())
        expect(page.locator("h1")).to_be_visible()
    assert not dialogs
    assert not complaints
