"""The figures of a store's growth, each with its source."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.stores.rows.rows import json_text


@dataclass(frozen=True, slots=True)
class KeyUse(Record):
    """What one key takes: at least so much, and at most ``error_`` more.

    ``key`` is what a serde made of ``key_raw``, or the bytes if it could not read them; ``share``
    is that of all keys' and values' bytes. Of keys that are summed up by their fields, it is the
    field's value, or of several fields a dict; then ``key_raw`` is None unless it is text.
    """

    key: Any
    key_raw: bytes | None
    num_rows: int = of_source(Source.STORE)
    data_bytes: int = of_source(Source.STORE)
    share: float = of_source(Source.STORE)
    error_rows: int = of_source(Source.FORMULA)
    error_bytes: int = of_source(Source.FORMULA)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values; of a key what JSON can say, whatever its type."""
        found = Record.to_dict(self)
        return found | {"key": json.loads(json_text(found["key"]))}


@dataclass(frozen=True, slots=True)
class PrefixUse(Record):
    """What the keys take that begin alike; ``prefix`` is for people: text, or hex."""

    prefix: str
    prefix_raw: bytes
    num_rows: int = of_source(Source.STORE)
    data_bytes: int = of_source(Source.STORE)
    share: float = of_source(Source.STORE)
    error_rows: int = of_source(Source.FORMULA)
    error_bytes: int = of_source(Source.FORMULA)


@dataclass(frozen=True, slots=True)
class WindowUse(Record):
    """What the windows take that start in a span of time; a span of 1 ms is one window start.

    ``end_ms`` is when the last of them ends; ``is_past`` whether all of them are older than the
    retention, or of Spark's have ended by the watermark.
    """

    start_ms: int
    span_ms: int
    num_rows: int = of_source(Source.STORE)
    data_bytes: int = of_source(Source.STORE)
    share: float = of_source(Source.STORE)
    end_ms: int | None = of_source(Source.STORE, None)
    is_past: bool | None = of_source(Source.FORMULA, None)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentUse(Record):
    """What a segment takes.

    ``size_bytes`` is how long its files are, ``data_bytes`` what the keys and values of its rows
    are before compression, ``is_past`` whether all of it is older than the retention.
    """

    path: str
    start_ms: int = of_source(Source.STORE)
    size_bytes: int = of_source(Source.STORE)
    num_rows: int = of_source(Source.STORE)
    data_bytes: int = of_source(Source.STORE)
    num_entries: int | None = of_source(Source.STORE, None)
    num_deletions: int | None = of_source(Source.STORE, None)
    is_past: bool | None = of_source(Source.FORMULA, None)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Age(Record):
    """The rows that were not updated for so long; of windows, those that ended so long ago.

    ``clock`` is what of a row is looked at, ``"timestamp"`` or ``"window end"``; ``judged_at_ms``
    the moment that is counted back from, and ``judged_by`` what moment that is.
    """

    not_updated_for_ms: int
    num_rows: int = of_source(Source.STORE)
    data_bytes: int = of_source(Source.STORE)
    share: float = of_source(Source.STORE)
    error_rows: int = of_source(Source.FORMULA)
    error_bytes: int = of_source(Source.FORMULA)
    clock: str = "timestamp"
    judged_by: str = "the newest row's timestamp"
    judged_at_ms: int | None = of_source(Source.FORMULA, None)


@dataclass(frozen=True, slots=True)
class LevelUse(Record):
    """What stands on one level of all the store's RocksDBs together."""

    level: int
    num_files: int = of_source(Source.STORE)
    size_bytes: int = of_source(Source.STORE)
    num_entries: int = of_source(Source.STORE)
    num_deletions: int = of_source(Source.STORE)
    tombstone_density: float | None = of_source(Source.STORE, None)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Horizon(Record):
    """From when on a store keeps rows.

    Parameters
    ----------
    stream_time_ms
        The greatest time of a row: stream time, as far as the store shows it.
    now_ms, watermark_ms, retention_ms
        The moment to judge by, Spark's watermark, and the retention, if they were given.
    inferred_retention_ms, inferred_least_ms, inferred_most_ms
        The retention that the segments' lengths speak for, and between which it must lie.
    segment_interval_ms, segment_interval_least_ms
        How long a segment most likely is, which is the most it can be, and the least.
    num_segments, expected_segments
        How many there are, and how many a store with this retention keeps at most.
    kept_from_ms
        From when on rows are kept: what is older is expired.
    """

    stream_time_ms: int | None = of_source(Source.STORE, None)
    now_ms: int | None = of_source(Source.GIVEN, None)
    watermark_ms: int | None = of_source(Source.GIVEN, None)
    retention_ms: int | None = of_source(Source.GIVEN, None)
    inferred_retention_ms: int | None = of_source(Source.FORMULA, None)
    inferred_least_ms: int | None = of_source(Source.FORMULA, None)
    inferred_most_ms: int | None = of_source(Source.FORMULA, None)
    segment_interval_ms: int | None = of_source(Source.FORMULA, None)
    segment_interval_least_ms: int | None = of_source(Source.FORMULA, None)
    num_segments: int = of_source(Source.STORE, 0)
    expected_segments: int | None = of_source(Source.FORMULA, None)
    kept_from_ms: int | None = of_source(Source.FORMULA, None)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def judged_at_ms(self) -> int | None:
        """The moment that ages count back from: the one given, or stream time."""
        return self.stream_time_ms if self.now_ms is None else self.now_ms

    @property
    def kept_ms(self) -> int | None:
        """The retention to judge by: told, or inferred, or the most that it can be."""
        known = (self.retention_ms, self.inferred_retention_ms, self.inferred_most_ms)
        return next((each for each in known if each is not None), None)

    @property
    def is_upper_bound(self) -> bool:
        """Whether the retention judged by is only the most that it can be."""
        return self.retention_ms is None and self.inferred_retention_ms is None

    @property
    def ago_ms(self) -> int | None:
        """The moment that is a retention ago: segments that end by then are past."""
        if self.judged_at_ms is None or self.kept_ms is None:
            return None
        return self.judged_at_ms - self.kept_ms


