"""The report as one HTML page: what stands where.

The page loads nothing: its style is inside, its figures are inline SVG, and it runs no script; its
content security policy says so to the browser.
"""

from __future__ import annotations

import html
from importlib.resources import files
from typing import TYPE_CHECKING

from kstoolkit.markup import Html, element, isolated, plain, shortened
from kstoolkit.report.findings import findings_section
from kstoolkit.report.sections import (
    covered,
    dead_letters_section,
    origin_section,
    summary_section,
    users_section,
)
from kstoolkit.report.tables import announced

if TYPE_CHECKING:
    from kstoolkit.report.content import ReportContent

__all__ = ["DEFAULT_TOP", "render_report"]

DEFAULT_TOP = 20
"""How many findings, users and raw records are shown: what one person looks at in one sitting."""

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def render_report(content: ReportContent, *, top: int = DEFAULT_TOP) -> str:
    """Return the whole report as one self-contained HTML page.

    Parameters
    ----------
    content
        What to say.
    top
        How many findings, users and raw records to show; the page says how many there are.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from kstoolkit.report import Origin, ReportContent
    >>> origin = Origin(generated_at=datetime(2015, 9, 13, tzinfo=UTC))
    >>> page = render_report(ReportContent(title="Edits", origin=origin))
    >>> "No findings" in page and "<script" not in page
    True
    """
    sections = {
        "summary": ("Summary", summary_section(content)),
        "findings": ("Findings", findings_section(content, top)),
        "users": ("Users", users_section(content, top)),
        "dead-letters": ("Dead letters", dead_letters_section(content.dead_letters, top)),
        "origin": ("About this report", origin_section(content.origin)),
    }
    main = element("main", *(_section(key, *section) for key, section in sections.items()))
    links = [element("a", name, href=f"#{key}") for key, (name, _) in sections.items()]
    contents = element("ol", *(element("li", link) for link in links))
    body = element("body", _header(content), element("nav", contents, aria_label="Contents"), main)
    return f"<!DOCTYPE html>\n{element('html', _head(content.title), body, lang='en')}\n"


def _section(key: str, name: str, body: Html) -> Html:
    heading = element("h2", name, id=f"{key}-title")
    return element("section", heading, body, id=key, aria_labelledby=f"{key}-title")


def _head(title: str) -> Html:
    style = files("kstoolkit.report").joinpath("style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", Html(html.escape(plain(shortened(title, 100))))),
        # Without an icon of its own a browser asks the server for one.
        element("link", rel="icon", href="data:,"),
        element("style", Html(style)),
    )


def _header(content: ReportContent) -> Html:
    findings = announced(content.total_findings, content.total_findings, "finding")
    users = announced(content.total_users, content.total_users, "user")
    lead = (covered(content.origin), f" · {findings} · {users} scored")
    heading = element("h1", isolated(content.title, 200))
    return element("header", heading, element("p", *lead, class_="lead"))
