"""How far a reader of topics is behind, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.plots.axes import in_counts, label, nothing, title
from kstoolkit.plots.names import shown
from kstoolkit.plots.palette import COUNTED, FLAGGED
from kstoolkit.plots.rowbars import MOST_ROWS, Part, Row, draw_rows, row_axes
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kstoolkit.operations.lag import LagOfPartition, TopicLag


def plot_topic_lag(lag: TopicLag, *, ax: Axes | None = None) -> Axes:
    """Return how many records of each partition wait, and how long they take.

    Partitions that fall behind, or that nobody reads, are in another colour; records that were
    removed before they were read are hatched.

    Parameters
    ----------
    lag
        What :func:`kstoolkit.lag` measured.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Examples
    --------
    >>> from kstoolkit.operations.lag import LagOfPartition, TopicLag
    >>> one = LagOfPartition(topic="actions", partition=0, lag_records=120, catch_up_seconds=4.0)
    >>> plot_topic_lag(
    ...     TopicLag(reader="run 'out'", state="counting", at_ms=0, partitions=(one,))
    ... ).get_title(loc="left")
    "run 'out', counting: 120 records behind"
    """
    known = [each for each in lag if each.lag_records is not None]
    known.sort(key=lambda each: -(each.lag_records or 0))
    largest = sorted(known[:MOST_ROWS], key=lambda each: (each.topic, each.partition))
    axes = row_axes(ax, len(largest))
    if largest:
        draw_rows(axes, [_lag_row(each) for each in largest])
        in_counts(axes.xaxis)
        label(axes, x="records that wait", notes=_lag_notes(lag, known))
    else:
        nothing(axes, f"lag unknown: {shown(lag.why or 'not told', 100)}")
    behind = (
        "lag unknown"
        if lag.lag_records is None
        else f"{counted(lag.lag_records, 'records')} behind"
    )
    title(axes, f"{shown(lag.reader, 60)}, {lag.state}: {behind}")
    return axes


def _lag_row(each: LagOfPartition) -> Row:
    falls_behind = each.unknown.get("catch_up_seconds", "").startswith("never")
    color, name = (FLAGGED, "never caught up with") if falls_behind else (COUNTED, "waiting")
    waiting = Part(size=each.lag_records or 0, color=color, name=name)
    gone = Part(size=each.gone_records, color="none", hatch="//", name="gone unread")
    figures = dict(zip(("lag", "time", "read", "come", "until"), each.cells()[4:], strict=True))
    said = figures["lag"]
    if each.lag_records and each.catch_up_seconds is not None:
        said = f"{said}, caught up in {figures['until']}"
    return Row(f"{each.topic} {each.partition}", (waiting, gone), said)


def _lag_notes(lag: TopicLag, known: list[LagOfPartition]) -> list[str]:
    notes = []
    if len(known) > MOST_ROWS:
        notes.append(f"the largest {MOST_ROWS} of {format_count(len(known))} partitions")
    if len(known) < len(lag):
        notes.append(f"unknown of {counted(len(lag) - len(known), 'partitions')}")
    return notes
