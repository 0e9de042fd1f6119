"""A figure as an ``svg`` element: a few kilobytes, in the page's own font and colours."""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from matplotlib import rc_context

from kstoolkit.markup import Html, plain
from kstoolkit.report.colors import variables
from kstoolkit.report.seentexts import seen_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Text stays text: no glyphs in the file, and a reader can select and search it.
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "report", "svg.image_inline": True}
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r"#([\w-]+)")
_FONT = re.compile(r"font-family:[^;]*;? ?")
_UNTURNED = re.compile(r" ?rotate\(-?0 [^)]*\)")
_STEP = re.compile(r"([A-Za-z])([^A-Za-z]*)")
_BLACK = re.compile(r"#000000|#000(?![0-9a-f])|\bblack\b")
_PX_AN_INCH = 122
"""As wide as a figure of 7.2 inches is on a page that has the room."""


def svg_of(figure: Figure, *, name: str, label: str) -> Html:
    """Return a figure as an ``svg`` element.

    A figure without a face takes the page's ink, and its values of the palette's colours; one that
    brings a face of its own keeps all its colours.

    Parameters
    ----------
    figure
        What to draw; afterwards it is as it was.
    name
        Put before every id, so that figures on one page don't share them.
    label
        What the figure shows, for those who can't see it.
    """
    target = io.BytesIO()
    with seen_texts(figure), rc_context(_STYLE), warnings.catch_warnings():
        # The browser has its own fonts, and may well have the glyph.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        figure.savefig(target, format="svg", metadata=_NO_METADATA, facecolor="auto")
    root = ET.fromstring(target.getvalue())  # noqa: S314 - drawn a moment ago, not received
    _drop(root, {"metadata", "style"})
    colors = variables() if is_transparent(figure) else {}
    for node in root.iter():
        node.tag = _local(node.tag)
        node.attrib = _tidied(node.attrib, colors)
        node.tail = None
        node.text = node.text if node.tag in {"text", "tspan"} else None
    used = set(_REFERENCE.findall(ET.tostring(root, encoding="unicode")))
    for node in root.iter():
        _rename(node, name, used)
    width = figure.get_size_inches()[0] * _PX_AN_INCH
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": plain(label),
        "class": "plain" if colors else "card",
        "style": f"--width: {width:.0f}px",
    }
    return Html(ET.tostring(root, encoding="unicode"))


def is_transparent(figure: Figure) -> bool:
    """Return whether a figure has no face of its own, and so needs an ink that suits the page's."""
    return not figure.patch.get_visible() or figure.get_facecolor()[-1] == 0


def _tidied(attributes: dict[str, str], colors: dict[str, str]) -> dict[str, str]:
    tidied = {_local(key): value for key, value in attributes.items()}
    for key in tidied.keys() - {"style", "href"}:
        # A tenth of a point is finer than any screen shows.
        tidied[key] = _NUMBER.sub(lambda number: f"{float(number[0]):.1f}", tidied[key])
    if "d" in tidied:
        tidied["d"] = _shorter(tidied["d"])
    if "transform" in tidied:
        tidied["transform"] = _UNTURNED.sub("", tidied["transform"])
    for key in tidied.keys() & {"style", "fill", "stroke"}:  # a hatch's ground is no style
        tidied[key] = _styled(tidied[key], colors)
    return {key: value for key, value in tidied.items() if value}


def _styled(value: str, colors: dict[str, str]) -> str:
    for color, variable in colors.items():
        value = value.replace(color, variable)
    if colors:
        value = _BLACK.sub("currentColor", value)
    return _FONT.sub("", value)


def _shorter(path: str) -> str:
    """Return a path whose level and upright lines name the one coordinate that changes."""
    written, place = [], ["", ""]
    for command, numbers in _STEP.findall(path):
        target = numbers.split()
        if command == "L" and target[1] == place[1]:
            written.append(f"H{target[0]}")
        elif command == "L" and target[0] == place[0]:
            written.append(f"V{target[1]}")
        else:
            written.append(command + " ".join(target))
        place = target[-2:] or place
    return "".join(written)


def _rename(node: ET.Element, name: str, used: set[str]) -> None:
    own = node.attrib.pop("id", None)
    for key, value in node.attrib.items():
        if (key == "href" and value.startswith("#")) or "url(#" in value:
            node.attrib[key] = _REFERENCE.sub(rf"#{name}-\1", value)
    if own in used:
        node.attrib["id"] = f"{name}-{own}"


def _drop(root: ET.Element, tags: set[str]) -> None:
    for parent in list(root.iter()):
        for child in [child for child in parent if _local(child.tag) in tags]:
            parent.remove(child)


def _local(name: str) -> str:
    return name.rpartition("}")[2]
