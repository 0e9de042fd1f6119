"""A slider beside a labelled list of the same values, which has what a slider of ipywidgets lacks.

The handle of one has no name for a program that reads the page aloud: its label is tied to nothing
that can have the focus. So the keyboard and such programs get the list, and the mouse both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipywidgets import Dropdown, HBox, Layout, SelectionSlider
from traitlets import dlink, link

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


SLIDER_STYLE = """
.kst-slider .noUi-handle { visibility: hidden; }
.kst-slider .noUi-touch-area { visibility: visible; box-sizing: border-box; border-radius: 50%;
  border: 1px solid var(--jp-border-color1, #bdbdbd);
  background: var(--jp-layout-color1, #ffffff); }
.kst-slider .noUi-handle:hover > .noUi-touch-area, .kst-slider .noUi-active > .noUi-touch-area {
  background: var(--jp-brand-color1, #2196f3); }
"""
"""The handle, hidden, can't have the focus; what of it the mouse takes hold of is drawn instead."""


class Slider(HBox):  # type: ignore[misc] # ipywidgets carries no types
    """One of some values, chosen from a list that has a label, or by a slider.

    Parameters
    ----------
    options
        What is shown of each value, and the value.
    label
        What it is.
    tooltip
        What more there is to say of it.
    look
        Style and layout of the list.
    continuous_update
        Whether values count on the way of the slider, too.

    Examples
    --------
    >>> size = Slider([("1 MiB", 1 << 20), ("2 MiB", 1 << 21)], "Memtable size")
    >>> size.choice.value = 1 << 21
    >>> size.slider.index
    1
    >>> size.slider.index = 0
    >>> size.choice.label
    '1 MiB'
    >>> size.close()
    """

    def __init__(
        self,
        options: Sequence[tuple[str, int]],
        label: str,
        *,
        tooltip: str = "",
        look: dict[str, Any] | None = None,
        continuous_update: bool = True,
    ) -> None:
        self.choice = Dropdown(options=options, description=label, tooltip=tooltip, **(look or {}))
        self.slider = SelectionSlider(
            options=options,
            readout=False,
            continuous_update=continuous_update,
            layout=Layout(width="144px", min_width="96px"),
        )
        self.slider.add_class("kst-slider")
        dlink((self.choice, "options"), (self.slider, "options"))
        link((self.choice, "index"), (self.slider, "index"))
        super().__init__([self.choice, self.slider])
