"""What of a store is past its time, and who takes its room: the figures, of what rows add up to.

The horizon comes first: from when on it keeps rows, by what was told or its segments speak for.
Ages say how long ago rows were updated last, or how long ago their windows ended:

==========================  =======================  =============================================
rows                        what is looked at        counted back from
==========================  =======================  =============================================
one a key, with timestamps  when it was updated      the moment given, else the newest timestamp
of windows and sessions     when the window ended    the moment given, else the watermark, else
                                                     the newest window's start or session's end
==========================  =======================  =============================================
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import naming
from kstoolkit.formats.columns import ByteColumn, Undecoded
from kstoolkit.formats.serdes import guess_serde, serde_of
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.records import Records
from kstoolkit.stores.growth.clock import (
    SHORTEST_MS,
    Between,
    Clock,
    interval_of,
    interval_of_starts,
    least_interval_of,
    live_segments,
    retention_of,
)
from kstoolkit.stores.growth.records import (
    Age,
    Eviction,
    Expired,
    Horizon,
    KeyUse,
    PrefixUse,
    SegmentUse,
    Versions,
    WindowUse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.stores.discovery.found import FoundSegment
    from kstoolkit.stores.growth.fields import FieldTally
    from kstoolkit.stores.growth.files import StoreFiles
    from kstoolkit.stores.growth.heavyhitters import HeavyHitters, Totals
    from kstoolkit.stores.growth.records import CheckpointUse
    from kstoolkit.stores.growth.tallies import Tallies

_STREAMS = "kafka-streams"
_KEEP_THE_EDGE = {Kind.TIME_ORDERED_WINDOW, Kind.HEADERS_TIME_ORDERED_WINDOW}
"""Stores for windows that are given out when they close: one that is just so old still is there."""

_IN_FOLDERS = {Clock.WINDOW_START, Clock.SESSION_END}
"""Clocks of stores that have a folder for each segment."""

_NOT_GIVEN = "it was not given"
_NO_TIME = "there is no row with a time"


def horizon_of(
    tallies: Tallies,
    *,
    retention_ms: int | None,
    now_ms: int | None,
    checkpoint: CheckpointUse | None,
) -> Horizon:
    """Return from when on a store keeps rows; what is not given is None."""
    by_watermark = checkpoint is None or checkpoint.eviction is Eviction.WATERMARK
    interval = _interval(tallies, retention_ms)
    inferred = _inferred(tallies, interval) if retention_ms is None else None
    bounds = None if inferred is None else inferred[1]
    least_ms = _least_interval_ms(tallies) if interval is None else interval.least_ms
    horizon = Horizon(
        stream_time_ms=tallies.greatest_time_ms,
        now_ms=now_ms,
        watermark_ms=tallies.watermark_ms if by_watermark else None,
        retention_ms=retention_ms,
        inferred_retention_ms=None if inferred is None else inferred[0],
        inferred_least_ms=_least_retention_ms(tallies, least_ms) if retention_ms is None else None,
        inferred_most_ms=None if bounds is None else bounds.most_ms,
        segment_interval_ms=None if interval is None else interval.most_ms,
        segment_interval_least_ms=least_ms,
        num_segments=len(tallies.segments.starts_ms),
    )
    horizon = replace(
        horizon,
        expected_segments=_expected_segments(tallies, horizon),
        kept_from_ms=_kept_from_ms(tallies, horizon),
    )
    unknown = _unknown(tallies, horizon)
    if checkpoint is not None and horizon.watermark_ms is None:
        unknown["watermark_ms"] = checkpoint.why_no_watermark
    return replace(horizon, unknown=unknown)


def _interval(tallies: Tallies, retention_ms: int | None) -> Between | None:
    if tallies.clock is Clock.VALID_TO:
        return tallies.history.interval
    if tallies.clock not in _IN_FOLDERS:
        return None
    is_streams = tallies.engine == _STREAMS
    segments = tallies.segments
    starts = [int(each) for each in segments.starts_ms]
    found = interval_of_starts(
        starts,
        longest_stay_ms=segments.longest_stay_ms,
        shortest_ms=SHORTEST_MS if is_streams else 1,
    )
    if retention_ms is None or not is_streams:
        return found
    told_ms = interval_of(retention_ms)
    fits = all(start % told_ms == 0 for start in starts) and segments.longest_stay_ms < told_ms
    return Between(told_ms, told_ms) if fits else found


def _inferred(tallies: Tallies, interval: Between | None) -> tuple[int | None, Between] | None:
    """Return the retention that segments so long speak for, and the bounds of what it can be."""
    if interval is None or tallies.engine != _STREAMS:
        return None
    is_versioned = tallies.clock is Clock.VALID_TO
    bounds = retention_of(interval, is_versioned=is_versioned)
    if bounds is None:
        return None
    if is_versioned:
        return bounds.likely_ms, bounds
    likely = retention_of(Between(interval.most_ms, interval.most_ms))
    return None if likely is None else likely.likely_ms, bounds


def _least_interval_ms(tallies: Tallies) -> int | None:
    """Return how long a segment is at least, where only one is there."""
    segments = tallies.segments
    if len(segments.starts_ms) != 1 or tallies.clock not in _IN_FOLDERS:
        return None
    if tallies.engine != _STREAMS or not tallies.num_rows:
        return None
    return least_interval_of(int(segments.starts_ms[0]), segments.longest_stay_ms)


def _least_retention_ms(tallies: Tallies, least_interval_ms: int | None) -> int | None:
    if least_interval_ms is None or tallies.engine != _STREAMS:
        return None
    is_versioned = tallies.clock is Clock.VALID_TO
    bounds = retention_of(Between(least_interval_ms, least_interval_ms), is_versioned=is_versioned)
    return None if bounds is None else bounds.least_ms


def _expected_segments(tallies: Tallies, horizon: Horizon) -> int | None:
    interval, kept, at = horizon.segment_interval_ms, horizon.kept_ms, horizon.judged_at_ms
    if tallies.clock not in _IN_FOLDERS or tallies.engine != _STREAMS:
        return None
    if interval is None or kept is None or at is None:
        return None
    return live_segments(at, kept, interval)


def _kept_from_ms(tallies: Tallies, horizon: Horizon) -> int | None:
    if horizon.ago_ms is None:
        return None
    return horizon.ago_ms if tallies.kind in _KEEP_THE_EDGE else horizon.ago_ms + 1


def _unknown(tallies: Tallies, horizon: Horizon) -> dict[str, str]:
    no_interval, not_inferred = _why_no_interval(tallies), _why_not_inferred(tallies, horizon)
    why = {
        "stream_time_ms": _NO_TIME,
        "now_ms": _NOT_GIVEN,
        "watermark_ms": _NOT_GIVEN,
        "retention_ms": _NOT_GIVEN,
        "inferred_retention_ms": not_inferred,
        "inferred_least_ms": not_inferred,
        "inferred_most_ms": not_inferred,
        "segment_interval_ms": no_interval,
        "segment_interval_least_ms": no_interval,
        "expected_segments": "it takes a retention, and segments that are folders",
        "kept_from_ms": _NO_TIME if tallies.greatest_time_ms is None else not_inferred,
    }
    return {name: reason for name, reason in why.items() if getattr(horizon, name) is None}


def _why_no_interval(tallies: Tallies) -> str:
    if tallies.clock is None:
        return _NO_TIME
    if tallies.clock is Clock.TIMESTAMP:
        return "the store has no segments"
    if tallies.clock is Clock.VALID_TO:
        return "no row of the history tells how long its segments are"
    if len(tallies.segments.starts_ms) > 1:
        return "its rows do not lie in the segments that their times belong to"
    return "fewer than two segments do not tell how long one is"


def _why_not_inferred(tallies: Tallies, horizon: Horizon) -> str:
    if horizon.retention_ms is not None:
        return "the retention was given"
    if tallies.engine == "spark":
        return "in Spark's state a watermark or a time to live decides, and none is known"
    if tallies.clock is Clock.TIMESTAMP:
        return "this kind of store keeps rows until they are deleted"
    if tallies.engine != _STREAMS:
        return naming("only the segments of Kafka Streams' stores speak of it: give {retention}")
    if horizon.segment_interval_ms is None:
        return naming("{why}: give {retention}", why=_why_no_interval(tallies))
    is_one = horizon.inferred_most_ms is not None
    why = naming("the segments do not tell it: give {retention}")
    return why if is_one else "no retention has segments so long"


_NOT_OPENED = "its RocksDB was not handed over"
_NO_TTL = "it is no state of Spark's whose variables have a time to live"


def expired_of(
    tallies: Tallies,
    horizon: Horizon,
    segments: Records[SegmentUse],
    checkpoint: CheckpointUse | None,
) -> Expired:
    """Return what is past the retention, the watermark or a time to live, and still there."""
    told: dict[str, int] = {}
    unknown: dict[str, str] = {}
    if horizon.kept_from_ms is None:
        unknown |= dict.fromkeys(("num_rows", "data_bytes"), horizon.unknown["kept_from_ms"])
    else:
        told |= asdict(tallies.times.spans().below(horizon.kept_from_ms))
    past = [each.size_bytes for each in segments if each.is_past]
    if segments and all(each.is_past is not None for each in segments):
        told |= {"num_past_segments": len(past), "past_segments_bytes": sum(past)}
    else:
        why = _why_not_past(horizon) if segments else "the store has no segments of its own"
        unknown |= dict.fromkeys(("num_past_segments", "past_segments_bytes"), why)
    names = ("num_below_watermark", "below_watermark_bytes")
    if horizon.watermark_ms is not None:
        told |= dict(zip(names, (tallies.num_below, tallies.below_bytes), strict=True))
    else:
        why = "no watermark was given" if checkpoint is None else checkpoint.why_no_watermark
        unknown |= dict.fromkeys(names, why)
    names = ("num_past_ttl", "past_ttl_bytes")
    if checkpoint is not None and checkpoint.eviction is Eviction.TTL:
        told |= dict(zip(names, (tallies.num_below, tallies.below_bytes), strict=True))
    else:
        unknown |= dict.fromkeys(names, _NO_TTL)
    return Expired(**told, unknown=unknown)


def segments_of(
    tallies: Tallies, horizon: Horizon, found: Records[FoundSegment], files: dict[str, StoreFiles]
) -> Records[SegmentUse]:
    """Return what each segment takes; ``files`` are those of the RocksDBs by their folders."""
    tally = tallies.segments
    uses = [
        _segment(each, int(rows), int(size), horizon, files.get(each.path))
        for each, rows, size in zip(found, tally.num_rows, tally.data_bytes, strict=True)
    ]
    return Records(uses, "segments")


def _segment(
    found: FoundSegment, num_rows: int, data_bytes: int, horizon: Horizon, files: StoreFiles | None
) -> SegmentUse:
    ssts = None if files is None else files.ssts
    interval, ago_ms, is_past = horizon.segment_interval_ms, horizon.ago_ms, None
    if interval is not None and ago_ms is not None:
        is_past = found.start_ms + interval <= ago_ms
    unknown = {} if is_past is not None else {"is_past": _why_not_past(horizon)}
    if ssts is None:
        unknown |= dict.fromkeys(("num_entries", "num_deletions"), _NOT_OPENED)
    return SegmentUse(
        path=found.path,
        start_ms=found.start_ms,
        size_bytes=found.size_bytes,
        num_rows=num_rows,
        data_bytes=data_bytes,
        num_entries=None if ssts is None else sum(each.num_entries for each in ssts),
        num_deletions=None if ssts is None else sum(each.num_deletions for each in ssts),
        is_past=is_past,
        unknown=unknown,
    )


def _why_not_past(horizon: Horizon) -> str:
    if horizon.segment_interval_ms is None and horizon.kept_from_ms is not None:
        return horizon.unknown["segment_interval_ms"]
    return horizon.unknown["kept_from_ms"]


def versions_of(tallies: Tallies) -> Versions | None:
    """Return what a versioned store keeps of its keys' pasts; None of any other store."""
    if tallies.clock is not Clock.VALID_TO:
        return None
    history, num_keys = tallies.history, tallies.keys.num_keys
    return Versions(
        num_latest=history.num_latest,
        num_history=history.num_past,
        history_bytes=history.past_bytes,
        versions_per_key=tallies.num_rows / num_keys if num_keys else None,
        most_versions=tallies.keys.most_rows,
        unknown={} if num_keys else {"versions_per_key": "there are too many keys to count them"},
    )


