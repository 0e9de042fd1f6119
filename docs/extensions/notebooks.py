"""The notebooks as pages: as they are kept beside the package, with what came out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

KEPT = Path(__file__).parents[2] / "notebooks"
PAGES = Path(__file__).parents[1] / "notebooks"
ELSEWHERE = {"(../data/README.md)": "(../reference/data.md)"}
"""What they link to beside the notebooks, and the page that has it here."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Copy the notebooks before any page is read."""
    app.connect("builder-inited", lambda _: copy_notebooks(KEPT, PAGES))
    return {"parallel_read_safe": True}


def copy_notebooks(kept: Path, pages: Path) -> None:
    """Copy what changed; what is gone there goes here."""
    pages.mkdir(exist_ok=True)
    found = {path.name: path for path in kept.glob("*.ipynb")}
    for path in pages.glob("*.ipynb"):
        if path.name not in found:
            path.unlink()
    for name, path in found.items():
        text = path.read_text(encoding="utf-8")
        for there, here in ELSEWHERE.items():
            text = text.replace(there, here)
        page = pages / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    shutil.copytree(kept / "pictures", pages / "pictures", dirs_exist_ok=True)
