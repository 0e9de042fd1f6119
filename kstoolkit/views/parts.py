"""The parts of a view, as plain values for JSON, and the script and style that draw them.

A part says what it is by its ``kind``; the script knows each of them, and a column of a table by
its own ``kind``. Texts from the data are sent once each, with rows naming them by number, and with
what would be unseen shown by its code point: a name can't forge another, nor be read as markup.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.markup import plain, shortened
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

Part = dict[str, Any]
"""What is drawn in one place of a view; an empty one is nothing."""

_LONGEST_WORD = 120
_LETTER_EM, _FIGURE_EM, _HEAD_EM = 0.55, 0.1, 0.62
"""How wide a letter is, by how much more a figure is, and how wide a head's letter is."""
_LARGEST = 2**53 - 1
"""What JavaScript's numbers hold exactly."""


@cache
def source(name: str) -> str:
    """Return the script or the style as a text: ``"view.js"``, ``"view.css"``."""
    return files("kstoolkit.views").joinpath(name).read_text(encoding="utf-8")


def seen(name: str, longest: int = _LONGEST_WORD) -> str:
    r"""Return a text from the data as a reader may be shown it, in one line.

    >>> seen("Anna"), seen("An\u202ena"), seen("x" * 40, 4)
    ('Anna', 'An[U+202E]na', 'xx […36 characters left out…] xx')
    """
    told = name if len(name) <= longest else shortened(name, longest)
    return told if told.isprintable() else plain(told)


def whole(numbers: NDArray[np.int64]) -> list[int]:
    """Return whole numbers as they can be sent."""
    told: list[int] = np.clip(numbers, -_LARGEST, _LARGEST).tolist()
    return told


def coded(names: pa.ChunkedArray | pa.Array | Sequence[str]) -> dict[str, Any]:
    """Return texts as the different ones, in the order in which they come, and a number for each.

    >>> coded(pa.array(["b", None, "b"]))
    {'words': ['b', ''], 'codes': [0, 1, 0]}
    >>> coded(["b", "b"])
    {'words': ['b'], 'codes': [0, 0]}
    """
    if not isinstance(names, pa.ChunkedArray | pa.Array):  # a few, without what Arrow loads
        places = {name: code for code, name in enumerate(dict.fromkeys(names))}
        return {"words": [*map(seen, places)], "codes": [places[each] for each in names]}
    column = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    encoded = pc.fill_null(column, "").dictionary_encode()
    words = [seen(each) for each in encoded.dictionary.to_pylist()]
    return {"words": words, "codes": encoded.indices.to_pylist()}


def width_of(label: str, texts: Iterable[str]) -> str:
    """Return how wide a column is: as its texts want it, the more room the more they have to say.

    >>> width_of("user", ["Anna", "Bo"]), width_of("path", ["x" * 90])
    ('minmax(4.0em, 6fr)', 'minmax(14.0em, 40fr)')
    """
    widest = max(texts, key=len, default="")
    em = _LETTER_EM * len(widest) + _FIGURE_EM * sum(map(str.isdecimal, widest))
    longest = max(len(widest), len(label) + 1)
    wanted = min(max(em, _HEAD_EM * len(label) + 0.4, 4), 14)
    return f"minmax({wanted:.1f}em, {min(max(longest, 6), 40)}fr)"


def words(label: str, names: pa.ChunkedArray | pa.Array | Sequence[str], **how: Any) -> Part:
    """Return a column of texts; a ``"badge"`` if ``kind`` says so."""
    told = coded(names)
    made = {"kind": "text", "name": label, "label": label, "width": width_of(label, told["words"])}
    return made | told | how


def numbers(label: str, values: NDArray[np.int64], **how: Any) -> Part:
    """Return a column of whole numbers; ``texts`` are what is shown of them."""
    told = how.get("texts") or [format_count(max(whole(values), default=0))]
    made = {"kind": "number", "name": label, "label": label, "width": width_of(label, told)}
    return made | {"values": whole(values)} | how


def sentence(told: str, *names: str, tone: str = "large") -> Part:
    """Return a sentence, with the first of each of the names in it apart: none turns the rest.

    >>> sentence("Anna did read.", "Anna", "read")["told"]
    [['Anna', True], [' did ', False], ['read', True], ['.', False]]
    """
    parts: list[list[Any]] = []
    for name in names:
        before, found, after = told.partition(name) if name else (told, "", "")
        if found:
            parts += [[seen(before, 600), False], [seen(name), True]]
            told = after
    parts.append([seen(told, 600), False])
    return {"kind": "sentence", "tone": tone, "told": [each for each in parts if each[0]]}


def said(told: str, share: float | None = None) -> Part:
    """Return a line that says how it stands, and which share of it is done; nothing if nothing."""
    text = seen(" ".join(told.split()), 600)
    return {"kind": "said", "text": text, "share": share} if told else {}


def badge(text: str, tone: str) -> Part:
    """Return how something stands, in a word or two."""
    return {"kind": "badge", "text": seen(text, 300), "tone": tone}


def facts(rows: Iterable[tuple[str, str]]) -> Part:
    """Return figures below what they are of."""
    told = [[seen(what), seen(figure, 1_000)] for what, figure in rows]
    return {"kind": "facts", "rows": told} if told else {}


def buttons(label: str, *made: Part, head: bool = False) -> Part:
    """Return buttons beside each other, below their label if ``head``.

    Each has a ``label``, and may have a ``name``, ``title``, ``disabled`` and ``pressed``.
    """
    return {"kind": "buttons", "label": label, "head": head, "buttons": list(made)} if made else {}


