"""Which symptoms show in what the engine itself tells, in its settings, and in its rows.

Stalls and what follows from them, restores, Spark's commits and snapshots, settings that don't fit
what was measured; where the state lies; values and keys that RocksDB can't make the best of.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import Option, naming
from kstoolkit.records import Figure, Source
from kstoolkit.rocksdb.advice.advice import Advice, Unjudged
from kstoolkit.rocksdb.files.place import is_temporary
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kstoolkit.rocksdb.advice.advice import Facts, FamilyFacts


_WIKI = "https://github.com/facebook/rocksdb/wiki"
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


def stall_figures(facts: Facts) -> list[Figure]:
    """Return how long writers waited, if it is long."""
    if _is_spark(facts):
        waited = facts.needed(_STALL_TIMES[1])
        return [waited] if waited.value >= _LONG_MS else []
    total, minute = facts.needed(_STALL_TIMES[0]), facts.metric("write-stall-duration-avg")
    often = minute is not None and minute.value >= _MUCH_OF_A_MINUTE_US
    if not often and total.value < _LONG_US:
        return []
    found = [Figure("write_stall_duration_us", total.value, Source.METRICS)]
    if minute is not None:
        found.append(Figure("write_stall_duration_avg_us_a_minute", minute.value, Source.METRICS))
    return found


def _stalls(facts: Facts) -> Iterator[Advice]:
    """Judge whether metrics tell of long stalls, whose cause only a log would tell."""
    evidence = stall_figures(facts)
    if not evidence or facts.stalls:  # a log that tells causes has rules of its own
        return
    yield Advice(
        rule="write stalls",
        symptom="writers waited for RocksDB; what for, only its log says",
        evidence=tuple(evidence),
        option="info_log_level, write_buffer_size, max_background_jobs",
        direction="the first to WARN, which tells the cause; raise the others",
        effect="flushes and compactions keep up with what is written",
        cost="a log; memory for larger memtables; cores for the jobs",
        link=f"{_WIKI}/Write-Stalls",
    )


def _poll_gaps(facts: Facts) -> Iterator[Advice]:
    """Judge whether polls come so late that the group takes the tasks away, and what delays them.

    One chain: writers stall, the thread does not poll, the group evicts it and rebalances.
    """
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
    why = "writers stalled, so" if stalls else "not by stalls that are known of,"
    late = "longer than" if gap.value > allowed.value else "near to"
    records = facts.setting("max.poll.records", 1_000)  # as Kafka Streams sets it
    yield Advice(
        rule="late polls after stalls",
        symptom=f"{why} polls came {gap.value / 1_000:,.0f} s apart, {late} the "
        f"{allowed.value / 1_000:,.0f} s after which the group evicts a member and rebalances",
        evidence=(
            *stalls,
            Figure("time_between_poll_max_ms", gap.value, gap.source),
            allowed,
            *facts.told(
                "rebalance-rate-per-hour", "failed-rebalance", "last-rebalance-seconds-ago"
            ),
            *([] if records is None else [records]),
        ),
        option="write_buffer_size, max.poll.records, max.poll.interval.ms",
        direction="cure the stalls first; lower the second; raise the last above the gap",
        effect="members stay in the group, and their tasks are not restored elsewhere",
        cost="with the last: a member that hangs is noticed later",
        link=_CONSUMER,
    )


def _background_errors(facts: Facts) -> Iterator[Advice]:
    """Judge whether RocksDB met an error in the background: it may have stopped writing."""
    if _is_spark(facts):
        return
    errors = facts.needed("background-errors")
    if errors.value:
        yield Advice(
            rule="background errors",
            symptom="flushes or compactions failed; RocksDB may refuse to write",
            evidence=(errors, *facts.told("number-file-errors")),
            option="the disk",
            direction="look for ERROR in the store's LOG, for room on the disk, and for its errors",
            effect="the store can be written again, once the application is started anew",
            cost="none",
            link=f"{_WIKI}/Background-Error-Handling",
        )


def _slow_restore(facts: Facts) -> Iterator[Advice]:
    """Judge whether a restore that goes on will take long, with memtables that cut it small."""
    if facts.metrics is None:
        raise Unjudged(facts.why_no_metrics)
    left, rate = facts.metric("task-restore-remaining-records"), facts.metric("task-restore-rate")
    if not left or not rate or not rate.value or left.value / rate.value <= _SLOW_RESTORE_S:
        return
    buffers = [each.profile.write_buffer_size for each in facts.families if each.profile]
    most = max((each for each in buffers if each is not None), default=None)
    small = most is not None and most < _RESTORE_BUFFER_BYTES
    size = [] if most is None else [Figure("write_buffer_size", most, Source.OPTIONS)]
    yield Advice(
        rule="slow restore",
        symptom=f"at this rate the restore takes {left.value / rate.value / 60:,.0f} more minutes",
        evidence=(left, rate, *size),
        option="write_buffer_size" if small else "num.standby.replicas",
        direction="32 to 64 MiB, and a higher level0_file_num_compaction_trigger"
        if small
        else "1 or more: what is kept ready elsewhere need not be restored",
        effect="fewer flushes and compactions while rows pour in" if small else "seconds, not this",
        cost="as much more memory in each store" if small else "the same state, once more",
        link=_STREAMS,
    )


def _level_base(facts: Facts) -> Iterator[Advice]:
    """Judge whether level 0 and level 1 are of about the same size, as compactions need it."""
    told = [each for each in facts.families if each.profile is not None]
    if not told:
        why = "there is no OPTIONS file"
        raise Unjudged(why)
    for family in told:
        advice = _of_base(family)
        if advice is not None:
            yield advice


def _of_base(family: FamilyFacts) -> Advice | None:
    profile = family.profile
    if profile is None or profile.compaction_style != "level":
        return None
    names = ("level0_file_num_compaction_trigger", "write_buffer_size", "max_bytes_for_level_base")
    trigger, buffer, base = (getattr(profile, name) for name in names)
    if None in {trigger, buffer, base}:
        return None
    level0 = trigger * buffer * (profile.min_write_buffer_number_to_merge or 1)
    if base / _BASE_TIMES <= level0 <= base or family.summary.sst_bytes <= base:
        return None  # a store that fits into level 1 has no other
    small = level0 > base
    return Advice(
        rule="level 1 does not fit level 0",
        symptom=f"level 0 is compacted at {format_bytes(level0)}, into a level 1 of "
        f"{format_bytes(base)}",
        evidence=tuple(Figure(name, getattr(profile, name), Source.OPTIONS) for name in names),
        option=names[2] if small else f"{names[2]}, {names[1]}",
        direction=f"raise to about {format_bytes(level0)}"
        if small
        else "lower, or raise the other",
        effect="each compaction of level 0 rewrites about as much as it brings",
        cost="the levels below become larger, too" if small else "more memory, or one level more",
        link=f"{_WIKI}/RocksDB-Tuning-Guide#level-style-compaction",
        column_family=family.name,
    )


def _settings(facts: Facts) -> Iterator[Advice]:
    """Judge whether what the client is set to fits the store."""
    if facts.settings is None:
        why = naming("the client's settings are not given: {c}", c=Option("client_config", "..."))
        raise Unjudged(why)
    session, beat = facts.setting("session.timeout.ms"), facts.setting("heartbeat.interval.ms", 3e3)
    if session and beat and 3 * beat.value > session.value:
        yield _of_setting(
            "a member may be thrown out after fewer than three heartbeats that were missed",
            (session, beat),
            ("session.timeout.ms", "at least three times heartbeat.interval.ms", _CONSUMER),
            ("one lost heartbeat is no rebalance", "a member that died is noticed later"),
        )
    yield from _without_standby(facts)
    lag, rate = facts.setting("acceptable.recovery.lag"), facts.metric("task-restore-rate")
    if lag and rate and rate.value and lag.value / rate.value > _SLOW_RESTORE_S:
        yield _of_setting(
            f"a task may move to where {lag.value / rate.value / 60:,.0f} minutes of restoring are "
            "left",
            (lag, rate),
            ("acceptable.recovery.lag", "lower", _STREAMS),
            ("a task goes on elsewhere sooner", "warm-ups take longer before a task moves"),
        )


def _without_standby(facts: Facts) -> Iterator[Advice]:
    size = sum(each.summary.sst_bytes for each in facts.families) * facts.instances
    standbys = facts.setting("num.standby.replicas", 0)
    is_streams = "application.id" in (facts.settings or {})
    by_broker = (facts.settings or {}).get("group.protocol", "").lower() == "streams"
    if standbys and not standbys.value and is_streams and size > _LEAST_STANDBY_BYTES:
        name = "streams.num.standby.replicas of the group" if by_broker else "num.standby.replicas"
        yield _of_setting(
            "nobody keeps this state ready: when its member is gone, it is read from the changelog",
            (standbys, Figure("sst_bytes", size, Source.STORE)),
            (name, "1", _STREAMS),
            ("another member takes over within seconds", "as much disk and memory, once more"),
        )


def _of_setting(
    symptom: str,
    evidence: tuple[Figure, ...],
    change: tuple[str, str, str],
    outcome: tuple[str, str],
) -> Advice:
    option, direction, link = change
    effect, cost = outcome
    return Advice(
        rule="client settings",
        symptom=symptom,
        evidence=evidence,
        option=option,
        direction=direction,
        effect=effect,
        cost=cost,
        link=link,
    )


_COMMIT_PARTS = {
    "rocksdbCommitCompactLatency": ("compactOnCommit", "false: RocksDB compacts by itself"),
    "rocksdbCommitFlushLatency": (
        "changelogCheckpointing.enabled",
        "true: a commit uploads changes, and snapshots follow in the background",
    ),
}
_COMMIT_PARTS |= dict.fromkeys(
    ("rocksdbSaveZipFilesLatencyMs", "rocksdbCommitFileSyncLatencyMs"),
    _COMMIT_PARTS["rocksdbCommitFlushLatency"],
)
_CONF = "spark.sql.streaming.stateStore.rocksdb."


def _long_commits(facts: Facts) -> Iterator[Advice]:
    """Judge whether Spark's batches go into commits of the state, and into which part of them."""
    stores, commit = facts.metric("numStateStoreInstances"), facts.metric("commitTimeMs")
    if not _is_spark(facts) or not stores or not stores.value or not commit:
        return
    spent = facts.told("commitTimeMs", "allUpdatesTimeMs", "allRemovalsTimeMs")
    mean_ms = commit.value / stores.value
    of_all = commit.value / max(1, sum(each.value for each in spent))
    if mean_ms < _LONG_COMMIT_MS or of_all < _MOST_OF_BATCH:
        return
    parts = sorted(facts.told(*_COMMIT_PARTS), key=lambda each: -each.value)
    option, direction = _COMMIT_PARTS[parts[0].name] if parts else ("", "")
    yield Advice(
        rule="long commits",
        symptom=f"a commit of a store takes {mean_ms:,.0f} ms, {of_all:.0%} of the state's time",
        evidence=(*spent, stores, *parts),
        option=_CONF + option,
        direction=direction,
        effect="batches end sooner",
        cost="changelogs are replayed when a store is loaded, up to the newest snapshot",
        link=_SPARK,
    )


