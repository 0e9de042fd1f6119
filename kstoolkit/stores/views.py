"""What RocksDB tells of a store that lies in several: of each, and of all together.

A windowed store is a RocksDB a segment; Spark's state is one a partition, as far as there are
snapshots. What of them adds up, as files and their sizes, is summed; what doesn't, as a log or a
piece of advice, is told of each alone, and a sum that would mean nothing is not made up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kstoolkit.errors import FormatError, InputError, KstoolkitError
from kstoolkit.records import Closing, Record, Records, Source, of_source
from kstoolkit.rocksdb.faults import (
    ColumnFamilyError,
    NoStoreError,
    StoreFault,
    StorePermissionError,
)
from kstoolkit.rocksdb.files.finding import MissingFolderError
from kstoolkit.rocksdb.files.ssts import Level, density, known_total, levels_of
from kstoolkit.rocksdb.files.summary import NO_DAMAGE, StoreSummary
from kstoolkit.rocksdb.log.stats import write_amplification
from kstoolkit.rocksdb.log.storelog import StoreLog, read_log
from kstoolkit.rocksdb.memory.measured import MemoryParts
from kstoolkit.rocksdb.memory.planning import MemoryPlan, plans_in_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path
    from typing import Unpack

    from matplotlib.axes import Axes

    from kstoolkit.moments import Moment
    from kstoolkit.rocksdb.advice.advice import Advice, Circumstances
    from kstoolkit.rocksdb.files.keystats import KeyStats
    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.log.jobs import Compaction, Flush
    from kstoolkit.rocksdb.log.stats import WriteAmplification
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.rocksdb.store import Store

_Row = TypeVar("_Row", bound=Record)

_DIFFERS = "it is not the same of all stores"
_OF_EACH = "each store has its own"


class StoreRecords(Records[_Row]):
    """Records of several stores, each with the name of its own, and what they come to in all.

    Parameters
    ----------
    path, num_stores
        The folder of all, and how many, told of or not; by default those of ``by_store``.
    by_store
        What is told of each store: a record, or several; an attribute too.
    kind
        What each is a record of, if they have no kind of their own.
    """

    def __init__(
        self,
        path: Path,
        by_store: Mapping[str, _Row | Records[_Row]],
        *,
        num_stores: int | None = None,
        kind: str = "stores",
    ) -> None:
        self.path, self.by_store = path, dict(by_store)
        self.num_stores = len(self.by_store) if num_stores is None else num_stores
        named = [(name, row) for name, view in self.by_store.items() for row in _rows(view)]
        kinds = {view.kind for view in self.by_store.values() if isinstance(view, Records)}
        super().__init__([row for _, row in named], " and ".join(sorted(kinds)) or kind)
        self.stores = tuple(name for name, _ in named)

    @property
    def are_several(self) -> bool:
        """Whether there is more than one store."""
        return self.num_stores > 1

    def items(self) -> Iterator[tuple[str, _Row]]:
        """Yield each record with the name of its store."""
        return zip(self.stores, self.rows, strict=True)

    @cached_property
    def total(self) -> Any:
        """What all come to: a record, or several of levels; None where a sum means nothing."""
        rows: list[Any] = list(self.rows)
        match rows[:1]:
            case [StoreSummary()]:
                return summary_in_all(self.path, dict(self.items()))  # type: ignore[arg-type] # as said
            case [Level()]:
                return levels_of(rows)
            case [MemoryParts() | MemoryInAll()]:
                return memory_in_all(self.path, rows)
            case [StoreLog()]:
                return writes_in_all(rows)
        return None

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Return a plot of what all of them come to, or else of the records."""
        return super().plot(ax, **options) if self.total is None else self.total.plot(ax, **options)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each record's fields as plain values, and in ``store`` whose it is."""
        return [{"store": None} | row.to_dict() | {"store": name} for name, row in self.items()]


def _rows(view: _Row | Records[_Row]) -> Iterable[_Row]:
    return view if isinstance(view, Records) else [view]


OF_ONE_STORE = (FormatError, MissingFolderError, NoStoreError, StoreFault, StorePermissionError)
"""What is wrong with one RocksDB of a store alone: the others can be read."""