def picture(src: str, alt: str, width: int, narrow: str = "") -> Part:
    """Return a picture, what it shows in words, its CSS width; ``narrow`` is for small screens."""
    drawn = {"kind": "picture", "src": src, "alt": seen(alt, 300), "width": width}
    return drawn | ({"narrow": narrow} if narrow else {})


def cards(texts: Iterable[str]) -> Part:
    """Return texts of several lines as cards: the first is the title, others ``what: said``."""
    told = []
    for each in texts:
        first, *others = each.splitlines()
        rows = [line.strip().partition(": ") for line in others]
        facts = [[seen(what), seen(said, 600), _deed(what, said)] for what, _, said in rows]
        told.append({"title": seen(first, 300), "rows": facts})
    return {"kind": "cards", "cards": told} if told else {}


def _deed(what: str, said: str) -> str:
    is_link = said.startswith("https://") and not set(said) & set(" \"'<>")
    return "link" if is_link else "copy" if what in {"set", "run"} else ""


def table(label: str, noun: str, columns: Sequence[Part], **how: Any) -> Part:
    """Return a table of columns, all of which have as many rows.

    ``how`` may say ``search`` (names of columns of texts that are searched), ``chips`` (words that
    rows or their spans are chosen by), ``hint`` (of the search), ``chosen`` (a row).
    """
    first = columns[0]
    rows = len(first["codes"] if "codes" in first else first["values"])
    return {
        "kind": "table",
        "label": label,
        "noun": noun,
        "one": counted(1, noun)[2:],
        "rows": rows,
        "columns": list(columns),
        **how,
    }


def sizes(label: str, values: Sequence[int], **how: Any) -> Part:
    """Return a column of sizes, each with a bar as long as its part of the largest."""
    column = numbers(label, np.asarray(values, np.int64), **how)
    most = max(column["values"], default=0) or 1
    return column | {"kind": "size", "most": most, "texts": [format_bytes(each) for each in values]}


def field(name: str, label: str, value: object, **how: Any) -> Part:
    """Return a field of a form: ``"text"``, or by ``type`` ``"choice"``, ``"slider"``, ``"tick"``.

    ``options`` are pairs of a value and its text, of a choice or a slider; ``hint`` stands where
    nothing is typed; ``hidden``, ``disabled`` are as they say. Of a ``live`` one it is told what is
    typed, too, before it is done.
    """
    return {"name": name, "label": label, "value": value, "type": "text"} | how


def form(label: str, *fields: Part) -> Part:
    """Return fields beside each other, in as many lines as they need."""
    return {"kind": "form", "label": label, "fields": list(fields)}


def tabs(label: str, names: Iterable[str], chosen: str) -> Part:
    """Return what is chosen from, one at a time."""
    made = [{"name": each, "label": each} for each in names]
    return {"kind": "tabs", "label": label, "tabs": made, "chosen": chosen}


def code(label: str, text: str, *, wraps: bool = True) -> Part:
    """Return a text as it stands, to be copied; long lines are broken, or else are scrolled."""
    told = "\n".join(map(plain, text.split("\n")))
    return {"kind": "code", "label": label, "text": told, "wraps": wraps}


def bars(
    label: str,
    rows: Iterable[tuple[str, str, Sequence[tuple[str, float, str]]]],
    limit: tuple[float, str] | None = None,
    **how: Any,
) -> Part:
    """Return bars of parts beside each other: a label, what it is in all, (name, value, text) each.

    Parts of one name have one colour. ``limit`` is a value that they stand against, and its text.
    ``how`` may say ``most`` (what bars reach to, at least).
    """
    tones: dict[str, int] = {}
    told = []
    for name, text, parts in rows:
        made = [
            {"tone": tones.setdefault(each, len(tones) % 7), "label": seen(each)}
            | {"value": value, "text": seen(said)}
            for each, value, said in parts
        ]
        told.append({"label": seen(name), "text": seen(text, 300), "parts": made})
    key = [[tone, seen(name)] for name, tone in tones.items()]
    drawn = {"kind": "bars", "label": label, "bars": told, "key": key, **how}
    return drawn | ({"limit": {"value": limit[0], "text": limit[1]}} if limit else {})


Point = tuple[float, str] | None
"""A value, and its text; None where it is unknown."""


def lines(
    label: str,
    courses: Iterable[tuple[str, Sequence[float]]],
    charts: Iterable[tuple[str, Sequence[Sequence[Point]]]],
    **how: Any,
) -> Part:
    """Return charts of the same courses, over one axis, with one line through all.

    A course has a name, and where its points lie; a chart its label, and each course's points.
    ``how`` may say ``unit`` (of the axis), ``log`` (both axes are), ``at`` (where one stands),
    ``alike`` (sentences, instead of charts that would show nothing).

    >>> made = lines("Costs", [("a", [0, 1])], [("disk", [[(1, "1 B"), None]])])
    >>> made["charts"][0]["values"], made["charts"][0]["texts"]
    ([[1, None]], [['1 B', 'unknown']])
    """
    told = [
        {
            "label": seen(name),
            "values": [[each and each[0] for each in points] for points in drawn],
            "texts": [[each[1] if each else "unknown" for each in points] for points in drawn],
        }
        for name, drawn in charts
    ]
    made = [{"label": seen(name, 40), "xs": list(xs)} for name, xs in courses]
    return {"kind": "lines", "label": label, "courses": made, "charts": told, **how}
