"""Time on a page: counts and incidents as strips below each other, and the axis that they share.

A strip is an ``svg`` of lines alone, which takes any width; names, figures and the axis beside it
are text of the page, so that a narrow screen makes none of them small.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.markup import Html, element
from kstoolkit.moments import moment_of
from kstoolkit.plots.users import windows_of
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from kstoolkit.findings.incidents import Incident
    from kstoolkit.pipeline.story import LevelCounts, UserHistory

_WIDTH, _HEIGHT, _BAND = 1_000, 100, 22.0
_DAY_MS, _MOST_TICKS = 86_400_000, 5
_STEPS_MS = tuple(n * 60_000 for n in (1, 5, 15, 30, 60, 180, 360, 720))
_STEPS_MS += tuple(n * _DAY_MS for n in (1, 2, 7, 30, 91, 365, 3_650, 36_500))
_EDGE = 6  # per cent of an axis, at either end of it, where half a label would stand outside


@dataclass(frozen=True, slots=True)
class Axis:
    """The time that strips show, epoch ms UTC."""

    since_ms: int
    until_ms: int

    def at(self, times_ms: ArrayLike) -> NDArray[np.float64]:
        """Return where moments stand, in thousandths of the width.

        >>> Axis(0, 60_000).at([15_000, 60_000]).tolist()
        [250.0, 1000.0]
        """
        after_ms = np.asarray(times_ms, np.int64) - self.since_ms
        return np.asarray(after_ms * (_WIDTH / max(self.until_ms - self.since_ms, 1)))

    def html(self) -> Html:
        """Return its labels, which stand below the strips, or above."""
        step_ms = next((each for each in _STEPS_MS if self._ticks(each)), None)
        marks = self._ticks(step_ms) if step_ms else {}
        told = [
            element("span", said, class_="hour" if ":" in said else "day", style=f"left: {at:.1f}%")
            for at, said in marks.items()
        ]
        return element("div", element("div", *told), class_="axis")

    def _ticks(self, step_ms: int) -> dict[float, str]:
        """Return labels by their places; none if there would be too many of them, or no dates."""
        ticks_ms = range(-(-self.since_ms // step_ms) * step_ms, self.until_ms, step_ms)
        if len(ticks_ms) > _MOST_TICKS:
            return {}
        try:
            said = [_moment(each, step_ms) for each in ticks_ms]
        except OverflowError:
            return {}
        placed = zip((self.at(ticks_ms) / 10).tolist(), said, strict=True)
        return {at: each for at, each in placed if _EDGE <= at <= 100 - _EDGE}


def _moment(time_ms: int, step_ms: int) -> str:
    moment = moment_of(time_ms)
    if time_ms % _DAY_MS:
        return f"{moment:%H:%M}"
    return f"{moment:%b %Y}" if step_ms > 91 * _DAY_MS else f"{moment.day} {moment:%b}"


def pills(incidents: Iterable[Incident], axis: Axis) -> Html:
    """Return when incidents were, as a strip; one that is short is as long as it is high."""
    drawn, told = [], []
    for each in incidents:
        left, right = axis.at([each.since_ms, each.until_ms])
        path = f"M{left:.1f} 50H{right:.1f}"
        drawn.append(element("path", d=path, class_=each.certainty))
        if each.certainty == "hint":
            drawn.append(element("path", d=path, class_="hollow"))
        ends = f"from {each.since:%Y-%m-%d %H:%M} to {each.until:%Y-%m-%d %H:%M}"
        told.append(f"{each.certainty} {ends}")
    return _svg(drawn, "; ".join(told[:20]))


def strips(history: UserHistory, axis: Axis, incidents: Iterable[Incident]) -> Html:
    """Return a user's counts at each level as far as ``axis`` goes, over the time of incidents."""
    shade = "".join(
        f"M{left:.1f} 0H{right:.1f}V{_HEIGHT}H{left:.1f}z"
        for left, right in (axis.at([each.since_ms, each.until_ms]) for each in incidents)
    )
    rows = [_strip(each, axis, shade) for each in history.levels]
    return element("div", *rows, axis.html(), class_="strips")


def _strip(whole: LevelCounts, axis: Axis, shade: str) -> Html:
    seen = (whole.times_ms < axis.until_ms) & (whole.window_ends_ms >= axis.since_ms)
    level = whole.where(seen)
    bars, marks = windows_of(level)
    flagged = bars.hold(marks.middles_ms)
    most = int(level.counts.max(initial=0))
    scale = -_HEIGHT / max(most, level.ceiling or 0, level.expected_high or 0, 1)
    limits = [*_limits(level, scale, axis)]
    paths = [(shade, "incident"), *((path, kind) for path, kind, _ in limits)]
    for chosen, kind in ((~flagged, "count"), (flagged, "flag")):
        edges_ms, heights = bars.runs(chosen)
        path = "".join(_steps(axis.at(edges_ms), _HEIGHT + heights * scale))
        paths.append((path, kind))
    drawn = [element("path", d=path, class_=kind) for path, kind in paths if path]
    windows = counted(int(np.isin(level.times_ms, level.flagged_ms).sum()), "windows")
    told = f"up to {format_count(most)}"
    figures = [element("div", said, class_=kind) for _, kind, said in limits]
    svg = _svg(drawn, f"{level.window.label}: {told}, {windows} flagged")
    name = element("div", level.window.label, class_="level")
    return element("div", name, svg, element("div", element("div", told), *figures))


def _steps(xs: NDArray[Any], ys: NDArray[Any]) -> Iterator[str]:
    """Yield an outline for what stands above the base line together."""
    bars = zip(xs[:-1].tolist(), xs[1:].tolist(), ys.tolist(), strict=True)
    for is_high, some in groupby(bars, lambda bar: bar[2] < _HEIGHT):
        if is_high:
            told = list(some)
            yield f"M{told[0][0]:.1f} {_HEIGHT}"
            yield from (f"V{y:.1f}H{right:.1f}" for _, right, y in told)
            yield f"V{_HEIGHT}"


def _limits(level: LevelCounts, scale: float, axis: Axis) -> Iterator[tuple[str, str, str]]:
    """Yield lines with their kind, and what they say."""
    if level.expected_high is not None:
        low, high = (_HEIGHT + (n or 0) * scale for n in (level.expected_low, level.expected_high))
        left, right = 0.0, float(_WIDTH)
        if level.expected_at_ms is not None:  # of that window alone, wide enough to be seen
            left, right = axis.at([*level.expected_at_ms])
            wide = max(right - left, _BAND)
            left, right = (left + right - wide) / 2, (left + right + wide) / 2
        band = f"M{left:.1f} {high:.1f}H{right:.1f}V{low:.1f}H{left:.1f}z"
        yield band, "expected", f"expected {level.expected}"
    if level.ceiling is not None:
        line = f"M0 {_HEIGHT + level.ceiling * scale:.1f}H{_WIDTH}"
        yield line, "ceiling", f"ceiling {format_count(level.ceiling)}"


def _svg(drawn: Iterable[Html], label: str) -> Html:
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    named = {"role": "img", "aria_label": label, "class_": "strip"}
    return element("svg", *drawn, viewBox=box, preserveAspectRatio="none", **named)
