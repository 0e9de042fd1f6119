"""Why a store does not shrink, in sentences with the figures behind them.

Each rule looks at one thing, and says nothing where the figures say nothing. What should not be
there comes first, then why it can't go, who takes the room, and last what is not known.

One sentence of a verdict, and how much it matters.

Moments, shares and amounts, as the sentences of a verdict say them.

Sentences about what is past its time: by a retention, or by Spark's watermark.

Sentences about what takes rows out of a store of Spark's, and what its checkpoint keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from kstoolkit.moments import moment_text
from kstoolkit.records import counted
from kstoolkit.stores.growth.clock import ONE_ROW_A_KEY, Clock, interval_of
from kstoolkit.stores.growth.files import Eviction
from kstoolkit.stores.rows.rows import value_text
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kstoolkit.stores.growth.files import CheckpointUse
    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.growth.records import Age, Horizon, KeyUse


class Weight(IntEnum):
    """What a sentence is about; the lower, the earlier it stands."""

    OVERDUE = 0
    CAUSE = 1
    USE = 2
    IN_ORDER = 3
    UNKNOWN = 4


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence.

    Parameters
    ----------
    weight
        What it is about.
    share
        Which share of the store it concerns, from 0 to 1: the larger, the earlier it stands.
    text
        The sentence.
    """

    weight: Weight
    share: float
    text: str


def _share_text(part: float, whole: float) -> str:
    """Return a share in percent, which is neither 0 nor 100 unless it is exactly that.

    Examples
    --------
    >>> _share_text(1, 3), _share_text(1, 1000), _share_text(999, 1000), _share_text(3, 3)
    ('33 %', 'under 1 %', 'over 99 %', '100 %')
    """
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "under 1 %"
    return "over 99 %" if 99 < percent < 100 else f"{percent:.0f} %"  # noqa: PLR2004 - percents


def amount(num_rows: int, data_bytes: int, error_rows: int = 0, noun: str = "row") -> str:
    """Return how many rows there are, and their bytes; with an error, as at least so many.

    Examples
    --------
    >>> amount(1, 512), amount(1200, 4096, 30)
    ('1 row (512 B)', 'at least 1,200 rows (4.0 KiB), and at most 30 more')
    """
    nouns = noun if num_rows == 1 else f"{noun}s"
    text = f"{format_count(num_rows)} {nouns} ({format_bytes(data_bytes)})"
    return f"at least {text}, and at most {format_count(error_rows)} more" if error_rows else text


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
    text = f"{told}, {_share_text(expired.num_rows, growth.num_rows)} of the rows,"
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
        f"{_share_text(expired.num_below_watermark, growth.num_rows)} of the rows, are those "
        f"{what} at or before the watermark, {moment_text(watermark)}. Spark evicts such rows at "
        "the end of the next micro-batch, unless the condition of a join still needs them."
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


