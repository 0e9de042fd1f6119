"""What rules of advice may look at: facts, each with whose it is, and why some are missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.records import Figure, Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.files.summary import Summary
    from kstoolkit.rocksdb.log.flushes import Flush
    from kstoolkit.rocksdb.log.rows import LogRows
    from kstoolkit.rocksdb.log.stalls import Stall
    from kstoolkit.rocksdb.log.writes import WriteAmplification
    from kstoolkit.rocksdb.memory.measured import MemoryParts
    from kstoolkit.rocksdb.memory.planning import MemoryPlan
    from kstoolkit.rocksdb.memory.process import ProcessMemory
    from kstoolkit.rocksdb.profiles.profile import Profile


@dataclass(frozen=True, slots=True)
class FamilyFacts:
    """A column family: its options (None: no OPTIONS file), its files and how they stand.

    Its rows are counted if that is what a rule needs, and they are not too many; else
    ``why_not_counted`` says why not.
    """

    name: str
    profile: Profile | None
    ssts: Sequence[Sst]
    summary: Summary
    live_rows: int | None = None
    why_not_counted: str | None = None


@dataclass(frozen=True, slots=True)
class Tickers:
    """The writer's counters, or why there are none.

    Examples
    --------
    >>> tickers = Tickers({"rocksdb.a.hit": 3, "rocksdb.a.miss": 1}, Source.METRICS)
    >>> tickers.of("a.hit", "a.miss")
    [3, 1]
    >>> print(tickers.figures("a.hit")[0])
    rocksdb.a.hit: 3 (the writer's metrics)
    """

    counts: Mapping[str, int]
    source: Source
    why_none: str = "these counters are not among the writer's"

    def of(self, *names: str) -> list[int] | None:
        """Return counters by name without ``rocksdb.``; None if one is missing."""
        found = [self.counts.get(f"rocksdb.{name}") for name in names]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else None

    def figures(self, *names: str) -> tuple[Figure, ...]:
        """Return counters as evidence."""
        whole = [f"rocksdb.{name}" for name in names]
        return tuple(Figure(each, self.counts.get(each), self.source) for each in whole)


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a store, and of its circumstances.

    Parameters
    ----------
    families
        Its column families.
    stalls, flushes, writes
        What the writer's log tells.
    tickers
        The writer's counters.
    memory, plan
        What the store takes in this process, and what ``instances`` of it need by the formula.
    process
        The writer's, if its pid was given.
    bound_bytes, instances, open_files_limit
        See :class:`~kstoolkit.rocksdb.advice.circumstances.Circumstances`.
    limit_source
        Whose ``open_files_limit`` is: given, or this process's.
    """

    families: Sequence[FamilyFacts]
    stalls: LogRows[Stall]
    flushes: LogRows[Flush]
    writes: WriteAmplification
    tickers: Tickers
    memory: MemoryParts
    plan: MemoryPlan | None
    open_files_limit: int
    limit_source: Source = Source.GIVEN
    profile: Profile | None = None
    process: ProcessMemory | None = None
    bound_bytes: int | None = None
    instances: int = field(default=1)
