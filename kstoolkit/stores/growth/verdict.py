"""Why a store does not shrink: its figures, and a verdict on them in sentences.

A sentence of the verdict is one row of a table: its text, in which ``{words}`` stand for figures,
when it is said, and which share of the store it concerns. What should not be there comes first,
then why it can't go, who takes the room, what is in order, and last what is not known; within
these, the larger share comes first. Where the figures say nothing, no sentence is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from kstoolkit.errors import Option, naming
from kstoolkit.moments import moment_text
from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.stores.growth.clock import ONE_ROW_A_KEY, Clock, interval_of
from kstoolkit.stores.growth.records import Eviction
from kstoolkit.stores.rows.rows import value_text
from kstoolkit.units import format_bytes, format_count, format_duration, format_share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kstoolkit.errors import Sentence
    from kstoolkit.records import Figure
    from kstoolkit.stores.growth.records import (
        Age,
        CheckpointUse,
        Deletions,
        Expired,
        Horizon,
        KeyUse,
        PrefixUse,
        SegmentUse,
        Versions,
        WindowUse,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Growth(Record):
    """Who takes a store's room, what of it is past its time, and why it does not shrink.

    Printed, it is its verdict: sentences with the figures behind them, the most important first.

    Parameters
    ----------
    store, engine, kind
        Its name, whose it is, and what kind of store; None if that is not known.
    clock
        Which time of a row its age is counted from; None if there was no row.
    horizon, expired, deletions, versions
        From when on it keeps rows; what is older, or deleted, and still there; what a versioned
        store keeps of the past, None of any other.
    segments, windows, prefixes, keys, ages
        Who takes the room: all segments, and the largest of the others.
    by
        The fields of Spark's keys that they are summed up by, together; none: ``keys`` are whole.
    fields
        The largest values of each field alone, by its name, but of one that ``keys`` are.
    num_rows, data_bytes
        The application's rows; their keys and values before compression and the store's wrapping.
    num_untimed_rows, num_undecoded_rows, num_without_fields
        Rows that have no such time, as the latest versions of a versioned store; that could not be
        taken apart, and are in no other figure; whose keys have none of the fields in ``by``.
    num_keys, num_prefixes, num_windows
        How many keys, beginnings of keys and starts of windows there are; if windows are too many
        to be told one by one, how many spans of their starts.
    size_bytes, disk_bytes
        How long the store's files are, and what they take on the disk.
    checkpoint
        What a checkpoint of Spark's keeps of it: versions in files. None of any other store.
    left_out
        Folders of it that could not be read, or were not, and why: they are in no other figure.
    """

    store: str
    engine: str | None
    kind: str | None
    clock: str | None
    horizon: Horizon
    expired: Expired
    deletions: Deletions
    versions: Versions | None
    segments: Records[SegmentUse]
    windows: Records[WindowUse]
    prefixes: Records[PrefixUse]
    keys: Records[KeyUse]
    ages: Records[Age]
    num_rows: int = of_source(Source.STORE)
    data_bytes: int = of_source(Source.STORE)
    num_untimed_rows: int = of_source(Source.STORE)
    num_undecoded_rows: int = of_source(Source.STORE)
    num_keys: int | None = of_source(Source.STORE)
    num_prefixes: int | None = of_source(Source.STORE)
    num_windows: int | None = of_source(Source.STORE)
    size_bytes: int | None = of_source(Source.STORE)
    disk_bytes: int | None = of_source(Source.STORE)
    num_without_fields: int = of_source(Source.STORE, 0)
    by: tuple[str, ...] = ()
    fields: dict[str, Records[KeyUse]] = field(default_factory=dict)
    checkpoint: CheckpointUse | None = None
    left_out: tuple[str, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> tuple[str, ...]:
        """Why the store does not shrink, in one sentence or more, the most important first."""
        is_empty = not self.num_rows and not self.num_undecoded_rows
        texts: tuple[Sentence, ...] = ()
        for rules in _RULES:
            due = [rule for rule in rules if (rule.of_empty or not is_empty) and rule.when(self)]
            due.sort(key=lambda rule: -rule.share(self))
            texts += tuple(_said(rule, self) for rule in due)
        if is_empty:
            return ("The store has no rows.", *texts)
        told = _amount(self.num_rows, self.data_bytes)
        return texts or (f"No figure here says why it would not shrink: it has {told}.",)

    def figures(self) -> list[Figure]:
        """Return the figures that are one number each; of its parts as ``expired.num_rows``."""
        # Not by super(): it does not work in a class that slots have made anew.
        found = Record.figures(self)
        for name in ("horizon", "expired", "deletions", "versions", "checkpoint"):
            part: Record | None = getattr(self, name)
            told = [] if part is None else part.figures()
            found += [replace(each, name=f"{name}.{each.name}") for each in told]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict and all figures as plain values, as ``--json`` prints them."""
        return {"verdict": list(self.verdict)} | Record.to_dict(self)

    def __str__(self) -> str:
        return "\n".join(self.verdict)

    def __repr__(self) -> str:
        by = f", by {', '.join(self.by)}" if self.by else ""
        past, what = self.num_past_rows or (None, "unknown what is expired")
        told = what if past is None else f"{counted(past, 'rows')} {what}"
        rows, size = counted(self.num_rows, "rows"), format_bytes(self.data_bytes)
        kind = self.kind or "of unknown kind"
        return f"Growth({self.store!r}, {kind}, {rows}, {size} of keys and values{by}, {told})"

    @property
    def num_past_rows(self) -> tuple[int, str] | None:
        """How many rows are past what decides over them, and what that is; None if unknown."""
        expired = self.expired
        for count, what in (
            (expired.num_rows, "expired"),
            (expired.num_below_watermark, "past the watermark"),
            (expired.num_past_ttl, "past their time to live"),
        ):
            if count is not None:
                return count, what
        return None

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{escape(each)}</li>" for each in self.verdict)
        tables: list[Records[Any]] = [self.segments, self.windows, self.prefixes, self.keys]
        tables += [*self.fields.values(), self.ages]
        shown = "".join(each._repr_html_() for each in tables if each)
        return f"<ol>{sentences}</ol>{Record._repr_html_(self)}{shown}"