_EXPIRY_RULES = (
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


_MUCH_OF_ALL = 0.05
_MORE_THAN_EVEN_VALUES = 2
"""How many times its even share among those named a value takes at least, to be worth a word."""
_LONGEST_VALUE = 80
_MUCH_ON_DISK = 2
"""How many times their length files take on the disk, for it to be worth a sentence."""


def _retained_versions(growth: Growth) -> Remark | None:
    """Return what the versions take that Spark keeps beside the newest; None of one version."""
    use = growth.checkpoint
    if use is None or use.num_versions <= 1:
        return None
    text = (
        f"Its checkpoint keeps {counted(use.num_versions, 'versions')} of it, "
        f"{use.oldest_version} to {use.newest_version}: {_files(use)}; the rows that are read here "
        f"are {format_bytes(growth.data_bytes)}."
    )
    if use.disk_bytes > _MUCH_ON_DISK * max(use.size_bytes, 1):
        text += (
            f" The {format_bytes(use.size_bytes)} of these files take "
            f"{format_bytes(use.disk_bytes)} on the disk, as small files take whole blocks."
        )
    text += (
        " Spark keeps as many as spark.sql.streaming.minBatchesToRetain says, 100 by default, and "
        "removes older files in the background."
    )
    return Remark(Weight.CAUSE, 1 - min(growth.data_bytes / max(use.size_bytes, 1), 1), text)


def _files(use: CheckpointUse) -> str:
    told = [
        f"{counted(count, kind)} ({format_bytes(size)})"
        for kind, count, size in (
            ("files of snapshots", use.num_snapshots, use.snapshots_bytes),
            ("changelogs", use.num_changelogs, use.changelogs_bytes),
            ("other files", use.num_others, use.others_bytes),
        )
        if count
    ]
    return " and ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told)


def _no_watermark(growth: Growth) -> Remark | None:
    use = growth.checkpoint
    if use is None or use.eviction is not Eviction.WATERMARK or use.watermark_ms is not None:
        return None
    text = "The query has no watermark: Spark evicts no row of this store, however old it is."
    return Remark(Weight.CAUSE, 1.0, text)


def _no_event_time(growth: Growth) -> Remark | None:
    use = growth.checkpoint
    if use is None or use.eviction is not Eviction.WATERMARK or use.watermark_ms is None:
        return None
    is_join = "join" in (growth.kind or "")  # what one of its stores loses, the others lose too
    if is_join or growth.num_untimed_rows < growth.num_rows:
        return None
    text = (
        f"Its rows have no time that could be held against the watermark, "
        f"{moment_text(use.watermark_ms)}: Spark evicts none of them."
    )
    return Remark(Weight.CAUSE, 1.0, text)


def _by_code(growth: Growth) -> Remark | None:
    use = growth.checkpoint
    if use is None:
        return None
    if use.eviction is Eviction.NEVER:
        text = "It is the count of a limit: it stays for as long as the query runs."
        return Remark(Weight.CAUSE, 0.0, text)
    if use.eviction is not Eviction.CODE:
        return None
    text = (
        "No watermark takes rows out of it: each stays until the query's own code removes it, as "
        "on a timeout or by a timer."
    )
    return Remark(Weight.CAUSE, 1.0, text)


def _past_ttl(growth: Growth) -> Remark | None:
    use, expired = growth.checkpoint, growth.expired
    if use is None or expired.num_past_ttl is None or growth.num_untimed_rows == growth.num_rows:
        return None
    at = moment_text(use.batch_at_ms)
    if not expired.num_past_ttl:
        text = f"No row was past its time to live when the latest micro-batch ran, {at}."
        return Remark(Weight.IN_ORDER, 0.0, text)
    size = expired.past_ttl_bytes or 0
    were = "was past its" if expired.num_past_ttl == 1 else "were past their"
    text = (
        f"{amount(expired.num_past_ttl, size)}, "
        f"{_share_text(expired.num_past_ttl, growth.num_rows)} of the rows, {were} time to live "
        f"when the latest micro-batch ran, {at}. Reads hide such rows, and Spark removes them at "
        "the end of a micro-batch."
    )
    return Remark(Weight.OVERDUE, size / max(growth.data_bytes, 1), text)


def _no_ttl(growth: Growth) -> Remark | None:
    use, untimed = growth.checkpoint, growth.num_untimed_rows
    if use is None or use.eviction is not Eviction.TTL or not untimed:
        return None
    rows = "1 row has" if untimed == 1 else f"{counted(untimed, 'rows')} have"
    text = f"{rows} no time to live: such a row stays until the query's own code removes it."
    return Remark(Weight.CAUSE, untimed / max(growth.num_rows, 1), text)


def _largest_value(growth: Growth) -> Remark | None:
    """Return which value of one of several fields takes more of the data than its even share."""
    firsts = [(each[0], name) for name, each in growth.fields.items() if _value_stands_out(each)]
    # Of what one key has alone, another sentence speaks.
    key_rows = max((each.num_rows for each in growth.keys[:1]), default=0)
    found = [(use, name) for use, name in firsts if use.num_rows > key_rows]
    if not found:
        return None
    use, name = max(found, key=lambda each: each[0].share)
    value = value_text(use.key)
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    text = (
        f"Keys whose {name} is {shown} take {amount(use.num_rows, use.data_bytes)}: "
        f"{_share_text(use.share, 1)} of the data."
    )
    return Remark(Weight.USE, use.share, text)


def _value_stands_out(values: Sequence[KeyUse]) -> bool:
    """Return whether the largest takes much of all: of as many as are named, at least."""
    if len(values) < 2:  # noqa: PLR2004 - one alone stands out of nothing
        return False
    return values[0].share >= max(_MUCH_OF_ALL, _MORE_THAN_EVEN_VALUES / len(values))


_SPARK_RULES = (
    _retained_versions,
    _no_watermark,
    _no_event_time,
    _by_code,
    _past_ttl,
    _no_ttl,
    _largest_value,
)


_MANY_TOMBSTONES = 0.1
_MUCH_DEAD = 1.5
_MORE_THAN_EVEN = 3
"""How many times its even share something takes at least, for it to be worth a sentence."""
_LONGEST_KEY = 80
"""How many characters of a key a sentence shows."""
_MUCH_PREALLOCATED_BYTES = 1 << 20
"""RocksDB sets 4 MiB aside for each MANIFEST; below one of these nobody would ask."""


def verdict_on(growth: Growth) -> tuple[str, ...]:
    """Return the sentences, the most important first; there is at least one."""
    if not growth.num_rows and not growth.num_undecoded_rows:
        empty = (_deleted, _preallocated, _retained_versions, _left_out)
        return ("The store has no rows.", *_texts(*empty, growth=growth))
    found = _texts(*_EXPIRY_RULES, *_SPARK_RULES, *_RULES, growth=growth)
    told = amount(growth.num_rows, growth.data_bytes)
    return found or (f"No figure here says why it would not shrink: it has {told}.",)


def _texts(*rules: Callable[[Growth], Remark | None], growth: Growth) -> tuple[str, ...]:
    found = [remark for rule in rules if (remark := rule(growth)) is not None]
    found.sort(key=lambda each: (each.weight, -each.share))
    return tuple(each.text for each in found)


def _no_retention(growth: Growth) -> Remark | None:
    if growth.kind not in ONE_ROW_A_KEY:
        return None
    text = "A key-value store has no retention: each row stays until its key is deleted."
    stale = [each for each in growth.ages if each.num_rows]
    if not stale or growth.horizon.judged_at_ms is None:
        return Remark(Weight.CAUSE, 0.0, text)
    since = moment_text(growth.horizon.judged_at_ms)
    told = "; ".join(_not_updated(each, growth.num_rows) for each in stale)
    return Remark(
        Weight.CAUSE, stale[0].share, f"{text} Counted back from {since}, not updated were {told}."
    )


def _not_updated(age: Age, num_rows: int) -> str:
    told = amount(age.num_rows, age.data_bytes, age.error_rows)
    of_all = _share_text(age.num_rows, num_rows)
    return f"{told}, {of_all} of the rows, for {format_duration(age.not_updated_for_ms)} or longer"


def _never_deleted(growth: Growth) -> Remark | None:
    deleted = growth.deletions
    if growth.kind not in ONE_ROW_A_KEY or deleted.num_deletions or not deleted.num_entries:
        return None
    text = (
        "Its files hold no tombstone: there is no sign that a key is ever deleted, though "
        "compactions take tombstones away too."
    )
    return Remark(Weight.CAUSE, 0.0, text)


def _deleted(growth: Growth) -> Remark | None:
    deleted = growth.deletions
    density = deleted.tombstone_density
    if density is None or density < _MANY_TOMBSTONES:
        return None
    text = (
        f"{format_count(deleted.num_deletions)} of {format_count(deleted.num_entries)} entries in "
        f"its files are tombstones ({_share_text(density, 1)}): they and what they stand for go "
        "when compactions reach the last level."
    )
    return Remark(Weight.CAUSE, density, text)


def _amplified(growth: Growth) -> Remark | None:
    deletions = growth.deletions
    amplification, obsolete = deletions.space_amplification, deletions.num_obsolete
    if amplification is None or amplification < _MUCH_DEAD or not obsolete:
        return None
    dead = obsolete + (deletions.num_deletions or 0)
    if dead < _MANY_TOMBSTONES * (deletions.num_entries or 0):
        return None  # RocksDB's estimate leaves out files that overlap; the rows were counted
    text = (
        f"Its SST files take {amplification:.1f} times what RocksDB estimates to be live; "
        f"{format_count(obsolete)} entries are older versions of rows, or "
        "deleted: compactions would free that room."
    )
    return Remark(Weight.CAUSE, 1 - 1 / amplification, text)


def _preallocated(growth: Growth) -> Remark | None:
    size, disk = growth.size_bytes, growth.disk_bytes
    if growth.engine == "spark":  # its checkpoints hold packed files alone
        return None
    if size is None or disk is None or disk - size < max(size, _MUCH_PREALLOCATED_BYTES):
        return None
    text = (
        f"Its files are {format_bytes(size)} long, but take {format_bytes(disk)} on the disk: "
        "RocksDB sets room aside for the MANIFEST of each store and segment that is open, or was "
        "not closed cleanly."
    )
    return Remark(Weight.CAUSE, 1 - size / disk, text)


def _history(growth: Growth) -> Remark | None:
    versions = growth.versions
    if versions is None or not versions.num_history:
        return None
    per_key = versions.versions_per_key
    text = (
        f"History is {amount(versions.num_history, versions.history_bytes, noun='version')}, "
        f"{_share_text(versions.history_bytes, growth.data_bytes or 1)} of the data, beside "
        f"{format_count(versions.num_latest)} latest ones; "
        + ("" if per_key is None else f"a key has {per_key:.1f} versions on average, and ")
        + f"one has at least {format_count(versions.most_versions)}."
    )
    return Remark(Weight.USE, versions.history_bytes / max(growth.data_bytes, 1), text)


def _largest_key(growth: Growth) -> Remark | None:
    largest = next(iter(growth.keys), None)
    if largest is None or not _stands_out(largest.share, growth.num_keys):
        return None
    whose = "" if growth.num_keys is None else f" of {format_count(growth.num_keys)}"
    told = amount(largest.num_rows, largest.data_bytes)
    more = f", and at most {format_bytes(largest.error_bytes)} more" if largest.error_bytes else ""
    text = (
        f"One key{whose}, {_shortened(value_text(largest.key))}, takes {told}{more}: "
        f"{_share_text(largest.share, 1)} of the data."
    )
    return Remark(Weight.USE, largest.share, text)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}… ({len(text):,} long)"