def keys_of(tallies: Tallies, top: int, serde: Serde | None) -> Records[KeyUse]:
    """Return the keys that take most, read by a serde, or by the one that they look like."""
    hitters, fields = tallies.keys, tallies.fields
    if fields is not None:
        return Records(_by_fields(tallies, fields, fields.fields.by, hitters, top), "keys")
    totals, bounds = hitters.top(top), (hitters.error_rows, hitters.error_bytes)
    raw = ByteColumn.from_arrow(totals.keys)
    chosen = serde_of(guess_serde(raw).serde) if serde is None else serde
    values = chosen.decode(raw).to_list(raw)
    uses = [
        KeyUse(value.raw if isinstance(value, Undecoded) else value, *figures, *bounds)
        for value, figures in zip(values, _figures(totals, tallies), strict=True)
    ]
    return Records(uses, "keys")


def fields_of(tallies: Tallies, top: int) -> dict[str, Records[KeyUse]]:
    """Return the values of each field of keys that take most; none if a key is one field."""
    fields = tallies.fields
    if fields is None:
        return {}
    return {
        name: Records(_by_fields(tallies, fields, (name,), hitters, top), f"values of {name}")
        for name, hitters in fields.each.items()
    }


def _by_fields(
    tallies: Tallies, fields: FieldTally, names: tuple[str, ...], hitters: HeavyHitters, top: int
) -> list[KeyUse]:
    totals, bounds = hitters.top(top), (hitters.error_rows, hitters.error_bytes)
    uses = []
    for key, rows, size, share in _figures(totals, tallies):
        found = fields.key(key)
        value = found if len(names) > 1 else found[names[0]]
        raw = value.encode() if isinstance(value, str) else None
        uses.append(KeyUse(value, raw, rows, size, share, *bounds))
    return uses


