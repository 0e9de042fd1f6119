"""Counts of windows as bars: few enough to draw, and still as high as the highest window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


MOST_BARS = 500
MOST_MARKERS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Counts as steps: ``heights[i]`` events from ``edges_ms[i]`` to ``edges_ms[i + 1]``.

    Parameters
    ----------
    edges_ms, heights
        One edge more than heights; epoch ms, and events in a window.
    num_windows, group
        How many windows of the time shown there are, and how many stand behind one bar.
    """

    edges_ms: NDArray[np.int64]
    heights: NDArray[np.int64]
    num_windows: int
    group: int

    def runs(self, shown: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return edges and heights with neighbours of one height joined; 0 where not ``shown``.

        A quiet month then costs two points, not thousands.
        """
        heights = np.where(shown, self.heights, 0)
        turns = np.flatnonzero(np.diff(heights, prepend=-1))
        return np.append(self.edges_ms[turns], self.edges_ms[-1]), heights[turns]

    def hold(self, times_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which bars hold one of the times."""
        held = np.zeros(self.heights.size, dtype=bool)
        held[np.searchsorted(self.edges_ms, times_ms, side="right") - 1] = True
        return held


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Flagged windows: their middles (epoch ms), their counts, and how many have no count."""

    middles_ms: NDArray[np.int64]
    counts: NDArray[np.int64]
    num_unknown: int


def ordered(times_ms: ArrayLike, counts: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return window starts and their counts, in the order of time.

    Raises
    ------
    ConfigurationError
        If they differ in length.

    Examples
    --------
    >>> times, counts = ordered([60_000, 0], [7, 5])
    >>> times.tolist(), counts.tolist()
    ([0, 60000], [5, 7])
    """
    times, values = np.asarray(times_ms, dtype=np.int64), np.asarray(counts, dtype=np.int64)
    if times.shape != values.shape or times.ndim != 1:
        message = f"{times.size} times and {values.size} counts do not make a series."
        raise ConfigurationError(message, hint="Give one count for each window start.")
    order = np.argsort(times, kind="stable")
    return times[order], values[order]


def bars_of(times: NDArray[np.int64], counts: NDArray[np.int64], every_ms: int) -> Bars:
    """Return at most 500 bars over the time from the first window to the last.

    Windows are grouped where there are more; a bar is as high as the highest of its group.
    A window without a count is 0.

    Parameters
    ----------
    times, counts
        As :func:`ordered` gives them.
    every_ms
        Distance of window starts.

    Raises
    ------
    ConfigurationError
        If ``every_ms`` is not positive.

    Examples
    --------
    >>> bars = bars_of(*ordered([0, 180_000], [5, 7]), every_ms=60_000)
    >>> bars.heights.tolist(), bars.group
    ([5, 0, 0, 7], 1)
    """
    if every_ms <= 0:
        message = f"Windows {every_ms} ms apart have no length."
        raise ConfigurationError(message, hint="Give a positive length in milliseconds.")
    if not times.size:
        return Bars(np.zeros(1, np.int64), np.zeros(0, np.int64), 0, 1)
    window = (times - times[0]) // every_ms
    num_windows = int(window[-1]) + 1
    group = -(-num_windows // MOST_BARS)
    heights = np.zeros(-(-num_windows // group), dtype=np.int64)
    np.maximum.at(heights, window // group, counts)
    edges = times[0] + np.arange(heights.size + 1) * (group * every_ms)
    edges[-1] = times[0] + num_windows * every_ms
    return Bars(edges, heights, num_windows, group)


def marks_of(
    times: NDArray[np.int64], counts: NDArray[np.int64], flagged_ms: ArrayLike, every_ms: int
) -> Marks:
    """Return which of the windows are flagged, in the order of time.

    Examples
    --------
    >>> marks = marks_of(*ordered([0, 60_000], [5, 7]), [60_000, 240_000], every_ms=60_000)
    >>> marks.counts.tolist(), marks.num_unknown
    ([7], 1)
    """
    flagged = np.unique(np.asarray(flagged_ms, dtype=np.int64))
    known = np.isin(times, flagged)
    num_unknown = int(np.setdiff1d(flagged, times).size)
    return Marks(times[known] + every_ms // 2, counts[known], num_unknown)


def notes_of(bars: Bars, marks: Marks) -> list[str]:
    """Return what a figure says of windows that it does not draw one by one.

    Examples
    --------
    >>> none = np.array([], dtype=np.int64)
    >>> notes_of(bars_of(none, none, 60_000), Marks(none, none, 2))
    ['flagged windows without a count, not drawn: 2']
    """
    notes = []
    if bars.group > 1:
        notes.append(
            f"{format_count(bars.num_windows)} windows drawn as {bars.heights.size} bars: "
            f"each is the highest of {format_count(bars.group)} windows"
        )
    if marks.counts.size > MOST_MARKERS:
        total = format_count(marks.counts.size)
        notes.append(f"markers at the highest {MOST_MARKERS} of {total} flagged windows")
    if marks.num_unknown:
        notes.append(f"flagged windows without a count, not drawn: {marks.num_unknown}")
    return notes
