"""What RocksDB's dumps of statistics tell, and how often a flushed byte was written in all.

A log has a dump every ten minutes, if not told otherwise: counters, for how long writers had to
wait, and a table of compactions with a row a level. All is found by its name and not by its place:
versions of RocksDB add columns and lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.log.jobs import Compaction, Flush
from kstoolkit.rocksdb.log.lines import NO_ZONE
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from kstoolkit.rocksdb.log.lines import LogLine

_NOT_DUMPED = "the dump doesn't hold it"  # why a figure of a dump is unknown
_SCALE = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_CELL = re.compile(r"\S+(?: [KMGT]?B(?!\S))?")
_IN_BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


@dataclass(frozen=True, slots=True, repr=False)
class LevelStats(Record):
    """A row of a dump's table of compactions.

    Parameters
    ----------
    column_family, level
        Whose; ``"L0"`` ..., ``"Sum"`` since the store was opened, ``"Int"`` since the dump before.
    num_files, size_bytes
        What the level holds; as the dump has it, the size is rounded.
    write_amplification
        Bytes written by compactions into the level to bytes that came from above; for ``Sum``, all
        that flushes and compactions wrote to what was flushed.
    compaction_s, num_compactions
        Time and number of the compactions into the level.
    cells
        Every cell of the row as it was written, by the name of its column.
    """

    column_family: str
    level: str
    num_files: int | None = of_source(Source.LOG)
    size_bytes: int | None = of_source(Source.LOG)
    write_amplification: float | None = of_source(Source.LOG)
    compaction_s: float | None = of_source(Source.LOG)
    num_compactions: int | None = of_source(Source.LOG)
    cells: dict[str, str] = field(default_factory=dict, repr=False)
    unknown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_row(cls, column_family: str, names: list[str], line: str) -> LevelStats | None:
        """Return a row by the names of its columns; None if it doesn't fit them.

        Examples
        --------
        >>> row = "  L6     15/0   906.43 KB   3.2"
        >>> LevelStats.of_row("default", ["Level", "Files", "Size", "W-Amp"], row).size_bytes
        928184
        """
        parts = _CELL.findall(" ".join(line.split()))
        if len(parts) != len(names):
            return None
        cells = dict(zip(names, parts, strict=True))
        number, _, unit = cells.get("Size", "").partition(" ")
        size = _decimal_in(number)
        values = {
            "num_files": _whole(cells.get("Files", "").partition("/")[0]),
            "size_bytes": None if size is None else round(size * _IN_BYTES.get(unit, 1)),
            "write_amplification": _decimal_in(cells.get("W-Amp", "")),
            "compaction_s": _decimal_in(cells.get("Comp(sec)", "")),
            "num_compactions": _whole(cells.get("Comp(cnt)", "")),
        }
        unknown = {name: _NOT_DUMPED for name, value in values.items() if value is None}
        return cls(column_family, parts[0], cells=cells, unknown=unknown, **values)  # type: ignore[arg-type] # by name

    def __repr__(self) -> str:
        ratio = self.write_amplification
        return (
            f"LevelStats({self.column_family!r}, {self.level}, "
            f"{format_count(self.num_files)} files, {format_bytes(self.size_bytes)}, "
            f"write amplification {'unknown' if ratio is None else format(ratio, '.1f')})"
        )


def _decimal_in(text: str) -> float | None:
    """Return a number; None if the text is none, or not a finite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _whole(text: str) -> int | None:
    scale = _SCALE.get(text[-1:], 1)
    number = _decimal_in(text[:-1] if scale > 1 else text)
    return None if number is None else round(number * scale)


