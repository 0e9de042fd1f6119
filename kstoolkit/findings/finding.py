"""What was found: one record a finding, in words and as evidence, and many of them over a table."""

# ruff: noqa: RUF002 - a range of numbers is written with an en dash, in the examples too

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.peers import FEWEST_WINDOWS, never_null
from kstoolkit.formats.actions import ALL_TOGETHER, split, values_in_words
from kstoolkit.moments import moment_of
from kstoolkit.records import Viewed, counted, facts_html, rows_html
from kstoolkit.units import format_count, format_span

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_TO = "\N{EN DASH}"
LONGER = "Longer"  # the kind of rule that is about how long sessions last
DRIFT, EVEN, CAMPAIGN = "Drift", "TooEven", "Campaign"  # about what lasts, and who is new
DISTINCT = "Distinct"  # about how many different items
_PLAIN_EXPONENT, _LEAST_TOLD = 6, -9
_COLUMNS = ("user", "action", "window", "start (UTC)", "count", "expected", "why")


def sentence(finding: Finding) -> str:
    """Return who did what, how often and when, what was to be expected, and on what evidence.

    >>> seen = {"user": "ClueBot NG", "action": "Main", "count": 61, "window": "1 hour"}
    >>> when = {"window_ms": 3_600_000, "window_start_ms": 1_442_052_000_000}
    >>> usual = {"expected_low": 2, "expected_high": 14, "baseline_windows": 19, "peers": 4112}
    >>> rule = {"rule": "Unusual 1 hour, 5 false alarms a day", "kind": "Unusual"}
    >>> print(sentence(Finding(**seen, **when, **usual, **rule, log10_probability=-8.5)))
    ClueBot NG did “Main” 61 times between 10:00 and 11:00 UTC on 12 September 2015; it usually
    does 2–14 in an hour (19 earlier hours, 4,112 peers); chance of this or more: 3 in 10⁹.
    """
    often = "once" if finding.count == 1 else f"{format_count(finding.count)} times"
    in_all = f"{counted(finding.count, 'actions')} in all"
    did = in_all if finding.by == () else f"{_what(finding)} {often}"
    who = f"{finding.user} did {did}"
    if finding.kind == DISTINCT:
        who = f"{finding.user} had about {format_count(finding.count)} different “{finding.action}”"
    if finding.kind == CAMPAIGN:
        what = "anything" if finding.by == () else _what(finding)
        who = f"{counted(finding.count, 'users')} did {what} for the first time"
    parts: list[str | None] = [f"{who} {_when(finding)}{_lasting(finding)}"]
    if finding.ceiling is not None:
        one = _one(finding)
        per = one if one.startswith("a") else f"in {one}"
        parts.append(f"more than the ceiling of {format_count(finding.ceiling)} {per}")
    if finding.kind == LONGER:
        parts.append(too_long(finding))
    parts.append(_usual(finding))
    if finding.log10_probability is not None:
        of = {DRIFT: "so much for so long", EVEN: "counts so even"}.get(finding.kind)
        parts.append(f"chance of {of or 'this or more'}: {chance(finding.log10_probability)}")
    if finding.first_seen_window is not None:
        parts.append(f"first seen in a window of {finding.first_seen_window}")
    return "; ".join(part for part in parts if part) + "."


def too_long(finding: Finding) -> str:
    """Return what a session was longer than, as the rule's name says: ``"longer than 6 hours"``."""
    return finding.rule.split(" per ", 1)[0].lower()


