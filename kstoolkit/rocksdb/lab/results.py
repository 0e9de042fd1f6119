"""What came of a comparison: each trial's figures, a series over time, and the work by level.

A trial's process tells its figures and moments; the parent adds what it saw of the disk, and
RocksDB's log says which level was flushed and compacted into.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, KstoolkitError
from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.lab.replaying import LoggedWork
    from kstoolkit.rocksdb.lab.workloads import Workload
    from kstoolkit.rocksdb.log.jobs import Compaction, Flush
    from kstoolkit.rocksdb.log.storelog import StoreLog

_FAR, _FEW_STALLS = 0.25, 10


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Trial(Record):
    """What a workload cost under one profile.

    Parameters
    ----------
    profile, stopped_by
        Its name; which limit it met: ``"disk"`` if it ever took more than it might, else ``"time"``
        if it was not at rest when its time was up. None: it ended within both.
    finished, settled
        Whether the last write was done; and flushes and compactions had ended, too, by then.
    writes, deletes, gets, gets_found
        What was done: ``writes`` counts deletes too.
    user_bytes, live_bytes, live_rows, content_sha256
        Keys and values that were written, and those that can be read at the end; of these the hash,
        which is the same for profiles that wrote the same.
    write_amplification
        Bytes that flushes and compactions wrote, to those that flushes wrote, so 1 at the least;
        the WAL's are beside it. None if nothing was flushed: all still fitted the memtables.
    written_per_user_byte
        The same bytes to ``user_bytes``: below 1 by what memtables take in, or is compressed.
    read_amplification
        Bytes that came from files but for compactions (gets, and the ends of files that were
        opened), to the keys and values that gets returned.
    space_amplification, peak_space_amplification
        Bytes of the SST files at the end, and the most that the store ever took, to
        ``live_bytes``. Compressed files may be below 1. None if there are no such files, or rows.
    blocks_per_get
        Blocks read from files for each get, and for opening them; not those that the cache held.
    data_block_hit_ratio, index_block_hit_ratio, filter_block_hit_ratio
        Of the looks for a block in the cache, compactions' too: how many found it there. None if
        the kind lives outside the cache, or there is none.
    filter_usefulness
        Of the times that a filter was asked: how often it was right, on absent keys or others.
    sorted_runs
        Runs that a get of an absent key has to look into at the end: level-0 files, and levels.
    num_files, num_entries, num_deletions
        Of the SST files at the end; entries are rows, older versions of them, and deletions.
    num_flushes, compaction_read_bytes
        Memtables that became files, the last ones too; bytes from files, not from the cache.
    peak_disk_bytes, peak_sst_bytes
        The most that the store's folder took, as it was looked at every 20 ms; and the most that
        its SST files took, by its log, however shortly.
    stall_ms, num_stalls, longest_stall_ms
        How long writes waited in all, how many of them, and the one that did longest.
    memtable_limit_delays ... write_buffer_manager_limit_stops
        How often each condition for a stall came about, by its cause.
    put_p50_us, put_p99_us, get_p50_us, get_p99_us
        Each put or get, as its caller waits for it; Python's call is in it.
    put_s, get_s, settle_s
        How long all puts and gets took, and the flushes and compactions that were left.
    peak_memtable_bytes, peak_block_cache_bytes, peak_table_readers_bytes, peak_resident_bytes
        The most seen at any moment, which need not coincide; the last of the trial's process.
    tickers, unset
        RocksDB's own counters by its names, as ``store.advice(tickers=...)`` takes them; the
        profile's options that rocksdict could not set, and why.
    """

    profile: str
    stopped_by: str | None
    finished: bool = of_source(Source.OPENER)
    settled: bool = of_source(Source.OPENER)
    writes: int = of_source(Source.OPENER)
    deletes: int = of_source(Source.OPENER)
    gets: int = of_source(Source.OPENER)
    gets_found: int = of_source(Source.OPENER)
    user_bytes: int = of_source(Source.OPENER)
    live_bytes: int = of_source(Source.STORE)
    live_rows: int = of_source(Source.STORE)
    content_sha256: str = of_source(Source.STORE)
    write_amplification: float | None = of_source(Source.FORMULA)
    written_per_user_byte: float | None = of_source(Source.FORMULA)
    read_amplification: float | None = of_source(Source.FORMULA)
    space_amplification: float | None = of_source(Source.FORMULA)
    peak_space_amplification: float | None = of_source(Source.FORMULA)
    blocks_per_get: float | None = of_source(Source.FORMULA)
    data_block_hit_ratio: float | None = of_source(Source.FORMULA)
    index_block_hit_ratio: float | None = of_source(Source.FORMULA)
    filter_block_hit_ratio: float | None = of_source(Source.FORMULA)
    filter_usefulness: float | None = of_source(Source.FORMULA)
    sorted_runs: int = of_source(Source.STORE)
    num_files: int = of_source(Source.STORE)
    num_entries: int = of_source(Source.STORE)
    num_deletions: int = of_source(Source.STORE)
    num_flushes: int = of_source(Source.OPENER)
    flush_bytes: int = of_source(Source.OPENER)
    compaction_write_bytes: int = of_source(Source.OPENER)
    compaction_read_bytes: int = of_source(Source.OPENER)
    compaction_ms: float = of_source(Source.OPENER)
    wal_bytes: int = of_source(Source.OPENER)
    sst_bytes: int = of_source(Source.STORE)
    peak_disk_bytes: int = of_source(Source.SYSTEM)
    peak_sst_bytes: int = of_source(Source.LOG)
    stall_ms: float = of_source(Source.OPENER)
    num_stalls: int = of_source(Source.OPENER)
    longest_stall_ms: float = of_source(Source.OPENER)
    memtable_limit_delays: int = of_source(Source.OPENER)
    memtable_limit_stops: int = of_source(Source.OPENER)
    l0_file_count_limit_delays: int = of_source(Source.OPENER)
    l0_file_count_limit_stops: int = of_source(Source.OPENER)
    pending_compaction_bytes_delays: int = of_source(Source.OPENER)
    pending_compaction_bytes_stops: int = of_source(Source.OPENER)
    write_buffer_manager_limit_stops: int = of_source(Source.OPENER)
    put_p50_us: float | None = of_source(Source.OPENER)
    put_p99_us: float | None = of_source(Source.OPENER)
    get_p50_us: float | None = of_source(Source.OPENER)
    get_p99_us: float | None = of_source(Source.OPENER)
    put_s: float = of_source(Source.OPENER)
    get_s: float = of_source(Source.OPENER)
    settle_s: float = of_source(Source.OPENER)
    peak_memtable_bytes: int = of_source(Source.OPENER)
    peak_block_cache_bytes: int = of_source(Source.OPENER)
    peak_table_readers_bytes: int = of_source(Source.OPENER)
    peak_resident_bytes: int | None = of_source(Source.SYSTEM)
    tickers: dict[str, int] = field(default_factory=dict)
    unset: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def stalls(self) -> int:
        """How often any of these conditions came about: so many lines has a log of them."""
        causes = ("memtable_limit", "l0_file_count_limit", "pending_compaction_bytes")
        return sum(getattr(self, f"{c}_{what}") for c in causes for what in ("delays", "stops"))

    def unlike(self, was: LoggedWork) -> str | None:
        """Return what it has most off, under the store's own profile, if by over 25 %, and why."""
        flushes = sorted((self.num_flushes - 1, was.num_flushes, self.num_flushes + 1))[1]
        now = {
            "flushes are": flushes / was.num_flushes,  # one more or less tells nothing
            "flushed bytes are": self.flush_bytes / max(was.flush_bytes, 1),
            "write amplification is": (self.write_amplification or 0.0) / was.write_amplification,
            "stalls are": max(self.stalls, _FEW_STALLS) / max(was.stalls, _FEW_STALLS),
            "the peak of SST files is": self.peak_sst_bytes / was.peak_sst_bytes,
        }
        what, times = max(now.items(), key=lambda each: abs(each[1] - 1))
        why = "how fast writer and disk were" if what[0] == "s" else "which key was written when"
        why = f"{why}, no log tells" if self.finished else "it was stopped before its last write"
        return f"{what} {times:.2f} times what was: {why}" if abs(times - 1) > _FAR else None

    def __repr__(self) -> str:
        told = {kind: getattr(self, f"{kind}_amplification") for kind in ("write", "read", "space")}
        amplified = ", ".join(
            f"{kind} {'unknown' if value is None else format(value, '.2f')}"
            for kind, value in told.items()
        )
        stopped = f", stopped by {self.stopped_by}" if self.stopped_by else ""
        return (
            f"Trial({self.profile!r}, {counted(self.writes, 'writes')}, amplification: "
            f"{amplified}; peak disk {format_bytes(self.peak_disk_bytes)}, "
            f"stalled {self.stall_ms:,.0f} ms{stopped})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Moment(Record):
    """A trial at one moment: figures since its start, latencies since the moment before.

    Parameters
    ----------
    profile, at_ms, disk_bytes
        Whose trial; since the store was opened; the most its folder took since the moment before.
    writes, user_bytes, written_bytes, write_amplification, written_per_user_byte
        Writes so far, their keys and values, and what flushes and compactions wrote: this to what
        flushes wrote of it, and to ``user_bytes``, None before the first flush.
    level0_files, pending_compaction_bytes, stall_ms
        What stalls come from, and how long writes have waited so far.
    level_files, level_bytes
        The SST files of each level from level 0 on, up to the last that has any.
    memtable_bytes, block_cache_bytes, block_cache_pinned_bytes, table_readers_bytes
        The parts of RocksDB's memory; what is pinned is inside the cache's.
    put_p99_us, get_p99_us
        Of the puts and gets since the moment before; None if there were none.
    """

    profile: str
    at_ms: int
    writes: int = of_source(Source.OPENER)
    user_bytes: int = of_source(Source.OPENER)
    written_bytes: int = of_source(Source.OPENER)
    write_amplification: float | None = of_source(Source.FORMULA)
    written_per_user_byte: float | None = of_source(Source.FORMULA)
    disk_bytes: int = of_source(Source.SYSTEM)
    level0_files: int = of_source(Source.OPENER)
    pending_compaction_bytes: int = of_source(Source.OPENER)
    stall_ms: float = of_source(Source.OPENER)
    level_files: tuple[int, ...] = of_source(Source.OPENER)
    level_bytes: tuple[int, ...] = of_source(Source.OPENER)
    memtable_bytes: int = of_source(Source.OPENER)
    block_cache_bytes: int = of_source(Source.OPENER)
    block_cache_pinned_bytes: int = of_source(Source.OPENER)
    table_readers_bytes: int = of_source(Source.OPENER)
    put_p99_us: float | None = of_source(Source.OPENER)
    get_p99_us: float | None = of_source(Source.OPENER)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Moment({self.profile!r} after {self.at_ms / 1e3:,.1f} s, "
            f"{counted(self.writes, 'writes')}, disk {format_bytes(self.disk_bytes)}, "
            f"{counted(self.level0_files, 'files')} on level 0)"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LevelWork(Record):
    """What flushes (into level 0) and compactions did for a level, as the trial's log tells it.

    Parameters
    ----------
    profile, level
        Whose trial; where the files that came out went.
    num_flushes, num_compactions, num_moves
        Jobs; a move puts files a level down without rewriting them.
    read_bytes, written_bytes, duration_ms
        Files that compactions read; files that both wrote; time of both, added up.
    """

    profile: str
    level: int
    num_flushes: int = of_source(Source.LOG)
    num_compactions: int = of_source(Source.LOG)
    num_moves: int = of_source(Source.LOG)
    read_bytes: int = of_source(Source.LOG)
    written_bytes: int = of_source(Source.LOG)
    duration_ms: float = of_source(Source.LOG)

    def __repr__(self) -> str:
        return (
            f"LevelWork({self.profile!r}, level {self.level}, "
            f"{format_bytes(self.written_bytes)} written by {counted(self.num_flushes, 'flushes')} "
            f"and {counted(self.num_compactions, 'compactions')})"
        )


def work_by_level(profile: str, log: StoreLog) -> list[LevelWork]:
    """Return a record for each level that something was written or moved to."""
    levels: dict[int, list[Flush | Compaction]] = {0: [*log.flushes()]}
    for each in log.compactions():
        if each.to_level is not None:
            levels.setdefault(each.to_level, []).append(each)
    return [_work(profile, level, jobs) for level, jobs in sorted(levels.items()) if jobs]


def _work(profile: str, level: int, jobs: list[Flush | Compaction]) -> LevelWork:
    num = Counter(each.kind for each in jobs)
    writers = [each for each in jobs if each.kind != "move"]
    return LevelWork(
        profile=profile,
        level=level,
        num_flushes=num["flush"],
        num_compactions=num["compaction"],
        num_moves=num["move"],
        read_bytes=sum(each.input_bytes or 0 for each in writers if each.kind == "compaction"),
        written_bytes=sum(each.output_bytes or 0 for each in writers),
        duration_ms=sum((each.duration_ms or 0.0 for each in writers), 0.0),
    )


_NOTHING_FLUSHED = "nothing was flushed: what was written still fitted the memtables"
_WHY = {
    **dict.fromkeys(("write_amplification", "written_per_user_byte"), _NOTHING_FLUSHED),
    "read_amplification": "no get found anything",
    "space_amplification": "no row can be read at the end",
    "peak_space_amplification": "no row can be read at the end",
    "blocks_per_get": "nothing was asked for",
    **{
        f"{kind}_block_hit_ratio": "no such block was looked for in a cache"
        for kind in ("data", "index", "filter")
    },
    "filter_usefulness": "no filter was asked",
    **dict.fromkeys(("put_p50_us", "put_p99_us"), "nothing was written"),
    **dict.fromkeys(("get_p50_us", "get_p99_us"), "nothing was asked for"),
    "peak_resident_bytes": "only Linux tells it, in /proc/self/status",
}
_WHY_NOT_THEN = {
    **dict.fromkeys(("write_amplification", "written_per_user_byte"), _NOTHING_FLUSHED),
    "put_p99_us": "no puts since the moment before",
    "get_p99_us": "no gets since the moment before",
}


@dataclass(slots=True)
class Watched:
    """What was seen of a trial."""

    moments: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)
    peak_disk_bytes: int = 0
    peak_sst_bytes: int = 0
    stopped_by: str | None = None


def trial_of(profile: str, seen: Watched) -> Trial:
    """Return the record of a trial that came to its end."""
    figures: dict[str, Any] = dict(seen.end)
    live_bytes = figures["live_bytes"]
    for name, above in (("", figures["sst_bytes"]), ("peak_", seen.peak_disk_bytes)):
        figures[f"{name}space_amplification"] = above / live_bytes if above and live_bytes else None
    for part in ("memtable_bytes", "block_cache_bytes", "table_readers_bytes"):
        figures[f"peak_{part}"] = max(each[part] for each in seen.moments)
    whys = _WHY | ({"space_amplification": _NOTHING_FLUSHED} if live_bytes else {})
    return Trial(
        profile=profile,
        stopped_by=seen.stopped_by,
        peak_disk_bytes=seen.peak_disk_bytes,
        peak_sst_bytes=seen.peak_sst_bytes,
        unknown={name: why for name, why in whys.items() if figures[name] is None},
        **figures,
    )


def moment_of(profile: str, told: dict[str, Any]) -> Moment:
    """Return the record of a trial's moment, as its process told it."""
    levels = {name: tuple(told[name]) for name in ("level_files", "level_bytes")}
    return Moment(
        profile=profile,
        unknown={name: why for name, why in _WHY_NOT_THEN.items() if told[name] is None},
        **told | levels,
    )


class Comparison(Records[Trial]):
    """A row a profile.

    Parameters
    ----------
    workload, trials
        What each of them wrote; a trial a profile, in their order.
    series, levels
        Each trial four times a second; what was flushed and compacted into each level.
    """

    def __init__(
        self,
        workload: Workload,
        trials: Sequence[Trial],
        series: Records[Moment],
        levels: Records[LevelWork],
    ) -> None:
        super().__init__(trials, "trials")
        self.workload = workload
        self.series = series
        self.levels = levels

    def of(self, profile: str) -> Trial:
        """Return the trial of a profile; a name that there isn't is a ConfigurationError."""
        for each in self:
            if each.profile == profile:
                return each
        message = f"There is no trial of a profile {profile!r}."
        hint = f"There are {', '.join(each.profile for each in self)}."
        raise ConfigurationError(message, hint=hint)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values: workload, trials, series, levels."""
        return {
            "workload": self.workload.to_dict(),
            "trials": self.to_dicts(),
            "series": self.series.to_dicts(),
            "levels": self.levels.to_dicts(),
        }

    def __repr__(self) -> str:
        names = ", ".join(each.profile for each in self)
        return f"Comparison({counted(len(self), 'trials')} of {self.workload!r}: {names})"

    def _repr_html_(self) -> str:
        shown = self.to_pandas().drop(columns="tickers")  # some two hundred
        return self._with_sources(shown.set_index("profile").T.to_html(escape=True))


class Listener:
    """Hears how a comparison goes, and may cancel it; a method that is not overridden does nothing.

    They are called in the comparison's own thread, between two looks at the disk: each has to
    return at once, and what takes its time belongs elsewhere.

    >>> from kstoolkit.rocksdb.lab.comparing import compare_profiles
    >>> from kstoolkit.rocksdb.lab.workloads import Workload
    >>> class Heard(Listener):
    ...     def begin(self, workload, profiles):
    ...         print(f"{workload.writes:,} writes under each of {profiles}")
    >>> workload = Workload(writes=1_000, keys=500)
    >>> found = compare_profiles(workload, ["spark"], progress=False, listener=Heard())
    1,000 writes under each of ['spark']
    """

    def begin(self, workload: Workload, profiles: Sequence[str]) -> None:
        """Learn what is written, and under which profiles, before the first one's trial.

        The workload has the number of its writes, replayed ones too; profiles come in their order.
        """

    def hear(self, moment: Moment) -> None:
        """Learn how a trial stands: four times a second, and at its end."""

    def is_cancelled(self) -> bool:
        """Return whether the comparison is to end now; asked some fifty times a second."""
        return False


class TrialFailed(KstoolkitError):  # noqa: N818 - like RunFailed
    """A trial that came to no end; ``found`` has those of the same comparison that did before."""

    found: Comparison | None = None


class TrialCancelled(TrialFailed):
    """A trial that was ended because the comparison's listener wished so."""
