from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from kstoolkit.widgets.stores import StorePanel
from tests.browser.names import focusable
from tests.stores.streamsstores import write_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser

CELLS = [
    """
from ipywidgets import BoundedIntText
from kstoolkit.replica.records import UserCounts
from kstoolkit.widgets.panel import Face, Panel
from kstoolkit.widgets.records import parts_of

face = Face([["plot"]], print)
number = BoundedIntText(value=7, description="Count")

def show(change=None):
    counts = UserCounts("Anna", 0, 60_000, {"read": number.value}, 0)
    face.put("plot", parts_of(counts)["plot"])

number.observe(show, "value")
show()
panel = Panel("A count <script>alert(1)</script>", [number, face], face.still)
panel
"""
]


@pytest.mark.parametrize(
    ("dark", "width"), [pytest.param(False, 800, marks=pytest.mark.long), (True, 1280)]
)
def test_a_panel_lives_in_jupyterlab_and_hides_its_static_picture(
    lab: Lab,
    browser: Browser,
    screenshot: Callable[[Page, str], Path],
    dark: bool,  # noqa: FBT001 - a parameter of the test
    width: int,
) -> None:
    lab.write("panel.ipynb", CELLS)
    with lab.opened(browser, "panel.ipynb", dark=dark, width=width) as page:
        lab.run_all(page)
        panel = page.locator(".kst-panel")
        expect(panel.locator("h4")).to_have_text("A count <script>alert(1)</script>")
        expect(panel.locator("img:visible")).to_have_attribute(
            "alt", "Anna: 7 in 1 minute from 1970-01-01 00:00 UTC"
        )
        expect(page.locator(".kst-static").first).to_be_hidden()
        seen = panel.locator("img:visible").bounding_box()
        assert seen is not None
        assert panel.evaluate("e => e.scrollWidth - e.clientWidth") <= 1, "no picture scrolls"
        panel.get_by_label("Count").press("ArrowUp")
        page.keyboard.press("Tab")
        expect(panel.locator("img:visible")).to_have_attribute(
            "alt", "Anna: 8 in 1 minute from 1970-01-01 00:00 UTC"
        )
        screenshot(page, f"panel-{width}-{'dark' if dark else 'light'}")


def test_a_saved_panel_opens_as_its_picture_where_its_kernel_is_gone(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path]
) -> None:
    """What other cells printed stays; JupyterLab's own words about a lost widget do not."""
    lab.write("saved.ipynb", [*CELLS, "print('printed'); panel.close(); panel"])
    with lab.opened(browser, "saved.ipynb") as page:
        page.evaluate(
            "() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
        )
        expect(page.locator(".kst-panel img:visible")).to_be_visible()
        page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    with lab.opened(browser, "saved.ipynb") as page:
        expect(page.locator(".kst-static img")).to_be_visible()
        expect(page.locator(".kst-static h4")).to_contain_text("A count")
        lost = page.get_by_text("Error displaying widget")
        expect(lost).to_have_count(1)
        expect(lost).to_be_hidden()
        screenshot(page, "panel-saved")
        lab.run_all(page)
        expect(page.get_by_text("printed", exact=True)).to_be_visible()
        expect(page.locator(".kst-static img").last).to_be_visible()


OTHERS = """
from pathlib import Path
from IPython.display import display
from kstoolkit.widgets.findings import FindingsPanel
from kstoolkit.widgets.profiles import ProfilePanel
from kstoolkit.widgets.runmonitor import RunMonitor
from tests.plots.made import found, made_run

run = made_run(Path(FOLDER) / "out", findings=[found()])
display(FindingsPanel(run), RunMonitor(run), ProfilePanel())
"""


def test_each_control_of_a_panel_has_a_name(lab: Lab, browser: Browser, tmp_path: Path) -> None:
    lab.write("names.ipynb", [f"FOLDER = {str(tmp_path)!r}\n{OTHERS}"])
    with lab.opened(browser, "names.ipynb") as page:
        lab.run_all(page)
        expect(page.locator(".kst-panel")).to_have_count(3)
        expect(page.get_by_role("button", name="Undo all changes")).to_be_visible()
        expect(page.get_by_role("button", name="Look now")).to_be_visible()
        expect(page.get_by_text("1 user").first).to_be_visible()
        told = focusable(page, ".jp-Notebook .jp-OutputArea")
        assert {name for _, name in told} > {"Search Users", "Known", "Look now", "Options"}
        assert not [role for role, name in told if not name]


def test_a_converted_page_shows_the_static_picture_without_scripts(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path], tmp_path: Path
) -> None:
    from nbconvert import HTMLExporter

    exporter: Any = HTMLExporter()  # type: ignore[no-untyped-call]
    with StorePanel(write_store(tmp_path / "<b>users", default={b"<script>": b"1"})) as panel:
        panel.wait()
        shown = {"output_type": "display_data", "data": panel._static_bundle(), "metadata": {}}
    lab.write("converted.ipynb", ["panel"])
    kept = json.loads((lab.folder / "converted.ipynb").read_text())
    kept["cells"][0]["outputs"] = [shown]
    (lab.folder / "converted.ipynb").write_text(json.dumps(kept))
    converted, _ = exporter.from_filename(str(lab.folder / "converted.ipynb"))
    (tmp_path / "page.html").write_text(converted)
    with browser.new_page(java_script_enabled=False) as page:
        page.goto((tmp_path / "page.html").as_uri())
        static = page.locator(".kst-static")
        expect(static.get_by_text("<b>users").first).to_be_visible()
        expect(static.get_by_text("about 1, by RocksDB's estimate")).to_be_visible()
        expect(static.locator("script, b")).to_have_count(0)
        for place in ("td", "th"):
            expect(static.locator(place).first).to_have_css("text-align", "left")
        screenshot(page, "panel-converted")