def _lagging_snapshots(facts: Facts) -> Iterator[Advice]:
    """Judge whether Spark's snapshots are so old that loading a store replays many changelogs."""
    if not _is_spark(facts) or facts.metrics is None:
        return
    batch, replayed = facts.needed("batchId"), facts.metric("rocksdbNumReplayChangelogFiles")
    newest = {
        name: each
        for name, each in facts.metrics.values.items()
        if "SnapshotLastUploaded.partition_" in name
    }
    oldest = min(newest, key=newest.__getitem__, default=None)
    behind = 0 if oldest is None else batch.value + 1 - max(0, newest[oldest])
    many = replayed is not None and replayed.value > _MANY_CHANGELOGS
    if behind <= _LATE_VERSIONS and not many:
        return
    late = [] if oldest is None else [Figure(oldest, int(newest[oldest]), Source.METRICS)]
    yield Advice(
        rule="lagging snapshots",
        symptom=f"a store's newest snapshot is {format_count(int(behind))} batches old",
        evidence=(batch, *late, *([] if replayed is None else [replayed])),
        option="spark.sql.streaming.stateStore.maintenanceInterval",
        direction="lower; or raise numStateStoreMaintenanceThreads, if there are many stores",
        effect="a store that is loaded anew replays few changelogs",
        cost="snapshots are uploaded more often",
        link=_SPARK,
    )


