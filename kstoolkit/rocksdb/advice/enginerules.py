"""Which symptoms show in what the engine itself tells, in its settings, and in its rows.

Stalls and what follows from them, restores, Spark's commits and snapshots, settings that don't fit
what was measured; where the state lies; values and keys that RocksDB can't make the best of.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import Option, naming
from kstoolkit.records import Figure, Source
from kstoolkit.rocksdb.advice.advice import WIKI, Rule, Shown, Unjudged, figures_of
from kstoolkit.rocksdb.files.place import is_temporary
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.rocksdb.advice.advice import Facts

_STREAMS = "https://kafka.apache.org/documentation/streams/developer-guide/config-streams.html"
_CONSUMER = "https://kafka.apache.org/documentation/#consumerconfigs"
_SPARK = "https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html"

_STALL_TIMES = ("write-stall-duration", "rocksdbWriterStallLatencyMs")
"""How long writers waited: Kafka Streams hands on RocksDB's microseconds, whatever it says."""

_MUCH_OF_A_MINUTE_US = 600_000
_LONG_US = 60_000_000
_LONG_MS = 1_000
_POLL_INTERVAL_MS = 300_000
_NEAR = 0.8
_SLOW_RESTORE_S = 600
_RESTORE_BUFFER_BYTES = 32 << 20
_LEAST_STANDBY_BYTES = 1 << 30
_BASE_TIMES = 10
_LONG_COMMIT_MS = 500
_MOST_OF_BATCH = 0.5
_LATE_VERSIONS = 50
_MANY_CHANGELOGS = 50
_HUGE_VALUE_BYTES = 32 << 10
_LEAST_KEYS = 500
_TIMES_MS = (1_000_000_000_000, 4_102_444_800_000)  # 2001 to 2100


def _is_spark(facts: Facts) -> bool:
    if facts.metrics is None:
        raise Unjudged(facts.why_no_metrics)
    return facts.metrics.engine == "Spark"


def stall_figures(facts: Facts) -> list[Figure]:
    """Return how long writers waited, if it is long."""
    if _is_spark(facts):
        waited = facts.needed(_STALL_TIMES[1])
        return [waited] if waited.value >= _LONG_MS else []
    total, minute = facts.needed(_STALL_TIMES[0]), facts.metric("write-stall-duration-avg")
    often = minute is not None and minute.value >= _MUCH_OF_A_MINUTE_US
    if not often and total.value < _LONG_US:
        return []
    a_minute = {} if minute is None else {"write_stall_duration_avg_us_a_minute": minute.value}
    return figures_of(Source.METRICS, write_stall_duration_us=total.value, **a_minute)


@Rule(
    "background errors",
    "flushes or compactions failed; RocksDB may refuse to write",
    option="the disk",
    direction="look for ERROR in the store's LOG, for room on the disk, and for its errors",
    effect="the store can be written again, once the application is started anew",
    cost="none",
    link=f"{WIKI}/Background-Error-Handling",
)
def _background_errors(facts: Facts) -> Iterator[Shown]:
    if not _is_spark(facts) and (errors := facts.needed("background-errors")).value:
        yield Shown((errors, *facts.told("number-file-errors")))


@Rule(
    "write stalls",
    "writers waited for RocksDB; what for, only its log says",
    option="info_log_level, write_buffer_size, max_background_jobs",
    direction="the first to WARN, which tells the cause; raise the others",
    effect="flushes and compactions keep up with what is written",
    cost="a log; memory for larger memtables; cores for the jobs",
    link=f"{WIKI}/Write-Stalls",
)
def _stalls(facts: Facts) -> Iterator[Shown]:
    evidence = stall_figures(facts)
    if evidence and not facts.stalls:  # a log that tells causes has rules of its own
        yield Shown(evidence)


