from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from rocksdict import Options, Rdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.browser.jupyterlab import Lab

pytestmark = pytest.mark.browser


def test_a_line_opens_a_panel_and_the_store_of_ipython_still_keeps_variables(
    lab: Lab, browser: Browser, screenshot: Callable[[Page, str], Path]
) -> None:
    written = Rdict(str(lab.folder / "magic store"), Options(raw_mode=True))
    written[b"<script>alert(1)</script>"] = b"3"
    written.close()
    cells = [
        "%load_ext kstoolkit",
        "kept = 7\n%store kept",
        "%store magic store",
        "%profile low_disk",
    ]
    lab.write("magics.ipynb", cells)
    lab.write("magics_wrong.ipynb", ["%load_ext kstoolkit", "%findings nowhere"])
    with lab.opened(browser, "magics.ipynb") as page:
        lab.run_all(page)
        expect(page.get_by_text("Stored 'kept' (int)")).to_be_visible()
        panels = page.locator(".kst-panel")
        expect(panels).to_have_count(2)
        expect(panels.first.get_by_text("magic store").first).to_be_visible()
        expect(panels.last.get_by_text("12 options that differ from kafka_streams")).to_be_visible()
        screenshot(page, "magics")
    with lab.opened(browser, "magics_wrong.ipynb") as page:
        lab.run_all(page)
        said = page.locator(".jp-OutputArea-output")
        expect(said).to_have_text(
            "UsageError: There is no folder 'nowhere'. "
            "Give the folder of a run, of a store, or above stores.\n"
        )
        screenshot(page, "magics-wrong")
