"""What a page is made of: sections with a heading, text, and sections of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kstoolkit.markup import Html, element

NO_HTML = Html()

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