class _Rule(NamedTuple):
    """A sentence: its text with ``{words}``, when it is said, and of which share.

    Of a store without rows, only what is ``of_empty`` is said.
    """

    text: str
    when: Callable[[Growth], object]
    share: Callable[[Growth], float] = lambda _: 0.0
    of_empty: bool = False


def _said(rule: _Rule, growth: Growth) -> Sentence:
    """Return the sentence, for which only the words that it has are looked up."""
    named = (name for _, name, _, _ in Formatter().parse(rule.text) if name is not None)
    words = {name.partition(".")[0] for name in named}
    return naming(rule.text, **{word: _WORDS[word](growth) for word in words})


_STREAMS = "kafka-streams"
_MUCH_OF_ALL = 0.05
_MORE_THAN_EVEN = 3
_MORE_THAN_EVEN_VALUES = 2
"""How many times its even share something takes at least, for it to be worth a sentence; and a
value among those that are named."""
_LONGEST_SHOWN = 80
_MANY_TOMBSTONES = 0.1
_MUCH_DEAD = 1.5
_MUCH_ON_DISK = 2
"""How many times their length files take on the disk, for it to be worth a sentence."""
_MUCH_PREALLOCATED_BYTES = 1 << 20
"""RocksDB sets 4 MiB aside for each MANIFEST; below one of these nobody would ask."""


