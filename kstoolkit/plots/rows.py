"""Rows of a store: how many each window has, or how large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import days, in_bytes, in_counts, in_time, label, new_axes, nothing
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import COUNTED, INK
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from kstoolkit.stores.rows.rows import Rows

    Integers = NDArray[np.int64]


MOST_BARS = 300
_READ = 100_000
_ROWS_BY = ("window", "size")
_SIZES = 30


def plot_rows(
    rows: Rows, *, by: str | None = None, limit: int | None = _READ, ax: Axes | None = None
) -> Axes:
    """Return how many rows each window has; of a store without windows, how large rows are.

    Parameters
    ----------
    rows
        The rows; they are read for this.
    by
        ``"window"`` (by the start of its window), or ``"size"`` (of keys and values); by default
        windows, if there are any.
    limit
        At most so many rows are read, and the figure says so; ``None`` for all.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If ``by`` is neither, or by window where there are none.

    Examples
    --------
    >>> from kstoolkit.stores.comparing.folders import listed
    >>> rows = listed("latest", [(b"anna", b"3"), (b"bo", b"15")]).rows()
    >>> plot_rows(rows).get_title(loc="left")
    'latest: 2 rows, half of 4 B or less, the largest of 5 B'
    """
    if by is not None and by not in _ROWS_BY:
        message = f"Rows by {by!r} make no plot."
        raise ConfigurationError(message, hint="Give 'window' or 'size'.")
    starts_ms, sizes_bytes, is_all = _read(rows, limit)
    name = shown(rows.source.name, 22)
    if by == "window" and sizes_bytes.size and not starts_ms.size:
        message = f"The rows of {rows.source.name!r} have no windows."
        raise ConfigurationError(message, hint="Give by='size'.")
    axes = new_axes(ax)
    notes = [] if is_all else [f"the first {format_count(sizes_bytes.size)} rows; there are more"]
    if not sizes_bytes.size:
        nothing(axes, "no rows")
        head(axes, f"No rows of {name}")
    elif by == "size" or not starts_ms.size:
        _draw_sizes(axes, name, sizes_bytes, notes)
    else:
        _draw_windows(axes, name, starts_ms, notes)
    return axes


def _read(rows: Rows, limit: int | None) -> tuple[Integers, Integers, bool]:
    """Return the starts of windows, the sizes of rows, and whether these are all."""
    starts, sizes, number = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for batch in rows.batches():
        raw = batch.raw
        if raw.window_start_ms is not None:
            starts.append(np.asarray(raw.window_start_ms.drop_null(), np.int64))
        lengths = [pc.binary_length(each.to_arrow()).fill_null(0) for each in (raw.key, raw.value)]
        sizes.append(np.asarray(lengths[0], np.int64) + np.asarray(lengths[1], np.int64))
        number += len(batch)
        if limit is not None and number > limit:
            first = slice(0, max(limit, 0))
            return np.concatenate(starts)[first], np.concatenate(sizes)[first], False
    return np.concatenate(starts), np.concatenate(sizes), True


def _draw_windows(axes: Axes, name: str, starts_ms: Integers, notes: list[str]) -> None:
    starts, counts = np.unique(starts_ms, return_counts=True)
    group = 1
    edges_ms, heights = _windows(starts, counts)
    if heights.size > MOST_BARS:
        group = -(-heights.size // MOST_BARS)
        padded = np.append(heights, np.zeros(-heights.size % group, np.int64))
        heights = padded.reshape(-1, group).max(axis=1)
        edges_ms = np.append(edges_ms[:-1:group], edges_ms[-1])
        notes.append(f"{heights.size} bars: each is the highest of {format_count(group)} windows")
    axes.stairs(heights, days(edges_ms), fill=True, color=COUNTED, linewidth=0)
    axes.set_ylim(0, 1.08 * heights.max())
    in_time(axes.xaxis)
    in_counts(axes.yaxis)
    label(axes, x="start of window, UTC", y="rows", notes=notes)
    most = int(np.argmax(counts))
    when = np.datetime_as_string(starts[most].astype("datetime64[ms]"), unit="m").replace("T", " ")
    seen = f"{name}: {counted(starts_ms.size, 'rows')} in {counted(starts.size, 'windows')}"
    head(axes, f"{seen}, most ({format_count(counts[most])}) in that of {when}")


def _windows(starts: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return bars from the first window to the last: their edges, and their rows.

    Windows are as far apart as the nearest two are, unless that would make too many of them.
    """
    apart = int(np.diff(starts).min()) if starts.size > 1 else 3_600_000
    apart = max(apart, -(-int(starts[-1] - starts[0]) // (MOST_BARS * 1_000)), 1)
    place = (starts - starts[0]) // apart
    heights = np.zeros(int(place[-1]) + 1, np.int64)
    np.add.at(heights, place, counts)
    return starts[0] + np.arange(heights.size + 1) * apart, heights


def _draw_sizes(axes: Axes, name: str, sizes_bytes: Integers, notes: list[str]) -> None:
    low, high = int(sizes_bytes.min()), int(sizes_bytes.max())
    edges = np.linspace(low, high + 1, min(_SIZES, high - low + 1) + 1)
    counts, edges = np.histogram(sizes_bytes, edges)
    axes.stairs(counts, edges, fill=True, facecolor=COUNTED, edgecolor=INK, linewidth=0.5)
    axes.set_ylim(0, 1.08 * counts.max())
    in_bytes(axes.xaxis)
    in_counts(axes.yaxis)
    label(axes, x="key and value of a row", y="rows", notes=notes)
    middle, most = format_bytes(float(np.median(sizes_bytes))), format_bytes(high)
    rows = counted(sizes_bytes.size, "rows")
    head(axes, f"{name}: {rows}, half of {middle} or less, the largest of {most}")