def _lasting(finding: Finding) -> str:
    """Say of a session how long it was, and since when a level lasts."""
    if finding.since_ms is not None:
        since = moment_of(finding.since_ms)
        even = f"as evenly in each {_one(finding).split(' ', 1)[-1]}"
        as_before = "more than usual ever" if finding.kind == DRIFT else even
        return f", and {as_before} since {_clock(since)} on {_day(since)}"
    if finding.session_end_ms is None:
        return ""
    lasted_ms = finding.session_end_ms - finding.window_start_ms
    hours, minutes = divmod(lasted_ms // 60_000, 60)
    span = f"{hours} h {minutes} min" if hours else format_span(lasted_ms / 1_000)
    return f", in one session of {span}" if lasted_ms else ", at once"


def expected(low: int | None, high: int | None) -> str | None:
    """Return a range of counts for people; ``None`` where it is not known.

    >>> expected(2, 14), expected(0, 0), expected(None, None)
    ('2–14', '0', None)
    """
    if low is None or high is None:
        return None
    return format_count(low) if low == high else f"{format_count(low)}{_TO}{format_count(high)}"


def chance(log10_probability: float | None) -> str:
    """Return a probability for people, given its decimal logarithm.

    No data tell a chance of less than one in 10⁹ from another.

    >>> chance(-8.5), chance(-2.7), chance(-400.0), chance(None)
    ('3 in 10⁹', '2 in 1,000', 'less than 1 in 10⁹', 'unknown')
    """
    if log10_probability is None:
        return "unknown"
    if log10_probability < _LEAST_TOLD:
        return f"less than {chance(_LEAST_TOLD)}"
    digit, power = f"{10.0**log10_probability:.0e}".split("e")
    exponent = -int(power)
    if exponent <= _PLAIN_EXPONENT:
        return f"{digit} in {10**exponent:,}"
    return f"{digit} in 10{str(exponent).translate(_SUPERSCRIPTS)}"


def _what(finding: Finding) -> str:
    """Say what was done: the action, or each of its parts by name."""
    if finding.by is None:
        return f"“{finding.action}”"
    told = finding.parts.items()
    return ", ".join(f"no {name}" if text is None else f"{name} “{text}”" for name, text in told)


def _usual(finding: Finding) -> str | None:
    """Say what this user usually does, or, where that is not known yet, what its peers do."""
    between = expected(finding.expected_low, finding.expected_high)
    if between is None or finding.baseline_windows is None:
        has_limit = finding.ceiling is not None or finding.kind == LONGER
        return None if has_limit else "what is usual is unknown (too few peers)"
    n, number = finding.baseline_windows, format_count(finding.peers)
    have, has = ("have", "has") if finding.kind == DISTINCT else ("do", "does")
    if finding.kind == EVEN:
        return f"by chance alone 95 % of these {n} {_many(finding, n)} would have {between}"
    if finding.kind == CAMPAIGN:
        earlier = f"{format_count(n)} earlier {_many(finding, n)}"
        return f"usually {between} do in {_one(finding)} ({earlier})"
    if n >= FEWEST_WINDOWS:
        own = f"it usually {has} {between} in {_one(finding)}"
        peers = f", {number} peers" if finding.peers else ""
        return f"{own} ({format_count(n)} earlier {_many(finding, n)}{peers})"
    if not n:
        first = f"95 % of {number} others' first {_many(finding, 2)} have {between}"
        return f"no history of its own to compare with yet; {first}"
    history = f"too little history ({n} {_many(finding, n)})"
    others = f"95 % of {number} peers {have} {between} in {_one(finding)}"
    return f"{history} of its own to compare with yet; {others}"


def _when(finding: Finding) -> str:
    start, end = finding.window_start, finding.window_end
    if finding.session_end_ms is not None:  # which its last event is still part of
        start, end = start.replace(microsecond=0), end.replace(microsecond=0)
        return between(start, end, end)
    return between(start, end, end - timedelta(milliseconds=1))


def between(start: datetime, end: datetime, last: datetime) -> str:
    """Say from when until when; ``last`` is the last moment that belongs to it."""
    if end - start == timedelta(days=1) and not (start.hour or start.minute or start.second):
        return f"on {_day(start)} (UTC)"
    if start.date() == last.date():
        return f"between {_clock(start)} and {_clock(end)} UTC on {_day(start)}"
    return f"between {_clock(start)} on {_day(start)} and {_clock(end)} on {_day(end)} UTC"


def _clock(time: datetime) -> str:
    if time.microsecond:
        return f"{time:%H:%M:%S}.{time.microsecond // 1000:03d}"
    return f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}"


