"""How a report shows what it knows: tables, facts with their labels, and that there is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.markup import Html, element, isolated
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


LONGEST_IN_TABLE = 32
"""Characters of a name in a table; whole names stand beside it."""


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Html]],
    *,
    numbers: Collection[int] = (),
) -> Html:
    """Return rows under headed columns; ``numbers`` are the columns set to the right.

    Examples
    --------
    >>> "<caption>One row</caption>" in table("One row", ["A"], [[element("b", "1")]])
    True
    """
    kinds = ["number" if place in numbers else "words" for place in range(len(heads))]
    head = element("tr", *map(_head, heads, kinds))
    body = [element("tr", *map(_cell, row, kinds)) for row in rows]
    parts = (element("caption", caption), element("thead", head), element("tbody", *body))
    # A screen too narrow for the table scrolls it alone, by finger or by key.
    return element("div", element("table", *parts), class_="scroll", tabindex=0)


def facts(pairs: Iterable[tuple[str, Html]]) -> Html:
    """Return values under their labels, side by side as far as there is room.

    Examples
    --------
    >>> facts([("Rule", isolated("Ceiling"))])
    '<dl><div><dt><bdi>Rule</bdi></dt><dd><bdi>Ceiling</bdi></dd></div></dl>'
    """
    return element("dl", *(_fact(isolated(label), value) for label, value in pairs))


def announced(shown: int, total: int, noun: str, *, which: str = "Top ") -> str:
    """Return how many there are, and how many of them are shown.

    Examples
    --------
    >>> announced(20, 153, "finding"), announced(1, 1, "finding")
    ('Top 20 of 153 findings shown', '1 finding')
    """
    nouns = noun if total == 1 else f"{noun}s"
    if shown >= total:
        return f"{format_count(total)} {nouns}"
    return f"{which}{format_count(shown)} of {format_count(total)} {nouns} shown"


def nothing(sentence: str) -> Html:
    """Return what stands where a section has nothing to show.

    Examples
    --------
    >>> nothing("No findings.")
    '<p class="nothing">No findings.</p>'
    """
    return element("p", sentence, class_="nothing")


def _fact(label: Html, value: Html) -> Html:
    return element("div", element("dt", label), element("dd", value))


def _head(name: str, kind: str) -> Html:
    return element("th", name, scope="col", class_=kind)


def _cell(value: Html, kind: str) -> Html:
    return element("td", value, class_=kind)