def _is_spark(facts: Facts) -> bool:
    if facts.metrics is None:
        raise Unjudged(facts.why_no_metrics)
    return facts.metrics.engine == "Spark"


def _fleeting(facts: Facts) -> Iterator[Advice]:
    """Judge whether the state lies in memory, or where the system tidies up.

    A store that nobody writes here may be a copy: where it lies is then no evidence.
    """
    place, settings = facts.place, facts.settings or {}
    told = settings.get("state.dir")
    if told is None and "application.id" in settings:
        told = "/tmp/kafka-streams"  # noqa: S108 - Kafka's own default
    if told and is_temporary(Path(told)):
        evidence = [Figure("state.dir", told, Source.GIVEN)]
    elif place is not None and place.is_in_use:
        if not place.is_fleeting:
            return
        evidence = [Figure("path", str(place.path), Source.SYSTEM)]
        evidence.append(Figure("file_system", place.file_system or "not told", Source.SYSTEM))
    elif told:
        return
    else:
        why = "nobody writes the store here, so where its writer has it is not known: {c} tells it"
        raise Unjudged(naming(why, c=Option("client_config", "...")))
    yield Advice(
        rule="state that does not stay",
        symptom="the state lies in memory, or where the system deletes what is old",
        evidence=tuple(evidence),
        option="state.dir",
        direction="a folder on a disk that outlives the process: in a pod, a volume of its own",
        effect="a restart finds its state, instead of restoring it; memory is not taken by files",
        cost="room on that disk",
        link=_STREAMS,
    )


