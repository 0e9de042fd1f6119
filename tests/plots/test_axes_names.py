from __future__ import annotations

from unicodedata import category

from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from kstoolkit.markup import _UNSEEN
from kstoolkit.plots.axes import shown
from tests.plots.made import HOSTILE, drawn


@given(st.text(max_size=200), st.integers(3, 40))
def test_a_name_is_never_longer_than_told_and_all_of_it_can_be_seen(name: str, most: int) -> None:
    told = shown(name, most)
    assert len(told) <= most
    # Zero-width joiners stay: Persian words and joined emoji need them.
    assert (
        not {category(each) for each in told.replace("\u200c", "").replace("\u200d", "")} & _UNSEEN
    )


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=28))
def test_a_short_plain_name_stays_as_it_is(name: str) -> None:
    assert shown(name) == name


def test_what_the_font_lacks_is_shown_by_its_code_point() -> None:
    assert shown("名") == "[U+540D]"


def test_hostile_names_are_drawn_without_a_warning() -> None:
    axes = Figure().add_subplot()
    for name in HOSTILE:
        axes.text(0.5, 0.5, shown(name), parse_math=False)
    drawn(axes)
    assert next(text.get_text() for text in axes.texts) == r"$\frac{"