@Rule(
    "late polls after stalls",
    "{why} polls came {gap_s:,.0f} s apart, {late} the {allowed_s:,.0f} s after which the group "
    "evicts a member and rebalances",
    option="write_buffer_size, max.poll.records, max.poll.interval.ms",
    direction="cure the stalls first; lower the second; raise the last above the gap",
    effect="members stay in the group, and their tasks are not restored elsewhere",
    cost="with the last: a member that hangs is noticed later",
    link=_CONSUMER,
)
def _poll_gaps(facts: Facts) -> Iterator[Shown]:
    """Judge one chain: writers stall, the thread does not poll, the group evicts and rebalances."""
    if _is_spark(facts):
        return
    gap = facts.needed("time-between-poll-max")
    allowed = facts.setting("max.poll.interval.ms", _POLL_INTERVAL_MS)
    if allowed is None or gap.value < _NEAR * allowed.value:
        return
    try:
        stalls = stall_figures(facts)
    except Unjudged:
        stalls = []
    evidence = (
        *stalls,
        Figure("time_between_poll_max_ms", gap.value, gap.source),
        allowed,
        *facts.told("rebalance-rate-per-hour", "failed-rebalance", "last-rebalance-seconds-ago"),
        facts.setting("max.poll.records", 1_000),  # as Kafka Streams sets it
    )
    said = {
        "why": "writers stalled, so" if stalls else "not by stalls that are known of,",
        "gap_s": gap.value / 1_000,
        "late": "longer than" if gap.value > allowed.value else "near to",
        "allowed_s": allowed.value / 1_000,
    }
    yield Shown(evidence, said)


_SMALL_MEMTABLES = {
    "option": "write_buffer_size",
    "direction": "32 to 64 MiB, and a higher level0_file_num_compaction_trigger",
    "effect": "fewer flushes and compactions while rows pour in",
    "cost": "as much more memory in each store",
}


@Rule(
    "slow restore",
    "at this rate the restore takes {minutes:,.0f} more minutes",
    option="num.standby.replicas",
    direction="1 or more: what is kept ready elsewhere need not be restored",
    effect="seconds, not this",
    cost="the same state, once more",
    link=_STREAMS,
)
def _slow_restore(facts: Facts) -> Iterator[Shown]:
    left, rate = facts.metric("task-restore-remaining-records"), facts.metric("task-restore-rate")
    if _is_spark(facts) or not left or not rate or not rate.value:
        return
    seconds = left.value / rate.value
    if seconds <= _SLOW_RESTORE_S:
        return
    sizes = [each.profile.write_buffer_size for each in facts.families if each.profile]
    most = max((each for each in sizes if each is not None), default=None)
    small = most is not None and most < _RESTORE_BUFFER_BYTES
    evidence = (left, rate, Figure("write_buffer_size", most, Source.OPTIONS))
    yield Shown(evidence, {"minutes": seconds / 60} | (_SMALL_MEMTABLES if small else {}))


_RAISED = {
    "option": "max_bytes_for_level_base",
    "direction": "raise to about {level0}",
    "cost": "the levels below become larger, too",
}


@Rule(
    "level 1 does not fit level 0",
    "level 0 is compacted at {level0}, into a level 1 of {base}",
    option="max_bytes_for_level_base, write_buffer_size",
    direction="lower, or raise the other",
    effect="each compaction of level 0 rewrites about as much as it brings",
    cost="more memory, or one level more",
    link=f"{WIKI}/RocksDB-Tuning-Guide#level-style-compaction",
)
def _level_base(facts: Facts) -> Iterator[Shown]:
    names = ("level0_file_num_compaction_trigger", "write_buffer_size", "max_bytes_for_level_base")
    for family, profile in facts.profiled():
        told = {name: getattr(profile, name) for name in names}
        trigger, buffer, base = told.values()
        if profile.compaction_style != "level" or None in told.values():
            continue
        level0 = trigger * buffer * (profile.min_write_buffer_number_to_merge or 1)
        if base / _BASE_TIMES <= level0 <= base or family.summary.sst_bytes <= base:
            continue  # a store that fits into level 1 has no other
        said = {"level0": format_bytes(level0), "base": format_bytes(base)}
        said |= _RAISED if level0 > base else {}
        yield Shown(figures_of(Source.OPTIONS, **told), said, family)


_COMPACT = "rocksdbCommitCompactLatency"
_COMMIT_PARTS = (
    _COMPACT,
    "rocksdbCommitFlushLatency",
    "rocksdbSaveZipFilesLatencyMs",
    "rocksdbCommitFileSyncLatencyMs",
)
_CONF = "spark.sql.streaming.stateStore.rocksdb."
_COMPACTED = {"option": f"{_CONF}compactOnCommit", "direction": "false: RocksDB compacts by itself"}


