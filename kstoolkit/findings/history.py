"""The same rules over counts that are complete: no stream, nothing counted again."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
from kstoolkit.findings.rules import check_windows, needs_baseline
from kstoolkit.findings.scoring import score
from kstoolkit.findings.stories import fold_stories, merge_findings, with_other_levels
from kstoolkit.findings.walk import REPORTS_PER_CALL
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kstoolkit.findings.rules import Rule
    from kstoolkit.windows import Window


def find_in_windows(levels: Mapping[Any, pa.Table], rules: Sequence[Rule]) -> Findings:
    """Return what the rules find in complete counts, each story once.

    Parameters
    ----------
    levels
        For each kind of window (a :class:`~kstoolkit.windows.Window`, its label or its length) its
        counts: ``window_start_ms`` (int64), ``user``, ``action`` (text or dictionary) and
        ``count``, each (window, user, action) once, in any order.
    rules
        What to look for.

    Raises
    ------
    ConfigurationError
        If a rule looks at a window that is not among the levels.

    Examples
    --------
    >>> from kstoolkit.findings.rules import Ceiling
    >>> hours = pa.table(
    ...     {"window_start_ms": [0, 0], "user": ["a", "b"], "action": ["x", "x"], "count": [9, 2]}
    ... )
    >>> find_in_windows({"1 hour": hours}, [Ceiling("1 hour", 5)])
    Findings(1 about 1 user: 1 Ceiling)
    """
    counts = {as_window(window): table for window, table in levels.items()}
    check_windows(rules, counts)
    found = [_found(window, table, rules) for window, table in counts.items()]
    folded = fold_stories(merge_findings(found))
    return Findings(with_other_levels(folded, counts))


def _found(window: Window, counts: pa.Table, rules: Sequence[Rule]) -> pa.Table:
    if not needs_baseline(rules, window):
        return score(counts, None, rules, window)
    baselines = Baselines.empty(window.size_ms, window.every_ms)
    found = [FINDINGS_SCHEMA.empty_table()]
    for some in _in_order(counts):
        seen = baselines.observe(some)
        found.append(score(seen.material, seen.moments, rules, window))
    return pa.concat_tables(found)


def _in_order(counts: pa.Table) -> Iterator[pa.Table]:
    """Yield the changes of a few windows at a time: as many as get peers' moments of their own."""
    start = counts["window_start_ms"].to_numpy()
    order = np.argsort(start, kind="stable")
    changes = counts.append_column("old", pa.array(np.zeros(len(start), np.int64)))
    firsts = np.unique(start)[::REPORTS_PER_CALL]
    ends = np.append(np.searchsorted(start[order], firsts), len(start))
    for begin, end in pairwise(ends):
        yield changes.take(pa.array(order[begin:end]))