def _figures(totals: Totals, tallies: Tallies) -> Iterator[tuple[Any, int, int, float]]:
    """Return each key with its rows, its bytes, and its share of all bytes."""
    sizes = totals.data_bytes.tolist()
    shares = [_share_of(size, tallies) for size in sizes]
    return zip(totals.keys.to_pylist(), totals.num_rows.tolist(), sizes, shares, strict=True)


def prefixes_of(tallies: Tallies, top: int) -> Records[PrefixUse]:
    """Return the beginnings of keys that take most."""
    tally = tallies.prefixes
    totals, bounds = tally.top(top), (tally.error_rows, tally.error_bytes)
    uses = [
        PrefixUse(_prefix_text(raw or b""), raw or b"", rows, size, share, *bounds)
        for raw, rows, size, share in _figures(totals, tallies)
    ]
    return Records(uses, "prefixes")


def windows_of(tallies: Tallies, horizon: Horizon, top: int) -> Records[WindowUse]:
    """Return the window starts that take most; none of Kafka Streams' sessions, or if none are."""
    if tallies.clock is not Clock.WINDOW_START:
        return Records((), "windows")
    spans = tallies.times.spans()
    order = (-spans.data_bytes).argsort(kind="stable")[:top]
    uses = []
    for at in order:
        start_ms, size = int(spans.number[at]) * spans.length_ms, int(spans.data_bytes[at])
        rows, share = int(spans.num_rows[at]), _share_of(size, tallies)
        use = WindowUse(start_ms, spans.length_ms, rows, size, share)
        uses.append(_judged(tallies, horizon, use))
    return Records(uses, "windows")


