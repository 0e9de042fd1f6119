"""Another's judgement of a page: axe-core's, by the rules of WCAG 2.2 A and AA."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES = [
    (1280, False),
    (740, True),
    *(
        pytest.param(width, dark, marks=pytest.mark.long)
        for width, dark in ((1280, True), (800, False), (800, True), (740, False))
    ),
]
"""Widths of JupyterLab's page, and whether it is dark: 740 leaves a panel some 400 pixels."""

_ASK = """async scope => (await axe.run(scope, {runOnly: [
  'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})).violations
  .filter(each => ['serious', 'critical'].includes(each.impact))
  .flatMap(each => each.nodes.map(node => `${each.id}: ${node.html.slice(0, 200)}: `
    + (node.any[0] ?? node.all[0] ?? node.none[0])?.message))"""


def serious(page: Page, scope: str) -> list[str]:
    """Return what is found serious, or worse, in the parts of a page that a selector names."""
    script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(f"() => {{ {script} }}")
    found: list[str] = page.evaluate(_ASK, scope)
    return found
