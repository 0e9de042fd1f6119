"""What is told of all that was found: each story once, with what other levels counted beside it.

Updates are merged, finer windows are folded into coarser ones. The same rules also look at counts
that are complete: no stream, nothing counted again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.calibration import Everyone
from kstoolkit.findings.finding import (
    DISTINCT,
    FINDINGS_SCHEMA,
    KEY,
    Findings,
    ends_ms,
    of_actions,
    with_column,
)
from kstoolkit.findings.peers import codes_in, encoded, integers, places
from kstoolkit.findings.rules import Distinct, bys_on, check_windows, exempted, of_parts, rules_on
from kstoolkit.findings.scoring import score
from kstoolkit.formats.actions import chosen, parts_in, with_parts
from kstoolkit.windows import Session, as_window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kstoolkit.findings.peers import Flags, Integers
    from kstoolkit.findings.rules import By, Rule
    from kstoolkit.windows import Window

_NEVER_MS, _FOREVER_MS = -(1 << 62), 1 << 62
_ORDER = ("window_start_ms", "window_ms", "rule", "user", "action")


def merge_findings(tables: Sequence[pa.Table]) -> pa.Table:
    """Return each finding once: its newest version, with the time when it was first seen.

    The tables are in the order of their batches; what is returned is sorted by window start. A
    finding is known by rule, user, action, window and window start. A session that became part of
    another, found later, is none any more, nor is one whose chance is 1 once its window is over.
    """
    told = newest_of(tables)
    return told.findings.filter(pa.array(~told.is_gone)).sort_by([(n, "ascending") for n in _ORDER])


class Told(NamedTuple):
    """Each finding once, in its newest version, also such as are none any more (``is_gone``).

    ``first_row`` is its first among all rows, ``last_ms`` the clock of the batch that told it last.
    """

    findings: pa.Table
    is_gone: Flags
    first_row: Integers
    last_ms: Integers


def newest_of(tables: Sequence[pa.Table]) -> Told:
    """Return what :func:`merge_findings` does, and what it leaves out."""
    told = pa.concat_tables([FINDINGS_SCHEMA.empty_table(), *tables])
    numbered = told.append_column("row", pa.array(np.arange(told.num_rows)))
    whole = [("row", "max"), ("row", "min"), ("first_seen_ms", "min")]
    latest = numbered.group_by(list(KEY), use_threads=False).aggregate(whole)
    merged = told.take(latest["row_max"])
    last_ms = integers(merged, "first_seen_ms")
    merged = with_column(merged, "first_seen_ms", latest["first_seen_ms_min"])
    is_certain = pc.fill_null(pc.equal(merged["log10_probability"], 0), fill_value=False)
    is_gone = _swallowed(merged, integers(latest, "row_max")) | is_certain.to_numpy()
    return Told(merged, is_gone, integers(latest, "row_min"), last_ms)


def _swallowed(findings: pa.Table, row: Integers) -> Flags:
    """Return which sessions lie within one that was found in a later row."""
    gone, sessions = np.zeros(len(row), bool), np.flatnonzero(findings["session_end_ms"].is_valid())
    if len(sessions):
        some = findings.take(pa.array(sessions))
        start, end = (integers(some, name) for name in ("window_start_ms", "session_end_ms"))
        group = numbered(some, "rule", "user", "by", "action")
        order = np.lexsort((-end, start, group))
        latest, rank = np.unique(end[order], return_inverse=True)
        reach = np.maximum.accumulate(group[order] * len(latest) + rank)
        is_outer = np.diff(reach, prepend=-1) > 0
        outer = np.flatnonzero(is_outer)[np.cumsum(is_outer) - 1]
        number = row[sessions[order]]
        gone[sessions[order]] = number < number[outer]
    return gone


def fold_stories(findings: pa.Table) -> pa.Table:
    """Return the findings, each once, without those that a coarser window tells as well.

    A user and action found by the same kind of rule in a window inside another is the same story.
    The coarser window is kept, as it tells all; the finer one goes on in ``first_seen_window`` (its
    label) and ``first_seen_ms``, the earlier of the two. Sessions are stories of their own.
    """
    kinds = map(as_window, findings["window"].unique().to_pylist())
    windows = [window for window in kinds if not isinstance(window, Session)]
    size, start = (integers(findings, name) for name in ("window_ms", "window_start_ms"))
    story, label = numbered(findings, "kind", "user", "by", "action"), findings["window"]
    into = np.full(len(start), -1)
    for window in sorted(windows, key=lambda window: -window.size_ms):  # the coarsest first
        coarse = np.flatnonzero(codes_in(label, pa.array([window.label])) == 0)
        finer = np.flatnonzero((size > 0) & (size < window.size_ms) & (into < 0))
        into[finer] = _around(window, coarse, finer, (story, start, size))
    return _folded(findings, into, size)


def _around(
    window: Window, coarse: Integers, finer: Integers, facts: tuple[Integers, Integers, Integers]
) -> Integers:
    """Return for each finer finding the coarse one of the same story that holds it, or -1."""
    story, start, size = facts
    starts = np.unique(start[coarse])
    keys = story[coarse] * len(starts) + places(starts, start[coarse])
    keys, first = np.unique(keys, return_index=True)
    found = np.full(len(finer), -1)
    for hop in range(window.copies):
        begin = start[finer] - start[finer] % window.every_ms - hop * window.every_ms
        number = places(starts, begin)
        at = places(keys, story[finer] * len(starts) + number)
        inside = start[finer] + size[finer] <= begin + window.size_ms
        holds = (number >= 0) & (at >= 0) & inside & (found < 0)
        found[holds] = coarse[first[at[holds]]]
    return found


def _folded(findings: pa.Table, into: Integers, size: Integers) -> pa.Table:
    first_seen = integers(findings, "first_seen_ms").copy()
    labels = np.asarray(findings["window"].to_pylist(), object)
    first_label = np.asarray(findings["first_seen_window"].to_pylist(), object)
    gone = np.flatnonzero(into >= 0)
    gone = gone[np.argsort(-size[gone], kind="stable")]
    untold = findings["first_seen_window"].is_null().to_numpy()[gone]
    told = np.where(untold, labels[gone], first_label[gone])
    first_label[into[gone]] = told  # the finest comes last, and stays
    np.minimum.at(first_seen, into[gone], first_seen[gone])
    folded = with_column(findings, "first_seen_ms", pa.array(first_seen))
    folded = with_column(folded, "first_seen_window", pa.array(first_label, pa.string()))
    return folded.filter(pa.array(into < 0))


def with_other_levels(findings: pa.Table, levels: Mapping[Window, pa.Table]) -> pa.Table:
    """Return the findings with what the other levels of the cascade counted at that time.

    Of a coarser level it is the window that the finding lies in, of a finer one the busiest window
    inside. A count that is not there (not kept, or not told) is left out, as it is unknown, and so
    are sessions around others' findings. Of its own level it is the finding's own window, whose
    count is the final one: it may have grown since it last crossed the line. The ``levels`` are
    counts by kind of window, as :func:`find_in_windows` takes them.
    """
    if not levels or not findings.num_rows:
        return findings
    for window, table in levels.items():
        if isinstance(window, Session) and table.num_rows:
            findings = findings.filter(pa.array(~_is_no_more(findings, window, table)))
    columns = (_at_level(findings, table, _span(findings, w)) for w, table in levels.items())
    counts, known = (np.stack(each, axis=1) for each in zip(*columns, strict=True))
    labels = np.asarray([window.label for window in levels], object)
    own = np.asarray(findings["window"].to_pylist(), object)[:, None] == labels
    told = np.maximum(integers(findings, "count"), np.max(np.where(own & known, counts, 0), axis=1))
    known &= ~own
    offsets = np.concatenate([[0], np.cumsum(known.sum(axis=1))]).astype(np.int32)
    keys = pa.array(np.broadcast_to(labels, known.shape)[known], pa.string())
    other = pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array(counts[known]))
    return with_column(with_column(findings, "count", pa.array(told)), "other_levels", other)


def _is_no_more(findings: pa.Table, level: Session, counts: pa.Table) -> Flags:
    """Return which findings are of sessions that are parts of one that began before, by now."""
    ends = counts.set_column(counts.schema.get_field_index("count"), "count", counts["end_ms"])
    start, own = integers(findings, "window_start_ms"), pc.equal(findings["window"], level.label)
    began = (start - level.longest_ms, start - 1)
    reach, known = _at_level(findings, ends, began)
    return np.asarray(known & np.asarray(own) & (reach >= np.asarray(ends_ms(findings))))


def _at_level(
    findings: pa.Table, counts: pa.Table, span: tuple[Integers, Integers]
) -> tuple[Integers, Flags]:
    """Return the highest count of a level in a span of starts, and whether it is known."""
    users, _ = encoded(findings["user"])
    actions, _ = encoded(findings["action"])
    pair, cell = (
        codes_in(table["user"], users) * (len(actions) + 1) + codes_in(table["action"], actions)
        for table in (findings, counts)
    )
    mine = np.isin(cell, np.unique(pair))
    start, count = (integers(counts, name)[mine] for name in ("window_start_ms", "count"))
    starts = np.unique(start)
    key = cell[mine] * (len(starts) + 1) + places(starts, start)
    order = np.argsort(key)
    first, last = span
    base = pair * (len(starts) + 1)
    begin = np.searchsorted(key[order], base + np.searchsorted(starts, first))
    end = np.searchsorted(key[order], base + np.searchsorted(starts, last, side="right"))
    known = begin < end
    if not len(key):
        return np.zeros(len(pair), np.int64), np.zeros(len(pair), bool)
    bounds = np.column_stack([begin, np.maximum(end, begin + 1)]).ravel()
    highest = np.maximum.reduceat(np.append(count[order], [0, 0]), bounds)[::2]
    return highest, known


def _span(findings: pa.Table, level: Window) -> tuple[Integers, Integers]:
    """Return the first and the last start that a window of this level may have."""
    start = integers(findings, "window_start_ms")
    if isinstance(level, Session):
        own = np.where(pc.equal(findings["window"], level.label), start, _NEVER_MS)
        return own, own
    size = np.asarray(ends_ms(findings), np.int64) - start
    around = start - start % level.every_ms
    finer = size > level.size_ms
    return np.where(finer, start, around), np.where(finer, start + size - level.size_ms, around)


def numbered(findings: pa.Table, *names: str) -> Integers:
    """Return one number for all rows with the same texts in these columns, from 0 on."""
    story = np.zeros(findings.num_rows, np.int64)
    for name in names:
        texts, codes = encoded(pc.fill_null(findings[name], ""))
        story = np.unique(story * (len(texts) + 1) + codes, return_inverse=True)[1]
    return story


def find_in_windows(levels: Mapping[Any, pa.Table], rules: Sequence[Rule]) -> Findings:
    """Return what the rules find in complete counts, each story once.

    ``levels`` are, for each kind of window (a :class:`~kstoolkit.windows.Window`, its label or its
    length), its counts: ``window_start_ms`` (int64), ``user``, ``action`` (text or dictionary) and
    ``count``, each (window, user, action) once, in any order. If a rule looks at a window that is
    not among them, or at items, it is a ConfigurationError.

    >>> from kstoolkit.findings.rules import Ceiling
    >>> hours = pa.table(
    ...     {"window_start_ms": [0, 0], "user": ["a", "b"], "action": ["x", "x"], "count": [9, 2]}
    ... )
    >>> find_in_windows({"1 hour": hours}, [Ceiling("1 hour", 5)])
    Findings(1 about 1 user: 1 Ceiling)
    """
    counts = {as_window(window): table for window, table in levels.items()}
    check_windows(rules, counts)
    parts = next((parts_in(table.schema) for table in counts.values()), None)
    found, unjudged = judged_in_windows(counts, rules, parts)
    return Findings(of_actions(with_levels(fold_stories(found), counts), parts, unjudged))


def judged_in_windows(
    counts: Mapping[Window, pa.Table], rules: Sequence[Rule], parts: Sequence[str] | None
) -> tuple[pa.Table, int]:
    """Return what rules find in complete counts, each window; and how many can't be judged."""
    for rule in rules:
        if isinstance(rule, Distinct):
            message = f"The rule {rule.name!r} looks at items, and counts have none."
            raise ConfigurationError(message, hint="Give it to the run that counts the events.")
    rules = of_parts(rules, ("action",) if parts is None else parts)
    found = [
        _found(window, by_parts(table, by), rules, by)
        for window, table in counts.items()
        for by in bys_on(rules, window)
    ]
    return merge_findings([table for table, _ in found]), sum(number for _, number in found)


