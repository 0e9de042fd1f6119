"""What a replica answers: a user's counts, its segments, how far a standby is behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kstoolkit.formats.actions import action_in_words
from kstoolkit.moments import moment_of
from kstoolkit.records import Record, Source, of_source
from kstoolkit.units import format_count, format_duration, format_span

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, repr=False)
class UserCounts(Record):
    """One user's counts in one window, by action.

    Parameters
    ----------
    window_start_ms, window_end_ms
        The window, epoch ms UTC; its end is outside.
    counts
        How often, by action, a tuple if of several parts; empty if the user did nothing then.
    updated_at_ms
        The clock of the micro-batch that last changed a count, epoch ms UTC; after a compaction of
        the changelog, that of the newest batch folded. ``None`` if there are no counts.

    Examples
    --------
    >>> UserCounts("Anna", 0, 3_600_000, {"read": 3}, 3_599_000)
    UserCounts('Anna', 1 hour from 1970-01-01T00:00:00+00:00: read 3)
    """

    user: str
    window_start_ms: int
    window_end_ms: int
    counts: dict[Any, int] = of_source(Source.STORE)
    updated_at_ms: int | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def window_start(self) -> datetime:
        """When the window begins."""
        return moment_of(self.window_start_ms)

    @property
    def window_end(self) -> datetime:
        """When the window ends; that moment is outside."""
        return moment_of(self.window_end_ms)

    @property
    def updated_at(self) -> datetime | None:
        """When a count last changed; ``None`` if there are none."""
        return None if self.updated_at_ms is None else moment_of(self.updated_at_ms)

    @property
    def total(self) -> int:
        """The sum over all actions."""
        return sum(self.counts.values())

    @property
    def length(self) -> str:
        """How long the window is, for people; of a session about how long."""
        length_ms = self.window_end_ms - self.window_start_ms
        return format_span(length_ms / 1_000) if length_ms % 60_000 else format_duration(length_ms)

    def __repr__(self) -> str:
        told = [f"{action_in_words(each)} {format_count(n)}" for each, n in self.counts.items()]
        start, counts = self.window_start.isoformat(), ", ".join(told) or "no counts"
        return f"UserCounts({self.user!r}, {self.length} from {start}: {counts})"


@dataclass(frozen=True, slots=True)
class SegmentState(Record):
    """One segment of a replica: which windows it holds, and where.

    Parameters
    ----------
    window
        The kind of window: ``"1 hour"``.
    start_ms, end_ms
        Windows that begin from here on, and before there, epoch ms UTC.
    path
        Its folder; ``None`` if it is in memory.
    bundles
        Users times windows, by RocksDB's estimate, in which what was changed counts twice until
        it is compacted; exact in memory.
    sst_bytes
        Size of its SST files, which hold the counts; ``None`` in memory.
    disk_bytes
        What all files of its folder take on the disk, RocksDB's logs and room set aside among
        them, as ``du`` counts; ``None`` in memory.
    epoch, batch
        The newest micro-batch of the changelog that changed it.
    """

    window: str
    start_ms: int
    end_ms: int
    path: str | None
    bundles: int | None = of_source(Source.STORE)
    sst_bytes: int | None = of_source(Source.STORE)
    disk_bytes: int | None = of_source(Source.SYSTEM)
    epoch: int | None = of_source(Source.STORE)
    batch: int | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lag(Record):
    """How far a standby is behind its changelog.

    Parameters
    ----------
    records
        Counts in the changelog that it has still to read.
    seconds
        How much older the newest batch that it holds is than the changelog's newest, by the clock
        of the micro-batches; 0 if it holds all. ``None`` if it holds nothing yet.

    Examples
    --------
    >>> [str(figure) for figure in Lag(5, 0.5).figures()]
    ['records: 5 (store on disk)', 'seconds: 0.5 (store on disk)']
    """

    records: int = of_source(Source.STORE)
    seconds: float | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)


class Mark(NamedTuple):
    """What is in a segment: everything up to a batch, in so many writes.

    A pass of many records writes to a segment again and again as of the same batch; by the writes
    it is told whether all of them are there, and whether there are more than before.
    """

    epoch: int
    batch: int
    writes: int = 0
