"""What panels show: a plot, a table, a line of text; never markup from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipywidgets import HTML

from kstoolkit.markup import Html, element, isolated, joined, text
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes


LONGEST_CELL = 120


class Shown(HTML):  # type: ignore[misc] # ipywidgets carries no types
    """A place for one plot, table or sentence at a time; what it shows is kept for static pages.

    Examples
    --------
    >>> shown = Shown()
    >>> shown.say("no <b>findings</b>")
    >>> shown.value
    '<p role="status">no &lt;b&gt;findings&lt;/b&gt;</p>'
    >>> shown.close()
    """

    def say(self, sentence: str) -> None:
        """Show a sentence, in one line."""
        self.value = element("p", " ".join(sentence.split()), role="status")

    def draw(
        self,
        draw: Callable[[Axes | None], object],
        size_inches: tuple[float, float] | None = None,
    ) -> None:
        """Show a plot: ``record.plot``, at the size that suits it or at another."""
        from kstoolkit.plots.axes import picture  # noqa: PLC0415 - draws: only when asked

        self.value = picture(draw, size_inches).html()

    def tabulate(
        self,
        names: Sequence[str],
        rows: Iterable[Sequence[object]],
        note: str = "",
        longest: int = LONGEST_CELL,
    ) -> None:
        """Show a table; ``note`` says what was left out."""
        self.value = table_html(names, rows, note, longest)

    def put(self, html: Html) -> None:
        """Show markup that is safe as it stands."""
        self.value = html

    def html(self) -> Html:
        """Return what is shown."""
        return Html(self.value)


def table_html(
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    note: str = "",
    longest: int = LONGEST_CELL,
) -> Html:
    """Return a table of texts; long ones lose their middle, whole numbers get separators.

    Examples
    --------
    >>> table_html(["user", "count"], [("<anna>", 1200)])[-88:]
    '<tr><td><bdi>&lt;anna&gt;</bdi></td><td><bdi>1,200</bdi></td></tr></tbody></table></div>'
    """
    head = element("tr", *(element("th", name, scope="col") for name in names))
    body = [element("tr", *(element("td", _cell(each, longest)) for each in row)) for row in rows]
    caption = [element("caption", text(note))] if note else []
    table = element("table", *caption, element("thead", head), element("tbody", joined(*body)))
    return element("div", table, class_="kst-scrolls")


def _cell(value: object, longest: int) -> Html:
    whole = isinstance(value, int) and not isinstance(value, bool)
    shown = format_count(value) if whole else "" if value is None else str(value)  # type: ignore[arg-type]
    return isolated(shown, longest)
