"""Plots on a page: as lines where that is small, else as a picture, which the page says.

Lines are an ``svg`` element, a few kilobytes in the page's own font and colours. Each colour of a
plot is a style sheet's variable, with a value for a light and one for a dark ground: each stands
out from its ground by 3 to 1, which is what WCAG 2.2 asks of graphics
(https://www.w3.org/TR/WCAG22/#non-text-contrast).
"""

from __future__ import annotations

import io
import re
import warnings
from base64 import b64encode
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from matplotlib import rc_context, style

from kstoolkit.errors import ConfigurationError
from kstoolkit.markup import Html, element, isolated, plain, shortened
from kstoolkit.plots import palette
from kstoolkit.plots.axes import HIGHER_INCHES, NARROW_INCHES, beside_pyplot, new_axes
from kstoolkit.plots.drawing import draw, drawer
from kstoolkit.report.tables import nothing
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = {*palette.PARTS, *(color for color, *_ in palette.LINES)}
_VARIABLES = {color: f"var(--c{color[1:]})" for color in _COLORS}
_VARIABLES |= {palette.COUNTED: "var(--counted)", palette.EXPECTED: "var(--expected)"}
_VARIABLES |= {palette.FLAGGED: "var(--flagged)", palette.INK: "currentColor"}
"""What stands for each colour of the palette on a page: the style sheet has its values."""

_LARGEST_SVG_BYTES = 300_000
_DPI = 160
_LONGEST_LABEL = 300


# Text stays text: no glyphs in the file, and a reader can select and search it.
_STYLE = {"svg.fonttype": "none", "svg.image_inline": True}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r"#([\w-]+)")
_FONT = re.compile(r"font-family:[^;]*;? ?")
_BLACK = re.compile(r"#000000|#000(?![0-9a-f])|\bblack\b")
_PX_AN_INCH = 122
"""As wide as a figure of 7.2 inches is on a page that has the room."""


def _svg_of(figure: Figure, *, name: str, label: str) -> Html:
    """Return a figure as an ``svg`` element.

    A figure without a face takes the page's ink, and its values of the palette's colours; one that
    brings a face of its own keeps all its colours.
    """
    target = io.StringIO()
    salted: Any = _STYLE | {"svg.hashsalt": name}  # so that no two figures have one id
    with rc_context(salted), warnings.catch_warnings():
        # The browser has its own fonts, and may well have the glyph.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        figure.savefig(target, format="svg", metadata=_NO_METADATA, facecolor="auto")
    # No XML holds control characters, and a mark that turns text would turn more than its own.
    seen = "\n".join(map(plain, target.getvalue().split("\n")))
    root = ET.fromstring(seen)  # noqa: S314 - drawn a moment ago, not received
    for parent in list(root.iter()):
        for child in [each for each in parent if _local(each.tag) in {"metadata", "style"}]:
            parent.remove(child)
    has_face = figure.patch.get_visible() and figure.get_facecolor()[-1] != 0
    colors = {} if has_face else _VARIABLES
    for node in root.iter():
        node.tag = _local(node.tag)
        node.attrib = _tidied(node.attrib, colors)
        node.tail = None
        node.text = node.text if node.tag in {"text", "tspan"} else None
    used = set(_REFERENCE.findall(ET.tostring(root, encoding="unicode")))
    for node in root.iter():
        if node.get("id") not in used:
            node.attrib.pop("id", None)
    width = figure.get_size_inches()[0] * _PX_AN_INCH
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": plain(label),
        "class": "plain" if colors else "card",
        "style": f"--width: {width:.0f}px",
    }
    return Html(ET.tostring(root, encoding="unicode"))


def _tidied(attributes: dict[str, str], colors: dict[str, str]) -> dict[str, str]:
    tidied = {_local(key): value for key, value in attributes.items()}
    for key in tidied.keys() - {"style", "href"}:
        # A tenth of a point is finer than any screen shows.
        tidied[key] = _NUMBER.sub(lambda number: f"{float(number[0]):.1f}", tidied[key])
    for key in tidied.keys() & {"style", "fill", "stroke"}:  # a hatch's ground is no style
        tidied[key] = _styled(tidied[key], colors)
    return {key: value for key, value in tidied.items() if value}


def _styled(value: str, colors: dict[str, str]) -> str:
    for color, variable in colors.items():
        value = value.replace(color, variable)
    if colors:
        value = _BLACK.sub("currentColor", value)
    return _FONT.sub("", value)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def plotted(thing: object, name: str) -> Html:
    """Return the plot of a record; why it has none, or nothing where none of its kind has one."""
    try:
        drawer(thing)
    except ConfigurationError:
        return Html()
    try:
        with style.context("default", after_reset=True), beside_pyplot():
            ax = draw(thing)
            figure = whole(ax)
            # It has to show more than that there is nothing, or than one bar's figure.
            if len(ax.patches) <= 1 and not any((ax.lines, ax.collections, ax.images)):
                return Html()
            size = NARROW_INCHES, figure.get_size_inches()[1] + HIGHER_INCHES
            narrow = whole(draw(thing, new_axes(size_inches=size)))
            return figure_of(figure, narrow, name=name)
    except ConfigurationError as error:
        return nothing(f"No plot: {shortened(error.message, _LONGEST_LABEL)}")


def figure_of(figure: Figure, narrow: Figure | None = None, *, name: str) -> Html:
    """Return a figure as a ``figure`` element; as a picture if its lines would be very many.

    ``narrow`` is what a screen shows that has no room for it. It raises an error if matplotlib
    can't draw it: a formula that is none, for example.
    """
    if narrow is None:
        return element("figure", _drawn(figure, name))
    return element("figure", _drawn(figure, name), _drawn(narrow, f"{name}-narrow"), class_="both")


def _drawn(figure: Figure, name: str) -> Html:
    label = shortened(titles(figure) or "Plot without a title.", _LONGEST_LABEL)
    try:
        svg = _svg_of(figure, name=name, label=label)
    except TypeError as error:  # as matplotlib says it
        message = "The figure can't be drawn: half a character (a lone surrogate) is in a text."
        raise ConfigurationError(message, hint="Decode names with errors='replace'.") from error
    except ValueError as error:
        message = f"The figure can't be drawn: {shortened(str(error), _LONGEST_LABEL)}"
        hint = "If a text in it begins a formula with $, give that text parse_math=False."
        raise ConfigurationError(message, hint=hint) from error
    if len(svg) <= _LARGEST_SVG_BYTES:
        return element("div", svg)
    said = f"Shown as a picture: as lines it would take {format_bytes(len(svg))}."
    target = io.BytesIO()
    figure.patch.set_visible(True)
    figure.savefig(target, format="png", dpi=_DPI, facecolor="auto")
    src = f"data:image/png;base64,{b64encode(target.getvalue()).decode('ascii')}"
    told = element("p", isolated(said), class_="legend")
    return element("div", element("img", src=src, alt=label), told)


def titles(figure: Figure) -> str:
    """Return the titles of a figure and of its Axes, in one line; empty if it has none."""
    whole = figure.get_suptitle()
    each = [ax.get_title(loc=place) for ax in figure.axes for place in ("left", "center", "right")]
    return " · ".join(" ".join(title.split()) for title in (whole, *each) if title.strip())


def whole(ax: Axes) -> Figure:
    """Return the figure that Axes are in; raise if they were removed from theirs."""
    figure = ax.get_figure(root=True)
    if figure is None:
        message = "These Axes are in no figure: they were removed from theirs."
        raise ConfigurationError(message, hint="Give Axes of a figure that is still there.")
    return figure
