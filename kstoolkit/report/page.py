"""What a page is made of: parts, their sections, and where it comes from; how it is written.

The page loads nothing: its style, its figures and its one script are inside; its content security
policy says so to the browser, and names that script by its hash. Where scripts don't run, and in
print, what stands still is shown. As a file it is there whole, or not at all.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING

from kstoolkit.errors import OutputError
from kstoolkit.markup import Html, element, isolated, joined, plain, shortened, text
from kstoolkit.views.parts import source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from pathlib import Path

    from kstoolkit.views.parts import Part

NO_HTML = Html()
LONGEST_TITLE = 200
Span = tuple[int, int]
"""First and last moment, epoch ms UTC."""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; script-src "
)
_LIVE = """
for (const held of document.querySelectorAll(".living")) {
  const view = new View(held, [["part"]], () => {});
  try {
    view.put("part", JSON.parse(held.querySelector("script").textContent));
    held.classList.add("lives");
  } catch { view.close(); }
}
"""
_LIVING = "living"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page: what it says itself, and the sections below that.

    ``key`` is its unique id; ``heading`` stands above it and in the table of contents, if any;
    ``kind`` is what the style sheet calls it. No table of contents names an ``"article"``.
    """

    key: str
    heading: Html
    body: Html = NO_HTML
    inner: tuple[Section, ...] = ()
    kind: str = ""
    tag: str = "section"


@dataclass(slots=True)
class Ids:
    """The ids that a page has given away, so that none is given twice.

    >>> ids = Ids()
    >>> ids.new("levels"), ids.new("levels"), ids.new("levels")
    ('levels', 'levels-2', 'levels-3')
    """

    taken: set[str] = field(default_factory=set)

    def new(self, key: str) -> str:
        """Return ``key``, or with a number behind it, as an id that no other has."""
        name, number = key, 1
        while name in self.taken:
            number += 1
            name = f"{key}-{number}"
        self.taken.add(name)
        return name


def keyed(title: str) -> str:
    """Return a title as an id: its ASCII letters and digits.

    >>> keyed("Dead letters"), keyed("<b>")
    ('dead-letters', 'b')
    """
    words = re.findall(r"[a-z0-9]+", title[:200].lower())
    return "-".join(words)[:40].strip("-") or "part"


def rendered(section: Section, level: int = 2) -> Html:
    """Return a section, with headings of ``level`` and, in what it holds, of deeper ones.

    >>> rendered(Section(key="a", heading=Html("A"), body=Html("<p>b</p>")))
    '<section id="a" aria-labelledby="a-title"><h2 id="a-title">A</h2><p>b</p></section>'
    """
    named: dict[str, str | int] = {"class_": section.kind} if section.kind else {}
    told = [section.body, *(rendered(each, level + 1) for each in section.inner)]
    if section.heading:
        named["aria_labelledby"] = title = f"{section.key}-title"
        told.insert(0, element(f"h{min(level, 6)}", section.heading, id=title))
    return element(section.tag, *told, id=section.key, **named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a report comes from: what took part, of which version, the time that its data cover.

    ``command`` makes it again, if there is one.
    """

    generated_at: datetime
    versions: Sequence[tuple[str, str]]
    command: str | None
    span_ms: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPart:
    """What one thing adds to a report: its title as plain text, and what it comes to, in a line.

    ``span_ms`` is the time that its data cover, if it tells of any.
    """

    title: str
    section: Section
    span_ms: Span | None = None
    lead: Html = NO_HTML
    origin: Origin | None = None


def joint(spans: Iterable[Span | None]) -> Span | None:
    """Return the time from the first moment to the last of all; ``None`` if there is none.

    >>> joint([(5, 9), None, (2, 6)]), joint([None])
    ((2, 9), None)
    """
    known = [each for each in spans if each is not None]
    if not known:
        return None
    return min(first for first, _ in known), max(last for _, last in known)


def renamed(part: ReportPart, title: str) -> ReportPart:
    """Return a part under another title."""
    section = replace(part.section, heading=isolated(title, LONGEST_TITLE))
    return replace(part, title=title, section=section)


def apart(part: ReportPart, last: Section) -> tuple[Section, ...]:
    """Return the sections of a part that is the whole page, and one more, in its appendix if any.

    The part's title is the page's.
    """
    own = replace(part.section, heading=text("At a glance"), inner=())
    *others, end = (*([own] if part.section.body else []), *part.section.inner)
    if end.kind == "appendix":
        return (*others, replace(end, inner=(*end.inner, last)))
    return (*others, end, last)


def with_lead(part: ReportPart) -> Section:
    """Return the section of a part that stands beside others, which says what it comes to."""
    if not part.lead:
        return part.section
    lead = element("p", part.lead, class_="line")
    return replace(part.section, body=joined(lead, part.section.body))


def living(still: Html, part: Part) -> Html:
    """Return what stands still, in whose place the page's script draws a part of a view."""
    data = json.dumps(part, separators=(",", ":")).replace("<", "\\u003c")
    data = Html(data.replace(">", "\\u003e"))
    told = element("script", data, type="application/json")
    return element("div", element("div", still, class_="still"), told, class_=_LIVING)


def page_of(title: str, lead: Html, sections: Sequence[Section]) -> str:
    """Return the whole page: a title, what that comes to, contents, and what sections say."""
    main = element("main", *(rendered(each) for each in sections))
    nav = element("nav", _contents(sections), aria_label="Contents")
    said = [element("p", lead, class_="lead")] if lead else []
    header = element("header", element("h1", isolated(title, 200)), *said)
    script = source("view.js") + _LIVE if f'class="{_LIVING}"' in main else ""
    run = [element("script", Html(script))] if script else []
    body = element("body", header, nav, main, *run)
    return f"<!DOCTYPE html>\n{element('html', _head(title, script), body, lang='en')}\n"


def _contents(sections: Sequence[Section]) -> Html:
    entries = []
    for each in (some for some in sections if some.heading):
        inner = [below for below in each.inner if below.tag == "section" and below.heading]
        told = [_contents(inner)] if inner else []
        entries.append(element("li", element("a", each.heading, href=f"#{each.key}"), *told))
    return element("ol", *entries)


def _head(title: str, script: str) -> Html:
    style = files("kstoolkit.report").joinpath("style.css").read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"'sha256-{digest}'" if script else "'none'"
    style += source("view.css") if script else ""
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY + allowed),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", Html(html.escape(plain(shortened(title, 100))))),
        # Without an icon of its own a browser asks the server for one.
        element("link", rel="icon", href="data:,"),
        element("style", Html(style)),
    )


def write_page(target: Path, page: bytes) -> Path:
    """Write a page, in one step, so that nobody sees half, and return where it lies."""
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