def _largest_prefix(growth: Growth) -> Remark | None:
    largest = next(iter(growth.prefixes), None)
    if largest is None or not _stands_out(largest.share, growth.num_prefixes):
        return None
    key = next(iter(growth.keys), None)
    if key is not None and (largest.num_rows, largest.share) == (key.num_rows, key.share):
        return None  # it is the largest key alone, of which another sentence speaks
    told = amount(largest.num_rows, largest.data_bytes)
    text = (
        f"Keys that begin with {_shortened(repr(largest.prefix))} take {told}: "
        f"{_share_text(largest.share, 1)} of the data."
    )
    return Remark(Weight.USE, largest.share, text)


def _largest_window(growth: Growth) -> Remark | None:
    largest = next(iter(growth.windows), None)
    if largest is None or not _stands_out(largest.share, growth.num_windows):
        return None
    told = amount(largest.num_rows, largest.data_bytes)
    starts = f"the window that starts at {moment_text(largest.start_ms)}"
    if largest.span_ms > 1:
        starts = (
            f"windows that start within {largest.span_ms} ms of {moment_text(largest.start_ms)}"
        )
    text = f"In {starts} are {told}: {_share_text(largest.share, 1)} of the data."
    return Remark(Weight.USE, largest.share, text)


def _stands_out(share: float, count: int | None) -> bool:
    """Return whether a share is much of all, among so many; None: too many to count."""
    return share >= max(_MUCH_OF_ALL, _MORE_THAN_EVEN / count if count else 0)


