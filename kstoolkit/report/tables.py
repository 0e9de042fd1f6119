"""How a report shows what it knows: tables, facts with their labels, and that there is nothing.

Values are short, in units, and never markup; times and windows are in UTC, and no finer than they
need; paths are as a reader elsewhere may see them: without whose home, and on which machine.
"""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.markup import Html, element, isolated, text
from kstoolkit.moments import moment_of, moment_text
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

LONGEST_IN_TABLE = 32
"""Characters of a name in a table; whole names stand beside it."""
WIDE_CELL = 28
"""Characters after which a text in a table goes on in another line."""
_LONG = 44  # characters of a fact with room for several beside each other
_TAG = re.compile("<[^>]*>")
_MOST_IN_A_LINE = 3  # columns of a table that a narrow screen has room for


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Html]],
    *,
    numbers: Collection[int] = (),
    kind: str = "",
) -> Html:
    """Return rows under headed columns; ``numbers`` are set right, ``kind`` is for styles."""
    kinds = ["number" if place in numbers else "words" for place in range(len(heads))]
    named = zip(heads, kinds, strict=True)
    head = element("tr", *(element("th", name, scope="col", class_=kind) for name, kind in named))
    # A narrow screen has a row of many cells as a list of these, each below its name.
    is_wide = len(heads) > _MOST_IN_A_LINE
    names = [_TAG.sub("", name) if is_wide else "" for name in heads]
    body = [element("tr", *map(_cell, row, kinds, names)) for row in rows]
    parts = (element("caption", caption), element("thead", head), element("tbody", *body))
    look = " ".join(filter(None, ("table", "wide" if is_wide else "", kind)))
    return element("div", element("table", *parts), class_=look)


def _cell(cell: Html, kind: str, name: str) -> Html:
    named = {"data_of": html.unescape(name)} if name else {}
    has_long = len(_TAG.sub("", cell)) > WIDE_CELL
    return element("td", cell, class_=f"{kind} long" if has_long else kind, **named)


def facts(pairs: Iterable[tuple[str, Html]]) -> Html:
    """Return values under their labels, side by side as far as there is room.

    >>> facts([("Rule", isolated("Ceiling"))])
    '<dl><div><dt><bdi>Rule</bdi></dt><dd><bdi>Ceiling</bdi></dd></div></dl>'
    """
    made = []
    for label, value in pairs:
        kind = {"class_": "long"} if len(_TAG.sub("", value)) > _LONG else {}
        made.append(element("div", element("dt", isolated(label)), element("dd", value), **kind))
    return element("dl", *made)


def announced(shown: int, total: int, kind: str, *, which: str = "Top ") -> str:
    """Return how many there are, and how many of them are shown.

    >>> announced(20, 153, "findings"), announced(1, 1, "findings")
    ('Top 20 of 153 findings shown', '1 finding')
    """
    there = counted(total, kind)
    return there if shown >= total else f"{which}{format_count(shown)} of {there} shown"


def nothing(sentence: str) -> Html:
    """Return what stands where a section has nothing to show.

    >>> nothing("No findings.")
    '<p class="nothing">No findings.</p>'
    """
    return element("p", sentence, class_="nothing")


def moment(time_ms: int, *, zone: str = " UTC") -> Html:
    """Return a time as a ``time`` element; a column may say the zone.

    >>> moment(1_442_052_000_000)
    '<time datetime="2015-09-12T10:00:00+00:00">2015-09-12 10:00 UTC</time>'
    """
    said = f"{moment_text(time_ms).removesuffix(' UTC')}{zone}"
    try:
        return element("time", said, datetime=moment_of(time_ms).isoformat())
    except OverflowError:  # a year that there is no date of
        return text(moment_text(time_ms))


def period(start_ms: int, end_ms: int) -> Html:
    """Return the time from ``start_ms`` to ``end_ms``; the day is said once if it is one.

    >>> period(1_442_052_000_000, 1_442_055_600_000)
    '<span class="time">2015-09-12 10:00 to 11:00 UTC</span>'
    """
    start, end = moment_text(start_ms), moment_text(end_ms)
    day = start[:11] if start.endswith("UTC") else ""
    said = f"{start.removesuffix(' UTC')} to {end.removeprefix(day)}"
    return element("span", said, class_="time")


def shown_path(path: str | Path) -> str:
    """Return a path as a reader elsewhere may see it: from this folder, or from the home folder.

    >>> shown_path(Path.home() / "events" / "a.json"), shown_path(Path.cwd() / "a.json")
    ('~/events/a.json', 'a.json')
    """
    place = Path(path)
    for base, said in ((Path.cwd(), ""), (Path.home(), "~/")):
        if place.is_relative_to(base) and place != base:
            return f"{said}{place.relative_to(base)}"
    return str(path)


def quoted_path(path: str | Path) -> str:
    """Return a path for a shell, which must still see the ``~``.

    >>> quoted_path(Path.home() / "my events")
    "~/'my events'"
    """
    said = shown_path(path)
    return f"~/{shlex.quote(said[2:])}" if said.startswith("~/") else shlex.quote(said)
