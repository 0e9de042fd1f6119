"""Why a store does not shrink: who takes its room, and what of it is past its time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.axes import in_bytes, label, nothing
from kstoolkit.plots.names import shown
from kstoolkit.plots.notes import head, wrapped
from kstoolkit.plots.palette import COUNTED, FLAGGED
from kstoolkit.plots.rowbars import MOST_ROWS, Part, Row, draw_rows, rest_row, row_axes
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.growth.records import Age, KeyUse, PrefixUse, SegmentUse, WindowUse


_GROWTH_BY = ("segment", "window", "prefix", "key", "age")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plot_growth(growth: Growth, *, by: str | None = None, ax: Axes | None = None) -> Axes:
    """Return who takes a store's room, in bytes; what is past its retention is hatched.

    Parameters
    ----------
    growth
        What :func:`kstoolkit.growth` measured; it names the largest alone, and the rest is drawn
        together.
    by
        ``"segment"``, ``"window"``, ``"prefix"``, ``"key"`` or ``"age"``; by default the first of
        them that the store has. Or a field of the keys of Spark's state, as ``"user"``.
    ax
        Where to draw; by default the only Axes of a new figure of pyplot's.

    Raises
    ------
    ConfigurationError
        If ``by`` is none of these.

    Examples
    --------
    >>> from kstoolkit.stores.comparing.folders import listed
    >>> from kstoolkit.stores.growth.growth import growth
    >>> measured = growth(listed("counts", [(b"anna", b"3"), (b"bo", b"15")]))
    >>> plot_growth(measured, by="key").get_title(loc="left")
    'counts: 2 rows, 9 B of keys and values'
    """
    uses = _uses(growth)
    if by is not None and by not in uses:
        message = f"Growth by {by!r} makes no plot."
        raise ConfigurationError(message, hint=f"Give one of {', '.join(uses)}.")
    chosen = by or next((name for name in _GROWTH_BY if uses[name]), "key")
    rows, notes = _rows(growth, chosen, uses[chosen])
    axes = row_axes(ax, len(rows))
    if not rows:
        nothing(axes, _none(growth, chosen))
    else:
        draw_rows(axes, rows, longest_name=28)
        in_bytes(axes.xaxis)
        label(axes, x=_measured(chosen), notes=wrapped(notes))
    head(axes, _growth_seen(growth, chosen))
    return axes


def _uses(growth: Growth) -> dict[str, Sequence[Any]]:
    """Return all that there is a plot of; fields that are called as one of these are not."""
    fields: dict[str, Sequence[Any]] = dict(growth.fields)
    if len(growth.by) == 1:
        fields[growth.by[0]] = growth.keys
    return {name: getattr(growth, _plural(name)) for name in _GROWTH_BY} | {
        name: found for name, found in fields.items() if name not in _GROWTH_BY
    }


def _none(growth: Growth, by: str) -> str:
    why = growth.unknown.get(_plural(by))
    return f"no {_plural(by)}" + (f": {why}" if why else "")


def _plural(name: str) -> str:
    return f"{name}es" if name == "prefix" else f"{name}s"


def _measured(by: str) -> str:
    if by == "segment":
        return "size of the segment's files, by its start, UTC"
    return f"keys and values before compression, by {by}"


def _rows(growth: Growth, by: str, uses: Sequence[Any]) -> tuple[list[Row], list[str]]:
    """Return a row each, those of time in its order, and what is to be said below."""
    in_order = by in {"segment", "window"}
    largest = sorted(uses, key=lambda each: -_bytes(each, by))[:MOST_ROWS]
    shown_uses = sorted(largest, key=lambda each: each.start_ms) if in_order else largest
    rows = [_use_row(growth, by, each) for each in shown_uses]
    notes = []
    if len(largest) < len(uses):
        what = _plural(by) if by in _GROWTH_BY else f"values of {by}"
        notes.append(f"the largest {MOST_ROWS} of {format_count(len(uses))} {what}")
    whole = sum(_bytes(each, by) for each in uses) if by == "segment" else growth.data_bytes
    rest = whole - sum(_bytes(each, by) for each in largest)
    if rows and rest > 0 and by != "age":
        rows.append(rest_row("all others together", rest, rows, format_bytes(rest)))
    if by == "age":
        notes.append(_aged(uses))
    notes += _mixed(growth, by, uses)
    is_judged = growth.horizon.kept_from_ms is not None or _by_watermark(growth, by, uses)
    if not is_judged and by in {"segment", "window", "age"}:
        why = growth.horizon.unknown.get("kept_from_ms", "not told")
        notes.append(f"what is past its retention: unknown ({why})")
    return rows, notes


def _mixed(growth: Growth, by: str, uses: Sequence[Any]) -> list[str]:
    """Return what is said of rows past their time that no bar of their own shows."""
    gone = growth.num_past_rows
    if gone is None or by in {"window", "age"}:
        return []
    mixed = gone[0] - sum(each.num_rows for each in uses if by == "segment" and each.is_past)
    if mixed <= 0:
        return []
    where = "segments that are kept: a segment goes as a whole" if by == "segment" else "these bars"
    return [f"{counted(mixed, 'rows')} {gone[1]} in {where}"]


def _bytes(use: Any, by: str) -> int:
    return int(use.size_bytes if by == "segment" else use.data_bytes)


def _use_row(
    growth: Growth, by: str, use: SegmentUse | WindowUse | PrefixUse | KeyUse | Age
) -> Row:
    size = _bytes(use, by)
    said = f"{format_bytes(size)}, {counted(use.num_rows, 'rows')}"
    if by not in {"segment", "window", "age"}:
        return Row(_use_name(use, by), (Part(size=size, color=COUNTED),), said)
    what = "past the watermark" if _by_watermark(growth, by, [use]) else "past its retention"
    return Row(_use_name(use, by), (_part(size, what, is_past=_is_past(growth, by, use)),), said)


def _aged(uses: Sequence[Age]) -> str:
    """Return what ages are, and which clock they are told by."""
    if not uses or uses[0].clock == "timestamp":
        return "rows that were not updated for so long; each includes those below it"
    at, by = uses[0].judged_at_ms, uses[0].judged_by
    since = by if at is None else f"{by}, {_moment(at)} UTC"
    return f"ended so long before {since}; each includes those below it"


def _by_watermark(growth: Growth, by: str, uses: Sequence[Any]) -> bool:
    """Return whether Spark's watermark decides what is past."""
    if growth.horizon.kept_from_ms is not None or growth.horizon.watermark_ms is None:
        return False
    if by == "age":
        return any(each.judged_by == "the watermark" for each in uses)
    return by == "window" and any(each.is_past is not None for each in uses)