_THE_STORE = "the store"
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
    at, uptime_s
        When (UTC), and how long after the store was opened.
    stalled_s, stalled_percent, interval_stalled_s, interval_stalled_percent
        How long writers had to wait since then, and which share that is; the same since the last.
    stall_counts
        How often, by cause, for each column family and for ``"the store"``.
    pending_compaction_bytes
        How many bytes compactions have yet to rewrite, for each column family.
    tickers
        RocksDB's counters, if the writer keeps statistics: ``rocksdb.stall.micros`` ...
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
    def __init__(self, at: datetime | None, store: str | None) -> None:
        self._figures: dict[str, Any] = {}
        self._found = StatsDump(at, store=store)  # whose mappings are filled
        self._levels: list[LevelStats] = []
        self._inside = False
        self._family = _THE_STORE
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
            self._found.tickers[ticker[1]] = int(ticker[2])
        elif text.startswith("**"):
            levels = _LEVELS.match(text)
            self._names = None
            if levels or text.startswith(_STORE):
                self._family = levels[1] if levels else _THE_STORE
        elif text.startswith("Level "):
            self._names = text.split()
        elif not text.strip() or text.startswith("Priority"):
            self._names = None
        elif self._names:
            row = LevelStats.of_row(self._family, self._names, text)
            if row:
                self._levels.append(row)
        else:
            self._sentence(text)

    def record(self) -> StatsDump:
        whys = {"at": NO_ZONE} if self._found.at is None else {}
        whys |= {
            name: _NOT_DUMPED
            for name in ("uptime_s", *_stall_names("Cumulative"), *_stall_names("Interval"))
            if name not in self._figures
        }
        levels = Records(self._levels, "levels")
        return replace(self._found, **self._figures, levels=levels, unknown=whys)

    def _sentence(self, text: str) -> None:
        uptime, stall, counts = _UPTIME.match(text), _STALL.match(text), _COUNTS.match(text)
        pending = _PENDING.match(text)
        if uptime:
            self._keep("uptime_s", _decimal_in(uptime[1]))
        elif stall:
            seconds = int(stall[2]) * 3600 + int(stall[3]) * 60 + (_decimal_in(stall[4]) or 0)
            stalled_s, stalled_percent = _stall_names(stall[1])
            self._keep(stalled_s, seconds)
            self._keep(stalled_percent, _decimal_in(stall[5]))
        elif pending:
            self._found.pending_compaction_bytes[self._family] = int(pending[1])
        elif counts:
            found = {m[1] or m[4]: int(m[2] or m[3]) for m in _COUNT.finditer(counts[1])}
            self._found.stall_counts.setdefault(self._family, {}).update(found)

    def _keep(self, name: str, value: float | None) -> None:
        if value is not None:
            self._figures.setdefault(name, value)


def _stall_names(span: str) -> tuple[str, str]:
    before = "" if span == "Cumulative" else "interval_"
    return f"{before}stalled_s", f"{before}stalled_percent"


_NO_DUMP = (
    "the log holds no dump of statistics: RocksDB writes one every stats_dump_period_sec (600) "
    "at level INFO"
)
_NO_TIME = (
    "each dump of statistics is of the moment of an opening, and covers no time: the next would "
    "have come after stats_dump_period_sec (600)"
)


@dataclass(frozen=True, slots=True, repr=False)
class StallTime(Record):
    """How long writers waited, up to the last dump of each time that the store was open.

    Parameters
    ----------
    num_dumps, num_opens
        The dumps, and the times that the store was opened and stayed open until a dump.
    covered_s
        How long it was open in all, up to the last dump of each; nothing is known of the rest.
    stalled_s, stalled_percent
        How long writers waited, and which share of the time that is.
    """

    num_dumps: int = of_source(Source.LOG)
    num_opens: int = of_source(Source.LOG)
    covered_s: float | None = of_source(Source.LOG)
    stalled_s: float | None = of_source(Source.LOG)
    stalled_percent: float | None = of_source(Source.LOG)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.stalled_s is None or self.covered_s is None:
            return f"StallTime(unknown: {self.unknown['stalled_s']})"
        return (
            f"StallTime({self.stalled_s:,.1f} s of {self.covered_s:,.1f} s, "
            f"by {counted(self.num_dumps, 'dumps of statistics')})"
        )