def _amount(num_rows: int, data_bytes: int, error_rows: int = 0, noun: str = "row") -> str:
    """Return how many rows there are, and their bytes; with an error, as at least so many.

    >>> _amount(1, 512), _amount(1200, 4096, 30)
    ('1 row (512 B)', 'at least 1,200 rows (4.0 KiB), and at most 30 more')
    """
    nouns = noun if num_rows == 1 else f"{noun}s"
    text = f"{format_count(num_rows)} {nouns} ({format_bytes(data_bytes)})"
    return f"at least {text}, and at most {format_count(error_rows)} more" if error_rows else text


def _of_rows(growth: Growth, num_rows: int | None, size: int | None, error_rows: int = 0) -> str:
    told = _amount(num_rows or 0, size or 0, error_rows)
    return f"{told}, {format_share(num_rows or 0, growth.num_rows)} of the rows,"


def _of_data(growth: Growth, size_bytes: int | None) -> float:
    return (size_bytes or 0) / max(growth.data_bytes, 1)


def _segments_bytes(growth: Growth) -> int:
    return sum(each.size_bytes for each in growth.segments)


def _has_expired(growth: Growth) -> bool:
    expired = growth.expired
    return bool(expired.num_rows and expired.data_bytes is not None and growth.clock is not None)


def _evicts_by(growth: Growth, eviction: Eviction) -> bool:
    return growth.checkpoint is not None and growth.checkpoint.eviction is eviction


def _is_untimed(growth: Growth) -> bool:
    """Return whether no row has a time to hold against a watermark, or against a clock."""
    return growth.num_untimed_rows == growth.num_rows


def _ran_ahead(growth: Growth) -> bool:
    newest, now = growth.horizon.stream_time_ms, growth.horizon.now_ms
    return not (
        newest is None or now is None or newest <= now or growth.expired.num_past_ttl is not None
    )


def _told_interval_ms(growth: Growth) -> int:
    """Return how long segments are by the retention that was told."""
    told_ms = growth.horizon.retention_ms or 0
    return interval_of(told_ms, is_versioned=growth.clock == Clock.VALID_TO)


def _is_contradicted(growth: Growth) -> bool:
    told, interval = growth.horizon.retention_ms, growth.horizon.segment_interval_ms
    if told is None or interval is None or growth.engine != _STREAMS:
        return False
    least = growth.horizon.segment_interval_least_ms or 0
    return not least <= _told_interval_ms(growth) <= interval


def _is_not_judged(growth: Growth) -> bool:
    horizon = growth.horizon
    if horizon.kept_ms is not None or horizon.watermark_ms is not None or growth.clock is None:
        return False
    if growth.checkpoint is not None:
        return False  # it tells what takes rows out
    return growth.clock != Clock.TIMESTAMP or growth.engine == "spark"


def _has_no_event_time(growth: Growth) -> bool:
    if not _evicts_by(growth, Eviction.WATERMARK) or growth.horizon.watermark_ms is None:
        return False
    is_join = "join" in (growth.kind or "")  # what one of its stores loses, the others lose too
    return not is_join and growth.num_untimed_rows >= growth.num_rows


def _is_amplified(growth: Growth) -> bool:
    deletions = growth.deletions
    amplification, obsolete = deletions.space_amplification, deletions.num_obsolete
    if amplification is None or amplification < _MUCH_DEAD or not obsolete:
        return False
    # RocksDB's estimate leaves out files that overlap; the rows were counted.
    dead = obsolete + (deletions.num_deletions or 0)
    return dead >= _MANY_TOMBSTONES * (deletions.num_entries or 0)


def _is_preallocated(growth: Growth) -> bool:
    size, disk = growth.size_bytes, growth.disk_bytes
    if growth.engine == "spark" or size is None or disk is None:
        return False  # Spark's checkpoints hold packed files alone
    return disk - size >= max(size, _MUCH_PREALLOCATED_BYTES)


def _stands_out(uses: Sequence[KeyUse | PrefixUse | WindowUse], count: int | None) -> bool:
    """Return whether the largest is much of all, among so many; None: too many to count."""
    least = max(_MUCH_OF_ALL, _MORE_THAN_EVEN / count if count else 0)
    return bool(uses) and uses[0].share >= least