def by_parts(counts: pa.Table, by: By) -> pa.Table:
    """Return the sums of counts over all actions with the same values of some parts.

    >>> hours = {"window_start_ms": [0, 0], "user": ["a", "a"], "action": ["x", "y"]}
    >>> by_parts(pa.table(hours | {"count": [3, 4]}), ())["count"].to_pylist()
    [7]
    """
    if by is None:
        return counts
    told = parts_in(counts.schema)
    actions = counts["action"].combine_chunks().dictionary_encode()
    names = ("action",) if told is None else told
    texts = chosen(actions.dictionary, names, by).cast(pa.string()).take(actions.indices)
    key = ["window_start_ms", "user", "action"]
    at = counts.schema.get_field_index("action")
    how = {"count": "sum"} | ({"end_ms": "max"} if "end_ms" in counts.column_names else {})
    summed = counts.set_column(at, "action", texts).select([*key, *how])
    summed = summed.group_by(key, use_threads=False).aggregate(list(how.items()))
    summed = summed.rename_columns([*key, *how])
    return summed.cast(with_parts(summed.schema, by))


def with_levels(findings: pa.Table, levels: Mapping[Window, pa.Table]) -> pa.Table:
    """Return :func:`with_other_levels` of findings by whatever parts of an action."""
    whole = next((parts_in(table.schema) for table in levels.values()), None)
    of_items = pc.equal(findings["kind"], DISTINCT)  # of which nothing is kept
    found, findings = [findings.filter(of_items)], findings.filter(pc.invert(of_items))
    for told in findings["by"].unique().to_pylist():
        by = None if told is None else tuple(json.loads(told))
        same = findings["by"].is_null() if told is None else pc.equal(findings["by"], told)
        view = None if by == whole else by
        counted = {window: by_parts(table, view) for window, table in levels.items()}
        found.append(with_other_levels(findings.filter(same), counted))
    return pa.concat_tables(found).sort_by([(name, "ascending") for name in _ORDER])