@Rule(
    "long commits",
    "a commit of a store takes {mean_ms:,.0f} ms, {share:.0%} of the state's time",
    option=f"{_CONF}changelogCheckpointing.enabled",
    direction="true: a commit uploads changes, and snapshots follow in the background",
    effect="batches end sooner",
    cost="changelogs are replayed when a store is loaded, up to the newest snapshot",
    link=_SPARK,
)
def _long_commits(facts: Facts) -> Iterator[Shown]:
    stores, commit = facts.metric("numStateStoreInstances"), facts.metric("commitTimeMs")
    batches = facts.metric("batches")
    if not _is_spark(facts) or not stores or not stores.value or not commit or not batches:
        return
    spent = facts.told("commitTimeMs", "allUpdatesTimeMs", "allRemovalsTimeMs")
    said = {"mean_ms": commit.value / stores.value / batches.value}
    said["share"] = commit.value / max(1, sum(each.value for each in spent))
    if said["mean_ms"] >= _LONG_COMMIT_MS and said["share"] >= _MOST_OF_BATCH:
        parts = sorted(facts.told(*_COMMIT_PARTS), key=lambda each: -each.value)
        is_compacted = bool(parts) and parts[0].name == _COMPACT
        yield Shown((*spent, stores, batches, *parts), said | (_COMPACTED if is_compacted else {}))


@Rule(
    "lagging snapshots",
    "a store's newest snapshot is {behind:,} batches old",
    option="spark.sql.streaming.stateStore.maintenanceInterval",
    direction="lower; or raise numStateStoreMaintenanceThreads, if there are many stores",
    effect="a store that is loaded anew replays few changelogs",
    cost="snapshots are uploaded more often",
    link=_SPARK,
)
def _lagging_snapshots(facts: Facts) -> Iterator[Shown]:
    if not _is_spark(facts) or facts.metrics is None:
        return
    batch, replayed = facts.needed("batchId"), facts.metric("rocksdbNumReplayChangelogFiles")
    of_partitions = [n for n in facts.metrics.values if "SnapshotLastUploaded.partition_" in n]
    oldest = min(facts.told(*of_partitions), key=lambda each: each.value, default=None)
    behind = 0 if oldest is None else batch.value + 1 - max(0, oldest.value)
    if behind > _LATE_VERSIONS or (replayed is not None and replayed.value > _MANY_CHANGELOGS):
        yield Shown((batch, oldest, replayed), {"behind": int(behind)})


@Rule(
    "client settings",
    "nobody keeps this state ready: when its member is gone, it is read from the changelog",
    option="num.standby.replicas",
    direction="1",
    effect="another member takes over within seconds",
    cost="as much disk and memory, once more",
    link=_STREAMS,
)
def _settings(facts: Facts) -> Iterator[Shown]:
    """Judge whether what the client is set to fits the store."""
    settings = facts.settings
    if settings is None:
        why = naming("the client's settings are not given: {c}", c=Option("client_config", "..."))
        raise Unjudged(why)
    session, beat = facts.setting("session.timeout.ms"), facts.setting("heartbeat.interval.ms", 3e3)
    if session and beat and 3 * beat.value > session.value:
        yield Shown((session, beat), _SHORT_SESSION)
    size = sum(each.summary.sst_bytes for each in facts.families) * facts.instances
    standbys = facts.setting("num.standby.replicas", 0)
    is_large = "application.id" in settings and size > _LEAST_STANDBY_BYTES
    if standbys and not standbys.value and is_large:
        by_broker = settings.get("group.protocol", "").lower() == "streams"
        instead = {"option": "streams.num.standby.replicas of the group"} if by_broker else {}
        yield Shown((standbys, Figure("sst_bytes", size, Source.STORE)), instead)


_SHORT_SESSION = {
    "symptom": "a member may be thrown out after fewer than three heartbeats that were missed",
    "option": "session.timeout.ms",
    "direction": "at least three times heartbeat.interval.ms",
    "effect": "one lost heartbeat is no rebalance",
    "cost": "a member that died is noticed later",
    "link": _CONSUMER,
}


