"""How good findings are, told by labels: what was found of what is there, and what besides.

A label says that a user is abnormal from some moment on and before another, in what way, and, where
it is one, in which action. A finding tells a label's truth if it is about that user, its window
overlaps that time, and it is not about another action; a finding of newcomers is about all whose
labels begin in its window. What tells no label's truth is a false
alarm; so is what is found of machines that may do what they do, which labels call ordinary.

    recall        share of a kind's labels that some finding tells
    delay         from the start of a label to when its first finding could be told: at the end of
                  its window, or when it was first seen, if that is earlier
    alarms a day  false alarms over the days judged, ± the standard error of their mean over days
    curve         users in the order of their least probable finding: precision and recall as more
                  of them are looked at. Ties count together, users without a finding come last
    average precision   Σ precision · (recall - the recall before), over the curve's points; its
                  95 % are of 1,000 bootstrap samples
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import read_csv
from pyarrow.json import read_json

from kstoolkit.errors import ColumnError, ConfigurationError, InputError
from kstoolkit.findings.finding import CAMPAIGN, Choice, Findings, ends_ms
from kstoolkit.findings.peers import codes_in, encoded, in_one, integers
from kstoolkit.moments import moment_ms
from kstoolkit.records import Record, Records, Source, of_source, rows_html
from kstoolkit.units import format_span

if TYPE_CHECKING:
    import os

    import pandas as pd

    from kstoolkit.findings.peers import Flags, Floats, Integers
    from kstoolkit.moments import Moment

ORDINARY = ("nightly-job", "service", "known")
"""Kinds of labels that are not abnormal: what is found of them is a false alarm."""

_DAY_MS = 86_400_000
_NEVER_MS = 1 << 62
_SAMPLES = 1_000
_OF_DAYS = ("alarms_error", "later_alarms_a_day")
_OF_FINDINGS = ("days", "findings", "alarms_a_day", "first_day_alarms", *_OF_DAYS)
_OF_LABELS = ("average_precision", "average_precision_low", "average_precision_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRecall(Record):
    """What was found of the labels of one kind."""

    kind: str
    labels: int = of_source(Source.GIVEN)
    found: int = of_source(Source.FORMULA)
    recall: float = of_source(Source.FORMULA)
    delay_ms: int | None = of_source(Source.FORMULA, None)
    """In the median of those that were found; ``None`` if none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Record):
    """How many users have a score as high or higher, and how well that chooses."""

    users: int = of_source(Source.FORMULA)
    precision: float = of_source(Source.FORMULA)
    recall: float = of_source(Source.FORMULA)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Evaluation(Record):
    """What findings are worth, told by labels.

    Parameters
    ----------
    kinds, days
        What was found of each kind of label, and how many days were judged.
    alarms_a_day, alarms_error
        False alarms a day, and the standard error of that; ``None`` of a single day.
    first_day_alarms, later_alarms_a_day
        The same of the first day, of which little is known beforehand, and a day of the others.
    ordinary_alarms
        How many of all false alarms are about each labelled kind that is ordinary.
    average_precision, average_precision_low, average_precision_high
        Of users by their least probable finding, with 95 % of bootstrap samples between the two.
    precision_at
        The share of abnormal users among the first 10, 20, 50, 100.
    curve
        Precision and recall wherever recall grows, and after the last user.
    """

    kinds: Records[KindRecall]
    days: float | None = of_source(Source.GIVEN, None)
    findings: int | None = of_source(Source.GIVEN, None)
    alarms_a_day: float | None = of_source(Source.FORMULA, None)
    alarms_error: float | None = of_source(Source.FORMULA, None)
    first_day_alarms: int | None = of_source(Source.FORMULA, None)
    later_alarms_a_day: float | None = of_source(Source.FORMULA, None)
    average_precision: float | None = of_source(Source.FORMULA)
    average_precision_low: float | None = of_source(Source.FORMULA)
    average_precision_high: float | None = of_source(Source.FORMULA)
    ordinary_alarms: dict[str, int] = field(default_factory=dict)
    precision_at: dict[int, float]
    curve: Records[Point]
    unknown: dict[str, str]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a kind: ``kind``, ``labels``, ``found``, ``recall``, ``delay_ms``."""
        return self.kinds.to_pandas()

    def __repr__(self) -> str:
        known = {figure.name: figure.text for figure in self.figures()}
        found = ", ".join(f"{each.kind} {each.found} of {each.labels}" for each in self.kinds)
        error = "" if self.alarms_error is None else f" ± {self.alarms_error:.2g}"
        alarms = f"{known['alarms_a_day']}{error} false alarms a day"
        facts = [] if self.findings is None else [found or "no labels", alarms]
        facts.append(f"average precision {known['average_precision']}")
        return f"Evaluation({'; '.join(facts)})"

    def _repr_html_(self) -> str:
        rows = ((k.kind, str(k.labels), str(k.found), *told(k)) for k in self.kinds)
        return rows_html(repr(self), ("kind", "labels", "found", "recall", "delay"), rows)


def told(kind: KindRecall) -> tuple[str, str]:
    """Return recall and delay of a kind for people.

    >>> told(KindRecall(kind="burst", labels=4, found=3, recall=0.75, delay_ms=3_600_000))
    ('75 %', '60 minutes')
    """
    if kind.delay_ms is not None:
        delay = format_span(kind.delay_ms / 1_000)
    else:
        delay = f"unknown ({'no since' if kind.found else 'none found'})"
    return f"{100 * kind.recall:.0f} %", delay


def evaluate(
    found: Findings | pd.DataFrame,
    labels: str | os.PathLike[str] | pd.DataFrame | pa.Table,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Evaluation:
    """Return how good findings, or a ranking of users, are, told by labels.

    Parameters
    ----------
    found
        Findings; or a table with ``user`` and ``score``, as a run's ``users()`` gives it: of that
        only the curve and what follows from it is known.
    labels
        JSON lines as the simulator's ``labels.json``, a CSV file with a header, or a table:
        ``user`` and, where they are known, ``kind``, ``since``, ``until`` and ``action``. Moments
        are in ISO 8601; a label without them holds always. Of the kinds "nightly-job" and "service"
        what is found is a false alarm.
    since, until
        From when until when there was something to find: by default all days of both (UTC).

    Examples
    --------
    >>> from kstoolkit.findings.rules import Ceiling
    >>> from kstoolkit.findings.stories import find_in_windows
    >>> counts = {"user": ["a", "b"], "action": ["x", "x"], "count": [9, 8]}
    >>> hours = {"1 hour": pa.table({"window_start_ms": [0, 0]} | counts)}
    >>> found = find_in_windows(hours, [Ceiling("1 hour", 5)])
    >>> evaluate(found, pa.table({"user": ["a"], "kind": ["burst"]}))
    Evaluation(burst 1 of 1; 1 false alarms a day; average precision 1)
    """
    told = Labels.of(labels)
    if not isinstance(found, Findings):
        score = np.asarray(found["score"], np.float64)
        return _ranked(told, pa.array(found["user"], pa.string()), score)
    begin, end = _days(found, told)
    begin = begin if since is None else moment_ms(since)
    end = end if until is None else moment_ms(until)
    if begin >= end:
        message = f"since={since!r} is not before until={until!r}."
        raise ConfigurationError(message, hint="Give an earlier since, or none.")
    judged = Choice(since_ms=begin, until_ms=end).of(found)
    return _judged(judged, told.take((told.since_ms < end) & (told.until_ms > begin)), begin, end)


def _days(findings: Findings, labels: Labels) -> tuple[int, int]:
    starts, ends = integers(findings.table, "window_start_ms"), np.asarray(ends_ms(findings.table))
    moments = np.concatenate([starts, ends, labels.since_ms, labels.until_ms])
    moments = moments[np.abs(moments) < _NEVER_MS]
    first, last = (moments.min(), moments.max()) if len(moments) else (0, _DAY_MS)
    return int(first // _DAY_MS * _DAY_MS), int(-(-last // _DAY_MS) * _DAY_MS)


def _judged(findings: Findings, labels: Labels, since_ms: int, until_ms: int) -> Evaluation:
    finding, label = _pairs(findings, labels)
    is_ordinary = labels.is_ordinary
    is_true = np.zeros(len(findings), bool)
    is_true[finding[~is_ordinary[label]]] = True
    days = max((until_ms - since_ms) / _DAY_MS, 1 / 24)
    day = (integers(findings.table, "window_start_ms") - since_ms) // _DAY_MS
    a_day = np.bincount(np.clip(day[~is_true], 0, None), minlength=ceil(days))
    whole = a_day[: max(int(days), 1)]
    error = float(whole.std(ddof=1) / np.sqrt(len(whole))) if len(whole) > 1 else None
    later = float(a_day[1:].sum() / (days - 1)) if days > 1 else None
    machine = ~is_true[finding] & is_ordinary[label]
    kinds = [labels.kind[int(each)].as_py() for each in label[machine]]
    ranked = _ranked(labels, *_least_probable(findings))
    names = sorted(set(labels.kind.to_pylist()) - set(ORDINARY))
    why = {} if len(whole) > 1 else dict.fromkeys(_OF_DAYS, "one day was judged")
    return replace(
        ranked,
        kinds=Records([_kind(name, labels, finding, label, findings) for name in names], "kinds"),
        days=days,
        findings=len(findings),
        alarms_a_day=float(a_day.sum() / days),
        alarms_error=error,
        first_day_alarms=int(a_day[0]),
        later_alarms_a_day=later,
        ordinary_alarms={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        unknown={name: why.get(name, text) for name, text in ranked.unknown.items()},
    )


def _pairs(findings: Findings, labels: Labels) -> tuple[Integers, Integers]:
    """Return which finding tells the truth of which label."""
    table = findings.table
    users, code = encoded(labels.user)
    order = np.argsort(code, kind="stable")
    user = codes_in(table["user"], users)
    first, last = (np.searchsorted(code[order], user, side=side) for side in ("left", "right"))
    number = np.where(user < 0, 0, last - first)
    finding = np.repeat(np.arange(len(user)), number)
    within = np.arange(len(finding)) - np.repeat(np.cumsum(number) - number, number)
    label = order[first[finding] + within]
    starts, ends = integers(table, "window_start_ms"), np.asarray(ends_ms(table), np.int64)
    for each in np.flatnonzero(pc.equal(table["kind"], CAMPAIGN)):
        new = np.flatnonzero((labels.since_ms >= starts[each]) & (labels.since_ms < ends[each]))
        finding = np.append(finding, np.full(len(new), each))
        label = np.append(label, new)
    overlaps = (starts[finding] < labels.until_ms[label]) & (ends[finding] > labels.since_ms[label])
    wanted = labels.action.take(pa.array(label))
    done = table["action"].take(pa.array(finding)).combine_chunks()
    is_by_action = table["by"].is_null().take(pa.array(finding))
    other = pc.and_(pc.and_(is_by_action, pc.is_valid(wanted)), pc.not_equal(wanted, done))
    matches = overlaps & ~np.asarray(pc.fill_null(other, fill_value=False), bool)
    return finding[matches], label[matches]


def _kind(
    name: str, labels: Labels, finding: Integers, label: Integers, findings: Findings
) -> KindRecall:
    mine = np.asarray(pc.equal(labels.kind, name))
    seen_ms = np.maximum(integers(findings.table, "first_seen_ms"), 0)
    told_ms = np.minimum(np.asarray(ends_ms(findings.table), np.int64), seen_ms)
    first_ms = np.full(len(mine), _NEVER_MS)
    np.minimum.at(first_ms, label, told_ms[finding])
    found = mine & (first_ms < _NEVER_MS)
    delays = np.maximum(first_ms[found] - labels.since_ms[found], 0)
    known = delays[labels.since_ms[found] > -_NEVER_MS]
    return KindRecall(
        kind=name,
        labels=int(mine.sum()),
        found=int(found.sum()),
        recall=float(found.sum() / mine.sum()),
        delay_ms=int(np.median(known)) if len(known) else None,
    )


def _least_probable(findings: Findings) -> tuple[pa.Array, Floats]:
    """Return each user that something was found of, and how improbable its least probable is."""
    users, code = encoded(findings.table["user"])
    surprise = pc.negate(findings.table["log10_probability"])
    over = pc.divide(findings.table["count"].cast(pa.float64()), findings.table["ceiling"])
    told = np.asarray(pc.fill_null(pc.coalesce(surprise, over), 0.0), np.float64)
    score = np.zeros(len(users))
    np.maximum.at(score, code, told)
    return users, score


def _ranked(labels: Labels, users: pa.Array, score: Floats) -> Evaluation:
    """Return what is known of users in the order of a score; who has none is never reached."""
    abnormal = labels.user.filter(pa.array(~labels.is_ordinary)).unique()
    hit = np.asarray(pc.is_in(users, value_set=abnormal)).astype(np.float64)
    total, unknown = len(abnormal), dict.fromkeys(_OF_FINDINGS, "a ranking has no findings")
    order = np.argsort(-score, kind="stable")
    # After how many users each score ends, the highest first, and the hits by then.
    last = np.flatnonzero(np.append(np.diff(score[order]) != 0, True)[: len(order)])
    ends, hits = last + 1, np.cumsum(hit[order])[last]
    average_precision = (np.diff(hits, prepend=0.0) * hits / ends).sum() / max(total, 1)
    samples = _samples(ends, hits, total)
    low, high = np.quantile(samples, (0.025, 0.975)).tolist() if total else (None, None)
    if not total:
        unknown |= dict.fromkeys(_OF_LABELS, "nobody is labelled as abnormal")
    grows = np.diff(hits, prepend=0.0) > 0  # of millions of users few are labelled
    grows[-1:] = True
    points = [
        Point(users=int(end), precision=float(n / end), recall=float(n / max(total, 1)))
        for end, n in zip(ends[grows], hits[grows], strict=True)
    ]
    return Evaluation(
        kinds=Records([], "kinds"),
        average_precision=float(average_precision) if total else None,
        average_precision_low=low,
        average_precision_high=high,
        precision_at={n: float(hit[order[:n]].sum() / n) for n in (10, 20, 50, 100)},
        curve=Records(points, "points"),
        unknown=unknown,
    )


def _samples(ends: Integers, hits: Floats, total: int) -> Floats:
    """Return the average precision of samples of users, those that are never reached among them.

    Of users alike, a bootstrap sample has nearly a Poisson number: those that stand between two
    abnormal ones are drawn together.
    """
    gained = np.diff(hits, prepend=0.0)
    some = gained > 0
    others = np.diff((ends - hits)[some], prepend=0.0)
    draws, size = np.random.default_rng(0), (_SAMPLES, int(some.sum()))
    drawn, reached = draws.poisson(gained[some], size), draws.poisson(others, size)
    missed = draws.poisson(total - hits[-1:].sum(), _SAMPLES)
    found = np.cumsum(drawn, axis=1)
    seen = np.maximum(found + np.cumsum(reached, axis=1), 1)
    wanted = np.maximum(drawn.sum(axis=1) + missed, 1)
    return np.asarray((drawn * found / seen).sum(axis=1) / wanted, np.float64)


def alarms_in_words(found: Evaluation) -> list[str]:
    """Return for people how many false alarms there are, and of which machines."""
    if found.alarms_a_day is None or found.days is None:
        return []
    error = "" if found.alarms_error is None else f" ± {found.alarms_error:.2g}"
    text = f"False alarms: {found.alarms_a_day:.3g}{error} a day over {found.days:.3g} days"
    if found.later_alarms_a_day is not None:
        text += f"; {found.first_day_alarms} on the first day, "
        text += f"{found.later_alarms_a_day:.3g} a day after it"
    of = [f"{number} of kind {kind}" for kind, number in found.ordinary_alarms.items()]
    return [f"{text}.", *([f"Among them {' and '.join(of)}."] if of else [])]


def ranking_in_words(found: Evaluation) -> str:
    """Return for people how well users are ranked."""
    if found.average_precision is None:
        return "nobody is labelled as abnormal."
    low, high = found.average_precision_low, found.average_precision_high
    between = "" if low is None or high is None else f" (95 % of samples {low:.2f}-{high:.2f})"
    shares = found.precision_at.items()
    first = ", ".join(f"{100 * share:.0f} % of the first {n}" for n, share in shares)
    return f"average precision {found.average_precision:.3f}{between}; abnormal are {first}."


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Who is abnormal, when, and in what: one value a label in each; an action may be null."""

    user: pa.Array
    kind: pa.Array
    action: pa.Array
    since_ms: Integers
    until_ms: Integers

    @classmethod
    def of(cls, given: str | os.PathLike[str] | pd.DataFrame | pa.Table) -> Labels:
        """Return the labels of a file, or of a table: see :func:`evaluate`."""
        where = "the labels"
        if isinstance(given, pa.Table):
            table = given
        elif hasattr(given, "columns"):
            table = pa.Table.from_pandas(given, preserve_index=False)
        else:
            where = str(given)
            table = _read(Path(given))
        if "user" not in table.column_names:
            wanted = "user"
            raise ColumnError.missing(wanted, table.column_names, where)
        nothing = pa.nulls(table.num_rows)
        names = ("user", "kind", "action", "since", "until")
        columns = [table[name] if name in table.column_names else nothing for name in names]
        user, kind, action = (pc.cast(each, pa.string()) for each in columns[:3])
        kind = pc.if_else(pc.equal(pc.fill_null(kind, ""), ""), "abnormal", kind)
        action = pc.if_else(pc.equal(action, ""), None, action)
        user, kind, action = map(in_one, (user, kind, action))
        span_ms = _moments(columns[3], -_NEVER_MS), _moments(columns[4], _NEVER_MS)
        return cls(user, kind, action, *span_ms)

    @property
    def is_ordinary(self) -> Flags:
        """Which labels are of machines that may do what they do."""
        return np.asarray(pc.is_in(self.kind, value_set=pa.array(ORDINARY)), bool)

    def take(self, rows: Flags) -> Labels:
        """Return some labels."""
        chosen = pa.array(np.flatnonzero(rows))
        user, kind, action = (each.take(chosen) for each in (self.user, self.kind, self.action))
        return Labels(user, kind, action, self.since_ms[rows], self.until_ms[rows])


def _read(path: Path) -> pa.Table:
    is_csv = path.suffix.lower() == ".csv"
    try:
        return (read_csv if is_csv else read_json)(path)
    except (OSError, pa.ArrowInvalid) as error:
        number = getattr(error, "errno", None)
        why = strerror(number) if number else error
        message = f"No labels can be read from {str(path)!r}: {why}."
        hint = 'Give a .csv file with a header, or JSON lines: {"user": "ann"}.'
        raise InputError(message, hint=hint) from error


def _moments(column: pa.Array | pa.ChunkedArray, unknown_ms: int) -> Integers:
    """Return moments in epoch ms, given as such, as timestamps, or in ISO 8601."""
    if pa.types.is_timestamp(column.type):
        known = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).to_pylist()
    else:
        known = [None if text in {None, ""} else moment_ms(text) for text in column.to_pylist()]
    return np.array([unknown_ms if each is None else each for each in known], np.int64)
