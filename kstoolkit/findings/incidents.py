"""Findings that tell one story, as one incident: told once, with an id that stays.

Findings of one user (of a campaign: of its action) that touch in time are one incident, whatever
their windows, actions and rules: its evidence. What recurs at about the same time of one of the
next three days touches too, as does a job of each night or working day. A third time within three
days is no third incident. How they came is replayed in the order told, a batch's findings at once::

    told    nothing touches it        it opens an incident, whose id is made of it
            two are within three days the nearer of them grows
            it touches one            that one grows, be it by an earlier time
            it touches several        the one that opened first goes on; the others are merged

So an id depends on nothing told later, and a repeated batch gives the same ids. What is found no
more (its window over, its count none now) is no evidence, but keeps together what it held.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError, check_known
from kstoolkit.findings.finding import (
    CAMPAIGN,
    DISTINCT,
    EVEN,
    FINDINGS_SCHEMA,
    Findings,
    between,
    ends_ms,
    expected,
    of_actions,
)
from kstoolkit.findings.peers import integers, never_null
from kstoolkit.findings.stories import newest_of, numbered
from kstoolkit.moments import moment_of
from kstoolkit.records import Viewed, counted, facts_html, rows_html
from kstoolkit.units import format_count, parse_duration

if TYPE_CHECKING:
    from datetime import datetime

    import pandas as pd

    from kstoolkit.findings.finding import Choice, Finding
    from kstoolkit.findings.peers import Flags, Integers
    from kstoolkit.findings.stories import Told
    from kstoolkit.units import Duration

GAP = "3 hours"
"""Findings of one user with no longer time between them are one incident; see also what recurs."""

OPEN, RESOLVED, MERGED = STATES = ("open", "resolved", "merged")
SETTLED = ("known", "muted")
"""Marks of what nobody need look at any more."""

CERTAINTIES = ("sure", "likely", "hint")
"""How certain it is that something is abnormal: see :attr:`Incident.certainty`."""

_HOUR_MS = 3_600_000
_APART = (23, 24, 25, 47, 48, 49, 71, 72, 73)
_RECURS_HOURS = (*_APART, *(-hours for hours in _APART))
"""How many hours later, or earlier, what recurs begins: within three days, so over a weekend."""
_NEAR_MS, _NEAR = 72 * _HOUR_MS, 2
"""Within how long, and how many, incidents of one user take in what comes besides."""
_SURE_FROM, _LIKELY_FROM = 9.0, 6.5
_FEW_NAMED, _ID_BYTES = 3, 6
_OF_PEAK = ("window", "window_start_ms", "ceiling", "expected_low", "expected_high")
_NAMES = (
    *("id", "user", "actions", "state", "merged_into", "since_ms", "until_ms", "opened_ms"),
    *("told_ms", "windows", "findings", "peak", "peak_action"),
    *(f"peak_{name}" for name in _OF_PEAK),
    *("excess", "rules", "certainty", "newcomers", "mark", "sentence"),
)
CELLS = ("incident", "state", "certainty", "since (UTC)", "findings", "what")
"""Heads of a table of incidents."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Incident(Viewed):
    """What is told once of a user, or of many newcomers, and the findings that are its evidence.

    Parameters
    ----------
    id
        What it is called; it stays while the incident grows.
    user
        Who; ``None`` of a campaign, which is of an action.
    state, merged_into
        ``"open"``, while findings may join; ``"resolved"``; or ``"merged"``, into that id's.
    since_ms, until_ms
        From the first window's start, or since when it lasts, to the last one's end, epoch ms UTC.
    opened_ms, told_ms
        The clocks of the batches that told of it first, and last, epoch ms UTC.
    windows
        How many windows have findings.
    grade
        The place of its certainty among :data:`CERTAINTIES`.
    excess
        How many events more than expected, or than a ceiling: the sum over windows of one length,
        where it is highest; ``None`` if nothing that was found is above that.
    peak
        The finding that deserves a look most.
    findings
        All of them, by window.
    newcomers
        Of a campaign, who did it for the first time; ``None`` if that is not known.
    mark
        ``"known"``, ``"confirmed"`` or ``"muted"``, if it was marked so.
    """

    id: str
    user: str | None
    state: str
    since_ms: int
    until_ms: int
    opened_ms: int
    told_ms: int
    windows: int
    grade: int
    excess: int | None
    peak: Finding
    findings: Findings
    merged_into: str | None = None
    newcomers: tuple[str, ...] | None = None
    mark: str | None = None

    @property
    def since(self) -> datetime:
        """When it began, UTC."""
        return moment_of(self.since_ms)

    @property
    def until(self) -> datetime:
        """When the last window of a finding ends, UTC."""
        return moment_of(self.until_ms)

    @property
    def actions(self) -> tuple[str, ...]:
        """What was done, for people, the one most findings are of first."""
        return _most_frequent(self.findings.in_words)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that found it, the one most findings are of first."""
        return _most_frequent(self.findings.table["rule"])

    @property
    def certainty(self) -> str:
        """``"sure"``, ``"likely"`` or ``"hint"``.

        It is sure where a limit was exceeded, or the least probable finding has a chance of less
        than 1 in 10⁹; likely where that is less than 3 in 10⁷, or rules of two kinds agree.
        """
        return CERTAINTIES[self.grade]

    @property
    def who(self) -> str:
        """Whom it is about, for people."""
        if self.user is not None:
            return self.user
        return f"newcomers to {self.peak.what}" if self.peak.by != () else "newcomers"

    @property
    def heading(self) -> str:
        """What lists print before its sentence: its id, how it stands, how much was found."""
        into = "" if self.merged_into is None else f" into {self.merged_into}"
        marked = "" if self.mark is None else f", {self.mark}"
        number = counted(len(self.findings), "findings")
        return f"{self.id}  {self.state}{into}, {self.certainty}{marked}, {number}"

    @property
    def sentence(self) -> str:
        """The incident as one plain sentence."""
        if len(self.findings) == 1:
            return self.peak.sentence
        when = between(self.since, moment_of(self.until_ms), moment_of(self.until_ms - 1))
        of = "" if self.user is None else f" with {_few(self.actions, _FEW_NAMED)}"
        told = [f"{self.who} stood out in {counted(self.windows, 'windows')}{of} {when}"]
        if self.excess is not None:
            told.append(f"{format_count(self.excess)} more than expected")
        told.append(f"most of all: {_peak(self.peak)}")
        return "; ".join(told) + "."

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, as ``--json`` prints them."""
        peak = self.peak
        told = {f"peak_{name}": getattr(peak, name) for name in _OF_PEAK}
        told |= {"findings": len(self.findings), "peak": peak.count, "peak_action": peak.what}
        values = (told[name] if name in told else getattr(self, name) for name in _NAMES)
        plain = [list(value) if isinstance(value, tuple) else value for value in values]
        return dict(zip(_NAMES, plain, strict=True))

    def facts(self) -> list[tuple[str, str]]:
        """Return (what, figure) for people, in the order to be read."""
        excess = "unknown (nothing found counts more events than expected)"
        merged = "" if self.merged_into is None else f" into {self.merged_into}"
        return [
            ("incident", self.id),
            ("user", self.who),
            ("state", f"{self.state}{merged}"),
            ("since", f"{self.since:%Y-%m-%d %H:%M} UTC"),
            ("until", f"{self.until:%Y-%m-%d %H:%M} UTC"),
            ("actions", _few(self.actions, 3 * _FEW_NAMED)),
            ("windows", format_count(self.windows)),
            ("peak", f"{format_count(self.peak.count)} in {self.peak.window}"),
            ("expected at the peak", self.peak.expected),
            ("more than expected", excess if self.excess is None else format_count(self.excess)),
            ("rules", "; ".join(self.rules)),
            ("certainty", self.certainty),
            ("marked", self.mark or "no"),
            *([("newcomers", _few(self.newcomers, 3 * _FEW_NAMED))] if self.newcomers else []),
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Return a table of one row, with the columns of :meth:`Incidents.to_pandas`."""
        return frame_of([self.to_dict()])

    def __repr__(self) -> str:
        when = f"{self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} UTC"
        found = counted(len(self.findings), "findings")
        return f"Incident({self.id}: {self.who!r}, {when}, {found}, {self.state})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.sentence)}</p>{facts_html(self.facts())}"


def _peak(peak: Finding) -> str:
    """Say what the foremost finding is, without who."""
    whole = peak.sentence.removesuffix(".")
    _, _, rest = whole.partition(f"{peak.user} ")
    told = rest if peak.kind != CAMPAIGN else whole
    usual = expected(peak.expected_low, peak.expected_high)
    against = "" if usual is None else f" (usually {usual})"
    if peak.ceiling is not None:
        against = f" (the ceiling is {format_count(peak.ceiling)})"
    return told.removeprefix("did ").split("; ")[0] + against


def _few(names: Sequence[str], most: int) -> str:
    quoted = [f"“{name}”" for name in names[:most]]
    if len(names) > most:
        quoted.append(f"{format_count(len(names) - most)} others")
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


def _most_frequent(column: pa.ChunkedArray) -> tuple[str, ...]:
    number = Counter(column.to_pylist())
    return tuple(sorted(number, key=lambda each: (-number[each], each)))


class Incidents(Viewed, Sequence[Incident]):
    """Incidents, the one that began last first, over columns: a record is made when asked for.

    ``table`` has :data:`INCIDENTS_SCHEMA`, ``evidence`` the findings that it names the rows of.

    Examples
    --------
    >>> Incidents.none()
    Incidents(none)
    """

    def __init__(self, table: pa.Table, evidence: Findings) -> None:
        self.table, self.evidence = table, evidence

    @classmethod
    def none(cls) -> Incidents:
        """Return no incidents."""
        none = (pa.Table.from_batches([], each) for each in (INCIDENTS_SCHEMA, FINDINGS_SCHEMA))
        incidents, findings = none  # empty_table() loads pandas
        return cls(incidents, Findings(findings))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Incident: ...
    @overload
    def __getitem__(self, index: slice) -> Incidents: ...
    def __getitem__(self, index: int | slice) -> Incident | Incidents:
        if isinstance(index, slice):
            return self._taken(np.arange(len(self))[index])
        return self._record(self.table.slice(range(len(self))[index], 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Incident]:
        for batch in self.table.to_batches(max_chunksize=_AT_ONCE):
            yield from map(self._record, batch.to_pylist())

    def _record(self, row: dict[str, Any]) -> Incident:
        del row["severity"]
        first, last, peak, newcomers = map(row.pop, ("first", "last", "peak", "newcomers"))
        return Incident(
            **row,
            newcomers=None if newcomers is None else tuple(newcomers),
            peak=self.evidence[peak],
            findings=self.evidence[first:last],
        )

    def _taken(self, rows: Integers) -> Incidents:
        return Incidents(self.table.take(pa.array(rows)), self.evidence)

    def of(self, choice: Choice, state: str | None = None) -> Incidents:
        """Return those that have findings which are chosen, in a state, which has to be one."""
        if state is not None:
            check_known("state", state, STATES)
        chosen = choice.rows_of(self.evidence)
        bounds = (np.searchsorted(chosen, integers(self.table, name)) for name in ("first", "last"))
        wanted = np.less(*bounds)
        if state is not None:
            wanted &= np.asarray(pc.equal(self.table["state"], state))
        return self.where(wanted)

    def where(self, chosen: Flags) -> Incidents:
        """Return those that are chosen, in their order."""
        return self._taken(np.flatnonzero(chosen))

    def touching(self, others: Incidents, gap: Duration = GAP) -> Flags:
        """Return of each whether it touches one of others: of the same user, or campaign."""
        both, here = (self, others), len(self)
        firsts = [each.evidence.table.take(each.table["first"]) for each in both]
        names = ("since_ms", "until_ms")
        begin, end = (np.concatenate([integers(e.table, n) for e in both]) for n in names)
        spans = np.stack([begin, end + parse_duration(gap)])
        times, rank = np.unique(spans, return_inverse=True)
        # Of two parties, all that one does comes before all that the other does.
        begin, end = rank.reshape(2, -1) + _parties(pa.concat_tables(firsts)) * len(times)
        order = here + np.argsort(begin[here:])
        last = np.searchsorted(begin[order], end[:here], side="right") - 1
        reach = np.append(np.maximum.accumulate(end[order]), -1)
        return np.asarray(reach[last] >= begin[:here])

    def named(self, name: str) -> Incident:
        """Return the one whose id this is, or begins with this; it has to be one alone."""
        found = np.flatnonzero(pc.starts_with(self.table["id"], name) if name else ())
        if len(found) == 1:
            return self[int(found[0])]
        number = format_count(len(found)) if len(found) else "No"
        message = f"{number} incidents are called {name!r}."
        raise ConfigurationError(message, hint="Give the id of one, as kstoolkit incidents prints.")

    def top(self, n: int) -> Incidents:
        """Return the ``n`` that most deserve a look: open ones that nobody marked, the surest."""
        state, mark = self.table["state"], self.table["mark"]
        settled = pc.is_in(mark, value_set=pa.array(SETTLED))
        keys = (pc.equal(state, MERGED), settled, pc.not_equal(state, OPEN))
        grade, severity = (self.table[name].to_numpy() for name in ("grade", "severity"))
        told = [np.asarray(key).astype(np.int8) for key in reversed(keys)]
        return self._taken(np.lexsort((-severity, grade, *told))[:n])

    def marked(self, marks: Sequence[str | None]) -> Incidents:
        """Return them with a mark each."""
        return self._with("mark", pa.array(marks, pa.string()))

    def with_newcomers(self, names: Sequence[Sequence[str] | None]) -> Incidents:
        """Return them with who was new, each."""
        return self._with("newcomers", pa.array(names, pa.list_(pa.string())))

    def _with(self, name: str, column: pa.Array) -> Incidents:
        at = self.table.schema.get_field_index(name)
        return Incidents(self.table.set_column(at, name, column), self.evidence)

    def to_dicts(self) -> Iterator[dict[str, Any]]:
        """Yield one plain dictionary an incident."""
        return (each.to_dict() for each in self)

    def to_pandas(self) -> pd.DataFrame:
        """Return a tidy table: one row an incident, times as UTC timestamps, with its sentence."""
        return frame_of(self.to_dicts())

    def __repr__(self) -> str:
        return f"Incidents({self.facts()})"

    def _repr_html_(self) -> str:
        shown = self.top(_SHOWN)
        note = f"; the top {len(shown)} are shown" if len(shown) < len(self) else ""
        return rows_html(self.facts() + note, CELLS, map(cells, shown))

    def facts(self) -> str:
        """Return how many there are, by state."""
        return by_state(Counter(self.table["state"].to_pylist()))


def unmerged(told: Incidents) -> Incidents:
    """Return incidents without those that are told with what they are part of."""
    return told.where(np.asarray(pc.not_equal(told.table["state"], MERGED)))


def by_state(numbers: Mapping[str, int]) -> str:
    """Return for people how many incidents of each state there are.

    >>> by_state({"open": 1, "resolved": 1_200}), by_state({"open": 2}), by_state({"open": 0})
    ('1,201: 1 open, 1,200 resolved', '2 open', 'none')
    """
    of = [f"{format_count(numbers[each])} {each}" for each in STATES if numbers.get(each)]
    whole = f"{format_count(sum(numbers.values()))}: " if len(of) > 1 else ""
    return f"{whole}{', '.join(of)}" if of else "none"


INCIDENTS_SCHEMA = pa.schema(
    [
        *never_null(pa.string(), "id"),
        ("user", pa.string()),
        *never_null(pa.string(), "state"),
        ("merged_into", pa.string()),
        *never_null(pa.int64(), "since_ms", "until_ms", "opened_ms", "told_ms", "windows"),
        ("excess", pa.int64()),
        ("newcomers", pa.list_(pa.string())),
        ("mark", pa.string()),
        *never_null(pa.int64(), "grade"),
        *never_null(pa.float64(), "severity"),
        *never_null(pa.int64(), "peak", "first", "last"),
    ]
)
"""The table of incidents: fields of :class:`Incident`; ``grade`` is the place of its certainty,
``peak``, ``first`` and ``last`` are rows of the evidence."""

_SHOWN, _AT_ONCE = 20, 10_000
_NUMBERS = ("excess", "peak_ceiling", "peak_expected_low", "peak_expected_high")


def frame_of(rows: Iterable[dict[str, Any]], *more: str) -> pd.DataFrame:
    """Return plain dictionaries of incidents as a frame; in front, what more each has."""
    import pandas as pd  # noqa: PLC0415 - only who asks for pandas pays for it

    frame = pd.DataFrame(list(rows), columns=[*more, *_NAMES])
    for name in [name for name in _NAMES if name.endswith("_ms")]:
        times = frame[name].astype("int64").astype("datetime64[ms, UTC]")
        frame = frame.assign(**{name: times}).rename(columns={name: name.removesuffix("_ms")})
    return frame.astype(dict.fromkeys(_NUMBERS, "Int64"))


def cells(each: Incident) -> tuple[str, ...]:
    """Return an incident as a row below :data:`CELLS`."""
    state = each.state if each.mark is None else f"{each.state}, {each.mark}"
    since, found = f"{each.since:%Y-%m-%d %H:%M}", format_count(len(each.findings))
    return (each.id, state, each.certainty, since, found, each.sentence)


def incidents_of(
    tables: Sequence[pa.Table],
    *,
    gap: Duration = GAP,
    reached_ms: int,
    clock_ms: int = 0,
    parts: Sequence[str] | None = None,
) -> Incidents:
    """Return the incidents that findings tell of, the one that began last first.

    The ``tables`` are what was told, in the order of batches, with ``batch``, its number; without
    it, each table is a batch. Findings touch with no longer time than ``gap`` between them. An
    incident is resolved once events came until ``gap`` after its end (``reached_ms``); or the clock
    of the newest batch is ``gap`` later than that, and than the batch that told of it last.

    >>> incidents_of([], reached_ms=0)
    Incidents(none)
    """
    told, grown, of, row = _members(tables, gap)
    if not len(row):
        return Incidents.none()
    names = ("window_start_ms", "window_ms", "rule", "action")
    by_window = pc.sort_indices(told.findings, [(name, "ascending") for name in names])
    order = np.lexsort((np.argsort(by_window)[row], of))
    of, row = of[order], row[order]
    first, ids = np.flatnonzero(np.diff(of, prepend=-1)), grown.ids()
    evidence, number = told.findings.take(pa.array(row)), of[first]
    states, until, last_ms = _states(told, grown, (of, row), reached_ms, clock_ms)
    into = [None if each is None else ids[each] for each in map(grown.into, number.tolist())]
    peak, grade, severity = _foremost(evidence, first)
    is_campaign = pc.equal(evidence["kind"], CAMPAIGN).take(pa.array(first))
    columns = {
        "id": [ids[each] for each in number.tolist()],
        "user": pc.if_else(is_campaign, None, evidence["user"].take(pa.array(first))),
        "state": states,
        "merged_into": into,
        "since_ms": np.minimum.reduceat(grown.begin[row], first),
        "until_ms": until,
        "opened_ms": integers(told.findings, "first_seen_ms")[grown.openers[number]],
        "told_ms": last_ms,
        "windows": _windows(evidence, of)[number],
        "excess": pa.array(_excess(evidence, of)[number], from_pandas=True).cast(pa.int64()),
        "newcomers": pa.nulls(len(first), pa.list_(pa.string())),
        "mark": pa.nulls(len(first), pa.string()),
        "grade": grade,
        "severity": severity,
        "peak": peak,
        "first": first,
        "last": np.append(first[1:], len(of)),
    }
    table = pa.table(columns, schema=INCIDENTS_SCHEMA)
    newest = [("since_ms", "descending"), ("id", "ascending")]
    return Incidents(table.sort_by(newest), Findings(of_actions(evidence, parts)))


def states_of(
    tables: Sequence[pa.Table], *, gap: Duration = GAP, reached_ms: int, clock_ms: int = 0
) -> dict[str, int]:
    """Return how many incidents of each state there are, of what :func:`incidents_of` takes.

    >>> states_of([], reached_ms=0)
    {'open': 0, 'resolved': 0, 'merged': 0}
    """
    told, grown, *members = _members(tables, gap)
    states = _states(told, grown, members, reached_ms, clock_ms)[0]
    return {state: states.count(state) for state in STATES}


def _members(tables: Sequence[pa.Table], gap: Duration) -> tuple[Told, _Growth, Integers, Integers]:
    """Return what was told, how it grew, and incidents with the rows that are findings still."""
    told = newest_of([table.select(FINDINGS_SCHEMA.names) for table in tables])
    batch = _batches(tables)[told.first_row] if tables else told.first_row
    grown = _Growth(told.findings, batch, parse_duration(gap))
    of, row = grown.members()
    there = ~told.is_gone[row]
    return told, grown, of[there], row[there]


def _states(
    told: Told, grown: _Growth, members: Sequence[Integers], reached_ms: int, clock_ms: int
) -> tuple[list[str], Integers, Integers]:
    """Return of each incident its state, until when it is, and when it was told of last."""
    of, row = members
    first = np.flatnonzero(np.diff(of, prepend=-1))
    until, last_ms = (np.maximum.reduceat(each[row], first) for each in (grown.end, told.last_ms))
    is_over = reached_ms >= until + grown.gap_ms
    is_over |= clock_ms >= np.maximum(until, last_ms) + grown.gap_ms
    merged = [grown.into(each) is not None for each in of[first].tolist()]
    state = np.where(merged, MERGED, np.where(is_over, RESOLVED, OPEN)).tolist()
    return state, until, last_ms


def _batches(tables: Sequence[pa.Table]) -> Integers:
    """Return the place of the batch that told each row; of one batch there may be many tables."""
    told = [
        integers(each, "batch") if "batch" in each.column_names else np.full(len(each), ~number)
        for number, each in enumerate(tables)
    ]
    return np.cumsum(np.diff(np.concatenate(told), prepend=0) != 0)


class _Growth:
    """How incidents came to be: which findings each has, and which of them grew together."""

    def __init__(self, findings: pa.Table, batch: Integers, gap_ms: int) -> None:
        self.gap_ms, self._findings = gap_ms, findings
        self._start = integers(findings, "window_start_ms")
        since = pc.min_element_wise(findings["window_start_ms"], findings["since_ms"])  # what lasts
        self.begin, self.end = (np.asarray(ms, np.int64) for ms in (since, ends_ms(findings)))
        party = _parties(findings)
        self._low, self._high = self._recurring(party, batch)
        group = self._groups(party, gap_ms)  # what touches in the end
        order = np.lexsort((self._start, self.end, self._low, batch, group))
        first = np.flatnonzero(np.diff(group[order], prepend=-1))
        # Where all of a group touches what was told before it, it is one incident from the start.
        plain = np.logical_and.reduceat(self._touches(group[order], order), first)
        near = self._groups(party, max(gap_ms, _NEAR_MS))
        most = np.bincount(near[order[first]], weights=np.where(plain, 1, _NEAR))
        is_many = most[near] > _NEAR  # so many are near each other that they are replayed at once
        plain &= ~is_many[order[first]]
        is_plain = plain[group[order]]
        self._of = np.cumsum(plain)[group[order[is_plain]]] - 1
        self._row, self._num_plain = order[is_plain], int(plain.sum())
        self._opened: list[int] = order[first[plain]].tolist()
        self._rows: list[list[int]] = []
        self._into: dict[int, int] = {}
        which = np.where(is_many, -1 - near, group)
        order = np.lexsort((self._start, self.end, self._low, batch, which))
        order = order[~plain[group[order]]]
        first = np.flatnonzero(np.diff(which[order], prepend=len(group)))
        for begin, end in pairwise([*first, len(order)]):
            self._replay(order[begin:end], batch)

    def _recurring(self, party: Integers, batch: Integers) -> tuple[Integers, Integers]:
        """Return from when until when each finding touches others: of what recurs, to the other.

        The one that was told later reaches to the other: nothing depends on what is told later.
        """
        low, high, hour = self.begin.copy(), self.end.copy(), self._start // _HOUR_MS
        apart = int(hour.max(initial=0)) + 2 * max(_RECURS_HOURS)
        slots, of = np.unique(party * apart + hour, return_inverse=True)
        told = np.full(len(slots), len(batch))  # in which batch each was told of first
        np.minimum.at(told, of, batch)
        for hours in _RECURS_HOURS:
            at = np.searchsorted(slots, slots + hours).clip(max=len(slots) - 1)
            there = (slots[at] == slots + hours)[of] & (told[at[of]] <= batch)
            other_ms = (hour[there] + hours) * _HOUR_MS
            low[there] = np.minimum(low[there], other_ms)
            high[there] = np.maximum(high[there], other_ms + _HOUR_MS - 1)
        return low, high

    def _touches(self, group: Integers, order: Integers) -> Flags:
        """Return which findings, as they were told, touch those of their group before them."""
        begin, end = self._low[order], self._high[order]
        touches = begin[1:] <= _running(group, end) + self.gap_ms
        touches &= -_running(group, -begin) <= end[1:] + self.gap_ms
        return np.append(True, touches | (np.diff(group) > 0))[: len(order)]

    def _groups(self, party: Integers, gap_ms: int) -> Integers:
        """Return a number of what has no longer time than that between."""
        group, order = np.zeros(len(party), np.int64), np.lexsort((self._low, party))
        reach = _running(party[order], self._high[order]) + gap_ms
        is_far = (np.diff(party[order]) > 0) | (self._low[order][1:] > reach)
        group[order[1:]] = np.cumsum(is_far)
        return group

    def _replay(self, rows: Integers, batch: Integers) -> None:
        """Take in what touches in the end, as it was told."""
        now: dict[int, tuple[int, int]] = {}  # incidents, the oldest first, and what they span
        for _, told in groupby(rows.tolist(), key=batch.__getitem__):
            for part in self._parts(list(told)):
                low, high = int(self._low[part].min()), int(self._high[part].max())
                away = {each: max(begin - high, low - end) for each, (begin, end) in now.items()}
                near = [each for each, ms in away.items() if ms <= self.gap_ms]
                some = [each for each, ms in away.items() if ms <= _NEAR_MS]
                if not near and len(some) >= _NEAR:
                    near = [min(some, key=away.__getitem__)]
                if not near:
                    self._rows.append([])
                    self._opened.append(part[0])  # the first in time, whatever the order of rows
                which = near[0] if near else len(self._rows) - 1
                for other in near[1:]:
                    self._into[other] = which
                    self._rows[which] += self._rows[other]
                spans = [(low, high), *(now.pop(each) for each in near[1:])]
                spans += [now[which]] if near else []
                now[which] = (min(s[0] for s in spans), max(s[1] for s in spans))
                self._rows[which] += part

    def _parts(self, rows: list[int]) -> list[list[int]]:
        """Return which findings of one batch, by when they begin, touch each other."""
        parts: list[list[int]] = []
        reach = -(1 << 62)
        for row in rows:
            if self._low[row] > reach + self.gap_ms:
                parts.append([])
            parts[-1].append(row)
            reach = max(reach, int(self._high[row]))
        return parts

    @property
    def openers(self) -> Integers:
        """The findings that opened incidents."""
        return np.array(self._opened, np.int64)

    def ids(self) -> list[str]:
        """Return what incidents are called."""
        ids = []
        names = ["kind", "user", "action", "by", "window", "window_start_ms"]
        for row in self._findings.select(names).take(pa.array(self.openers)).to_pylist():
            who = [row["by"], row["action"]] if row["kind"] == CAMPAIGN else row["user"]
            opened = json.dumps([who, row["window"], row["window_start_ms"]])
            ids.append(blake2b(opened.encode(), digest_size=_ID_BYTES).hexdigest())
        return ids

    def members(self) -> tuple[Integers, Integers]:
        """Return incidents and rows of their findings, sorted by the former."""
        lengths = [len(rows) for rows in self._rows]
        rows = np.fromiter((row for some in self._rows for row in some), np.int64, sum(lengths))
        of = np.repeat(np.arange(len(lengths)), lengths) + self._num_plain
        return np.append(self._of, of), np.append(self._row, rows)

    def into(self, which: int) -> int | None:
        """Return the incident that one is part of by now."""
        last = which - self._num_plain
        while last in self._into:
            last = self._into[last]
        last += self._num_plain
        return None if last == which else last


def _running(group: Integers, values: Integers) -> Integers:
    """Return the highest value until each row but the last, of its group, which are in order."""
    levels, rank = np.unique(values, return_inverse=True)
    reach = np.maximum.accumulate(group * len(levels) + rank)[:-1] % len(levels)
    return np.asarray(levels[reach], np.int64)


def _parties(findings: pa.Table) -> Integers:
    """Return a number for whom each finding is about: a user, or of a campaign an action."""
    is_campaign = pc.equal(findings["kind"], CAMPAIGN)
    texts = {"user": findings["user"], "kind": pc.if_else(is_campaign, CAMPAIGN, "")}
    texts |= {n: pc.if_else(is_campaign, findings[n], None) for n in ("by", "action")}
    return numbered(pa.table(texts), *texts)


def _foremost(evidence: pa.Table, first: Integers) -> tuple[Integers, Integers, Any]:
    """Return each incident's foremost finding, how certain it is, and how severe."""
    chance = pc.fill_null(pc.negate(evidence["log10_probability"]), np.nan).to_numpy()
    is_limit = np.isnan(chance)
    over = pc.divide(evidence["count"].cast(pa.float64()), evidence["ceiling"]).to_numpy()
    severity = np.where(is_limit, -1 / (1 + np.nan_to_num(over)), chance)
    of = np.repeat(np.arange(len(first)), np.diff(first, append=len(severity)))
    order = np.lexsort((-severity, of))
    peak = order[np.searchsorted(of[order], np.arange(len(first)))]
    kinds = _distinct(of, numbered(evidence, "kind"), len(first))
    worst = np.maximum.reduceat(np.nan_to_num(chance), first)
    sure = np.logical_or.reduceat(is_limit, first) | (worst >= _SURE_FROM)
    likely = (worst >= _LIKELY_FROM) | (kinds > 1)
    worst = np.where(worst > 0, worst, np.nan_to_num(over)[peak])
    return peak, np.where(sure, 0, np.where(likely, 1, 2)), worst


def _distinct(of: Integers, what: Integers, number: int) -> Integers:
    pairs = np.unique(np.stack([of, what]), axis=1)
    return np.bincount(pairs[0], minlength=number)


def _windows(evidence: pa.Table, of: Integers) -> Integers:
    window = np.stack([integers(evidence, name) for name in ("window_ms", "window_start_ms")])
    which = np.unique(window, axis=1, return_inverse=True)[1]
    return _distinct(of, np.ravel(which), int(of.max()) + 1)


def _excess(evidence: pa.Table, of: Integers) -> Any:
    """Return how many events more than expected each incident has; NaN if nothing tells.

    Of windows of one length, and of one choice of parts, counts are added up: no event is twice.
    """
    bound = pc.coalesce(evidence["expected_high"], evidence["ceiling"])
    other = pc.is_in(evidence["kind"], value_set=pa.array([DISTINCT, EVEN]))
    above = pc.if_else(other, None, pc.subtract(evidence["count"], bound).cast(pa.float64()))
    keys = ["of", "sums", "action", "start"]  # threads would add in any order: another last digit
    sums, start = numbered(evidence, "by", "window"), evidence["window_start_ms"]
    told = pa.table([of, sums, evidence["action"], start, above], names=[*keys, "above"])
    each = told.filter(above.is_valid()).group_by(keys, use_threads=False)
    summed = each.aggregate([("above", "max")]).group_by(keys[:2], use_threads=False)
    summed = summed.aggregate([("above_max", "sum")])
    most = np.full(int(of.max()) + 1, -np.inf)
    np.maximum.at(most, integers(summed, "of"), summed["above_max_sum"].to_numpy())
    return np.where(most > 0, most, np.nan)
