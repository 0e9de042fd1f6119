"""The README's pictures of panels, of a real JupyterLab: ``python -m tests.browser.pictures``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import gettempdir

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser import chromium
from tests.browser.jupyterlab import Lab, started

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks" / "pictures"
COLORS = 128
SETTLED_MS = 4_000

PANELS = {
    "findings": f"""
import kstoolkit as kst
run = kst.Pipeline(
    source=kst.files("{ROOT}/data/sample", event_time="time", user="user", action="action"),
    cascade=kst.Cascade("1 minute", "1 hour", "1 day"),
).run("sample", progress=False)
kst.explore(run)
""",
    "store": f"""
import shutil
import kstoolkit as kst
shutil.copytree("{ROOT}/data/stores", "../state")
panel = kst.StorePanel("../state")
panel.list.wait()
panel.choose("actions-1m")
panel.wait()
panel
""",
    "memory": """
import kstoolkit as kst
kst.MemoryPanel(profile="kafka_streams")
""",
    "lab": """
import kstoolkit as kst
lab = kst.CompactionLab(kst.Workload(writes=1_000_000, keys=200_000), ["kafka_streams", "spark"])
lab.run()
lab.wait()
lab
""",
}


def take(lab: Lab, browser: Browser, name: str) -> None:
    """Run a notebook of one panel, and keep a picture of it."""
    lab.write(f"{name}.ipynb", [PANELS[name]])
    with lab.opened(browser, f"{name}.ipynb", width=1360) as page:
        page.set_viewport_size({"width": 1360, "height": 2400})
        lab.run_all(page)
        panel = page.locator(".kst-panel").first
        expect(panel).to_be_visible(timeout=SETTLED_MS)
        page.wait_for_timeout(SETTLED_MS)
        path = FOLDER / f"{name}.png"
        panel.screenshot(path=path)
    with Image.open(path) as taken:
        taken.convert("RGB").quantize(COLORS).save(path, optimize=True)


def main() -> None:
    """Take the pictures that are named, or all."""
    home = Path(gettempdir()) / "kstoolkit"  # panels show whole paths
    with started(home) as lab, sync_playwright() as run:
        path = chromium.found()
        browser = run.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        for name in sys.argv[1:] or PANELS:
            take(lab, browser, name)
        browser.close()
    shutil.rmtree(home)


if __name__ == "__main__":
    main()
