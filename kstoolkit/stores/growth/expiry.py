"""Sentences about what is past its time: by a retention, or by Spark's watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.stores.growth.clock import Clock
from kstoolkit.stores.growth.remark import Remark, Weight
from kstoolkit.stores.growth.retention import interval_of
from kstoolkit.stores.growth.wording import amount, moment_text, share_text
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.growth.records import Horizon


_STREAMS = "kafka-streams"
_WHAT = {
    Clock.WINDOW_START: ("it starts", "they start"),
    Clock.SESSION_END: ("it ends", "they end"),
    Clock.VALID_TO: ("it was replaced", "they were replaced"),
}


def _past_segments(growth: Growth) -> Remark | None:
    expired, horizon = growth.expired, growth.horizon
    if not expired.num_past_segments or expired.past_segments_bytes is None:
        return None
    all_bytes = sum(each.size_bytes for each in growth.segments)
    count, of_all = expired.num_past_segments, len(growth.segments)
    text = (
        f"{format_count(count)} of {format_count(of_all)} segments "
        f"({format_bytes(expired.past_segments_bytes)} of {format_bytes(all_bytes)}) "
        f"{'ends' if count == 1 else 'end'} by {_cut(horizon)}."
    )
    if growth.engine == _STREAMS:
        text += f" {_why_still_there(horizon, 'it' if count == 1 else 'them')}"
    return Remark(Weight.OVERDUE, expired.past_segments_bytes / max(all_bytes, 1), text)


def _why_still_there(horizon: Horizon, segments: str) -> str:
    newest = horizon.stream_time_ms
    rule = "Kafka Streams drops a segment only when a newer record arrives"
    if newest is None or horizon.judged_at_ms is None:
        return f"{rule}."
    if newest < horizon.judged_at_ms:
        return f"{rule}, and the newest here is of {moment_text(newest)}."
    return f"{rule}: the next one will drop {segments}."


def _expired_rows(growth: Growth) -> Remark | None:
    expired, horizon = growth.expired, growth.horizon
    if not expired.num_rows or expired.data_bytes is None or growth.clock is None:
        return None
    told = amount(expired.num_rows, expired.data_bytes, expired.error_rows)
    share = expired.data_bytes / max(growth.data_bytes, 1)
    text = f"{told}, {share_text(expired.num_rows, growth.num_rows)} of the rows,"
    is_many = expired.num_rows > 1 or expired.error_rows > 0
    if growth.clock == Clock.TIMESTAMP:
        were = "were" if is_many else "was"
        return Remark(Weight.CAUSE, share, f"{text} {were} updated last by {_cut(horizon)}.")
    what = _WHAT[Clock(growth.clock)][is_many]
    text += f" {'are' if is_many else 'is'} expired: {what} by {_cut(horizon)}."
    if growth.engine == _STREAMS:
        text += f" {_why_rows_stay(growth)}"
    return Remark(Weight.OVERDUE, share, text)


def _why_rows_stay(growth: Growth) -> str:
    horizon = growth.horizon
    reads = (
        "" if growth.clock == Clock.VALID_TO else "Reads hide them since Kafka Streams 3.4, but "
    )
    rule = f"{reads}only whole segments are dropped" if reads else "Only whole segments are dropped"
    interval, kept = horizon.segment_interval_ms, horizon.kept_ms
    if interval is None or kept is None:
        return f"{rule}."
    return (
        f"{rule}: with segments of {format_duration(interval)}, rows stay for up to "
        f"{format_duration(kept + interval)}."
    )


def _below_watermark(growth: Growth) -> Remark | None:
    expired, watermark = growth.expired, growth.horizon.watermark_ms
    if not expired.num_below_watermark or watermark is None:
        return None
    size = expired.below_watermark_bytes or 0
    what = "whose windows end" if growth.clock == Clock.WINDOW_START else "whose times are"
    text = (
        f"{amount(expired.num_below_watermark, size)}, "
        f"{share_text(expired.num_below_watermark, growth.num_rows)} of the rows, are those {what} "
        f"at or before the watermark, {moment_text(watermark)}. Spark evicts such rows at the end "
        "of the next micro-batch, unless the condition of a join still needs them."
    )
    return Remark(Weight.OVERDUE, size / max(growth.data_bytes, 1), text)


def _above_watermark(growth: Growth) -> Remark | None:
    watermark = growth.horizon.watermark_ms
    if watermark is None or growth.expired.num_below_watermark:
        return None
    if growth.num_untimed_rows == growth.num_rows:
        return None  # there is nothing to hold against it
    text = f"No row is at or before the watermark, {moment_text(watermark)}: all of it has to stay."
    return Remark(Weight.IN_ORDER, 0.0, text)


def _ran_ahead(growth: Growth) -> Remark | None:
    newest, now = growth.horizon.stream_time_ms, growth.horizon.now_ms
    if newest is None or now is None or newest <= now or growth.expired.num_past_ttl is not None:
        return None
    text = (
        f"Its newest row is of {moment_text(newest)}, later than {moment_text(now)}: a record from "
        "the future moves stream time on, and with it what counts as expired."
    )
    return Remark(Weight.OVERDUE, 0.0, text)


def _contradicted(growth: Growth) -> Remark | None:
    horizon = growth.horizon
    told, interval = horizon.retention_ms, horizon.segment_interval_ms
    is_versioned = growth.clock == Clock.VALID_TO
    if told is None or interval is None or growth.engine != _STREAMS:
        return None
    expected = interval_of(told, is_versioned=is_versioned)
    if (horizon.segment_interval_least_ms or 0) <= expected <= interval:
        return None
    text = (
        f"A retention of {format_duration(told)} has segments of {format_duration(expected)}, but "
        f"those here are of {format_duration(interval)}: the store was made with another retention."
    )
    return Remark(Weight.UNKNOWN, 1.0, text)


def _in_order(growth: Growth) -> Remark | None:
    expected, expired = growth.horizon.expected_segments, growth.expired
    if expected is None or expired.num_past_segments != 0 or growth.horizon.kept_ms is None:
        return None
    text = (
        f"No segment is overdue: a store with a retention of {_retention(growth.horizon)} keeps up "
        f"to {expected}, and this one has {format_count(len(growth.segments))}."
    )
    return Remark(Weight.IN_ORDER, 0.0, text)


def _not_exact(growth: Growth) -> Remark | None:
    horizon = growth.horizon
    if not horizon.is_upper_bound or horizon.kept_ms is None:
        return None
    text = (
        f"How long it keeps rows is not known exactly: its segments speak for "
        f"{_bounds(horizon)}. What is counted as expired is so by the longest: give retention=."
    )
    return Remark(Weight.UNKNOWN, 0.0, text)


def _not_judged(growth: Growth) -> Remark | None:
    horizon = growth.horizon
    if horizon.kept_ms is not None or horizon.watermark_ms is not None or growth.clock is None:
        return None
    if growth.checkpoint is not None:
        return None  # it tells what takes rows out
    if growth.clock == Clock.TIMESTAMP and growth.engine != "spark":
        return None
    text = f"What is expired is unknown: {horizon.unknown['inferred_retention_ms']}."
    if horizon.inferred_least_ms:
        text += (
            f" Its one segment has rows so far apart that the retention is at least "
            f"{_rounded(horizon.inferred_least_ms)}."
        )
    return Remark(Weight.UNKNOWN, 0.0, text)


def _cut(horizon: Horizon) -> str:
    """Return up to when rows are expired, and why: only of a horizon that has a retention."""
    cut = moment_text((horizon.kept_from_ms or 0) - 1)
    since = "the newest row" if horizon.now_ms is None else moment_text(horizon.now_ms)
    return f"{cut}, a retention of {_retention(horizon)} before {since}"


def _retention(horizon: Horizon) -> str:
    length = format_duration(horizon.kept_ms or 0)
    if horizon.retention_ms is not None:
        return length
    how = "inferred from the segments"
    if horizon.is_upper_bound:
        return f"{_rounded(horizon.inferred_most_ms)} at most ({how})"
    is_exact = _rounded(horizon.inferred_least_ms) == _rounded(horizon.inferred_most_ms)
    return f"{length} ({how})" if is_exact else f"{length} ({how}: {_bounds(horizon)})"


def _bounds(horizon: Horizon) -> str:
    return f"{_rounded(horizon.inferred_least_ms)} to {_rounded(horizon.inferred_most_ms)}"


def _rounded(length_ms: int | None) -> str:
    """Return a length of time without the ms that a division of it leaves open."""
    return format_duration((length_ms or 0) // 1000 * 1000)


EXPIRY_RULES = (
    _past_segments,
    _expired_rows,
    _below_watermark,
    _above_watermark,
    _ran_ahead,
    _contradicted,
    _in_order,
    _not_exact,
    _not_judged,
)