def _day(time: datetime) -> str:
    # Not %B: a sentence does not change with the machine's locale.
    return f"{time.day} {_MONTHS[time.month - 1]} {time.year}"


def _one(finding: Finding) -> str:
    if finding.session_end_ms is not None:
        return "a session"
    number, unit = _length(finding)
    if number != "1":
        return f"{number} {unit}"
    return f"an {unit}" if unit.startswith("h") else f"a {unit}"


def _many(finding: Finding, n: int) -> str:
    plural = "" if n == 1 else "s"
    if finding.session_end_ms is not None:
        return f"session{plural}"
    number, unit = _length(finding)
    return f"{unit}{plural}" if number == "1" else f"window{plural} of {number} {unit}"


def _length(finding: Finding) -> list[str]:
    return finding.window.split(" every ", 1)[0].split(" ", 1)


def evidence(finding: Finding) -> list[tuple[str, str]]:
    """Return (what, figure) for people, in the order to be read.

    >>> found = Finding(rule="Ceiling 10 per 1 minute", kind="Ceiling", user="Anna", action="read",
    ...                 window="1 minute", window_ms=60_000, window_start_ms=0, count=12,
    ...                 ceiling=10)
    >>> for what, figure in evidence(found)[:6]:
    ...     print(f"{what}: {figure}")
    user: Anna
    action: read
    window: 1 minute from 1970-01-01 00:00:00 UTC
    count: 12
    expected: unknown (no baseline)
    ceiling: 10
    """
    levels = ", ".join(f"{name} {format_count(n)}" for name, n in finding.other_levels.items())
    return [
        ("user", finding.user),
        *zip(finding.parts or ["action"], finding.values() or [finding.what], strict=True),
        ("window", f"{finding.window} from {finding.window_start:%Y-%m-%d %H:%M:%S} UTC"),
        ("count", format_count(finding.count)),
        ("expected", finding.expected),
        ("ceiling", "none" if finding.ceiling is None else format_count(finding.ceiling)),
        ("chance of this or more", chance(finding.log10_probability)),
        ("in other windows", levels or "unknown (not kept)"),
        ("rule", finding.rule),
    ]


def _cells(row: Finding) -> tuple[str, ...]:
    start = f"{row.window_start:%Y-%m-%d %H:%M}"
    why = f"chance {chance(row.log10_probability)}"
    if row.ceiling is not None:
        why = f"ceiling {format_count(row.ceiling)}"
    if row.kind == LONGER:
        why = too_long(row)
    return (row.user, row.what, row.window, start, format_count(row.count), row.expected, why)


_IF_KNOWN = ("ceiling", "expected_low", "expected_high", "baseline_windows", "peers")

FINDINGS_SCHEMA = pa.schema(
    [
        *never_null(pa.string(), "rule", "kind", "user", "action", "window"),
        *never_null(pa.int64(), "window_ms", "window_start_ms", "count"),
        *((name, pa.int64()) for name in _IF_KNOWN),
        ("log10_probability", pa.float64()),
        *never_null(pa.int64(), "first_seen_ms"),
        ("first_seen_window", pa.string()),
        ("other_levels", pa.map_(pa.string(), pa.int64())),
        ("by", pa.string()),
        ("session_end_ms", pa.int64()),
        ("since_ms", pa.int64()),
        ("rules_version", pa.string()),
    ]
)
"""The table of findings, as it is stored: the fields of :class:`Finding`, one row each.

Of an action of several parts, ``by`` is the names of those that the rule looks at, as JSON, and
``action`` their one text (:mod:`kstoolkit.formats.actions`). Of a session, ``window_ms`` is minus
the gap, and ``session_end_ms`` is its last event's time.
"""