@Rule(
    "state that does not stay",
    "the state lies in memory, or where the system deletes what is old",
    option="state.dir",
    direction="a folder on a disk that outlives the process: in a pod, a volume of its own",
    effect="a restart finds its state, instead of restoring it; memory is not taken by files",
    cost="room on that disk",
    link=_STREAMS,
)
def _fleeting(facts: Facts) -> Iterator[Shown]:
    """Judge by what is set, or by where a store lies that is written to; others may be copies."""
    place, settings = facts.place, facts.settings or {}
    told = settings.get("state.dir")
    if told is None and "application.id" in settings:
        told = "/tmp/kafka-streams"  # noqa: S108 - Kafka's own default
    if told and is_temporary(Path(told)):
        yield Shown([Figure("state.dir", told, Source.GIVEN)])
    elif place is not None and place.is_in_use:
        if place.is_fleeting:
            where = {"path": str(place.path), "file_system": place.file_system or "not told"}
            yield Shown(figures_of(Source.SYSTEM, **where))
    elif not told:
        why = "nobody writes the store here, so where its writer has it is not known: {c} tells it"
        raise Unjudged(naming(why, c=Option("client_config", "...")))


@Rule(
    "huge values",
    "a value has {mean_value_bytes.text} on average, all of which each update reads, writes and "
    "compacts again",
    option="enable_blob_files, min_blob_size",
    direction="on; or keep what grows in rows of its own: a list as a row an element",
    effect="compactions move keys, and leave the values where they are",
    cost="reads of ranges are slower, and garbage in blob files takes room",
    link=f"{WIKI}/BlobDB",
)
def _huge_values(facts: Facts) -> Iterator[Shown]:
    for family in facts.families:
        raw = [each.raw_value_bytes for each in family.ssts]
        entries = family.summary.num_entries
        number = entries - family.summary.num_deletions
        mean_bytes = sum(each or 0 for each in raw) // max(1, number)
        if number > 0 and None not in raw and mean_bytes >= _HUGE_VALUE_BYTES:
            told = figures_of(Source.STORE, mean_value_bytes=mean_bytes, num_entries=entries)
            yield Shown(told, family=family)


@Rule(
    "keys in no useful order",
    "bytes {at} to {end} of the keys are times, the lowest byte first: RocksDB sorts by the "
    "milliseconds of a second before the day",
    option="the keys",
    direction="write numbers with the highest byte first (big-endian)",
    effect="a range of time is one scan of neighbouring blocks",
    cost="the store has to be built anew",
    link=f"{WIKI}/Basic-Operations#key-layout",
)
def _scattered(facts: Facts) -> Iterator[Shown]:
    """Judge whether keys hold times backwards, so that what is near in time lies far apart.

    Whether a hash or a user in front of a time is wrong depends on what is read; this never fits.
    """
    for family in facts.families:
        at = _backward_time(family.keys)
        if at is not None:
            times = [int.from_bytes(each[at : at + 8], "little") for each in family.keys]
            told = {"num_keys_looked_at": len(times), "oldest_ms": min(times)}
            told["newest_ms"] = max(times)
            yield Shown(figures_of(Source.STORE, **told), {"at": at, "end": at + 7}, family)


def _backward_time(keys: Sequence[bytes]) -> int | None:
    """Return where all keys have a time in little-endian; None where there is none such.

    >>> keys = [b"user" + (1_700_000_000_000 + n).to_bytes(8, "little") for n in range(500)]
    >>> _backward_time(keys), _backward_time([key[::-1] for key in keys])
    (4, None)
    """
    lengths = {len(each) for each in keys}
    if len(keys) < _LEAST_KEYS or len(lengths) != 1:
        return None
    low, high = _TIMES_MS
    for at in range(min(64, min(lengths) - 7)):
        if all(low <= int.from_bytes(each[at : at + 8], "little") < high for each in keys):
            return at if len({each[at : at + 8] for each in keys}) > 1 else None
    return None


_WHILE_IT_RUNS = (_background_errors, _stalls, _poll_gaps, _slow_restore, _level_base)
_OF_SPARK = (_long_commits, _lagging_snapshots)
_OF_CHOICES = (_settings, _fleeting, _huge_values, _scattered)
ENGINE_RULES = (*_WHILE_IT_RUNS, *_OF_SPARK, *_OF_CHOICES)
