"""How soon panels appear, answer a choice, filter and scroll, in a real JupyterLab and Chromium.

    python -m tests.benchmarks.panels [--findings 1000 100000] [--stores 3000]

Findings are drawn at random over users and hours, and shown by ``kst.explore(run)``; stores are
copies of one, as many tasks of an application, shown by ``kst.explore(folder)``. A time is from
the key or the pointer to the next frame that shows what was asked for; of an appearing, from
running the cell, in a kernel that has imported nothing, to its first words, and its first row.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import sync_playwright

from tests.benchmarks.table import machine
from tests.browser import chromium
from tests.browser.jupyterlab import started
from tests.changelog.changelogs import HOUR
from tests.plots.made import TEN, found, made_run
from tests.stores.streamsstores import write_store

if TYPE_CHECKING:
    from playwright.sync_api import Page

TIMES = 20
SHOWN = """
async () => {
  const begun = performance.now();
  window.jupyterapp.commands.execute('notebook:run-all-cells');
  const after = async asked => {
    while (!document.querySelector(asked)) await new Promise(requestAnimationFrame);
    return performance.now() - begun; };
  const said = await after('.kst-view :is(.said, [role=row])');
  return [said, await after('.kst-view .body [role=row]')];
}"""
ASKED = """
async ([what, times]) => {
  const view = document.querySelector('.kst-view'), grid = view.querySelector('.grid');
  const frame = () => new Promise(requestAnimationFrame);
  const told = () => view.querySelector('[role=treegrid]')
    ? view.querySelector('dl') && view.querySelectorAll('.column')[1].textContent
    : view.querySelector('p.large')?.textContent;
  const search = view.querySelector('[type=search]'), found = [];
  for (let turn = 0; turn < times; turn++) {
    const before = told(), begun = performance.now();
    if (what === 'choose') {
      grid.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}));
      while (!told() || told() === before) {
        await frame();
        if (performance.now() - begun > 10_000) throw new Error(`${turn}: still ${before}`);
      }
    } else if (what === 'filter') {
      search.value = ['1', '12', 'user 0', ''][turn % 4];
      search.dispatchEvent(new Event('input'));
    } else if (what === 'scroll') {
      grid.scrollTop = (turn * 7919 * 28) % (grid.scrollHeight - grid.clientHeight);
    } else {
      view.querySelectorAll('.v-head button')[turn % 2].click();
    }
    await frame();
    await new Promise(resolve => setTimeout(resolve));
    found.push(performance.now() - begun);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
  return found;
}"""


def write_run(folder: Path, number: int) -> None:
    """Write a run with so many findings, of a fifth as many users."""
    draws = np.random.default_rng(1)
    made_run(
        folder,
        findings=[
            found(
                user=f"user {draws.integers(max(number // 5, 1)):05d}",
                action=["read", "write", "edit"][each % 3],
                window_start_ms=TEN + int(draws.integers(2_000)) * HOUR,
                count=int(draws.integers(5, 900)),
                log10_probability=-float(draws.uniform(2, 30)),
            )
            for each in range(number)
        ],
    )


def write_stores(folder: Path, number: int) -> None:
    """Write so many stores, as tasks of an application: hard links to the files of one."""
    made = write_store(folder / "app" / "0_0" / "rocksdb" / "counts", default={b"a": b"1"})
    for task in range(1, number):
        other = folder / "app" / f"0_{task}" / "rocksdb" / "counts"
        other.mkdir(parents=True)
        for each in made.iterdir():
            os.link(each, other / each.name)


def measured(page: Page, ready: str) -> dict[str, list[float]]:
    """Return how many ms each thing took, each time."""
    appears, listed = page.evaluate(SHOWN)
    found = {"appears": [appears], "lists": [listed]}
    page.wait_for_selector(ready)
    page.wait_for_timeout(2_000)
    for what in ("choose", "filter", "scroll", "sort"):
        found[what] = page.evaluate(ASKED, [what, TIMES])
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--findings", type=int, nargs="*", default=[1_000, 100_000])
    parser.add_argument("--stores", type=int, nargs="*", default=[3_000])
    given = parser.parse_args()
    print(machine())
    print("ms, median and worst of", TIMES)
    with (
        tempfile.TemporaryDirectory() as home,
        started(Path(home)) as lab,
        sync_playwright() as run,
    ):
        browser = run.chromium.launch(executable_path=chromium.found(), args=list(chromium.FLAGS))
        kinds = ("findings", write_run, "p.large"), ("stores", write_stores, "[role=treegrid]")
        for kind, write, ready in kinds:
            for number in getattr(given, kind):
                out = Path(home) / f"{kind}-{number}"
                write(out, number)
                lab.write("shown.ipynb", [f"import kstoolkit as kst\nkst.explore({str(out)!r})"])
                with lab.opened(browser, "shown.ipynb") as page:
                    for what, took in measured(page, ready).items():
                        ms = f"{median(took):>8.0f}{max(took):>8.0f}"
                        print(f"{number:>8,} {kind:<9} {what:<8}{ms}")
        browser.close()


if __name__ == "__main__":
    main()