def stall_time(dumps: Sequence[StatsDump], untold: str | None = None) -> StallTime:
    """Return how long writers waited; an uptime that falls tells that the store was opened anew.

    ``dumps`` come in the order of the log; ``untold`` is why the log can't tell of any.

    >>> dumps = [StatsDump(None, up, waited) for up, waited in [(600, 1), (1200, 3), (600, 2)]]
    >>> stall_time(dumps).stalled_s
    5
    """
    lasts: list[StatsDump] = []
    open_now: dict[str | None, int] = {}
    for dump in dumps:
        if dump.uptime_s is None or dump.stalled_s is None:
            continue
        place = open_now.get(dump.store)
        if place is not None and dump.uptime_s >= (lasts[place].uptime_s or 0):
            lasts[place] = dump
        else:
            open_now[dump.store] = len(lasts)
            lasts.append(dump)
    if not lasts:
        whys = dict.fromkeys(("covered_s", "stalled_s", "stalled_percent"), untold or _NO_DUMP)
        return StallTime(len(dumps), 0, None, None, None, whys)
    covered = sum(dump.uptime_s or 0 for dump in lasts)
    stalled = sum(dump.stalled_s or 0 for dump in lasts)
    if not covered:
        whys = dict.fromkeys(("stalled_s", "stalled_percent"), _NO_TIME)
        return StallTime(len(dumps), len(lasts), covered, None, None, whys)
    return StallTime(len(dumps), len(lasts), covered, stalled, 100 * stalled / covered)


_NO_FLUSH = "no flush ended in the span"


@dataclass(frozen=True, slots=True, repr=False)
class WriteAmplification(Record):
    """What flushes and compactions wrote; those that were not finished are left out.

    Parameters
    ----------
    since, until
        When the first and the last of them ended, moves among them (UTC).
    num_flushes, flushed_bytes, num_compactions, compacted_bytes
        Flushes and compactions, and the SST files they wrote; trivial moves write nothing.
    write_amplification
        (flushed + compacted) / flushed, so 1 at the least. A span that is short against the time
        between large compactions says little.
    """

    since: datetime | None = of_source(Source.LOG)
    until: datetime | None = of_source(Source.LOG)
    num_flushes: int | None = of_source(Source.LOG)
    flushed_bytes: int | None = of_source(Source.LOG)
    num_compactions: int | None = of_source(Source.LOG)
    compacted_bytes: int | None = of_source(Source.LOG)
    write_amplification: float | None = of_source(Source.LOG)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.write_amplification is None:
            return f"WriteAmplification(unknown: {self.unknown['write_amplification']})"
        return (
            f"WriteAmplification({self.write_amplification:.2f}: "
            f"{format_bytes(self.flushed_bytes)} flushed, "
            f"{format_bytes(self.compacted_bytes)} written by compactions)"
        )


def write_amplification(
    done: Iterable[Flush | Compaction],
    untold: str | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> WriteAmplification:
    """Return the write amplification of what ended in a span; ``until`` is outside.

    ``untold`` is why the log can't tell: no figure is known. A time without a zone is an error.

    >>> write_amplification([]).unknown["write_amplification"]
    'no flush ended in the span'
    """
    _check_aware(since, until)
    figures = [each.name for each in fields(WriteAmplification) if each.name != "unknown"]
    if untold:
        return WriteAmplification(**dict.fromkeys(figures), unknown=dict.fromkeys(figures, untold))
    ended = [each for each in done if _ended_within(each, since, until)]
    flushes = [each for each in ended if isinstance(each, Flush)]
    merges = [each for each in ended if isinstance(each, Compaction) and not each.moved]
    flushed = sum(each.output_bytes or 0 for each in flushes)
    compacted = sum(each.output_bytes or 0 for each in merges)
    times = [each.finished_at for each in ended if each.finished_at]
    amplification = (flushed + compacted) / flushed if flushed else None
    first, last = min(times, default=None), max(times, default=None)
    values = (first, last, len(flushes), flushed, len(merges), compacted, amplification)
    lacking = [name for name, value in zip(figures, values, strict=True) if value is None]
    return WriteAmplification(*values, unknown=dict.fromkeys(lacking, _NO_FLUSH))


def _check_aware(*times: datetime | None) -> None:
    for time in times:
        if time is not None and time.tzinfo is None:
            message = f"The time {time.isoformat()} has no zone."
            raise ConfigurationError(message, hint="Add tzinfo=datetime.UTC.")


def _ended_within(job: Flush | Compaction, since: datetime | None, until: datetime | None) -> bool:
    end = job.finished_at
    return end is not None and (since is None or since <= end) and (until is None or end < until)
