"""Pages that are kept elsewhere in the project: notebooks, and what stands beside the code.

They are copied to where they are pages. A link in any page is written as it leads on disk, so that
it can be followed where the sources are read; here it is led to the page.
"""

from __future__ import annotations

import json
import os.path
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from written import write

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")
WRITTEN = re.compile(r'<a href="\.\./out/[^"]*">(.*?)</a>')
"""A link to what a notebook wrote, which lies beside it and is no page."""

PAGES = {
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "README.md": "index.md",
    "data/README.md": "reference/data.md",
    "data/stores/README.md": "reference/stores.md",
    "kstoolkit/formats/README.md": "reference/what_can_be_read.md",
}
PAGES |= {
    f"notebooks/{path.name}": f"notebooks/{path.name}" for path in ROOT.glob("notebooks/*.ipynb")
}
"""Where a page is kept, and where it is a page; the README's is a page of its own."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Copy the pages before any is read, and lead the links of the others."""
    app.connect("builder-inited", lambda _: copy_pages())
    app.connect("source-read", lead_source)
    return {"parallel_read_safe": True}


def copy_pages() -> None:
    """Copy what changed; what is gone there goes here."""
    for page in DOCS.glob("notebooks/*.ipynb"):
        if f"notebooks/{page.name}" not in PAGES:
            page.unlink()
    for kept, page in PAGES.items():
        if kept != "README.md":
            write(DOCS / page, led(ROOT / kept, DOCS / page))


def lead_source(app: Sphinx, name: str, source: list[str]) -> None:
    """Lead the links of a page that is written here."""
    path = Path(app.env.doc2path(name))
    copied = {DOCS / page for kept, page in PAGES.items() if kept != "README.md"}
    if path.suffix == ".md" and path not in copied:
        source[0] = LINK.sub(partial(link, path, path), source[0])


def led(kept: Path, page: Path) -> str:
    """Return a page that is kept elsewhere, with its links led; of a notebook, its texts'."""
    text = kept.read_text(encoding="utf-8")
    if kept.suffix != ".ipynb":
        return LINK.sub(partial(link, kept, page), text)
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = LINK.sub(partial(link, kept, page), "".join(cell["source"]))
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                told = "".join(output["data"]["text/html"])
                output["data"]["text/html"] = WRITTEN.sub(r"\1", told)
    return json.dumps(notebook, ensure_ascii=False, indent=1)


def link(kept: Path, page: Path, found: re.Match[str]) -> str:
    """Return a link as it leads from the page."""
    target = (kept.parent / found[1]).resolve()
    inside = target.relative_to(ROOT).as_posix() if target.is_relative_to(ROOT) else ""
    there = DOCS / PAGES[inside] if inside in PAGES else target
    return f"]({Path(os.path.relpath(there, page.parent)).as_posix()}"
