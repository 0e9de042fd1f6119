"""Fail a build whose pages would load anything from elsewhere, or point into a page at nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag

from sphinx.util import logging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

LOADS = re.compile(r"<(?:script|img|iframe|source|embed|object)\b[^>]*\b(?:src|data)=\"([^\"]+)\"")
STYLES = re.compile(
    r"<link\b(?=[^>]*\brel=\"(?:stylesheet|preload|icon)\")[^>]*\bhref=\"([^\"]+)\""
)
CSS = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')]+)")
LINKS = re.compile(r"<a\b[^>]*\bhref=\"([^\"]*)\"")
IDS = re.compile(r"\b(?:id|name)=\"([^\"]+)\"")
AWAY = re.compile(r"(?:[a-z]+:)?//|mailto:|data:")

logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at the pages when they are written."""
    app.connect("build-finished", look)
    return {"parallel_read_safe": True}


def look(app: Sphinx, failure: Exception | None) -> None:
    """Warn of each wrong place; ``-W`` makes it an error."""
    if failure is None and app.builder.format == "html":
        for message in wrong(Path(app.outdir)):
            logger.warning(message)


def wrong(folder: Path) -> Iterator[str]:
    """Yield a sentence for each thing that is loaded from elsewhere, and each broken link."""
    pages = {path.resolve(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    ids = {path: set(IDS.findall(text)) for path, text in pages.items()}
    for path, text in pages.items():
        for url in [*LOADS.findall(text), *STYLES.findall(text)]:
            if re.match(r"(?:https?:)?//", url):
                yield f"{path.name} loads {url}."
        for url in LINKS.findall(text):
            if not AWAY.match(url) and not leads(path, url, ids):
                yield f"{path.name} links to {url}, which is not there."
    for path in folder.rglob("*.css"):
        for url in CSS.findall(path.read_text(encoding="utf-8")):
            yield f"{path.name} loads {url}."


def leads(page: Path, url: str, ids: dict[Path, set[str]]) -> bool:
    """Return whether a link leads to a file, and to a place in it if it names one."""
    file, place = urldefrag(url)
    target = (page.parent / unquote(file)).resolve() if file else page
    if not target.is_file():
        return False
    return not place or target not in ids or unquote(place) in ids[target]
