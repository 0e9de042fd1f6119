from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots import palette
from kstoolkit.plots.users import plot_counts
from kstoolkit.replica.records import UserCounts
from kstoolkit.report.figures import _LARGEST_SVG_BYTES, _VARIABLES
from kstoolkit.report.report import Report
from tests.report.pages import HOSTILE, Page, check_harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def axes(**options: Any) -> Axes:
    return Figure(figsize=(4, 2), **options).add_subplot()


def html_of(ax: Axes | Figure) -> str:
    html = Report("Told").add(ax).html()
    check_harmless(Page(html))
    return html


def drawn(html: str) -> str:
    return html[html.index("<svg") : html.index("</svg>")]


def test_axes_are_drawn_as_lines_with_their_texts_and_called_by_their_title() -> None:
    ax = axes()
    ax.plot([1, 2], label="a line")
    ax.set(title="Two points", xlabel="time", ylabel="bytes")
    ax.legend()
    page = Page(html_of(ax))
    (svg,) = [attrs for tag, attrs in page.elements if tag == "svg"]
    assert svg["aria-label"] == "Two points"
    assert all(each in page.text for each in ("Two points", "time", "bytes", "a line"))
    assert '<h2 id="plot-title"><bdi>Two points</bdi></h2>' in page.html


def test_a_figure_of_several_axes_is_drawn_whole() -> None:
    figure = Figure()
    for number, ax in enumerate(figure.subplots(1, 2), 1):
        ax.set_title(f"Half {number}", loc="left")
    figure.suptitle("Whole")
    page = Page(html_of(figure))
    assert "Whole · Half 1 · Half 2" in page.values("aria-label")


def test_axes_of_pyplot_are_drawn_and_stay_open() -> None:
    figure, ax = plt.subplots()
    ax.plot([1, 2])
    assert "<svg" in html_of(ax)
    assert plt.get_fignums() == [figure.number]


def test_axes_that_were_removed_are_refused() -> None:
    ax = axes()
    ax.remove()
    with pytest.raises(ConfigurationError, match="in no figure"):
        Report("x").add(ax)


def test_a_transparent_figure_takes_the_colours_of_the_page() -> None:
    ax = axes(facecolor="none")
    ax.patch.set_alpha(0)
    ax.bar([1, 2], [3, 4], color=palette.COUNTED)
    ax.axhline(2, color="black")
    svg = drawn(html_of(ax))
    assert "var(--counted)" in svg
    assert "currentColor" in svg
    assert not re.search("#000000|#0072b2", svg)


def test_a_figure_with_a_face_of_its_own_keeps_its_colours() -> None:
    ax = axes(facecolor="white")
    ax.bar([1], [3], color=palette.COUNTED)
    svg = drawn(html_of(ax))
    assert palette.COUNTED in svg
    assert "var(--counted)" not in svg
    assert 'class="card"' in svg


def test_hatches_are_kept_in_the_colours_of_the_page() -> None:
    ax = axes(facecolor="none")
    ax.bar([1], [3], facecolor=palette.FLAGGED, edgecolor=palette.INK, hatch="///")
    html = html_of(ax)
    (pattern,) = re.findall(r"<pattern .*?</pattern>", html, re.DOTALL)
    (name,) = re.findall(r'<pattern [^>]*id="([^"]*)"', html)
    assert f"url(#{name})" in html
    assert "var(--flagged)" in pattern
    assert palette.FLAGGED not in pattern


def test_every_colour_of_the_palette_is_a_variable_with_a_light_and_a_dark_value() -> None:
    names = {value[4:-1] for value in _VARIABLES.values() if value.startswith("var(")}
    assert {"--counted", "--expected", "--flagged"} <= names
    held = set(re.findall("#[0-9a-f]{6}", repr(vars(palette))))
    assert _VARIABLES.keys() == held
    for values in colors_of_the_page():
        assert len({values[name] for name in names}) == len(names)


