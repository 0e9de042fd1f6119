"""All rules of advice, asked one after the other."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Protocol

from kstoolkit.errors import InputError
from kstoolkit.records import Source
from kstoolkit.rocksdb.advice.advice import (
    Advice,
    AdviceList,
    Facts,
    FamilyFacts,
    Unjudged,
    WriterTickers,
    check_circumstances,
)
from kstoolkit.rocksdb.advice.rules import (
    absent_keys,
    bloom_usefulness,
    hash_index_unpinned,
    index_and_filter_misses,
    iterator_pinning,
    may_be_wide,
    memory_over_bound,
    open_files,
    shared_too_thinly,
    small_files,
    small_flushes,
    space_amplification,
    stalls_by_compaction_debt,
    stalls_by_level0,
    stalls_by_memtables,
    tombstones,
    write_amplification,
)
from kstoolkit.rocksdb.faults import DamagedStoreError, StoreFault
from kstoolkit.rocksdb.log.jobs import LogRows
from kstoolkit.rocksdb.log.stats import write_amplification as no_writes
from kstoolkit.rocksdb.memory.measured import process_memory
from kstoolkit.rocksdb.memory.planning import profile_given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from kstoolkit.records import Records
    from kstoolkit.rocksdb.advice.advice import Circumstances
    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.files.summary import StoreSummary
    from kstoolkit.rocksdb.log.stats import StatsDump
    from kstoolkit.rocksdb.log.storelog import StoreLog
    from kstoolkit.rocksdb.memory.measured import MemoryParts
    from kstoolkit.rocksdb.profiles.profile import Profile


_MOST_COUNTED = 2_000_000
"""Entries that are read in about a second."""

_OR_GIVEN = "or give those of its metrics (in Python: tickers=...)"
_NO_STATISTICS = (
    f"the writer's log holds no counters: it takes statistics=True and level INFO; {_OR_GIVEN}"
)

RULES: dict[str, Callable[[Facts], list[Advice] | Unjudged]] = {
    "memory over the bound": memory_over_bound,
    "write stalls: memtable limit": stalls_by_memtables,
    "write stalls: L0 file count limit": stalls_by_level0,
    "write stalls: pending compaction bytes": stalls_by_compaction_debt,
    "write amplification": write_amplification,
    "flush too small": small_flushes,
    "index and filter misses": index_and_filter_misses,
    "hash index not pinned": hash_index_unpinned,
    "low bloom usefulness": bloom_usefulness,
    "read amplification on absent keys": absent_keys,
    "iterator pinning": iterator_pinning,
    "cache shared too thinly": shared_too_thinly,
    "space amplification": space_amplification,
    "tombstone density": tombstones,
    "too many small files": small_files,
    "too many open files": open_files,
}
"""Each rule by its name: it returns its advice, or why it can't judge."""


def advice_on(facts: Facts) -> AdviceList:
    """Return the advice that the facts give reason for, and which rules lack facts."""
    verdicts = {name: rule(facts) for name, rule in RULES.items()}
    found = [each for verdict in verdicts.values() for each in _advice(verdict)]
    silent = {name: each.why for name, each in verdicts.items() if isinstance(each, Unjudged)}
    return AdviceList(found, silent)


class AdvisedStore(Protocol):
    """What rules of advice ask of a store; :class:`~kstoolkit.rocksdb.store.Store` is one."""

    path: Path

    @property
    def column_families(self) -> tuple[str, ...]:
        """The names of the column families."""

    def profile(self, cf: str | None = None) -> Profile | None:
        """Return what a column family was last opened with."""

    def summary(self, cf: str | None = None) -> StoreSummary:
        """Return a column family at a glance."""

    def ssts(self, cf: str | None = None) -> Records[Sst]:
        """Return the SST files of a column family."""

    def memory(self, *, profile: Profile | None, instances: int) -> MemoryParts:
        """Return what the writer needs and takes, and what the store takes here."""

    def iter_rows(self, *, cf: str | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield a column family's rows."""

    def log(self) -> StoreLog:
        """Return the log that the writer left; an InputError if there is none."""


def gather(store: AdvisedStore, circumstances: Circumstances) -> Facts:
    """Return the facts on a store: what is given, and what it, its log and the system tell.

    Parameters
    ----------
    store
        The store, open.
    circumstances
        What whoever asks knows.

    Raises
    ------
    ConfigurationError
        If something is given that makes no sense.
    InputError
        If there is no process of the pid that is given, or no such profile.
    """
    check_circumstances(circumstances)
    log, no_log = _log(store)
    limit, pid = circumstances.get("open_files_limit"), circumstances.get("pid")
    own_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    given, instances = circumstances.get("profile"), circumstances.get("instances", 1)
    profile = None if given is None else profile_given(given)
    # Before rows are read, which fills the cache.
    memory = store.memory(profile=profile, instances=instances)
    families = [_family(store, each) for each in store.column_families]
    return Facts(
        families=families,
        stalls=LogRows([], "stalls", no_log) if log is None else log.stalls(),
        flushes=LogRows([], "flushes", no_log) if log is None else log.flushes(),
        writes=no_writes([], no_log) if log is None else log.write_amplification(),
        tickers=_tickers(log, no_log, circumstances.get("tickers")),
        memory=memory,
        plan=memory.plan,
        open_files_limit=own_limit if limit is None else limit,
        limit_source=Source.OPENER if limit is None else Source.GIVEN,
        profile=profile,
        process=None if pid is None else process_memory(pid),
        bound_bytes=circumstances.get("bound_bytes"),
        instances=instances,
    )


def _family(store: AdvisedStore, name: str) -> FamilyFacts:
    summary = store.summary(name)
    live_rows, why = (None, None) if not may_be_wide(summary) else _live_rows(store, name, summary)
    return FamilyFacts(name, store.profile(name), store.ssts(name), summary, live_rows, why)


def _live_rows(
    store: AdvisedStore, name: str, summary: StoreSummary
) -> tuple[int | None, str | None]:
    """Return how many rows can be read, or None and why they were not counted."""
    if summary.num_entries > _MOST_COUNTED:
        return None, f"it takes reading all rows, and there are more than {_MOST_COUNTED:,} entries"
    try:
        return sum(1 for _ in store.iter_rows(cf=name)), None
    except (DamagedStoreError, StoreFault) as error:
        return None, error.message.rstrip(".")


def _advice(verdict: list[Advice] | Unjudged) -> list[Advice]:
    return [] if isinstance(verdict, Unjudged) else verdict


def _log(store: AdvisedStore) -> tuple[StoreLog | None, str]:
    """Return the writer's log, or why there is none."""
    try:
        return store.log(), ""
    except InputError as error:
        return None, error.message.rstrip(".")


def _tickers(log: StoreLog | None, no_log: str, given: Mapping[str, int] | None) -> WriterTickers:
    if given is not None:
        return WriterTickers(given, Source.METRICS)
    if log is None:
        return WriterTickers({}, Source.LOG, f"{no_log}; {_OR_GIVEN}")
    dumps = log.stats()
    last = next((each.tickers for each in reversed(dumps) if each.tickers), {})
    return (
        WriterTickers(last, Source.LOG) if last else WriterTickers({}, Source.LOG, _why_none(dumps))
    )


def _why_none(dumps: LogRows[StatsDump]) -> str:
    return f"{dumps.unknown}; {_OR_GIVEN}" if dumps.unknown else _NO_STATISTICS