def _undecoded(growth: Growth) -> Remark | None:
    count = growth.num_undecoded_rows
    if not count:
        return None
    rows, are = ("row", "is") if count == 1 else ("rows", "are")
    text = f"{format_count(count)} {rows} could not be taken apart, and {are} in no other figure."
    return Remark(Weight.UNKNOWN, 0.0, text)


def _left_out(growth: Growth) -> Remark | None:
    count = len(growth.left_out)
    if not count:
        return None
    parts = "A part of it is" if count == 1 else f"{format_count(count)} parts of it are"
    more = "" if count == 1 else ", and more"
    text = f"{parts} left out of all figures of rows: {growth.left_out[0].rstrip('.')}{more}."
    return Remark(Weight.UNKNOWN, 1.0, text)


def _no_times(growth: Growth) -> Remark | None:
    if growth.kind not in ONE_ROW_A_KEY or growth.clock != Clock.TIMESTAMP:
        return None
    if growth.horizon.stream_time_ms is not None:
        return None
    text = "How old its rows are is unknown: they have no timestamps."
    return Remark(Weight.UNKNOWN, 0.0, text)


_RULES = (
    _no_retention,
    _never_deleted,
    _deleted,
    _amplified,
    _preallocated,
    _history,
    _largest_key,
    _largest_prefix,
    _largest_window,
    _undecoded,
    _left_out,
    _no_times,
)