def _found(window: Window, counts: pa.Table, rules: Sequence[Rule], by: By) -> tuple[pa.Table, int]:
    """Return what is found in counts of one kind of window, and how many can't be judged."""
    began = counts["window_start_ms"]
    if isinstance(window, Session):  # no two of a cell begin in one gap
        slots = pa.array(began.to_numpy() // window.every_ms * window.every_ms)
        counts = counts.append_column("began_ms", began).set_column(0, "window_start_ms", slots)
    on, users = rules_on(rules, window, by), counts["user"].cast(pa.string())
    if not on.need_baseline:
        return score(counts, None, on).findings, 0
    counts = counts.filter(pc.invert(exempted(on.exempts, users, began, of=on.looking)))
    baselines = Baselines.empty(window.size_ms, window.every_ms, on.watch)
    closed = baselines.close(counts, _FOREVER_MS, on.floor)
    everyone = Everyone(window.every_ms)
    everyone.add([closed.moments], [closed.facts], [closed.lasting], [closed.newcomers])
    material = closed.material.replace_schema_metadata(counts.schema.metadata)
    scored = score(material, everyone.brief(_FOREVER_MS), on)
    told = everyone.watched(on, _FOREVER_MS, parts=parts_in(counts.schema))
    found = pa.concat_tables([scored.findings, everyone.judge([scored, *told], _FOREVER_MS)])
    return found, scored.unjudged
