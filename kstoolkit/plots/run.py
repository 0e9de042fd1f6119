"""A run: its batches, its sums, and what could not be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, NullFormatter

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.event import REASONS
from kstoolkit.plots.axes import in_counts, label, nothing, title
from kstoolkit.plots.batches import plot_batches
from kstoolkit.plots.cascade import plot_history
from kstoolkit.plots.notes import head
from kstoolkit.plots.palette import PARTS
from kstoolkit.plots.rowbars import Part, Row, draw_rows, row_axes
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from kstoolkit.events.event import DeadLetters
    from kstoolkit.pipeline.run import Run, Summary


def plot_run(
    run: Run, *, user: str | None = None, action: str | None = None, ax: Axes | None = None
) -> Axes:
    """Return a run batch by batch; of a user, the counts at every level of the cascade.

    Parameters
    ----------
    run
        The run.
    user, action
        Whose counts, and of what; all actions together if only the user is given.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If there is an action without a user.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder, Settings
    >>> folder = RunFolder(Path(tempfile.mkdtemp()))
    >>> folder.save(Settings(("1 hour",), 1, {}, "event", "files", 1, "[]", "events"))
    >>> plot_run(Run(folder)).get_title(loc="left")
    'No batches'
    """
    if user is not None:
        return plot_history(run.history(user, action=action), ax=ax)
    if action is not None:
        message = f"The action {action!r} is given without a user."
        raise ConfigurationError(message, hint="Give user=… too.")
    return plot_batches(run.batches(), ax=ax)


def plot_summary(summary: Summary, *, ax: Axes | None = None) -> Axes:
    """Return a run's sums on a logarithmic scale: events, late ones, dead letters by reason.

    Examples
    --------
    >>> from kstoolkit.pipeline.sink import BatchStatistics
    >>> from kstoolkit.pipeline.run import Summary
    >>> summary = Summary.of([BatchStatistics(0, 0, 2.0, events=500)], 1024)
    >>> plot_summary(summary).get_title(loc="left")
    '500 events: 0 late, 0 dead letters, 0 findings'
    """
    rows = [
        _summary_row("events", summary.events, 0),
        _summary_row("records into the shuffle", summary.counters_in, 0),
    ]
    rows.append(_summary_row("changelog records", summary.changelog_records, 0))
    rows += [
        _summary_row(f"late for {window}", number, 1) for window, number in summary.late.items()
    ]
    rows += _by_reason(summary.dead_letters)
    rows.append(_summary_row("findings reported", summary.findings, 3))
    axes = row_axes(ax, len(rows))
    draw_rows(axes, rows, log=True, longest_name=64)
    label(axes, x="records (logarithmic)")
    _in_powers(axes)
    late, dead = sum(summary.late.values()), sum(summary.dead_letters.values())
    events = format_count(summary.events)
    seen = f"{events} events: {format_count(late)} late, {format_count(dead)} dead letters"
    head(axes, f"{seen}, {format_count(summary.findings)} findings")
    return axes


def _in_powers(axes: Axes) -> None:
    """Print the powers of ten of a logarithmic axis as counts."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def plot_dead_letters(letters: DeadLetters, *, ax: Axes | None = None) -> Axes:
    """Return how many records could not be counted, by reason, the most frequent first.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kstoolkit.events.event import DeadLetters
    >>> letters = DeadLetters(pa.table({"reason": ["no_user"]}))
    >>> plot_dead_letters(letters).get_title(loc="left")
    '1 dead letter for 1 reason'
    """
    rows = _by_reason(letters.by_reason, None)
    axes = row_axes(ax, len(rows))
    if not rows:
        nothing(axes, "no dead letters")
        head(axes, "No dead letters")
        return axes
    draw_rows(axes, rows, longest_name=64)
    in_counts(axes.xaxis)
    label(axes, x="records")
    title(axes, f"{counted(len(letters), 'dead letters')} for {counted(len(rows), 'reasons')}")
    return axes


def _by_reason(letters: Mapping[str, int], kind: str | None = "dead letters") -> list[Row]:
    ranked = sorted(letters.items(), key=lambda each: (-each[1], each[0]))
    return [_summary_row(REASONS.get(name, name), number, 5, kind) for name, number in ranked]


def _summary_row(name: str, number: int, place: int, kind: str | None = None) -> Row:
    color, hatch = PARTS[place]
    return Row(
        name, (Part(size=number, color=color, hatch=hatch, name=kind),), format_count(number)
    )