class HasViews(Closing, ABC):
    """A store that lies in several RocksDB, with the views that a single one has.

    What adds up is given of all together, as of a single RocksDB: the summary and the levels. All
    else is given of one after the other, in :class:`StoreRecords`; so :meth:`each` gives any view.
    """

    path: Path

    @property
    @abstractmethod
    def places(self) -> dict[str, Path]:
        """Where its RocksDB lie, by their names: folders, or snapshots of Spark's."""

    @abstractmethod
    def rocksdbs(self) -> Iterator[tuple[str, Store]]:
        """Yield each RocksDB with its name, open until the next is asked for."""

    @property
    def no_rocksdb(self) -> str | None:
        """Why there is no RocksDB to look into; None if there is one."""
        return None if self.places else f"No RocksDB lies in {self.path}."

    @property
    def no_log(self) -> str | None:
        """Why none of them has a log, and where it is; None if some may have."""
        return None

    @property
    def not_shown(self) -> str | None:
        """What of the store is in none of its RocksDB; None: nothing."""
        return None

    def each(self, view: Callable[[Store], _Row | Records[_Row]]) -> StoreRecords[_Row]:
        """Return what a view of each RocksDB shows, as ``each(lambda one: one.levels())``.

        Some that can't be shown so are left out, with a LeftOutWarning. If none can, as with a
        column family that none has, or if it is for no single one that it can't, as with too many
        open files, that is raised; if there is no RocksDB, a NoStoreError.
        """
        found: dict[str, _Row | Records[_Row]] = {}
        left_out: dict[Path, str] = {}
        failure: KstoolkitError | None = None
        for name, store in self.rocksdbs():
            try:
                found[name] = view(store)
            except ColumnFamilyError as error:  # segments of before an upgrade lack the newer ones
                failure = error
            except OF_ONE_STORE as error:
                failure = error
                left_out[self.places[name]] = error.message
        if not found:
            message = self.no_rocksdb or f"All that lay in {self.path} is gone, or unreadable."
            raise failure or NoStoreError(message, hint="Its rows can be read: store.rows().")
        if left_out:
            from kstoolkit.stores.rows.readable import LeftOut, say_left_out  # noqa: PLC0415 - Arrow

            say_left_out(self.path, [LeftOut(*each) for each in left_out.items()])
        return StoreRecords(self.path, found, num_stores=len(self.places), kind="RocksDBs")

    def summary(self, cf: str | None = None) -> StoreSummary:
        """Return all of them, or a column family of all, at a glance."""
        found = self.each(lambda store: store.summary(cf))
        return summary_in_all(self.path, dict(found.items()))

    def levels(self, cf: str | None = None) -> Records[Level]:
        """Return the levels that have files, each of all of them together."""
        return levels_of(self.each(lambda store: store.levels(cf)))

    def ssts(self, cf: str | None = None) -> StoreRecords[Sst]:
        """Return the SST files of each, of all column families or one, by level and key."""
        return self.each(lambda store: store.ssts(cf))

    def key_stats(self, sample: int = 10_000, **how: Any) -> StoreRecords[KeyStats]:
        """Return how large keys and values of each are; parameters as of a single store's."""
        return self.each(lambda store: store.key_stats(sample, **how))

    def memory(
        self,
        *,
        profile: Profile | str | None = None,
        pid: int | None = None,
        instances: int = 1,
        iterators: int | None = None,
    ) -> StoreRecords[MemoryParts]:
        """Return what the writer of each needs, and what each takes here, one after the other.

        Parameters are as of :meth:`kstoolkit.rocksdb.store.Store.memory`. What the formula says of
        each adds up in ``total``, but for a block cache that they share.
        """
        how: dict[str, Any] = {"profile": profile, "pid": pid, "instances": instances}
        return self.each(lambda store: store.memory(**how, iterators=iterators))

    def log(
        self, *, zone: tzinfo | None = None, since: Moment | None = None
    ) -> StoreRecords[StoreLog]:
        """Return the logs that the writer left, of those that have one; none is opened for it.

        Parameters as of :meth:`kstoolkit.rocksdb.store.Store.log`; none readable is an InputError.
        """
        found: dict[str, StoreLog] = {}
        failure: InputError | None = None
        for name, place in self.places.items() if self.no_log is None else ():
            try:
                found[name] = read_log(place, zone=zone, since=since)
            except InputError as error:
                failure = error
        if not found:
            raise failure or InputError(self.no_log or f"There is no log in {self.path}.")
        return StoreRecords(self.path, found, kind="logs")

    def advice(self, **circumstances: Unpack[Circumstances]) -> StoreRecords[Advice]:
        """Return what the figures of each advise; all of them count as open at once.

        See :class:`~kstoolkit.rocksdb.advice.advice.Circumstances`; ``instances`` is how many
        stores like all of this one are open.
        """
        together = circumstances.get("instances", 1) * max(1, len(self.places))
        told: Circumstances = {**circumstances, "instances": together}
        return self.each(lambda store: store.advice(**told))