@pytest.mark.parametrize(("ground", "scheme"), [("#ffffff", 0), ("#14171b", 1)])
def test_the_colours_of_plots_stand_out_from_the_ground(ground: str, scheme: int) -> None:
    values = colors_of_the_page()[scheme]
    assert values["--page"] == ground
    for value in _VARIABLES.values():
        if value.startswith("var("):
            assert contrast(values[value[4:-1]], ground) >= 2.99, value


def colors_of_the_page() -> list[dict[str, str]]:
    """Return the variables of the style sheet that are colours: for light, and for dark."""
    html = Report("x").add("text").html()
    style = html[html.index("<style>") : html.index("</style>")]
    light, dark = re.findall(r":root {([^}]*)}", style)
    return [dict(re.findall(r"(--\w+): (#[0-9a-f]{6});", each)) for each in (light, dark)]


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(color) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    parts = np.frombuffer(bytes.fromhex(color[1:]), np.uint8) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_what_would_be_very_many_lines_is_a_picture_and_the_page_says_so() -> None:
    ax = axes()
    points = np.random.default_rng(1).random((2, 6_000))
    ax.scatter(points[0], points[1], c=points[0])
    ax.set_title("Many points")
    html = html_of(ax)
    page = Page(html)
    assert "<svg" not in html
    assert "Shown as a picture: as lines it would take" in page.text
    assert page.values("alt") == ["Many points"]
    assert len(html) < 4 * _LARGEST_SVG_BYTES


def test_an_image_inside_a_plot_is_held_by_the_page() -> None:
    ax = axes()
    ax.imshow(np.arange(9).reshape(3, 3))
    assert 'href="data:image/png;base64,' in drawn(html_of(ax))


WRITTEN = [each.replace("$", r"\$") for each in HOSTILE]


@pytest.mark.parametrize("text", [each for each in WRITTEN if "\ud800" not in each])
def test_hostile_text_stays_text_in_every_place_of_a_plot(text: str) -> None:
    ax = axes()
    ax.plot([1, 2], label=f"a{text}")
    ax.set(title=text, xlabel=text, ylabel=text)
    ax.set_xticks([0, 1], [text, text])
    ax.annotate(text, (0, 1))
    ax.legend()
    html = html_of(ax)
    html.encode()
    assert not set("\x00\x07\x1b\u202e\u2066") & set(html)
    assert "<script" not in html
    assert ax.get_title() == text


def test_letters_that_the_figures_font_lacks_are_no_warning_and_stay_text() -> None:
    ax = axes()
    ax.set_title("名前")
    assert "名前" in Page(html_of(ax)).text


def test_a_formula_that_is_none_is_the_users_mistake() -> None:
    ax = axes()
    ax.set_title(r"$\frac{$")
    with pytest.raises(ConfigurationError, match="can't be drawn") as caught:
        Report("x").add(ax)
    assert "parse_math=False" in (caught.value.hint or "")


def test_half_a_character_which_matplotlib_draws_nowhere_is_a_sentence() -> None:
    ax = axes()
    ax.set_title("\ud800 alone")
    with pytest.raises(ConfigurationError, match="a lone surrogate"):
        Report("x").add(ax)


def test_figures_share_no_ids() -> None:
    report = Report("x")
    for _ in range(3):
        ax = axes()
        ax.plot([1, 2], marker="o")
        report.add(ax)
    check_harmless(Page(report.html()))


def test_a_figure_is_no_wider_than_it_was_meant() -> None:
    small = drawn(html_of(axes()))
    assert "--width: 488px" in small


def test_a_plot_of_the_package_can_be_added_itself() -> None:
    ax = plot_counts(UserCounts("Anna", 0, 60_000, {"read": 61}, 0))
    assert "Anna: 61 in 1 minute from 1970-01-01 00:00 UTC" in Page(html_of(ax)).text