def _part(size: int, what: str, *, is_past: bool | None) -> Part:
    if is_past is None:
        return Part(size=size, color=COUNTED, hatch="..", name="unknown whether it is past")
    if is_past:
        return Part(size=size, color=FLAGGED, hatch="//", name=what)
    return Part(size=size, color=COUNTED, name="kept")


def _is_past(growth: Growth, by: str, use: Any) -> bool | None:
    horizon = growth.horizon
    if by == "segment":
        known: bool | None = use.is_past
        return known
    if by == "window" and use.is_past is not None:
        return bool(use.is_past)
    if by == "age" and _by_watermark(growth, by, [use]):
        return True
    if by == "window":
        kept_from_ms = horizon.kept_from_ms
        return None if kept_from_ms is None else use.start_ms + use.span_ms <= kept_from_ms
    return None if horizon.kept_ms is None else use.not_updated_for_ms > horizon.kept_ms


def _use_name(use: Any, by: str) -> str:
    if by in {"segment", "window"}:
        return _moment(use.start_ms)
    if by == "prefix":
        return f"{use.prefix}…"
    if by == "age":
        length = format_duration(use.not_updated_for_ms)
        return f"not for {length}" if use.clock == "timestamp" else f"ended {length} ago"
    return str(use.key)


def _moment(epoch_ms: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    except OverflowError:  # no date that there can be
        return format_count(epoch_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _growth_seen(growth: Growth, by: str) -> str:
    rows, size = format_count(growth.num_rows), format_bytes(growth.data_bytes)
    gone = growth.num_past_rows
    expired = "" if gone is None else f", {format_count(gone[0]) if gone[0] else 'none'} {gone[1]}"
    files = growth.size_bytes if by == "segment" else None
    inside = "" if files is None else f", in files of {format_bytes(files)}"
    return f"{shown(growth.store)}: {rows} rows{expired}, {size} of keys and values{inside}"