_SUMS = (
    *("num_files", "sst_bytes", "blob_bytes", "wal_bytes", "apparent_bytes", "disk_bytes"),
    *("num_entries", "num_deletions", "num_unlisted_ssts", "copied_bytes", "estimated_rows"),
    *("estimated_live_bytes", "wal_entries_replayed"),
)
_TEXTS = ("rocksdb_version", "compaction_style", "merge_operator")


def summary_in_all(path: Path, each: Mapping[str, StoreSummary]) -> StoreSummary:
    """Return some stores at a glance: figures on disk summed, what is said of them each once."""
    rows = list(each.values())
    sums: dict[str, Any] = {name: known_total(getattr(row, name) for row in rows) for name in _SUMS}
    for name in _TEXTS:
        kinds = dict.fromkeys(text for row in rows if (text := getattr(row, name)))
        sums[name] = ", ".join(kinds) or None
    whys = {name: why for row in reversed(rows) for name, why in row.unknown.items()}
    whys |= {"num_levels_used": _OF_EACH, "table_readers_bytes": "not all are open at once"}
    sums |= {"tombstone_density": density(sums["num_deletions"], sums["num_entries"])}
    sums |= dict.fromkeys(("num_levels_used", "table_readers_bytes", "unflushed_entries"))
    damaged = [f"{name}: {row.damage}" for name, row in each.items() if row.damage != NO_DAMAGE]
    return StoreSummary(
        path=str(path),
        column_families=tuple(dict.fromkeys(name for row in rows for name in row.column_families)),
        damage="; ".join(damaged) or NO_DAMAGE,
        format_versions=tuple(sorted({one for row in rows for one in row.format_versions})),
        unknown={name: why for name, why in whys.items() if sums.get(name, 0) is None},
        **sums,
    )


_FORMULA = "formula_bytes"


@dataclass(frozen=True, slots=True)
class MemoryInAll(Record):
    """What the writer of some stores needs for all of them by the formula, and what it takes.

    Parameters
    ----------
    path, num_stores
        The folder of all, and how many there are.
    formula_bytes, plan
        The sum of the stores' plans: what instances share counts once.
    writer_rss_bytes, writer_pss_bytes, writer_not_accounted_for_bytes
        As in :class:`~kstoolkit.rocksdb.memory.measured.MemoryParts`, of all stores.
    """

    path: str
    num_stores: int = of_source(Source.STORE)
    formula_bytes: int | None = of_source(Source.FORMULA)
    writer_rss_bytes: int | None = of_source(Source.SYSTEM)
    writer_pss_bytes: int | None = of_source(Source.SYSTEM)
    writer_not_accounted_for_bytes: int | None = of_source(Source.SYSTEM)
    plan: MemoryPlan | None = None
    unknown: dict[str, str] = field(default_factory=dict)


def memory_in_all(
    path: Path, each: Sequence[MemoryParts | MemoryInAll], lost: Mapping[str, str] | None = None
) -> MemoryInAll:
    """Return what the writer of some stores needs for all; ``lost`` are unread ones, and why."""
    plans = [parts.plan for parts in each if parts.plan is not None]
    number = sum(getattr(it, "num_stores", 1) for it in each) + len(lost or ())
    lost = {**(lost or {}), **{it.path: it.unknown[_FORMULA] for it in each if it.plan is None}}
    plan = plans_in_all(plans, lost) if plans else None
    is_known = plan is not None and not lost and all(it.formula_bytes is not None for it in each)
    needed = plan.total_bytes if plan is not None and is_known else None
    values: dict[str, int | None] = {_FORMULA: needed}
    for name in ("writer_rss_bytes", "writer_pss_bytes"):
        values[name] = next((n for it in each if (n := getattr(it, name)) is not None), None)
    rss = values["writer_rss_bytes"]
    rest = None if rss is None or needed is None else rss - needed
    values["writer_not_accounted_for_bytes"] = rest
    whys = {_FORMULA: "; ".join(f"{name}: {why}" for name, why in lost.items())} if lost else {}
    whys |= {name: why for parts in each for name, why in parts.unknown.items()}
    unknown = {name: whys.get(name, _DIFFERS) for name, value in values.items() if value is None}
    return MemoryInAll(str(path), number, **values, plan=plan, unknown=unknown)


def writes_in_all(each: Sequence[StoreLog]) -> WriteAmplification:
    """Return what flushes and compactions wrote of which the logs of some stores tell."""
    untold = next((why for log in each if (why := log.compactions().unknown)), None)
    done: list[Flush | Compaction] = []
    for log in each:
        done += [*log.flushes(), *log.compactions()]
    return write_amplification(done, untold)