KEY = ("rule", "user", "action", "window_ms", "window_start_ms")
"""What a finding is known by: one that is told again replaces the one before."""

_ALL_PARTS = b"kstoolkit.all_parts"
"""In a table's metadata: what all parts of a run's actions are called, also those no rule is by."""

_UNJUDGED = b"kstoolkit.unjudged"
"""In a table's metadata: how many counts could not be judged."""

NOT_KNOWN = "too little is known of their users or peers yet"


def newest_rows(findings: pa.Table) -> pa.ChunkedArray:
    """Return the last row of each finding, in the order in which they were first told."""
    numbered = findings.select(KEY).append_column("row", pa.array(np.arange(len(findings))))
    return numbered.group_by(list(KEY), use_threads=False).aggregate([("row", "max")])["row_max"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding(Viewed):
    """One user, one action, one window: what was seen, what was expected, and on what evidence.

    Parameters
    ----------
    rule, kind
        The rule's name, and which kind of rule it is.
    user, action
        Who, and what; of a rule on different items, which items.
    window, window_ms, window_start_ms
        Label, length and start (epoch ms UTC) of the window.
    count, ceiling
        How often, and the limit that this exceeds, if the rule is one.
    expected_low, expected_high
        Where 95 % of such counts lie; ``None`` is unknown.
    baseline_windows, peers
        How many windows of its own history and how many peers that rests on; ``None`` is unknown.
    log10_probability
        Decimal logarithm of the probability of this count or more, if the rule is about it.
    first_seen_ms, first_seen_window
        When the finding first appeared, epoch ms UTC; and the label of the finer window that told
        the same story first, if one did.
    other_levels
        What the other levels of the cascade counted at that time, by label: the window around this
        one, or the busiest of those inside.
    by
        The parts of an action that the rule looks at, where an action has several, or where it
        looks at all that a user does: ``action`` is then their one text.
    session_end_ms, since_ms
        Of a session, the time of its last event (``window_ms`` is then minus its gap); and since
        when it lasts, if the rule is about that. Both are epoch ms UTC.
    rules_version
        By which of a run's rules it was found last: see
        :func:`~kstoolkit.findings.rulefiles.rules_version`; ``None`` if nobody kept it.
    """

    rule: str
    kind: str
    user: str
    action: str
    window: str
    window_ms: int
    window_start_ms: int
    count: int
    ceiling: int | None = None
    expected_low: int | None = None
    expected_high: int | None = None
    baseline_windows: int | None = None
    peers: int | None = None
    log10_probability: float | None = None
    first_seen_ms: int = 0
    first_seen_window: str | None = None
    other_levels: dict[str, int] = field(default_factory=dict)
    by: tuple[str, ...] | None = None
    session_end_ms: int | None = None
    since_ms: int | None = None
    rules_version: str | None = None

    @property
    def parts(self) -> dict[str, str | None]:
        """What was done, by the names of its columns; a part that is null is ``None``."""
        if self.by is None:
            return {"action": self.action}
        texts = split(pa.array([self.action], pa.string()), len(self.by))
        return {name: text[0].as_py() for name, text in zip(self.by, texts, strict=True)}

    def values(self) -> list[str]:
        """Return what was done for people, a text for each part."""
        return values_in_words(self.parts.values())

    @property
    def what(self) -> str:
        """What was done for people: the action, or its parts one behind the other."""
        if self.kind == DISTINCT:
            return f"different {self.action}"
        return ", ".join(self.values()) or ALL_TOGETHER

    @property
    def window_start(self) -> datetime:
        """Start of the window, UTC."""
        return moment_of(self.window_start_ms)

    @property
    def window_end_ms(self) -> int:
        """End of the window, or of a session its last event, epoch ms UTC."""
        if self.session_end_ms is not None:
            return self.session_end_ms
        return self.window_start_ms + self.window_ms

    @property
    def window_end(self) -> datetime:
        """End of the window, UTC."""
        return moment_of(self.window_end_ms)

    @property
    def probability(self) -> float | None:
        """The probability of this count or more; 0.0 where only its logarithm still tells."""
        return None if self.log10_probability is None else 10.0**self.log10_probability

    @property
    def expected(self) -> str:
        """The expected range for people: ``"2-14"`` with a dash, or why it is unknown."""
        has_limit = self.ceiling is not None or self.kind == LONGER
        why = "no baseline" if has_limit else "too few peers with history yet"
        return expected(self.expected_low, self.expected_high) or f"unknown ({why})"

    @property
    def sentence(self) -> str:
        """The finding as one plain sentence."""
        return sentence(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return a table of one row, with the columns of :meth:`Findings.to_pandas`."""
        row = asdict(self) | {"other_levels": list(self.other_levels.items())}
        row["by"] = None if self.by is None else json.dumps(self.by)
        return Findings(pa.Table.from_pylist([row], schema=FINDINGS_SCHEMA)).to_pandas()

    def __repr__(self) -> str:
        told = dict(evidence(self))
        against = [f"expected {told['expected']}"]
        if self.ceiling is not None:
            against.append(f"ceiling {told['ceiling']}")
        if self.log10_probability is not None:
            against.append(f"chance {told['chance of this or more']}")
        seen = f"{self.user!r}, {self.what!r}: {told['count']} in {told['window']}"
        return f"Finding({seen}, {', '.join(against)})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.sentence)}</p>{facts_html(evidence(self))}"


def as_stored(findings: pa.Table) -> pa.Table:
    """Return findings with the columns of :data:`FINDINGS_SCHEMA`, of which old ones lack some."""
    if findings.schema.equals(FINDINGS_SCHEMA):
        return findings.replace_schema_metadata()
    for name in ("by", "session_end_ms", "since_ms", "rules_version"):
        if name not in findings.column_names:
            nothing = pa.nulls(findings.num_rows, FINDINGS_SCHEMA.field(name).type)
            findings = findings.append_column(name, nothing)
    return findings.select(FINDINGS_SCHEMA.names).cast(FINDINGS_SCHEMA)


def by_version(findings: pa.Table, rules_version: str | None) -> pa.Table:
    """Return findings of :data:`FINDINGS_SCHEMA` as found by this version of the rules."""
    column = pa.repeat(pa.scalar(rules_version, pa.string()), findings.num_rows)
    return with_column(findings, "rules_version", column)


def with_column(findings: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return findings with another column in the place of one of :data:`FINDINGS_SCHEMA`."""
    at = findings.schema.get_field_index(name)
    return findings.set_column(at, FINDINGS_SCHEMA.field(name), column)


def ends_ms(findings: pa.Table) -> pa.ChunkedArray:
    """Return when the windows or sessions of findings end: see :attr:`Finding.window_end_ms`."""
    ends = pc.add(findings["window_start_ms"], findings["window_ms"])
    return pc.coalesce(findings["session_end_ms"], ends)


def of_actions(
    findings: pa.Table, parts: Sequence[str] | None, unjudged: int | None = None
) -> pa.Table:
    """Return a table of findings that knows all parts of an action, also those no rule is by.

    And how many counts could not be judged, where that is told.
    """
    told = {} if parts is None else {_ALL_PARTS: json.dumps(list(parts))}
    told |= {} if unjudged is None else {_UNJUDGED: str(unjudged)}
    return findings.replace_schema_metadata(told or None)


class Findings(Viewed, Sequence[Finding]):
    """Findings in the order of the table that they come from, of :data:`FINDINGS_SCHEMA`.

    Examples
    --------
    >>> Findings(FINDINGS_SCHEMA.empty_table())
    Findings(none)
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = as_stored(table).replace_schema_metadata(table.schema.metadata)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Findings: ...
    def __getitem__(self, index: int | slice) -> Finding | Findings:
        if isinstance(index, slice):
            return Findings(self.table.take(pa.array(range(len(self))[index], pa.int64())))
        return _record(self.table.slice(range(len(self))[index], 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Finding]:
        for batch in self.table.to_batches(max_chunksize=10_000):
            yield from map(_record, batch.to_pylist())

    def top(self, n: int = 20) -> Findings:
        """Return the ``n`` that most deserve a look: the best of each kind of rule in turn.

        Ceilings go by how far they are exceeded, the others by how improbable they are.
        """
        over = self._column("count") / np.maximum(self._column("ceiling"), 1)
        severity = np.where(np.isnan(over), -self._column("log10_probability"), over)
        kinds = np.asarray(self.table["kind"].to_pylist(), dtype=object)
        turn = np.zeros(len(self), np.int64)
        for kind in set(kinds.tolist()):
            of_kind = np.flatnonzero(kinds == kind)
            turn[of_kind[np.argsort(-severity[of_kind], kind="stable")]] = np.arange(len(of_kind))
        chosen = np.lexsort((np.arange(len(self)), kinds.astype(str), turn))[:n]
        return Findings(self.table.take(pa.array(chosen)))

    def to_pandas(self) -> pd.DataFrame:
        """Return a tidy table: one row a finding, times as UTC timestamps, with its sentence."""
        import pandas as pd  # noqa: PLC0415 - only who asks for pandas pays for it

        table = self._in_parts().drop_columns(["other_levels", "window_ms", "session_end_ms"])
        stamp = pa.timestamp("ms", tz="UTC")
        for name in ("window_start_ms", "first_seen_ms", "since_ms"):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name.removesuffix("_ms"), table[name].cast(stamp))
        rows = list(self)
        ends = pa.array([row.window_end for row in rows], stamp)
        table = table.add_column(table.schema.get_field_index("count"), "window_end", ends)
        probability = pa.array([row.probability for row in rows], pa.float64())
        table = table.append_column("probability", probability)
        table = table.append_column("sentence", pa.array([r.sentence for r in rows], pa.string()))
        return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)  # type: ignore[no-any-return]

    def to_json_rows(self) -> list[dict[str, Any]]:
        """Return one plain dictionary a finding: its fields, probability, end and sentence."""
        parts = self.parts
        return [_json_row(found, parts) for found in self]

    @property
    def parts(self) -> tuple[str, ...]:
        """What the columns are called that say what was done: ``action``, or its parts."""
        told = self.table["by"].unique().to_pylist()
        each = (["action"] if by is None else json.loads(by) for by in told)
        names = dict.fromkeys(name for by in each for name in by)
        known = (self.table.schema.metadata or {}).get(_ALL_PARTS)
        return tuple(json.loads(known)) if known else tuple(names) or ("action",)

    @property
    def unjudged(self) -> int | None:
        """How many counts could not be judged, where that is known: too little is of others."""
        told = (self.table.schema.metadata or {}).get(_UNJUDGED)
        return None if told is None else int(told)

    @property
    def in_words(self) -> pa.ChunkedArray:
        """What each finding is of, for people: see :attr:`Finding.what`."""
        by, actions = self.table["by"], self.table["action"]
        if by.null_count == len(by):
            return actions
        return pa.chunked_array([[found.what for found in self]], pa.string())

    def _in_parts(self) -> pa.Table:
        """Return the table with a column for each part in the place of the action."""
        parts, by = self.parts, self.table["by"]
        if by.null_count == len(by):
            return self.table.drop_columns(["by"])
        rows = [found.parts for found in self]
        at = self.table.schema.get_field_index("action")
        table = self.table.drop_columns(["action", "by"])
        for name in reversed(parts):
            texts = pa.array([row.get(name) for row in rows], pa.string())
            table = table.add_column(at, name, texts)
        if parts == ("action",):
            return table
        told = [None if found.by is None else list(found.by) for found in self]
        return table.append_column("by", pa.array(told, pa.list_(pa.string())))

    def __repr__(self) -> str:
        return f"Findings({self._facts()})"

    def _repr_html_(self) -> str:
        shown = self.top()
        note = f"; the top {len(shown)} are shown" if len(shown) < len(self) else ""
        return rows_html(self._facts() + note, _COLUMNS, map(_cells, shown))

    def _facts(self) -> str:
        if not len(self):
            return "none"
        kinds = pc.value_counts(self.table["kind"].combine_chunks()).to_pylist()
        of = ", ".join(f"{k['counts']:,} {k['values']}" for k in sorted(kinds, key=str))
        distinct = pc.count_distinct(self.table["user"]).as_py()
        return f"{format_count(len(self))} about {counted(distinct, 'users')}: {of}"

    def _column(self, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        filled = pc.fill_null(self.table[name].cast(pa.float64()), float("nan"))
        return np.asarray(filled.to_numpy(), np.float64)


def _record(row: dict[str, Any]) -> Finding:
    by = None if row["by"] is None else tuple(json.loads(row["by"]))
    return Finding(**row | {"other_levels": dict(row["other_levels"] or ()), "by": by})


def _json_row(finding: Finding, names: Sequence[str]) -> dict[str, Any]:
    """Return a row with its parts in the place of the action, and by which of them it is."""
    derived = ("window_end_ms", "probability", "sentence")
    row = asdict(finding) | {name: getattr(finding, name) for name in derived}
    parts, told = finding.parts, dict[str, Any]()
    for name, value in row.items():
        if name == "action":
            told |= {part: parts.get(part) for part in names}
        elif name not in {"by", "session_end_ms"}:  # this is the window's end
            told[name] = value
        elif names != ("action",):
            told["by"] = list(parts)
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which findings are wanted; what is not given chooses all.

    Of ``user`` and ``action`` it is the whole name; or, if none has it, a part of it in any case,
    unless ``whole``. Windows lie at least partly between the moments.

    >>> Choice(user="anna").of(Findings(FINDINGS_SCHEMA.empty_table()))
    Findings(none)
    """

    rule: str | None = None
    window: str | None = None
    user: str = ""
    action: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    whole: bool = False

    def of(self, findings: Findings, *, without_users: Collection[str] = ()) -> Findings:
        """Return those that are wanted, in their order, but for findings of some users."""
        return Findings(self._chosen(findings.table, without_users))

    def rows_of(self, findings: Findings) -> Any:
        """Return the rows of those that are wanted, as a NumPy array."""
        rows = pa.array(np.arange(len(findings)))
        return self._chosen(findings.table.append_column("row", rows))["row"].to_numpy()

    def _chosen(self, table: pa.Table, without_users: Collection[str] = ()) -> pa.Table:
        for name, wanted in (("rule", self.rule), ("window", self.window)):
            if wanted is not None:
                table = table.filter(pc.equal(table[name], wanted))
        if self.user or self.whole:
            same = pc.equal(table["user"], self.user)
            table = table.filter(same if self.whole else _named(table["user"], self.user))
        if self.action:
            table = table.filter(_named(Findings(table).in_words, self.action))
        if self.since_ms is not None:
            table = table.filter(pc.greater(ends_ms(table), self.since_ms))
        if self.until_ms is not None:
            table = table.filter(pc.less(table["window_start_ms"], self.until_ms))
        if without_users:
            known = pa.array(list(without_users), pa.string())
            table = table.filter(pc.invert(pc.is_in(table["user"], value_set=known)))
        return table


def _named(names: pa.ChunkedArray, text: str) -> Any:
    """Return which of the names are this text; if none is, which hold it."""
    same = pc.equal(names, text)
    return same if pc.any(same).as_py() else pc.match_substring(names, text, ignore_case=True)
