"""A finding's plot as inline SVG: a few kilobytes, in the page's own font and colours."""

from __future__ import annotations

import io
import re
from dataclasses import fields
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure

from kstoolkit.markup import Html, plain
from kstoolkit.plots import palette
from kstoolkit.plots.expected import SIZE_INCHES, plot_expected
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from typing import Any

    from kstoolkit.report.content import CountSeries

__all__ = ["described", "drawing"]

COLORS = {
    palette.INK: "currentColor",
    palette.COUNTED: "var(--counted)",
    palette.EXPECTED: "var(--expected)",
    palette.FLAGGED: "var(--flagged)",
}
"""The page's style sheet has a value of each for light, dark and print."""
# Text stays text: no glyphs in the file, and a reader can select and search it.
SVG_STYLE: list[str | dict[str, Any]] = [
    "default",
    {"svg.fonttype": "none", "svg.hashsalt": "report"},
]
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
NUMBER = re.compile(r"-?\d+\.\d+")
REFERENCE = re.compile(r"#([\w-]+)")
FONT = re.compile(r"font-family:[^;]*;? ?")
UNTURNED = re.compile(r" ?rotate\(-?0 [^)]*\)")
STEP = re.compile(r"([A-Za-z])([^A-Za-z]*)")


def drawing(series: CountSeries, *, name: str, label: str) -> Html:
    """Return the plot of ``series`` as an ``svg`` element.

    Parameters
    ----------
    series
        What to draw.
    name
        Put before every id, so that figures on one page don't share them.
    label
        What the figure shows, for those who can't see it.

    Raises
    ------
    ConfigurationError
        If the series makes no plot; see :func:`kstoolkit.plots.plot_expected`.
    """
    options: dict[str, Any] = {
        item.name: getattr(series, item.name)
        for item in fields(series)
        if item.name not in {"times_ms", "counts", "min_count"}
    }
    target = io.BytesIO()
    with style.context(SVG_STYLE, after_reset=True):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained", facecolor="none")
        plot_expected(series.times_ms, series.counts, ax=figure.add_subplot(), **options)
        figure.savefig(target, format="svg", metadata=NO_METADATA)
    return _inlined(target.getvalue(), name, label)


def described(series: CountSeries) -> str:
    """Return in one sentence what the plot of ``series`` shows.

    Examples
    --------
    >>> from kstoolkit.report import CountSeries
    >>> described(CountSeries(times_ms=[0, 60_000], counts=[3, 61], window_ms=60_000))
    'Bar chart of 2 windows with counts from 3 to 61.'
    """
    counts = np.asarray(series.counts)
    if not counts.size:
        return "Bar chart without counts."
    windows = "window" if counts.size == 1 else "windows"
    low, high = format_count(counts.min()), format_count(counts.max())
    return f"Bar chart of {format_count(counts.size)} {windows} with counts from {low} to {high}."


def _inlined(svg: bytes, name: str, label: str) -> Html:
    root = ET.fromstring(svg)  # noqa: S314 - drawn a moment ago, not received
    _drop(root, {"metadata", "style"})
    for node in root.iter():
        node.tag = _local(node.tag)
        node.attrib = _tidied(node.attrib)
        node.tail = None
        node.text = node.text if node.tag == "text" else None
    used = set(REFERENCE.findall(ET.tostring(root, encoding="unicode")))
    for node in root.iter():
        _rename(node, name, used)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": plain(label)}
    return Html(ET.tostring(root, encoding="unicode"))


def _tidied(attributes: dict[str, str]) -> dict[str, str]:
    tidied = {_local(key): value for key, value in attributes.items()}
    for key in tidied.keys() - {"style"}:
        # A tenth of a point is finer than any screen shows.
        tidied[key] = NUMBER.sub(lambda number: f"{float(number[0]):.1f}", tidied[key])
    if "d" in tidied:
        tidied["d"] = _shorter(tidied["d"])
    if "transform" in tidied:
        tidied["transform"] = UNTURNED.sub("", tidied["transform"])
    if "style" in tidied:
        tidied["style"] = _styled(tidied["style"])
    return {key: value for key, value in tidied.items() if value}


def _styled(value: str) -> str:
    for color, variable in COLORS.items():
        value = value.replace(color, variable)
    return FONT.sub("", value)


def _shorter(path: str) -> str:
    """Return a path whose level and upright lines name the one coordinate that changes."""
    written, place = [], ["", ""]
    for command, numbers in STEP.findall(path):
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
        if key == "href" or "url(#" in value:
            node.attrib[key] = REFERENCE.sub(rf"#{name}-\1", value)
    if own in used:
        node.attrib["id"] = f"{name}-{own}"


def _drop(root: ET.Element, tags: set[str]) -> None:
    for parent in list(root.iter()):
        for child in [child for child in parent if _local(child.tag) in tags]:
            parent.remove(child)


def _local(name: str) -> str:
    return name.rpartition("}")[2]