def _judged(tallies: Tallies, horizon: Horizon, use: WindowUse) -> WindowUse:
    """Return what windows take, with when they end, and whether they are past their time."""
    last_ms = use.start_ms + use.span_ms - 1
    least_ms, most_ms = tallies.least_window_ms, tallies.most_window_ms
    end_ms = None if most_ms is None or least_ms != most_ms else last_ms + most_ms
    unknown = {}
    if end_ms is None:
        told = "is not told" if most_ms is None else "differs"
        unknown["end_ms"] = f"how long the windows are {told}"
    is_past: bool | None = None
    if horizon.kept_from_ms is not None:
        is_past = last_ms < horizon.kept_from_ms
    elif horizon.watermark_ms is None:
        unknown["is_past"] = horizon.unknown["kept_from_ms"]
    elif most_ms is not None and last_ms + most_ms <= horizon.watermark_ms:
        is_past = True
    elif least_ms is not None and use.start_ms + least_ms > horizon.watermark_ms:
        is_past = False
    else:
        unknown["is_past"] = unknown.get("end_ms", "some of them are, some are not")
    return replace(use, end_ms=end_ms, is_past=is_past, unknown=unknown)


def num_windows(tallies: Tallies) -> int | None:
    """Return how many window starts there are, or spans of them; None of a store without."""
    return len(tallies.times.spans()) if tallies.clock is Clock.WINDOW_START else None