def _prefix_stands_out(growth: Growth) -> bool:
    if not _stands_out(growth.prefixes, growth.num_prefixes):
        return False
    largest = growth.prefixes[0]
    # The largest key alone would be one of which another sentence speaks.
    keys = [(key.num_rows, key.share) for key in growth.keys[:1]]
    return (largest.num_rows, largest.share) not in keys


def _outstanding_values(growth: Growth) -> list[tuple[str, KeyUse]]:
    """Return which values of several fields take more than their even share; the largest first."""
    # Of what one key has alone, another sentence speaks.
    key_rows = max((each.num_rows for each in growth.keys[:1]), default=0)
    found = [
        (name, values[0])
        for name, values in growth.fields.items()
        if len(values) > 1  # one alone stands out of nothing
        and values[0].share >= max(_MUCH_OF_ALL, _MORE_THAN_EVEN_VALUES / len(values))
        and values[0].num_rows > key_rows
    ]
    return sorted(found, key=lambda each: -each[1].share)


def _takes(use: KeyUse | PrefixUse | WindowUse, error_bytes: int = 0) -> str:
    more = f", and at most {format_bytes(error_bytes)} more" if error_bytes else ""
    return f"{_amount(use.num_rows, use.data_bytes)}{more}: {format_share(use.share)} of the data"


def _shortened(text: str) -> str:
    longest = _LONGEST_SHOWN
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} long)"


def _value(growth: Growth) -> str:
    name, use = _outstanding_values(growth)[0]
    value = value_text(use.key)
    shown = value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}…"
    return f"{name} is {shown}"


def _windows(growth: Growth) -> str:
    largest = growth.windows[0]
    start = moment_text(largest.start_ms)
    if largest.span_ms > 1:
        return f"windows that start within {largest.span_ms} ms of {start}"
    return f"the window that starts at {start}"


def _cut(growth: Growth) -> str:
    """Return up to when rows are expired, and why: only of a horizon that has a retention."""
    horizon = growth.horizon
    cut = moment_text((horizon.kept_from_ms or 0) - 1)
    since = "the newest row" if horizon.now_ms is None else moment_text(horizon.now_ms)
    return f"{cut}, a retention of {_retention(growth)} before {since}"


def _retention(growth: Growth) -> str:
    horizon = growth.horizon
    length = format_duration(horizon.kept_ms or 0)
    if horizon.retention_ms is not None:
        return length
    how = "inferred from the segments"
    least, most = (_rounded(each) for each in (horizon.inferred_least_ms, horizon.inferred_most_ms))
    if horizon.is_upper_bound:
        return f"{most} at most ({how})"
    return f"{length} ({how})" if least == most else f"{length} ({how}: {least} to {most})"


