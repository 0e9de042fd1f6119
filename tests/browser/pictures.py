"""Pictures of pages: ``python -m tests.browser.pictures [NAME ...]``.

Panels are taken of a real JupyterLab, plots are drawn: as that shows them on a light page.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

import kstoolkit as kst
from kstoolkit.plots.axes import beside_pyplot
from tests.browser import chromium
from tests.browser.jupyterlab import Lab, started
from tests.events.office import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks" / "pictures"
COLORS = 128
SETTLED_MS = 4_000
DPI = 144

BUSY = f"""
import kstoolkit as kst
run = kst.Pipeline(
    source=kst.files("{ROOT}/data/*/*.json.gz", event_time="time", user="user", action="action"),
    cascade=kst.Cascade("1 minute", "1 hour", "1 day"),
    rules=kst.load_rules("{ROOT}/data/limits.toml"),
).run("office", progress=False)
"""
"""The run of the page about incidents."""

PANELS = {
    "findings": f"""
import kstoolkit as kst
run = kst.Pipeline(
    source=kst.files("{ROOT}/data/sample", event_time="time", user="user", action="action"),
    cascade=kst.Cascade("1 minute", "1 hour", "1 day"),
).run("sample", progress=False)
kst.explore(run)
""",
    "marked": f"""{BUSY}
panel = kst.explore(run)
panel.choose("{ADDRESS}")
panel.mark()
panel.wait()
panel
""",
    "store": f"""
import shutil
import kstoolkit as kst
shutil.copytree("{ROOT}/data/stores", "../state")
panel = kst.StorePanel("../state")
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

CAPACITY = {
    "capacity": lambda plan: plan.plot(),
    "capacity_by_rate": lambda plan: plan.sweep("rate", [1e5, 1e6, 1e7, 5e7, 2e8]).plot(),
}
"""Of the plan on the page about capacity."""

PLOTS: dict[str, Callable[[kst.Run], Axes]] = {
    "incidents": lambda run: run.incidents().plot(),
    "incident": lambda run: next(each for each in run.incidents() if each.user == ADDRESS).plot(),
    "story": lambda run: run.story(ADDRESS).plot(),
}
"""Of the run of the page about incidents."""


def draw(home: Path, names: list[str]) -> None:
    """Run what the page about incidents runs, and keep pictures of it; and its report."""
    told: dict[str, Any] = {}
    with contextlib.chdir(home):
        exec(BUSY, told)  # noqa: S102 - as a notebook has it
        told["run"].report(home / "report.html")
        for name in (each for each in names if each in PLOTS):
            keep(name, PLOTS[name], told["run"])


def keep(name: str, plot: Callable[[Any], Axes], of: object) -> None:
    """Draw a plot, and keep its picture."""
    with beside_pyplot():
        figure: Any = plot(of).figure
    figure.patch.set_visible(True)
    figure.savefig(FOLDER / f"{name}.png", dpi=DPI)
    reduce(FOLDER / f"{name}.png")


def reduce(path: Path) -> None:
    """Leave a picture few colours, so that it is small."""
    with Image.open(path) as taken:
        taken.convert("RGB").quantize(COLORS).save(path, optimize=True)


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
    reduce(path)


def read(browser: Browser, page: Path) -> None:
    """Keep a picture of a user's card in a report, with what it folds."""
    shown = browser.new_page(viewport={"width": 940, "height": 1200})
    shown.goto(page.as_uri())
    card = shown.locator("article", has_text=ADDRESS).first
    card.locator("summary").click()
    card.screenshot(path=FOLDER / "report.png")
    reduce(FOLDER / "report.png")


def main() -> None:
    """Take the pictures that are named, or all."""
    names = sys.argv[1:] or [*PANELS, *PLOTS, *CAPACITY, "report"]
    for name in (each for each in names if each in CAPACITY):
        keep(name, CAPACITY[name], kst.plan_capacity(rate=50_000_000, users=1_000_000_000))
    names = [each for each in names if each not in CAPACITY]
    home = Path(gettempdir()) / "kstoolkit"  # panels show whole paths
    home.mkdir(exist_ok=True)
    if not names:
        return
    if {*names} - PANELS.keys():
        draw(home, names)
    with started(home) as lab, sync_playwright() as run:
        path = chromium.found()
        browser = run.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        for name in (each for each in names if each in PANELS):
            take(lab, browser, name)
        if "report" in names:
            read(browser, home / "report.html")
        browser.close()
    shutil.rmtree(home)


if __name__ == "__main__":
    main()
