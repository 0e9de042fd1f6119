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


def still(part: Part) -> Html:
    """Return a part as HTML; of a long table the first rows, which is said.

    Examples
    --------
    >>> from kstoolkit.views.parts import said
    >>> still(said("No <findings>."))
    '<p>No &lt;findings&gt;.</p>'
    """
    draw = _DRAWN.get(part.get("kind", ""))
    return Html() if draw is None else draw(part)


def _sentence(part: Part) -> Html:
    told = (isolated(text) if is_name else text for text, is_name in part["told"])
    return element("p", *told)


def _tiles(part: Part) -> Html:
    rows = [
        [each["label"], "; ".join(filter(None, (each["text"], each["note"])))]
        for each in part["tiles"]
    ]
    return text_table([["what", "figure"], *rows])


def _buttons(part: Part) -> Html:
    told = ([each["label"]] for each in part["buttons"])
    return text_table([[part["label"]], *told]) if part["head"] else Html()


def _said(part: Part) -> Html:
    return element("p", part["text"])


def _facts(part: Part) -> Html:
    unknown = [element("li", isolated(each, 600)) for each in part.get("unknown", ())]
    listed = [element("ul", *unknown)] if unknown else []
    return joined(text_table([["what", "figure"], *part["rows"]]), *listed)


def _cards(part: Part) -> Html:
    return joined(*(_card(each["title"], each["rows"]) for each in part["cards"]))


def _picture(part: Part) -> Html:
    return element("img", src=part["src"], alt=part["alt"], width=part["width"])


def _card(title: str, rows: list[list[str]]) -> Html:
    return joined(
        element("h5", isolated(title, 300)),
        text_table([["what", "said"], *(each[:2] for each in rows)]),
    )


def _table(part: Part) -> Html:
    columns = [each for each in part["columns"] if each["kind"] != "spans"]
    if not part["rows"]:
        return element("p", f"No {part['noun']}.")
    shown = min(part["rows"], _MOST_ROWS)
    cells = [[_cell(each, row) for each in columns] for row in range(shown)]
    number = counted(part["rows"], part["noun"])
    note = f"the first {shown} of {number}" if shown < part["rows"] else number
    return text_table([[each["label"] for each in columns], *cells], note)


def _cell(column: Part, row: int) -> str:
    if "texts" in column:
        figure: str = column["texts"][row]
        return figure
    if column["kind"] == "number":
        value = column["values"][row]
        return "" if value is None else format_count(value)
    told: str = column["words"][column["codes"][row]]
    return told


def _form(part: Part) -> Html:
    told = [[each["label"], _value(each)] for each in part["fields"] if not each.get("hidden")]
    return text_table([["choice", "value"], *told])


def _value(field: Part) -> str:
    if field["type"] == "tick":
        return "yes" if field["value"] else "no"
    texts = dict(map(tuple, field.get("options", ())))
    return str(texts.get(field["value"], field["value"]))


def _code(part: Part) -> Html:
    return element("pre", text(part["text"], keep="\n"))


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
    return text_table([["what", "in all", "of it"], *rows], note)


def _lines(part: Part) -> Html:
    ends = [[each["label"], *(texts[-1] for texts in each["texts"])] for each in part["charts"]]
    heads = ["at the end", *(each["label"] for each in part["courses"])]
    told = [text_table([heads, *ends])] if ends else []
    return joined(*told, *(element("p", each) for each in part.get("alike", ())))


def text_table(rows: Sequence[Iterable[str]], note: str = "", longest: int = 1_000) -> Html:
    """Return rows of texts as a table, of which the first has the heads; long ones lose middles."""
    head = element("tr", *(element("th", name, scope="col") for name in rows[0]))
    body = [
        element("tr", *(element("td", isolated(each, longest)) for each in row)) for row in rows[1:]
    ]
    caption = [element("caption", note)] if note else []
    made = element("table", *caption, element("thead", head), element("tbody", *body))
    return element("div", made, class_="kst-scrolls")


_DRAWN: dict[str, Callable[[Part], Html]] = {
    "table": _table,
    "sentence": _sentence,
    "said": _said,
    "badge": _said,
    "tiles": _tiles,
    "buttons": _buttons,
    "facts": _facts,
    "cards": _cards,
    "picture": _picture,
    "form": _form,
    "code": _code,
    "bars": _bars,
    "lines": _lines,
}
