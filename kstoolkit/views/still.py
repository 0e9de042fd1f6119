"""Parts as HTML that stands still: what is shown where no script runs, and nothing else is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.markup import Html, element, isolated, joined, text
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kstoolkit.views.parts import Part

_MOST_ROWS = 20
_LEFT = "text-align: left"  # where no style is let through, a page's own would set them right


def still(part: Part) -> Html:
    """Return a part as HTML; of a long table the first rows, which is said.

    >>> from kstoolkit.views.parts import said
    >>> still(said("No <findings>."))
    '<p>No &lt;findings&gt;.</p>'
    """
    draw = _DRAWN.get(part.get("kind", ""))
    return Html() if draw is None else draw(part)


def _buttons(part: Part) -> Html:
    told = ([each["label"]] for each in part["buttons"])
    return _text_table([[part["label"]], *told]) if part["head"] else Html()


def _tile(tile: Part) -> list[str]:
    return [tile["label"], "; ".join(filter(None, (tile["text"], tile["note"])))]


def _facts(part: Part) -> Html:
    return joined(_text_table([["what", "figure"], *part["rows"]]), _unknown(part))


def _unknown(part: Part) -> Html:
    """Return what of a part is unknown, and why."""
    listed = [element("li", isolated(each, 600)) for each in part.get("unknown", ())]
    return joined(element("p", f"{part['lacks']}:"), element("ul", *listed)) if listed else Html()


def _card(card: Part) -> Html:
    said = _text_table([["what", "said"], *(each[:2] for each in card["rows"])])
    return joined(element("h5", isolated(card["title"], 300)), said)


def _table(part: Part) -> Html:
    columns = [e for e in part["columns"] if e["kind"] != "spans" and not e.get("hidden")]
    if not part["rows"]:
        return element("p", f"No {part['noun']}.")
    shown = min(part["rows"], _MOST_ROWS)
    cells = [[_cell(each, row) for each in columns] for row in range(shown)]
    for row, depth in zip(cells, part.get("depths", ()), strict=False):
        row[0] = "\N{EM SPACE}" * depth + row[0]
    number = counted(part["leaves"] if "leaves" in part else part["rows"], part["noun"])
    note = f"the first {shown} of {number}" if shown < part["rows"] else number
    return joined(_text_table([[each["label"] for each in columns], *cells], note), _unknown(part))


def _cell(column: Part, row: int) -> str:
    if "texts" in column:
        figure: str = column["texts"][row]
        return figure
    if column["kind"] == "number":
        value = column["values"][row]
        return "" if value is None else format_count(value)
    told: str = column["words"][column["codes"][row]]
    return told


def _picture(part: Part) -> Html:
    """Return a picture; on a small screen the one that is made for it, where that may be asked."""
    drawn = element("img", **{name: part[name] for name in ("src", "alt", "width")})
    if "narrow" not in part:
        return drawn
    narrow = element("source", media="(max-width: 900px)", srcset=part["narrow"])
    return element("picture", narrow, drawn)


def _form(part: Part) -> Html:
    told = [[each["label"], _value(each)] for each in part["fields"] if not each.get("hidden")]
    return _text_table([["choice", "value"], *told])


def _value(field: Part) -> str:
    if field["type"] == "tick":
        return "yes" if field["value"] else "no"
    texts = dict(map(tuple, field.get("options", ())))
    return str(texts.get(field["value"], field["value"]))


def _bars(part: Part) -> Html:
    rows = [
        [
            bar["label"],
            bar["text"],
            "; ".join(f"{each['label']}: {each['text']}" for each in bar["parts"]),
        ]
        for bar in part["bars"]
    ]
    note = part["limit"]["text"] if "limit" in part else ""
    return _text_table([["what", "in all", "of it"], *rows], note)


def _lines(part: Part) -> Html:
    ends = [[each["label"], *(texts[-1] for texts in each["texts"])] for each in part["charts"]]
    heads = ["at the end", *(each["label"] for each in part["courses"])]
    told = [_text_table([heads, *ends])] if ends else []
    return joined(*told, *(element("p", each) for each in part.get("alike", ())))


def _text_table(rows: Sequence[Iterable[str]], note: str = "") -> Html:
    """Return rows of texts as a table, of which the first has the heads; long ones lose middles."""
    head = element("tr", *(element("th", name, scope="col", style=_LEFT) for name in rows[0]))
    body = [
        element("tr", *(element("td", isolated(each, 1_000), style=_LEFT) for each in row))
        for row in rows[1:]
    ]
    caption = [element("caption", note)] if note else []
    made = element("table", *caption, element("thead", head), element("tbody", *body))
    return element("div", made, class_="kst-scrolls")


_DRAWN: dict[str, Callable[[Part], Html]] = {
    "table": _table,
    "sentence": lambda part: element(
        "p", *(isolated(told) if is_name else told for told, is_name in part["told"])
    ),
    "said": lambda part: element("p", part["text"]),
    "badge": lambda part: element("p", part["text"]),
    "tiles": lambda part: _text_table([["what", "figure"], *map(_tile, part["tiles"])]),
    "buttons": _buttons,
    "facts": _facts,
    "cards": lambda part: joined(*map(_card, part["cards"])),
    "picture": _picture,
    "form": _form,
    "code": lambda part: element("pre", text(part["text"], keep="\n")),
    "bars": _bars,
    "lines": _lines,
}
