"""A panel: controls, what they show, and a static picture of it where no widget lives.

A notebook that was saved keeps both. The picture stands in an output of its own, which a style
sheet hides while the panel beside it lives: JupyterLab, trusted or not, GitHub and a converted page
each show one of the two. (One output with both forms doesn't do: a trusted page without a kernel
says "Loading widget..." for ever.)
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn, Self

from IPython.core.getipython import get_ipython
from IPython.display import display
from ipywidgets import HTML, VBox, Widget

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element
from kstoolkit.widgets.slider import SLIDER_STYLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_STYLE = (
    """
.jp-OutputArea:has(.kst-panel) > .jp-OutputArea-child:has(.kst-static) { display: none; }
.kst-panel { max-width: 100%; gap: 6px; }
.kst-panel h4, .kst-static h4 { margin: 2px 0 4px; }
.kst-panel .kst-wraps { flex-flow: row wrap; gap: 4px 12px; align-items: center; }
.kst-panel img, .kst-static img { max-width: 100%; height: auto; }
.kst-panel table, .kst-static table {
  border-collapse: collapse; font-size: 12px; line-height: 1.4; }
.kst-panel th, .kst-panel td, .kst-static.kst-static table th, .kst-static.kst-static table td {
  padding: 2px 10px 2px 0; text-align: left; vertical-align: top; overflow-wrap: break-word; }
.kst-panel .kst-facts td, .kst-static.kst-static table.kst-facts td { overflow-wrap: anywhere; }
.kst-panel .kst-facts td:first-child { white-space: nowrap; }
.kst-panel .kst-scrolls, .kst-static .kst-scrolls { overflow-x: auto; }
.kst-panel caption, .kst-static caption { text-align: left; white-space: nowrap; }
.kst-panel .widget-html, .kst-panel .widget-html-content { min-width: 0; max-width: 100%; }
.kst-panel .widget-html-content { line-height: 1.45; }
.kst-panel .widget-html-content p { margin: 0; }
.kst-panel .widget-html:has(> .widget-html-content:empty) { display: none; }
.kst-panel :focus-visible { outline: 2px solid #0072b2; outline-offset: 1px; }
"""
    + SLIDER_STYLE
)


class Panel:
    """Controls and what they show; displayed by being the last line of a cell.

    Parameters
    ----------
    title
        What the panel is about, as its heading.
    children
        The controls, and what they change.
    static
        Returns what to show instead where no widget lives: the panel's present state as HTML.

    Examples
    --------
    >>> from ipywidgets import IntText
    >>> number = IntText(value=3, description="Number")
    >>> panel = Panel("A number", [number], lambda: element("p", str(number.value)))
    >>> panel
    Panel(A number)
    >>> panel.static_html()
    '<div class="kst-static"><h4>A number</h4><p>3</p></div>'
    >>> panel.close()
    """

    def __init__(self, title: str, children: Sequence[Widget], static: Callable[[], Html]) -> None:
        self.title = title
        self._static = static
        self._held = ExitStack()
        self._place: Any = None  # where the static picture was shown last
        self.is_closed = False
        heading = HTML(element("h4", title))
        self.box = VBox([HTML(element("style", Html(_STYLE))), heading, *children])
        self.box.add_class("kst-panel")

    def on_close(self, end: Callable[[], object]) -> None:
        """Have something ended with the panel: a timer stopped, a store closed."""
        self._held.callback(end)

    def close(self) -> None:
        """End what runs for the panel, free what it holds, and take its controls away.

        Where it was displayed, its last state is shown instead. A second time does nothing.
        """
        if self.is_closed:
            return
        self.is_closed = True
        if self._place is not None:
            self._place.update(self._static_bundle(), raw=True)
        self._held.close()
        for widget in _with_all_below(self.box):
            widget.close()
            for part in (widget.layout, getattr(widget, "style", None)):
                if isinstance(part, Widget):
                    part.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def static_html(self) -> str:
        """Return the present state as HTML that needs neither a kernel nor scripts."""
        return element("div", element("h4", self.title), self._static(), class_="kst-static")

    def __reduce_ex__(self, _: object) -> NoReturn:
        """Refuse to be pickled or copied.

        Raises
        ------
        ConfigurationError
            Always.
        """
        message = f"{type(self).__name__} can't be pickled or copied: it lives in this kernel."
        raise ConfigurationError(message, hint="Keep what it shows; or static_html(), its picture.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title})"

    def _ipython_display_(self) -> None:
        if getattr(get_ipython(), "kernel", None) is None:
            print(self)  # noqa: T201 - a terminal shows text, and once
            return
        if not self.is_closed:
            _display(dict(self.box._repr_mimebundle_()) | {"text/plain": repr(self)})
        self._place = _display(self._static_bundle())

    def _static_bundle(self) -> dict[str, str]:
        static = element("style", Html(_STYLE)) + self.static_html()
        return {"text/html": static, "text/plain": repr(self)}


def _display(bundle: dict[str, Any]) -> object:
    return display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def _with_all_below(widget: Widget) -> list[Widget]:
    below = [each for child in getattr(widget, "children", ()) for each in _with_all_below(child)]
    return [*below, widget]
