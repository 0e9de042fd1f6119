"""The report as one HTML page, what stands where; as a file it is there whole, or not at all.

The page loads nothing: its style is inside, its figures are inline, and it runs no script; its
content security policy says so to the browser.
"""

from __future__ import annotations

import html
import os
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING

from kstoolkit.errors import OutputError
from kstoolkit.markup import Html, element, isolated, plain, shortened
from kstoolkit.report.figures import color_rules
from kstoolkit.report.section import rendered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kstoolkit.report.section import Section


_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def page_of(title: str, lead: Html, sections: Sequence[Section]) -> str:
    """Return the whole page.

    Parameters
    ----------
    title, lead
        What it is about, and what that comes to in a line.
    sections
        What it says, in order; those with a heading are in the table of contents.

    Examples
    --------
    >>> page = page_of("Edits", Html("none so far"), [])
    >>> "<h1><bdi>Edits</bdi></h1>" in page and "<script" not in page
    True
    """
    main = element("main", *(rendered(each) for each in sections))
    nav = element("nav", _contents(sections), aria_label="Contents")
    body = element("body", _header(title, lead), nav, main)
    return f"<!DOCTYPE html>\n{element('html', _head(title), body, lang='en')}\n"


def _contents(sections: Sequence[Section]) -> Html:
    return element("ol", *(_entry(each) for each in sections if each.heading))


def _entry(section: Section) -> Html:
    link = element("a", section.heading, href=f"#{section.key}")
    inner = [each for each in section.inner if each.tag == "section" and each.heading]
    return element("li", link, _contents(inner)) if inner else element("li", link)


def _head(title: str) -> Html:
    style = files("kstoolkit.report").joinpath("style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", Html(html.escape(plain(shortened(title, 100))))),
        # Without an icon of its own a browser asks the server for one.
        element("link", rel="icon", href="data:,"),
        element("style", Html(style + color_rules())),
    )


def _header(title: str, lead: Html) -> Html:
    heading = element("h1", isolated(title, 200))
    return element("header", heading, *([element("p", lead, class_="lead")] if lead else ()))


def write_page(target: Path, page: bytes) -> Path:
    """Write a page and return where it lies.

    A file that is there already is replaced in one step, so that whoever has it open, or is copying
    it, never sees half of one.

    Raises
    ------
    OutputError
        If the file can't be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Path(folder) / "report.html", b"<p>").read_bytes()
    b'<p>'
    """
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(page)
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        message = f"The report can't be written to {target}: {error.strerror}."
        hint = "Name a file in a folder that exists and that you may write to."
        raise OutputError(message, hint=hint) from error
    return target