def _rounded(length_ms: int | None) -> str:
    """Return a length of time without the ms that a division of it leaves open."""
    return format_duration((length_ms or 0) // 1000 * 1000)


def _expired(growth: Growth) -> str:
    """Return which rows are past their retention, with the verb."""
    expired = growth.expired
    verbs = ("was", "were") if growth.clock == Clock.TIMESTAMP else ("is", "are")
    told = _of_rows(growth, expired.num_rows, expired.data_bytes, expired.error_rows)
    return f"{told} {verbs[_is_many(growth)]}"


def _is_many(growth: Growth) -> bool:
    return (growth.expired.num_rows or 0) > 1 or growth.expired.error_rows > 0


_EXPIRED_AS = {
    Clock.WINDOW_START: ("it starts", "they start"),
    Clock.SESSION_END: ("it ends", "they end"),
    Clock.VALID_TO: ("it was replaced", "they were replaced"),
}


def _why_segments_stay(growth: Growth) -> str:
    if growth.engine != _STREAMS:
        return ""
    horizon = growth.horizon
    newest = horizon.stream_time_ms
    rule = " Kafka Streams drops a segment only when a newer record arrives"
    if newest is None or horizon.judged_at_ms is None:
        return f"{rule}."
    if newest < horizon.judged_at_ms:
        return f"{rule}, and the newest here is of {moment_text(newest)}."
    them = "it" if growth.expired.num_past_segments == 1 else "them"
    return f"{rule}: the next one will drop {them}."


def _why_rows_stay(growth: Growth) -> str:
    if growth.engine != _STREAMS:
        return ""
    rule = " Reads hide them since Kafka Streams 3.4, but only whole segments are dropped"
    if growth.clock == Clock.VALID_TO:
        rule = " Only whole segments are dropped"
    interval, kept = growth.horizon.segment_interval_ms, growth.horizon.kept_ms
    if interval is None or kept is None:
        return f"{rule}."
    return (
        f"{rule}: with segments of {format_duration(interval)}, rows stay for up to "
        f"{format_duration(kept + interval)}."
    )


def _one_segment_tells(growth: Growth) -> str:
    if not growth.horizon.inferred_least_ms:
        return ""
    least = _rounded(growth.horizon.inferred_least_ms)
    return f" Its one segment has rows so far apart that the retention is at least {least}."


def _versions(growth: Growth) -> str:
    """Return what the versions take that Spark keeps beside the newest."""
    use = growth.checkpoint
    if use is None:
        return ""
    kinds = (
        ("files of snapshots", use.num_snapshots, use.snapshots_bytes),
        ("changelogs", use.num_changelogs, use.changelogs_bytes),
        ("other files", use.num_others, use.others_bytes),
    )
    told = [f"{counted(many, kind)} ({format_bytes(size)})" for kind, many, size in kinds if many]
    files = " and ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told)
    versions = f"{counted(use.num_versions, 'versions')} of it, {use.oldest_version} to "
    rows = f"the rows that are read here are {format_bytes(growth.data_bytes)}."
    text = f"{versions}{use.newest_version}: {files}; {rows}"
    if use.disk_bytes <= _MUCH_ON_DISK * max(use.size_bytes, 1):
        return text
    size, disk = format_bytes(use.size_bytes), format_bytes(use.disk_bytes)
    return (
        f"{text} The {size} of these files take {disk} on the disk, as small files take whole "
        "blocks."
    )


def _versions_share(growth: Growth) -> float:
    size = 0 if growth.checkpoint is None else growth.checkpoint.size_bytes
    return 1 - min(growth.data_bytes / max(size, 1), 1)


def _stale(growth: Growth) -> list[Age]:
    """Return for how long rows were not updated; none if the moment to count from is unknown."""
    known = growth.horizon.judged_at_ms is not None
    return [each for each in growth.ages if each.num_rows] if known else []


def _not_updated(growth: Growth) -> str:
    told = [
        f"{_of_rows(growth, each.num_rows, each.data_bytes, each.error_rows)} for "
        f"{format_duration(each.not_updated_for_ms)} or longer"
        for each in _stale(growth)
    ]
    since = moment_text(growth.horizon.judged_at_ms or 0)
    return f" Counted back from {since}, not updated were {'; '.join(told)}." if told else ""


def _history(growth: Growth) -> str:
    versions = growth.versions
    if versions is None:
        return ""
    per_key = versions.versions_per_key
    return (
        f"{_amount(versions.num_history, versions.history_bytes, noun='version')}, "
        f"{format_share(versions.history_bytes, growth.data_bytes or 1)} of the data, beside "
        f"{format_count(versions.num_latest)} latest ones; "
        + ("" if per_key is None else f"a key has {per_key:.1f} versions on average, and ")
        + f"one has at least {format_count(versions.most_versions)}"
    )


def _left_out(growth: Growth) -> str:
    count, first = len(growth.left_out), growth.left_out[0].rstrip(".")
    if count == 1:
        return f"A part of it is left out of all figures of rows: {first}"
    parts = f"{format_count(count)} parts of it are left out of all figures of rows"
    return f"{parts}: {first}, and more"


_WORDS: dict[str, Callable[[Growth], object]] = {
    "option_retention": lambda _: Option("retention"),
    "batch_at": lambda g: moment_text(0 if g.checkpoint is None else g.checkpoint.batch_at_ms),
    "bounds": lambda g: (
        f"{_rounded(g.horizon.inferred_least_ms)} to {_rounded(g.horizon.inferred_most_ms)}"
    ),
    "cut": _cut,
    "density": lambda g: format_share(g.deletions.tombstone_density or 0),
    "disk_bytes": lambda g: format_bytes(g.disk_bytes),
    "end": lambda g: "ends" if g.expired.num_past_segments == 1 else "end",
    "expired": _expired,
    "expired_as": lambda g: _EXPIRED_AS[Clock(g.clock or "")][_is_many(g)],
    "g": lambda g: g,
    "history": _history,
    "interval": lambda g: format_duration(g.horizon.segment_interval_ms or 0),
    "key": lambda g: _shortened(value_text(g.keys[0].key)),
    "key_takes": lambda g: _takes(g.keys[0], g.keys[0].error_bytes),
    "left_out": _left_out,
    "not_updated": _not_updated,
    "now": lambda g: moment_text(g.horizon.now_ms or 0),
    "of_keys": lambda g: "" if g.num_keys is None else f" of {format_count(g.num_keys)}",
    "one_segment_tells": _one_segment_tells,
    "past_segments_bytes": lambda g: format_bytes(g.expired.past_segments_bytes),
    "past_ttl": lambda g: _of_rows(g, g.expired.num_past_ttl, g.expired.past_ttl_bytes),
    "past_watermark": lambda g: _of_rows(
        g, g.expired.num_below_watermark, g.expired.below_watermark_bytes
    ),
    "prefix": lambda g: _shortened(repr(g.prefixes[0].prefix)),
    "prefix_takes": lambda g: _takes(g.prefixes[0]),
    "retention": _retention,
    "segments": lambda g: format_count(len(g.segments)),
    "segments_bytes": lambda g: format_bytes(_segments_bytes(g)),
    "size_bytes": lambda g: format_bytes(g.size_bytes),
    "stream_time": lambda g: moment_text(g.horizon.stream_time_ms or 0),
    "told_interval": lambda g: format_duration(_told_interval_ms(g)),
    "told_retention": lambda g: format_duration(g.horizon.retention_ms or 0),
    "undecoded": lambda g: counted(g.num_undecoded_rows, "rows"),
    "undecoded_are": lambda g: "is" if g.num_undecoded_rows == 1 else "are",
    "untimed": lambda g: counted(g.num_untimed_rows, "rows"),
    "untimed_have": lambda g: "has" if g.num_untimed_rows == 1 else "have",
    "value": _value,
    "value_takes": lambda g: _takes(_outstanding_values(g)[0][1]),
    "versions": _versions,
    "watermark": lambda g: moment_text(g.horizon.watermark_ms or 0),
    "were_past_their": lambda g: (
        "was past its" if g.expired.num_past_ttl == 1 else "were past their"
    ),
    "whose": lambda g: "windows end" if g.clock == Clock.WINDOW_START else "times are",
    "why_expiry_unknown": lambda g: g.horizon.unknown["inferred_retention_ms"],
    "why_rows_stay": _why_rows_stay,
    "why_segments_stay": _why_segments_stay,
    "windows": _windows,
    "windows_take": lambda g: _takes(g.windows[0]),
}

_OVERDUE = (
    _Rule(
        "{g.expired.num_past_segments:,} of {segments} segments ({past_segments_bytes} of "
        "{segments_bytes}) {end} by {cut}.{why_segments_stay}",
        lambda g: g.expired.num_past_segments and g.expired.past_segments_bytes is not None,
        lambda g: (g.expired.past_segments_bytes or 0) / max(_segments_bytes(g), 1),
    ),
    _Rule(
        "{expired} expired: {expired_as} by {cut}.{why_rows_stay}",
        lambda g: _has_expired(g) and g.clock != Clock.TIMESTAMP,
        lambda g: _of_data(g, g.expired.data_bytes),
    ),
    _Rule(
        "{past_watermark} are those whose {whose} at or before the watermark, {watermark}. Spark "
        "evicts such rows at the end of the next micro-batch, unless the condition of a join still "
        "needs them.",
        lambda g: g.expired.num_below_watermark and g.horizon.watermark_ms is not None,
        lambda g: _of_data(g, g.expired.below_watermark_bytes),
    ),
    _Rule(
        "Its newest row is of {stream_time}, later than {now}: a record from the future moves "
        "stream time on, and with it what counts as expired.",
        _ran_ahead,
    ),
    _Rule(
        "{past_ttl} {were_past_their} time to live when the latest micro-batch ran, {batch_at}. "
        "Reads hide such rows, and Spark removes them at the end of a micro-batch.",
        lambda g: g.checkpoint and g.expired.num_past_ttl and not _is_untimed(g),
        lambda g: _of_data(g, g.expired.past_ttl_bytes),
    ),
)

_CAUSES = (
    _Rule(
        "{expired} updated last by {cut}.",
        lambda g: _has_expired(g) and g.clock == Clock.TIMESTAMP,
        lambda g: _of_data(g, g.expired.data_bytes),
    ),
    _Rule(
        "Its checkpoint keeps {versions} Spark keeps as many as "
        "spark.sql.streaming.minBatchesToRetain says, 100 by default, and removes older files in "
        "the background.",
        lambda g: g.checkpoint is not None and g.checkpoint.num_versions > 1,
        _versions_share,
        of_empty=True,
    ),
    _Rule(
        "The query has no watermark: Spark evicts no row of this store, however old it is.",
        lambda g: _evicts_by(g, Eviction.WATERMARK) and g.horizon.watermark_ms is None,
        lambda _: 1.0,
    ),
    _Rule(
        "Its rows have no time that could be held against the watermark, {watermark}: Spark evicts "
        "none of them.",
        _has_no_event_time,
        lambda _: 1.0,
    ),
    _Rule(
        "It is the count of a limit: it stays for as long as the query runs.",
        lambda g: _evicts_by(g, Eviction.NEVER),
    ),
    _Rule(
        "No watermark takes rows out of it: each stays until the query's own code removes it, as "
        "on a timeout or by a timer.",
        lambda g: _evicts_by(g, Eviction.CODE),
        lambda _: 1.0,
    ),
    _Rule(
        "{untimed} {untimed_have} no time to live: such a row stays until the query's own code "
        "removes it.",
        lambda g: _evicts_by(g, Eviction.TTL) and g.num_untimed_rows,
        lambda g: g.num_untimed_rows / max(g.num_rows, 1),
    ),
    _Rule(
        "A key-value store has no retention: each row stays until its key is deleted.{not_updated}",
        lambda g: g.kind in ONE_ROW_A_KEY,
        lambda g: next((each.share for each in _stale(g)), 0.0),
    ),
    _Rule(
        "Its files hold no tombstone: there is no sign that a key is ever deleted, though "
        "compactions take tombstones away too.",
        lambda g: (
            g.kind in ONE_ROW_A_KEY and g.deletions.num_entries and not g.deletions.num_deletions
        ),
    ),
    _Rule(
        "{g.deletions.num_deletions:,} of {g.deletions.num_entries:,} entries in its files are "
        "tombstones ({density}): they and what they stand for go when compactions reach the last "
        "level.",
        lambda g: (g.deletions.tombstone_density or 0) >= _MANY_TOMBSTONES,
        lambda g: g.deletions.tombstone_density or 0,
        of_empty=True,
    ),
    _Rule(
        "Its SST files take {g.deletions.space_amplification:.1f} times what RocksDB estimates to "
        "be live; {g.deletions.num_obsolete:,} entries are older versions of rows, or deleted: "
        "compactions would free that room.",
        _is_amplified,
        lambda g: 1 - 1 / (g.deletions.space_amplification or 1),
    ),
    _Rule(
        "Its files are {size_bytes} long, but take {disk_bytes} on the disk: RocksDB sets room "
        "aside for the MANIFEST of each store and segment that is open, or was not closed cleanly.",
        _is_preallocated,
        lambda g: 1 - (g.size_bytes or 0) / (g.disk_bytes or 1),
        of_empty=True,
    ),
)

_USES = (
    _Rule(
        "Keys whose {value} take {value_takes}.",
        _outstanding_values,
        lambda g: _outstanding_values(g)[0][1].share,
    ),
    _Rule(
        "History is {history}.",
        lambda g: g.versions is not None and g.versions.num_history,
        lambda g: _of_data(g, None if g.versions is None else g.versions.history_bytes),
    ),
    _Rule(
        "One key{of_keys}, {key}, takes {key_takes}.",
        lambda g: _stands_out(g.keys, g.num_keys),
        lambda g: g.keys[0].share,
    ),
    _Rule(
        "Keys that begin with {prefix} take {prefix_takes}.",
        _prefix_stands_out,
        lambda g: g.prefixes[0].share,
    ),
    _Rule(
        "In {windows} are {windows_take}.",
        lambda g: _stands_out(g.windows, g.num_windows),
        lambda g: g.windows[0].share,
    ),
)

_IN_ORDER = (
    _Rule(
        "No row is at or before the watermark, {watermark}: all of it has to stay.",
        lambda g: (
            g.horizon.watermark_ms is not None
            and not g.expired.num_below_watermark
            and not _is_untimed(g)
        ),
    ),
    _Rule(
        "No segment is overdue: a store with a retention of {retention} keeps up to "
        "{g.horizon.expected_segments}, and this one has {segments}.",
        lambda g: (
            g.horizon.expected_segments is not None
            and g.expired.num_past_segments == 0
            and g.horizon.kept_ms is not None
        ),
    ),
    _Rule(
        "No row was past its time to live when the latest micro-batch ran, {batch_at}.",
        lambda g: g.checkpoint and g.expired.num_past_ttl == 0 and not _is_untimed(g),
    ),
)

_UNKNOWN = (
    _Rule(
        "A retention of {told_retention} has segments of {told_interval}, but those here are of "
        "{interval}: the store was made with another retention.",
        _is_contradicted,
        lambda _: 1.0,
    ),
    _Rule(
        "How long it keeps rows is not known exactly: its segments speak for {bounds}. What is "
        "counted as expired is so by the longest: give {option_retention}.",
        lambda g: g.horizon.is_upper_bound and g.horizon.kept_ms is not None,
    ),
    _Rule("What is expired is unknown: {why_expiry_unknown}.{one_segment_tells}", _is_not_judged),
    _Rule(
        "{undecoded} could not be taken apart, and {undecoded_are} in no other figure.",
        lambda g: g.num_undecoded_rows > 0,
    ),
    _Rule("{left_out}.", lambda g: g.left_out, lambda _: 1.0, of_empty=True),
    _Rule(
        "How old its rows are is unknown: they have no timestamps.",
        lambda g: (
            g.kind in ONE_ROW_A_KEY
            and g.clock == Clock.TIMESTAMP
            and g.horizon.stream_time_ms is None
        ),
    ),
)

_RULES = (_OVERDUE, _CAUSES, _USES, _IN_ORDER, _UNKNOWN)  # in the order in which they are said
