"""What of a store is past its time: rows, segments, and versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.records import Records
from kstoolkit.stores.growth.checkpointuse import Eviction
from kstoolkit.stores.growth.clock import Clock
from kstoolkit.stores.growth.records import Expired, Horizon, SegmentUse, Versions

if TYPE_CHECKING:
    from kstoolkit.stores.discovery.foundstore import FoundSegment
    from kstoolkit.stores.growth.checkpointuse import CheckpointUse
    from kstoolkit.stores.growth.deletions import StoreFiles
    from kstoolkit.stores.growth.tallies import Tallies


_NOT_OPENED = "its RocksDB was not handed over"
_NO_TTL = "it is no state of Spark's whose variables have a time to live"


def expired_of(
    tallies: Tallies,
    horizon: Horizon,
    segments: Records[SegmentUse],
    checkpoint: CheckpointUse | None = None,
) -> Expired:
    """Return what is past the retention, the watermark or a time to live, and still there."""
    unknown: dict[str, str] = {}
    below = None
    if horizon.kept_from_ms is None:
        unknown |= dict.fromkeys(("num_rows", "data_bytes"), _why_no_cut(horizon))
    else:
        below = tallies.times.spans().below(horizon.kept_from_ms)
    past = [each for each in segments if each.is_past]
    judged = bool(segments) and all(each.is_past is not None for each in segments)
    if not judged:
        why = _why_not_past(horizon) if segments else "the store has no segments of its own"
        unknown |= dict.fromkeys(("num_past_segments", "past_segments_bytes"), why)
    if horizon.watermark_ms is None:
        no_watermark = ("num_below_watermark", "below_watermark_bytes")
        why = "no watermark was given" if checkpoint is None else checkpoint.why_no_watermark
        unknown |= dict.fromkeys(no_watermark, why)
    has_watermark = horizon.watermark_ms is not None
    has_ttl = checkpoint is not None and checkpoint.eviction is Eviction.TTL
    if not has_ttl:
        unknown |= dict.fromkeys(("num_past_ttl", "past_ttl_bytes"), _NO_TTL)
    return Expired(
        num_rows=None if below is None else below.num_rows,
        data_bytes=None if below is None else below.data_bytes,
        error_rows=0 if below is None else below.error_rows,
        error_bytes=0 if below is None else below.error_bytes,
        num_past_segments=len(past) if judged else None,
        past_segments_bytes=sum(each.size_bytes for each in past) if judged else None,
        num_below_watermark=tallies.num_below if has_watermark else None,
        below_watermark_bytes=tallies.below_bytes if has_watermark else None,
        num_past_ttl=tallies.num_below if has_ttl else None,
        past_ttl_bytes=tallies.below_bytes if has_ttl else None,
        unknown=unknown,
    )


def segments_of(
    tallies: Tallies,
    horizon: Horizon,
    found: Records[FoundSegment],
    files: dict[str, StoreFiles],
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
    is_past = _is_past(found.start_ms, horizon)
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


def _is_past(start_ms: int, horizon: Horizon) -> bool | None:
    interval, ago_ms = horizon.segment_interval_ms, horizon.ago_ms
    if interval is None or ago_ms is None:
        return None
    return start_ms + interval <= ago_ms


def _why_not_past(horizon: Horizon) -> str:
    if horizon.segment_interval_ms is None and horizon.kept_from_ms is not None:
        return horizon.unknown["segment_interval_ms"]
    return _why_no_cut(horizon)


def _why_no_cut(horizon: Horizon) -> str:
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
