from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib import rcParams, style
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import beside_pyplot, captioned, new_axes, picture
from kstoolkit.plots.palette import LINES
from kstoolkit.plots.users import plot_counts
from kstoolkit.replica.records import UserCounts


def drawn(ax: Any = None) -> Any:
    return plot_counts(UserCounts("Anna", 0, 60_000, {"read": 7, "write": 9}, 0), ax=ax)


@pytest.mark.parametrize(
    "ax",
    [Figure(), "x", Figure().add_subplot(projection="3d"), Figure().subplots(2)],
    ids=["a figure", "text", "three dimensions", "several"],
)
def test_what_nothing_can_be_drawn_on_is_refused(ax: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"ax is {type(ax).__name__}") as raised:
        drawn(ax)
    assert raised.value.hint == "Give Axes of two dimensions: figure.subplots()."


def test_a_plot_has_a_ground_of_its_own_but_on_a_page() -> None:
    figure = drawn().figure
    assert corner(figure) == [1, 1, 1, 1]
    plt.close(figure)
    with beside_pyplot():
        assert corner(drawn().figure)[3] == 0


def test_a_picture_is_as_large_as_its_text_says_where_there_is_room() -> None:
    wide = picture(drawn)
    narrow = picture(lambda _: drawn(new_axes(size_inches=(3.0, 2.0))))
    assert wide.endswith('style="width: 691px; max-width: 100%">')
    assert narrow.endswith('style="width: 288px; max-width: 100%">')


def corner(figure: Figure) -> list[float]:
    """Return the colour of the first pixel: red, green, blue, opacity."""
    target = io.BytesIO()
    figure.savefig(target, format="png")
    target.seek(0)
    return [float(each) for each in np.asarray(imread(target))[0, 0]]


@pytest.mark.parametrize("layout", ["constrained", None])
def test_what_is_said_of_narrow_axes_is_folded_to_their_width(layout: Any) -> None:
    figure = Figure(figsize=(12, 4), layout=layout)
    left, middle, _ = figure.subplots(1, 3)
    notes = ["a note of several words " * 8]
    captioned(new_axes(middle), "a title of several words " * 4, x="time, UTC", notes=notes)
    figure.draw_without_rendering()
    assert middle.get_xlabel().count("\n") > 2
    for text in (middle._left_title, middle.xaxis.label):
        assert text.get_window_extent().width < 1.2 * middle.bbox.width
        assert not text.get_window_extent().overlaps(left.bbox)


def test_plots_of_others_take_the_style_that_these_have() -> None:
    with style.context("kstoolkit.plots.kstoolkit"):
        ax: Any = pd.Series([1, 3, 2], name="counts").plot(title="Counts")
        colors = rcParams["axes.prop_cycle"].by_key()["color"]
    ours = drawn()
    for name in ("left", "top"):
        mine, other = ours.spines[name], ax.spines[name]
        assert to_hex(other.get_edgecolor()) == to_hex(mine.get_edgecolor()) or name == "top"
        assert other.get_visible() is mine.get_visible()
    assert ax.get_title(loc="left") == "Counts"
    assert [to_hex(f"#{each.strip('#')}") for each in colors] == [each for each, *_ in LINES]
    plt.close("all")