@dataclass(frozen=True, slots=True)
class Expired(Record):
    """What is older than the retention, and still there.

    ``num_rows`` and ``data_bytes`` are at least so much, and at most ``error_`` more. Where the
    retention judged by is only the most that it can be, more may be expired. ``past_ttl`` are those
    of Spark's state whose time to live was over when the latest micro-batch ran.
    """

    num_rows: int | None = of_source(Source.STORE, None)
    data_bytes: int | None = of_source(Source.STORE, None)
    error_rows: int = of_source(Source.FORMULA, 0)
    error_bytes: int = of_source(Source.FORMULA, 0)
    num_past_segments: int | None = of_source(Source.FORMULA, None)
    past_segments_bytes: int | None = of_source(Source.FORMULA, None)
    num_below_watermark: int | None = of_source(Source.STORE, None)
    below_watermark_bytes: int | None = of_source(Source.STORE, None)
    num_past_ttl: int | None = of_source(Source.STORE, None)
    past_ttl_bytes: int | None = of_source(Source.STORE, None)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Versions(Record):
    """What a versioned store keeps of its keys' pasts."""

    num_latest: int = of_source(Source.STORE)
    num_history: int = of_source(Source.STORE)
    history_bytes: int = of_source(Source.STORE)
    versions_per_key: float | None = of_source(Source.STORE, None)
    most_versions: int = of_source(Source.STORE, 0)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deletions(Record):
    """The tombstones in a store's SST files, and how much more these take than their live rows.

    ``num_obsolete`` are entries that are neither a row nor a tombstone: older versions of rows, and
    what tombstones stand for. ``space_amplification`` is by RocksDB's estimate of what is live.
    """

    num_entries: int | None = of_source(Source.STORE, None)
    num_deletions: int | None = of_source(Source.STORE, None)
    num_range_deletions: int | None = of_source(Source.STORE, None)
    num_obsolete: int | None = of_source(Source.STORE, None)
    tombstone_density: float | None = of_source(Source.STORE, None)
    space_amplification: float | None = of_source(Source.STORE, None)
    levels: Records[LevelUse] = field(default_factory=lambda: Records((), "levels"))
    unknown: dict[str, str] = field(default_factory=dict)


class Eviction(StrEnum):
    """What takes rows out of a store of Spark's."""

    WATERMARK = "the watermark"
    TTL = "the time to live of state variables"
    CODE = "the query's own code"
    NEVER = "nothing: the operator counts for as long as the query runs"


@dataclass(frozen=True, slots=True)
class CheckpointUse(Record):
    """What a checkpoint keeps of a store.

    Parameters
    ----------
    eviction
        What takes rows out of it.
    batch_at_ms, watermark_ms
        The clock and watermark of the latest micro-batch, epoch ms UTC; None: there is none.
    num_versions, oldest_version, newest_version
        The versions that can be read.
    num_snapshots, snapshots_bytes, num_changelogs, changelogs_bytes, num_others, others_bytes
        Files that hold a version whole, with SST files that several versions share; that hold what
        a version changed; and all others: checksums, and schemas.
    size_bytes, disk_bytes
        How long all of them are, and what they take on the disk.
    """

    eviction: Eviction
    batch_at_ms: int = of_source(Source.STORE)
    watermark_ms: int | None = of_source(Source.STORE, None)
    num_versions: int = of_source(Source.STORE, 0)
    oldest_version: int | None = of_source(Source.STORE, None)
    newest_version: int | None = of_source(Source.STORE, None)
    num_snapshots: int = of_source(Source.STORE, 0)
    snapshots_bytes: int = of_source(Source.STORE, 0)
    num_changelogs: int = of_source(Source.STORE, 0)
    changelogs_bytes: int = of_source(Source.STORE, 0)
    num_others: int = of_source(Source.STORE, 0)
    others_bytes: int = of_source(Source.STORE, 0)
    size_bytes: int = of_source(Source.STORE, 0)
    disk_bytes: int = of_source(Source.STORE, 0)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def cut_ms(self) -> int | None:
        """The time up to which rows are to go, epoch ms UTC; None if no time decides."""
        told = {Eviction.WATERMARK: self.watermark_ms, Eviction.TTL: self.batch_at_ms}
        return told.get(self.eviction)

    @property
    def why_no_watermark(self) -> str:
        """Why there is no watermark that takes rows out of the store."""
        if self.eviction is Eviction.WATERMARK:
            return "the query has none"
        return f"what takes rows out of the store is {self.eviction}"

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return self.num_snapshots + self.num_changelogs + self.num_others
