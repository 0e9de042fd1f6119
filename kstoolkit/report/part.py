"""What one thing adds to a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kstoolkit.markup import Html, element, isolated, joined, text
from kstoolkit.report.section import NO_HTML

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.report.content import Origin
    from kstoolkit.report.section import Section


Span = tuple[int, int]
"""First and last moment, epoch ms UTC."""

LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
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


def renamed(part: Part, title: str) -> Part:
    """Return a part under another title."""
    section = replace(part.section, heading=isolated(title, LONGEST_TITLE))
    return replace(part, title=title, section=section)


def apart(part: Part) -> tuple[Section, ...]:
    """Return the sections of a part that is the whole page, whose title is the page's."""
    if not part.section.body:
        return part.section.inner
    own = replace(part.section, heading=text("At a glance"), inner=())
    return (own, *part.section.inner)


def with_lead(part: Part) -> Section:
    """Return the section of a part that stands beside others, which says what it comes to."""
    if not part.lead:
        return part.section
    lead = element("p", part.lead, class_="line")
    return replace(part.section, body=joined(lead, part.section.body))
