"""A store that is open for looking in: column families, rows, files, options, log, memory, advice.

What is shown is the store as it was when it was opened, or once its files were let go, as it was
when it was asked again. Rows that the process which writes it still holds in memory alone, without
a WAL, are on no disk, and so not in here.
"""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Unpack

from kstoolkit.errors import FormatError, InputError, UserError
from kstoolkit.records import Closing, Figure, Source
from kstoolkit.rocksdb.advice.advice import Facts, FamilyFacts, WriterTickers, check_circumstances
from kstoolkit.rocksdb.advice.enginemetrics import NO_METRICS
from kstoolkit.rocksdb.advice.rules import advice_on, may_be_wide
from kstoolkit.rocksdb.faults import (
    ColumnFamilyError,
    NoStoreError,
    StoreClosedError,
    StoreFault,
    translated,
)
from kstoolkit.rocksdb.files.damage import View, pass_over, readable_rows, rows_of
from kstoolkit.rocksdb.files.keystats import key_stats_of
from kstoolkit.rocksdb.files.options import option_in, read_options
from kstoolkit.rocksdb.files.place import place_of
from kstoolkit.rocksdb.files.sampling import LiveRows, estimated_live_rows
from kstoolkit.rocksdb.files.shadow import LetsGo
from kstoolkit.rocksdb.files.ssts import levels_of, ssts_of
from kstoolkit.rocksdb.files.summary import summary_of
from kstoolkit.rocksdb.log.jobs import LogRows
from kstoolkit.rocksdb.log.stats import write_amplification
from kstoolkit.rocksdb.log.storelog import read_log
from kstoolkit.rocksdb.memory.measured import memory_parts, process_memory
from kstoolkit.rocksdb.memory.planning import EngineUse, Family, logged_memory, plan_for
from kstoolkit.rocksdb.profiles.named import profile_given
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from datetime import tzinfo
    from pathlib import Path

    from rocksdict import Rdict

    from kstoolkit.moments import Moment
    from kstoolkit.records import Records
    from kstoolkit.rocksdb.advice.advice import AdviceList, Circumstances
    from kstoolkit.rocksdb.advice.enginemetrics import StoreMetrics
    from kstoolkit.rocksdb.files.damage import Losses
    from kstoolkit.rocksdb.files.keystats import KeyStats
    from kstoolkit.rocksdb.files.options import OptionsSection
    from kstoolkit.rocksdb.files.shadow import Shadow, TakenFiles
    from kstoolkit.rocksdb.files.ssts import Level, Sst
    from kstoolkit.rocksdb.files.summary import Footprint, StoreSummary
    from kstoolkit.rocksdb.log.jobs import Compaction, Stall
    from kstoolkit.rocksdb.log.storelog import StoreLog
    from kstoolkit.rocksdb.memory.measured import MemoryParts
    from kstoolkit.rocksdb.memory.planning import LoggedMemory

_NAMED = 5  # column families in its representation


