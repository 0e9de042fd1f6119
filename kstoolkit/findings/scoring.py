"""Rules over the counts of one kind of window: columns in, findings out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.findings.peers import integers
from kstoolkit.findings.rules import (
    Ceiling,
    Longer,
    Unusual,
    exempted,
    material_floor,
    rules_on,
)
from kstoolkit.findings.tails import Prior
from kstoolkit.formats.actions import parts_in, split
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.findings.peers import Integers
    from kstoolkit.findings.rules import By, Looking, Rule
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window


_DAY_MS = 86_400_000


def score(
    material: pa.Table,
    moments: pa.Table | None,
    rules: Sequence[Rule],
    window: Duration | Window,
    *,
    by: By = None,
    seen_ms: int | None = None,
) -> pa.Table:
    """Return the findings among some counts of one kind of window.

    Parameters
    ----------
    material
        ``window_start_ms``, ``user``, ``action``, ``count``; and, for rules that need a baseline,
        ``n`` and ``sum`` of the cell's other windows; of sessions, their ``end_ms``, too. Of
        actions of several parts, the schema's metadata names them.
    moments
        What peers do, of :data:`~kstoolkit.findings.peers.MOMENTS_SCHEMA`, all buckets pooled. A
        window is scored with the newest moments by its start; without any there are no findings
        but those of ceilings.
    rules
        All rules; those on other windows are passed over.
    window
        Which kind of window this is.
    by
        By which parts of an action the counts are sums; other rules are passed over.
    seen_ms
        When this is looked at, epoch ms UTC: the batch's time, the same again in a replay. By
        default the end of each window.

    Returns
    -------
    pyarrow.Table
        Of :data:`~kstoolkit.findings.finding.FINDINGS_SCHEMA`.

    Examples
    --------
    >>> counts = {"window_start_ms": [0, 0], "user": ["a", "b"], "action": ["x", "x"]}
    >>> material = pa.table(counts | {"count": [3, 101]})
    >>> score(material, None, [Ceiling("1 minute", 100)], "1 minute")["user"].to_pylist()
    ['b']
    """
    kind = as_window(window)
    floor = material_floor(rules, kind, by)
    if floor is None:
        return FINDINGS_SCHEMA.empty_table()
    large = material.filter(pc.greater_equal(material["count"], floor))
    large = large.filter(pc.invert(exempted(rules, large["user"].cast(pa.string()))))
    evidence = _Evidence(large, moments)
    found = [_found(rule, large, evidence, seen_ms) for rule in rules_on(rules, kind, by)]
    return pa.concat_tables(found)


class _Evidence:
    """What is to be expected of each row; NaN where nothing is known."""

    def __init__(self, rows: pa.Table, moments: pa.Table | None) -> None:
        self.count = integers(rows, "count")
        self.known = moments is not None and moments.num_rows > 0 and "n" in rows.column_names
        if moments is None or not self.known:
            return
        self.n = integers(rows, "n")
        self.prior = Prior.at(moments, rows["window_start_ms"].to_numpy(), rows["action"])
        self.expected = self.prior.expect(self.n, np.asarray(rows["sum"].to_numpy(), np.float64))

    def having(self, least: int) -> Integers:
        """Return the rows with at least this count of which something is expected."""
        if not self.known:
            return np.empty(0, np.int64)
        return np.flatnonzero((self.count >= least) & ~np.isnan(self.expected.mean))

    def columns(self, rows: Integers) -> dict[str, pa.Array]:
        """Return the expected range of some rows and what it rests on; null where unknown."""
        known = np.isin(rows, self.having(0))
        columns = np.zeros((len(_EVIDENCE), len(rows)), np.int64)
        if np.any(known):
            told = rows[known]
            columns[:2, known] = self.expected.take(told).interval()
            columns[2:, known] = self.n[told], self.prior.peers[told]
        return {
            name: pa.array(column, mask=~known)
            for name, column in zip(_EVIDENCE, columns, strict=True)
        }


_EVIDENCE = ("expected_low", "expected_high", "baseline_windows", "peers")


def _found(rule: Looking, rows: pa.Table, evidence: _Evidence, seen_ms: int | None) -> pa.Table:
    own: dict[str, pa.Array] = {}
    if isinstance(rule, Ceiling):
        chosen, own = _above(rule, rows, evidence)
    elif isinstance(rule, Unusual):
        chosen, own = _improbable(rule, evidence)
    else:
        chosen = _lasting(rule, rows)
    picked = rows.take(pa.array(chosen))
    parts = parts_in(rows.schema)
    same: dict[str, object] = {"rule": rule.name, "kind": type(rule).__name__}
    same |= {} if parts is None else {"by": json.dumps(list(parts))}
    same |= {"window": rule.window.label, "window_ms": rule.window.size_ms}
    ends = pc.add(picked["window_start_ms"], rule.window.size_ms)
    if "end_ms" in rows.column_names:
        ends = own["session_end_ms"] = picked["end_ms"]
    seen = ends if seen_ms is None else pa.repeat(seen_ms, len(chosen))
    given = {name: picked[name] for name in ("user", "action", "window_start_ms", "count")}
    columns = given | {"first_seen_ms": seen} | evidence.columns(chosen) | own
    return pa.table(
        [_column(field, columns, same, len(chosen)) for field in FINDINGS_SCHEMA],
        schema=FINDINGS_SCHEMA,
    )


def _column(
    field: pa.Field, columns: dict[str, pa.Array], same: dict[str, object], length: int
) -> pa.Array:
    if field.name in columns:
        return columns[field.name].cast(field.type)
    if field.name in same:
        return pa.repeat(pa.scalar(same[field.name], field.type), length)
    return pa.nulls(length, field.type)


def _above(
    rule: Ceiling, rows: pa.Table, evidence: _Evidence
) -> tuple[Integers, dict[str, pa.Array]]:
    """Return the rows above the ceiling, and the ceiling as a column."""
    above = evidence.count > rule.count
    if rule.actions is not None:
        parts, texts = parts_in(rows.schema), rows["action"].cast(pa.string()).combine_chunks()
        told = texts if parts is None else split(texts, len(parts))[0]
        above &= np.asarray(pc.is_in(told, value_set=pa.array(rule.actions)))
    chosen = np.flatnonzero(above)
    return chosen, {"ceiling": pa.array(np.full(len(chosen), rule.count))}


def _lasting(rule: Longer, rows: pa.Table) -> Integers:
    """Return the sessions that last longer than they may."""
    return np.flatnonzero(
        integers(rows, "end_ms") - integers(rows, "window_start_ms") > rule.duration_ms
    )


def _improbable(rule: Unusual, evidence: _Evidence) -> tuple[Integers, dict[str, pa.Array]]:
    """Return the rows that the budget of false alarms lets through, and their probability.

    With N tests a day, flagging where p · N does not exceed the budget expects no more false
    alarms than that, if p is calibrated (Bonferroni). As many sessions as have room in a day are
    more than there are.
    """
    chosen = evidence.having(rule.min_count)
    log_p = np.empty(0)
    if len(chosen):
        tests = evidence.prior.tests[chosen] * (_DAY_MS / rule.window.every_ms)
        limit = np.log(rule.false_alarms_per_day) - np.log(np.maximum(tests, 1))
        expected = evidence.expected.take(chosen)
        chosen = chosen[expected.is_rarer(evidence.count[chosen], limit)]
        log_p = evidence.expected.take(chosen).log_tail(evidence.count[chosen])
    return chosen, {"log10_probability": pa.array(log_p / np.log(10))}