def _huge_values(facts: Facts) -> Iterator[Advice]:
    """Judge whether values are so large that each compaction rewrites them at a high price."""
    for family in facts.families:
        raw = [each.raw_value_bytes for each in family.ssts]
        number = family.summary.num_entries - family.summary.num_deletions
        if number <= 0 or None in raw:
            continue
        mean_bytes = sum(each or 0 for each in raw) // number
        if mean_bytes < _HUGE_VALUE_BYTES:
            continue
        yield Advice(
            rule="huge values",
            symptom=f"a value has {format_bytes(mean_bytes)} on average, all of which each update "
            "reads, writes and compacts again",
            evidence=(
                Figure("mean_value_bytes", mean_bytes, Source.STORE),
                Figure("num_entries", family.summary.num_entries, Source.STORE),
            ),
            option="enable_blob_files, min_blob_size",
            direction="on; or keep what grows in rows of its own: a list as a row an element",
            effect="compactions move keys, and leave the values where they are",
            cost="reads of ranges are slower, and garbage in blob files takes room",
            link=f"{_WIKI}/BlobDB",
            column_family=family.name,
        )


def _scattered(facts: Facts) -> Iterator[Advice]:
    """Judge whether keys hold times backwards, so that what is near in time lies far apart.

    Whether a hash or a user in front of a time is wrong depends on what is read; this never fits.
    """
    for family in facts.families:
        at = _backward_time(family.keys)
        if at is None:
            continue
        times = [int.from_bytes(each[at : at + 8], "little") for each in family.keys]
        yield Advice(
            rule="keys in no useful order",
            symptom=f"bytes {at} to {at + 7} of the keys are times, the lowest byte first: RocksDB "
            "sorts by the milliseconds of a second before the day",
            evidence=(
                Figure("num_keys_looked_at", len(times), Source.STORE),
                Figure("oldest_ms", min(times), Source.STORE),
                Figure("newest_ms", max(times), Source.STORE),
            ),
            option="the keys",
            direction="write numbers with the highest byte first (big-endian)",
            effect="a range of time is one scan of neighbouring blocks",
            cost="the store has to be built anew",
            link=f"{_WIKI}/Basic-Operations#key-layout",
            column_family=family.name,
        )


def _backward_time(keys: Sequence[bytes]) -> int | None:
    """Return where all keys have a time in little-endian; None where there is none such.

    Examples
    --------
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
            different = len({each[at : at + 8] for each in keys})
            return at if different > 1 else None
    return None


ENGINE_RULES: dict[str, Callable[[Facts], Iterator[Advice]]] = {
    "background errors": _background_errors,
    "write stalls": _stalls,
    "late polls after stalls": _poll_gaps,
    "slow restore": _slow_restore,
    "level 1 does not fit level 0": _level_base,
    "long commits": _long_commits,
    "lagging snapshots": _lagging_snapshots,
    "client settings": _settings,
    "state that does not stay": _fleeting,
    "huge values": _huge_values,
    "keys in no useful order": _scattered,
}
"""Each rule by its name."""
