"""RocksDB's dumps of its statistics in the log: every ten minutes, if not told otherwise.

All is found by its name and not by its place: versions of RocksDB add columns and lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.log.clock import NO_ZONE
from kstoolkit.rocksdb.log.levelstats import NOT_DUMPED, LevelStats, decimal_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from kstoolkit.rocksdb.log.lines import LogLine


THE_STORE = "the store"

_DUMP = "------- DUMPING STATS -------"
_TICKERS = "STATISTICS:"
_LEVELS = re.compile(r"\*\* Compaction Stats \[(.{0,200})\] \*\*")
_STORE = "** DB Stats **"
_UPTIME = re.compile(r"Uptime\(secs\): ([0-9.]{1,20}) total")
_STALL = re.compile(
    r"(Cumulative|Interval) stall: "
    r"([0-9]{1,9}):([0-9]{1,2}):([0-9.]{1,9}) H:M:S, ([0-9.]{1,9}) percent"
)
_COUNTS = re.compile(r"(?:Write Stall|Stalls) ?\(count\): (.{0,2000})")
_COUNT = re.compile(r"([a-z][\w-]{0,60}): ([0-9]{1,18})|([0-9]{1,18}) ([a-z]\w{0,60})")
_PENDING = re.compile(r"Estimated pending compaction bytes: ([0-9]{1,20})")
_TICKER = re.compile(r"\s{0,8}(rocksdb\.[\w.-]{1,100}) COUNT : ([0-9]{1,20})\s{0,8}")


@dataclass(frozen=True, slots=True, repr=False)
class StatsDump(Record):
    """One dump.

    Parameters
    ----------
    at
        When (UTC).
    uptime_s
        Since the store was opened.
    stalled_s, stalled_percent
        For how long writers had to wait since then, and which share of the time.
    interval_stalled_s, interval_stalled_percent
        The same since the dump before.
    stall_counts
        How often, by cause, for each column family and for ``"the store"``.
    pending_compaction_bytes
        How many bytes compactions have yet to rewrite, for each column family.
    tickers
        RocksDB's counters, if the writer keeps statistics: ``rocksdb.stall.micros`` ...
    levels
        The tables of compactions.
    store
        Which of Spark's stores, in a log of Spark's that says it.
    """

    at: datetime | None = of_source(Source.LOG)
    uptime_s: float | None = of_source(Source.LOG, None)
    stalled_s: float | None = of_source(Source.LOG, None)
    stalled_percent: float | None = of_source(Source.LOG, None)
    interval_stalled_s: float | None = of_source(Source.LOG, None)
    interval_stalled_percent: float | None = of_source(Source.LOG, None)
    stall_counts: dict[str, dict[str, int]] = field(default_factory=dict)
    pending_compaction_bytes: dict[str, int] = field(default_factory=dict)
    tickers: dict[str, int] = field(default_factory=dict, repr=False)
    levels: Records[LevelStats] = field(default_factory=lambda: Records([], "levels"))
    store: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        when = "at an unknown time" if self.at is None else f"{self.at:%F %T} UTC"
        up, stalled = (
            "an unknown time" if each is None else f"{each:,.1f} s"
            for each in (self.uptime_s, self.stalled_s)
        )
        return (
            f"StatsDump({when}, open for {up}, stalled for {stalled}, "
            f"{counted(len(self.levels), 'rows')} of levels, "
            f"{counted(len(self.tickers), 'counters')})"
        )


def stats_dumps(stamped: Iterable[tuple[datetime | None, LogLine]]) -> Iterator[StatsDump]:
    """Yield the dumps of a log out of its lines, each with when it was logged."""
    open_dumps: dict[str | None, _Dump] = {}
    dump: _Dump | None = None
    for at, line in stamped:
        if line.continued:
            if dump:
                dump.take(line.text)
            continue
        dump = open_dumps.get(line.store)
        if line.text == _DUMP:
            if dump:
                yield dump.record()
            dump = open_dumps[line.store] = _Dump(at, line.store)
        elif dump:
            dump.section(line.text)
    for last in open_dumps.values():
        yield last.record()


class _Dump:
    """A dump as far as it was read."""

    def __init__(self, at: datetime | None, store: str | None) -> None:
        self._at = at
        self._store = store
        self._figures: dict[str, float] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._tickers: dict[str, int] = {}
        self._pending: dict[str, int] = {}
        self._levels: list[LevelStats] = []
        self._inside = False
        self._family = THE_STORE
        self._names: list[str] | None = None

    def section(self, text: str) -> None:
        """Read the line that begins a message: the dump's two, or another thread's."""
        self._inside = text == "" or text.startswith(_TICKERS)
        self._names = None

    def take(self, text: str) -> None:
        """Read a line that goes on with a message."""
        if not self._inside:
            return
        ticker = _TICKER.fullmatch(text)
        if ticker:
            self._tickers[ticker[1]] = int(ticker[2])
        elif text.startswith("**"):
            self._head(text)
        elif text.startswith("Level "):
            self._names = text.split()
        elif not text.strip() or text.startswith("Priority"):
            self._names = None
        elif self._names:
            self._row(text)
        else:
            self._sentence(text)

    def record(self) -> StatsDump:
        """Return what the dump held."""
        whys = {"at": NO_ZONE} if self._at is None else {}
        whys |= {
            name: NOT_DUMPED
            for name in ("uptime_s", *_stall_names("Cumulative"), *_stall_names("Interval"))
            if name not in self._figures
        }
        return StatsDump(
            self._at,
            **self._figures,
            stall_counts=self._counts,
            pending_compaction_bytes=self._pending,
            tickers=self._tickers,
            levels=Records(self._levels, "levels"),
            store=self._store,
            unknown=whys,
        )

    def _head(self, text: str) -> None:
        levels = _LEVELS.match(text)
        self._names = None
        if levels or text.startswith(_STORE):
            self._family = levels[1] if levels else THE_STORE

    def _row(self, text: str) -> None:
        row = LevelStats.of_row(self._family, self._names or [], text)
        if row:
            self._levels.append(row)

    def _sentence(self, text: str) -> None:
        uptime, stall, counts = _UPTIME.match(text), _STALL.match(text), _COUNTS.match(text)
        pending = _PENDING.match(text)
        if uptime:
            self._keep("uptime_s", decimal_in(uptime[1]))
        elif stall:
            seconds = int(stall[2]) * 3600 + int(stall[3]) * 60 + (decimal_in(stall[4]) or 0)
            for name, value in zip(
                _stall_names(stall[1]), (seconds, decimal_in(stall[5])), strict=True
            ):
                self._keep(name, value)
        elif pending:
            self._pending[self._family] = int(pending[1])
        elif counts:
            found = {m[1] or m[4]: int(m[2] or m[3]) for m in _COUNT.finditer(counts[1])}
            self._counts.setdefault(self._family, {}).update(found)

    def _keep(self, name: str, value: float | None) -> None:
        if value is not None:
            self._figures.setdefault(name, value)


def _stall_names(span: str) -> tuple[str, str]:
    before = "" if span == "Cumulative" else "interval_"
    return f"{before}stalled_s", f"{before}stalled_percent"