def _prefix_text(raw: bytes) -> str:
    """Return the beginning of a key for people: text if it can be printed, else hex."""
    text = raw.decode(errors="ignore")  # a character may be cut in two
    is_text = text.isprintable() and len(raw) - len(text.encode()) < 4  # noqa: PLR2004 - UTF-8's
    return text if is_text and (text or not raw) else f"0x{raw.hex()}"


def _share_of(size_bytes: int, tallies: Tallies) -> float:
    """Return which share of all keys' and values' bytes some bytes are."""
    return size_bytes / tallies.data_bytes if tallies.data_bytes else 0.0


_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_AGES_MS = (_HOUR_MS, _DAY_MS, 7 * _DAY_MS, 30 * _DAY_MS)
_NEWEST = {
    Clock.TIMESTAMP: "the newest row's timestamp",
    Clock.WINDOW_START: "the newest window's start",
    Clock.SESSION_END: "the newest session's end",
}


def ages_of(tallies: Tallies, horizon: Horizon, checkpoint: CheckpointUse | None) -> Records[Age]:
    """Return how many rows are unchanged, or windows over, for an hour, a day, a week, 30 days."""
    judge = _judge(tallies, horizon)
    if judge is None or why_no_ages(tallies, horizon, checkpoint) is not None:
        return Records((), "ages")
    if tallies.clock is Clock.TIMESTAMP:
        spans, clock = tallies.times.spans(), str(Clock.TIMESTAMP)
    else:
        spans, clock = tallies.ends.spans(), "window end"
    at_ms, what = judge
    ages = []
    for age_ms in _AGES_MS:
        found = spans.below(at_ms - age_ms + 1)
        rows, size = found.num_rows, found.data_bytes
        errors = found.error_rows, found.error_bytes
        ages.append(Age(age_ms, rows, size, _share_of(size, tallies), *errors, clock, what, at_ms))
    return Records(ages, "ages")


def why_no_ages(tallies: Tallies, horizon: Horizon, checkpoint: CheckpointUse | None) -> str | None:
    """Return why rows have no ages; None if they have."""
    is_ttl = checkpoint is not None and checkpoint.eviction is Eviction.TTL
    if is_ttl or tallies.are_expiries:
        return "its rows' times are when they expire, not when they were updated"
    if tallies.clock is None:
        return "there are no rows"
    if tallies.clock is Clock.VALID_TO:
        return "versions are replaced, not updated: versions says how many are history"
    if tallies.clock is not Clock.TIMESTAMP and not len(tallies.ends.spans()):
        return naming("when its windows end is unknown: give {window_size}")
    no_time = tallies.greatest_time_ms is None or _judge(tallies, horizon) is None
    return _NO_TIME if no_time else None


def _judge(tallies: Tallies, horizon: Horizon) -> tuple[int, str] | None:
    """Return the moment that ages count back from, and what it is."""
    if tallies.clock is None or tallies.clock is Clock.VALID_TO:
        return None
    if horizon.now_ms is not None:
        return horizon.now_ms, "the moment given"
    if tallies.clock is not Clock.TIMESTAMP and horizon.watermark_ms is not None:
        return horizon.watermark_ms, "the watermark"
    if horizon.stream_time_ms is None:
        return None
    return horizon.stream_time_ms, _NEWEST[tallies.clock]
