"""What a page is made of: parts, a thing each; their sections; and where a report comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kstoolkit.markup import Html, element, isolated, joined, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


NO_HTML = Html()
LONGEST_TITLE = 200
_DEEPEST = 6
_LONGEST_KEY = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page.

    Parameters
    ----------
    key
        Its id in the page, where no other has it.
    heading
        What stands above it, and in the table of contents; empty for text without a heading.
    body
        What it says itself.
    inner
        Its own sections, below that.
    kind
        What the style sheet calls it; empty for one without a style of its own.
    tag
        ``"section"``, or ``"article"`` for one that no table of contents names.
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

    Examples
    --------
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

    Examples
    --------
    >>> keyed("Dead letters"), keyed("<b>")
    ('dead-letters', 'b')
    """
    words = re.findall(r"[a-z0-9]+", title[:200].lower())
    return "-".join(words)[:_LONGEST_KEY].strip("-") or "part"


def rendered(section: Section, level: int = 2) -> Html:
    """Return a section, with headings of ``level`` and, in what it holds, of deeper ones.

    Examples
    --------
    >>> rendered(Section(key="a", heading=Html("A"), body=Html("<p>b</p>")))
    '<section id="a" aria-labelledby="a-title"><h2 id="a-title">A</h2><p>b</p></section>'
    """
    named: dict[str, str | int] = {"class_": section.kind} if section.kind else {}
    inner = [rendered(each, level + 1) for each in section.inner]
    if not section.heading:
        return element(section.tag, section.body, *inner, id=section.key, **named)
    title = f"{section.key}-title"
    heading = element(f"h{min(level, _DEEPEST)}", section.heading, id=title)
    return element(
        section.tag,
        *(heading, section.body, *inner),
        id=section.key,
        **named,
        aria_labelledby=title,
    )


Span = tuple[int, int]
"""First and last moment, epoch ms UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a report comes from.

    Parameters
    ----------
    generated_at
        When it was made; aware of its zone.
    versions
        Name and version of what took part.
    command
        What makes it again; ``None`` if no command does.
    span_ms
        The time that the data cover; ``None`` without data.
    """

    generated_at: datetime
    versions: Sequence[tuple[str, str]]
    command: str | None
    span_ms: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPart:
    """What one thing adds to a report.

    Parameters
    ----------
    title
        What it is called, as plain text.
    section
        What the page shows of it.
    span_ms
        The time that its data cover; ``None`` if it tells of none.
    lead
        What it comes to, in a line.
    origin
        Where it comes from, if it knows: versions, and the command that makes it again.
    """

    title: str
    section: Section
    span_ms: Span | None = None
    lead: Html = NO_HTML
    origin: Origin | None = None


def joint(spans: Iterable[Span | None]) -> Span | None:
    """Return the time from the first moment to the last of all; ``None`` if there is none.

    Examples
    --------
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


def apart(part: ReportPart) -> tuple[Section, ...]:
    """Return the sections of a part that is the whole page, whose title is the page's."""
    if not part.section.body:
        return part.section.inner
    own = replace(part.section, heading=text("At a glance"), inner=())
    return (own, *part.section.inner)


def with_lead(part: ReportPart) -> Section:
    """Return the section of a part that stands beside others, which says what it comes to."""
    if not part.lead:
        return part.section
    lead = element("p", part.lead, class_="line")
    return replace(part.section, body=joined(lead, part.section.body))