class Store(Closing, LetsGo):
    """A store, open for looking in; made by :func:`kstoolkit.open_store`, closed by ``with``.

    Parameters
    ----------
    path, footprint
        The store's folder, as the user knows it, and what that took when it was opened.
    shadow, families
        The scratch folder through which it is read, removed when the store is closed; the column
        families, opened from there, of which the first is the database itself.
    losses
        What was lost of it so far; None: what can't be read is raised.

    Raises
    ------
    StoreClosedError
        By all that asks the store, if it is closed.
    ColumnFamilyError
        By all that takes a column family, if there is none of that name.
    DamagedStoreError
        By all that reads rows, at one that can't be read.
    """

    again: Callable[[], Store]  # opens it as it is now, once its files were let go

    def __init__(
        self,
        path: Path,
        *,
        shadow: Shadow,
        families: dict[str, Rdict],
        footprint: Footprint,
        losses: Losses | None = None,
    ) -> None:
        LetsGo.__init__(self)
        self.path = path
        self._families = families
        self._shadow = shadow
        self._footprint = footprint
        self._losses = losses
        self._view = View(families, shadow.path, path)
        self._iterations: set[Generator[tuple[bytes, bytes]]] = set()
        self.engine_use = EngineUse()

    @property
    def damage(self) -> str | None:
        """What of it is lost as far as it was read, in one line; None: nothing that is known."""
        return None if self._losses is None else self._losses.text

    @property
    def column_families(self) -> tuple[str, ...]:
        """The names of the column families, ``default`` first; empty once it is closed."""
        return tuple(self._families)

    @cached_property
    def main_family(self) -> str:
        """The column family with the most entries in files; the first one, if none has any.

        Some engines leave ``default`` empty and keep their rows in another.
        """
        entries: Counter[str] = Counter()
        for each in self.ssts():
            entries[each.column_family] += each.num_entries
        return max(self.column_families, key=lambda name: entries[name])

    def summary(self, cf: str | None = None) -> StoreSummary:
        """Return the store, or a column family, at a glance; the folder's sizes are all of it."""
        with self._asked(cf) as families:
            return summary_of(
                self.path,
                families,
                ssts=self.ssts(cf),
                num_unlisted_ssts=len(self._footprint.ssts - {each.name for each in self._ssts}),
                options=self._options,
                footprint=self._footprint,
                copied_bytes=self._shadow.files.copied_bytes,
                damage=self.damage,
            )

    def levels(self, cf: str | None = None) -> Records[Level]:
        """Return the levels that have files, of all column families or one."""
        return levels_of(self.ssts(cf))

    def ssts(self, cf: str | None = None) -> Records[Sst]:
        """Return the SST files, of all column families or one, by level and key."""
        with self._asked(cf) as chosen:
            kept = [each for each in self._ssts if each.column_family in chosen]
            return type(self._ssts)(kept, self._ssts.kind)

    def options(self) -> Records[OptionsSection]:
        """Return the options that the store was last opened with, section by section.

        Raises
        ------
        NoStoreError
            If the folder has no OPTIONS file.
        FormatError
            If it has one that is none.
        """
        with self._asked():
            if self._options is None:
                message = f"The store {self.path} has no OPTIONS file."
                raise NoStoreError(message, hint="RocksDB writes one at each open; was it removed?")
            return self._options

    def key_stats(
        self, sample: int = 10_000, *, cf: str | None = None, prefix_bytes: int = 4, top: int = 10
    ) -> KeyStats:
        """Return how large keys and values are, which prefixes are hot, how much is deleted.

        Parameters
        ----------
        sample, cf
            How many rows to read at most, and of which column family; None: the main one.
        prefix_bytes, top
            How long the prefixes are, and how many of the hottest to name.
        """
        name = cf or self.main_family
        with self._asked(name) as chosen:
            rows, files = chosen[name], self.ssts(name)
            return key_stats_of(
                name, rows, files, sample=sample, prefix_bytes=prefix_bytes, top=top
            )

    def get(self, key: bytes, *, cf: str | None = None) -> bytes | None:
        """Return the value of a key, or None if it has none, of the main column family or one."""
        name = cf or self.main_family
        with self._asked(name) as chosen:
            value: bytes | None = chosen[name].get(key)
            return value

    def iter_rows(
        self, *, cf: str | None = None, prefix: bytes = b"", start: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in the order of the keys, however many there are.

        After most of a minute without a step, rows from there on may be those of then: see
        :func:`~kstoolkit.rocksdb.opening.open_store`.

        Parameters
        ----------
        cf
            The column family; None is the main one: see :attr:`main_family`.
        prefix
            Only keys that begin so.
        start
            Begin at this key, or at the next one there is.

        Raises
        ------
        StoreClosedError
            Also if the store is closed before the last row.
        DamagedStoreError
            At a row that can't be read, instead of an end that looks like the last row; of a store
            that was opened with ``partly``, such rows are passed over.
        """
        name = cf or self.main_family
        self._chosen(name)
        return self._while_open(name, prefix, start)

    def profile(self, cf: str | None = None) -> Profile | None:
        """Return what the main column family or one was last opened with; None if nothing tells."""
        name = cf or self.main_family
        with self._asked(name):
            if self._options is None:
                return None
            try:
                found = Profile.from_options(self._shadow.path, column_family=name)
            except UserError as error:
                message = error.message.replace(str(self._shadow.path), str(self.path))
                raise FormatError(message, hint=error.hint) from error
        return found.changed(name=self.path.name)

    def log(self, *, zone: tzinfo | None = None, since: Moment | None = None) -> StoreLog:
        """Return the log that the writer left.

        Parameters
        ----------
        zone
            The writer's; None: its events tell it.
        since
            From when on; None: the log that is written to, and not those set aside (LOG.old.*).

        Raises
        ------
        InputError
            If there is no log, or it can't be read.
        """
        self._check_open()
        return read_log(self.path, zone=zone, since=since)

    def compactions(self) -> LogRows[Compaction]:
        """Return the compactions of which the writer's log tells."""
        return self.log().compactions()

    def stalls(self) -> LogRows[Stall]:
        """Return the write stalls of which the writer's log tells; or why it can't."""
        return self.log().stalls()

    def memory(
        self,
        *,
        profile: Profile | str | None = None,
        pid: int | None = None,
        instances: int = 1,
        iterators: int | None = None,
    ) -> MemoryParts:
        """Return what the store's writer needs and takes, and what the store takes here.

        Parameters
        ----------
        profile
            What the writer opens it with, or the name of that; None: what its OPTIONS file tells,
            and for the block cache its log, or else its engine's default. Column families whose
            memtables differ from those that rows are written to keep what the file tells of them.
        pid
            The writer's process, on this machine; None: it is not measured.
        instances, iterators
            How many stores like this one the writer has open, and how many iterators in each.

        Raises
        ------
        ConfigurationError
            If a number makes no sense.
        InputError
            If there is no such process, or no such profile.
        """
        writer = None if pid is None else process_memory(pid)
        with self._asked() as handles:
            plan = plan_for(
                self._written(None if profile is None else profile_given(profile)),
                engine=self.engine_use,
                logged=self._logged_memory,
                instances=instances,
                iterators=iterators,
            )
            return memory_parts(str(self.path), list(handles.values()), plan=plan, writer=writer)

    def advice(self, **circumstances: Unpack[Circumstances]) -> AdviceList:
        """Return what the store's figures advise, and which rules lack figures to judge by.

        What the folder doesn't tell may be given, such as ``bound_bytes=1 << 30``: see
        :class:`~kstoolkit.rocksdb.advice.advice.Circumstances`.

        Raises
        ------
        ConfigurationError
            If something is given that makes no sense.
        """
        with self._asked():
            return advice_on(_facts_of(self, self._shadow.path, circumstances))

    def close(self) -> None:
        """Close the store, and remove what was made to read it; a second time does nothing."""
        with self._guard:
            self._release()
            self._families = {}

    def __repr__(self) -> str:
        names = self.column_families
        told = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} column families"
        return f"{type(self).__name__}({str(self.path)!r}, {told or 'closed'})"

    def pass_over(self, error: FormatError) -> None:
        """Count what could not be read among the damage, so that it is said."""
        if self._losses is not None and pass_over(error, self._losses) is None:
            self._losses.beside.append(f"not all could be read: {error.message.rstrip('.')}")

    def _chosen(self, cf: str | None = None) -> dict[str, Rdict]:
        """Return all column families, or the one of a name."""
        self._check_open()
        if cf is None:
            return self._families
        if cf not in self._families:
            message = f"No column family {cf!r} in {self.path}."
            raise ColumnFamilyError(message, hint=f"It has: {', '.join(self._families)}.")
        return {cf: self._families[cf]}

    def _check_open(self) -> None:
        if not self._families:
            message = f"The store {self.path} is closed."
            raise StoreClosedError(message, hint="Open it again.")

    @contextmanager
    def _asked(self, cf: str | None = None) -> Iterator[dict[str, Rdict]]:
        """Yield all column families, or the one of a name, which are not let go meanwhile."""
        self._check_open()
        with translated(self.path), self._asking():
            yield self._chosen(cf)

    def _while_open(
        self, name: str, prefix: bytes, start: bytes | None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows; where they were let go between two steps, go on in the store as it is."""
        last: bytes | None = None
        while True:
            with self._asked(name):
                at = start if last is None else last
                if self._losses is None:
                    rows = rows_of(self._families[name], prefix=prefix, start=at)
                else:
                    rows = readable_rows(self._view, name, self._losses, prefix=prefix, start=at)
                self._iterations.add(rows)
            try:
                with translated(self.path):
                    for row in rows:
                        if row[0] != last:
                            last = row[0]
                            yield row
                            self._check_open()
                            with self._guard:  # it may be let go just now
                                self._asked_at = monotonic()
                if rows in self._iterations:
                    return
            finally:
                self._iterations.discard(rows)

    @property
    def _taken(self) -> TakenFiles:
        return self._shadow.files

    def _let_go(self) -> None:
        for each in list(self._iterations):
            each.close()
            self._iterations.discard(each)
        self._release()

    def _release(self) -> None:
        self._view.close()
        for handle in reversed(self._families.values()):  # the database last: others need it
            handle.close()
        self._shadow.close()

    def _take_anew(self) -> None:
        now = vars(self.again())
        for name in ("_ssts", "_options", "_logged_memory"):
            self.__dict__.pop(name, None)
        for name in ("_families", "_shadow", "_view", "_footprint", "_losses"):
            self.__dict__[name] = now[name]

    @cached_property
    def _ssts(self) -> Records[Sst]:
        with self._asked() as families:
            return ssts_of(self._shadow.path, families)

    @cached_property
    def _options(self) -> Records[OptionsSection] | None:
        with suppress(NoStoreError):
            return read_options(self._shadow.path)
        return None

    @cached_property
    def _logged_memory(self) -> LoggedMemory:
        with suppress(InputError):
            return logged_memory(self.log().options())
        return logged_memory(())

    def _written(self, given: Profile | None) -> list[Family]:
        """Return the column families, the one that rows are written to first; none if unknown."""
        files = {name: self.ssts(name) for name in self._chosen()}
        aside = self.engine_use.unwritten | self.engine_use.small
        entries = {name: sum(each.num_entries for each in files[name]) for name in files}
        first, *others = sorted(files, key=lambda name: (name in aside, -entries[name]))
        main, sections = self.profile(first), self._options
        if main is None or sections is None:
            return [] if given is None else [Family(name, given, files[name]) for name in files]
        told = {each.column_family for each in sections}
        families = []
        for name in (first, *others):
            own = (self.profile(name) if name in told else None) or main
            block = option_in(sections, "CFOptions", "arena_block_size", name)
            if given is not None and _memtables(own) == _memtables(main):
                own, block = given, None
            families.append(Family(name, own, files[name], int(block) if block else None))
        return families


def _memtables(profile: Profile) -> tuple[int | None, int | None]:
    return profile.write_buffer_size, profile.max_write_buffer_number


_MOST_COUNTED = 2_000_000  # entries that are read in about a second
_KEYS = 1_000
_NO_STATISTICS = (
    "the writer's log holds no counters: it takes statistics=True and level INFO; or give those of "
    "its metrics (in Python: tickers=...)"
)


def _facts_of(store: Store, scratch: Path, circumstances: Circumstances) -> Facts:
    """Return the facts on a store: what is given, and what it, its log and the system tell."""
    check_circumstances(circumstances)
    log, no_log = _log(store, circumstances.get("since"))
    pid, every = circumstances.get("pid"), circumstances.get("metrics")
    given, instances = circumstances.get("profile"), circumstances.get("instances", 1)
    profile = None if given is None else profile_given(given)
    metrics, no_metrics = (None, NO_METRICS) if every is None else every.of(store.path)
    # Before rows are read, which fills the cache.
    memory = store.memory(profile=profile, instances=instances)
    return Facts(
        families=[_family(store, scratch, each) for each in store.column_families],
        errors=LogRows([], "errors", no_log) if log is None else log.errors(),
        rotated=() if log is None else log.rotated,
        version=_version(store, log),
        options=store._options or (),  # noqa: SLF001 - of this module
        stalls=LogRows([], "stalls", no_log) if log is None else log.stalls(),
        flushes=LogRows([], "flushes", no_log) if log is None else log.flushes(),
        writes=write_amplification([], no_log) if log is None else log.write_amplification(),
        tickers=_tickers(log, no_log, circumstances.get("tickers")),
        memory=memory,
        open_files_limit=_limit(circumstances.get("open_files_limit"), pid, metrics),
        metrics=metrics,
        why_no_metrics=no_metrics,
        all_metrics=every,
        settings=circumstances.get("client_config"),
        place=place_of(store.path),
        profile=profile,
        process=None if pid is None else process_memory(pid),
        bound_bytes=circumstances.get("bound_bytes"),
        instances=instances,
    )


def _limit(given: int | None, pid: int | None, metrics: StoreMetrics | None) -> Figure | None:
    """Return how many files the writer may open; None if nothing tells."""
    if given is not None:
        return Figure("open_files_limit", given, Source.GIVEN)
    if metrics is not None and "process-max-fds" in metrics.values:
        return metrics.figure("process-max-fds")
    with suppress(OSError, ValueError, AttributeError):
        if pid is not None:
            told = resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
            return Figure("open_files_limit", told, Source.SYSTEM)
    return None


def _version(store: Store, log: StoreLog | None) -> Figure | None:
    """Return the writer's release of RocksDB, as its OPTIONS file tells it, or else its log."""
    figures = (*store.summary().figures(), *(log.figures() if log else ()))
    return next((each for each in figures if each.name == "rocksdb_version" and each.value), None)


def _family(store: Store, scratch: Path, name: str) -> FamilyFacts:
    summary, ssts = store.summary(name), store.ssts(name)
    live_rows: LiveRows | None = None
    why = None
    if may_be_wide(summary):
        try:
            live_rows = _live_rows(store, scratch, name, ssts)
        except (FormatError, StoreFault) as error:
            why = error.message.rstrip(".")
    return FamilyFacts(name, store.profile(name), ssts, summary, live_rows, why, _keys(store, name))


def _live_rows(store: Store, scratch: Path, name: str, ssts: Records[Sst]) -> LiveRows:
    """Return how many rows can be read, of many by a sample."""
    if sum(each.num_entries for each in ssts) > _MOST_COUNTED:
        return estimated_live_rows(scratch, name, ssts)
    rows = sum(1 for _ in store.iter_rows(cf=name))
    return LiveRows(rows, rows, rows)


def _keys(store: Store, name: str) -> list[bytes]:
    with suppress(FormatError, StoreFault):
        return [key for key, _ in islice(store.iter_rows(cf=name), _KEYS)]
    return []


def _log(store: Store, since: Moment | None) -> tuple[StoreLog | None, str]:
    """Return the writer's log, or why there is none."""
    try:
        return store.log(since=since), ""
    except InputError as error:
        return None, error.message.rstrip(".")


def _tickers(log: StoreLog | None, no_log: str, given: Mapping[str, int] | None) -> WriterTickers:
    if given is not None:
        return WriterTickers(given, Source.METRICS)
    if log is None:
        return WriterTickers({}, Source.LOG, no_log)
    dumps = log.stats()
    last = next((each.tickers for each in reversed(dumps) if each.tickers), None)
    if last is None:
        return WriterTickers({}, Source.LOG, dumps.unknown or _NO_STATISTICS)
    return WriterTickers(last, Source.LOG)
