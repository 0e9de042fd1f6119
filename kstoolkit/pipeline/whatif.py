"""What rules find in counts that are there, and what others would have told: nothing is counted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.finding import LONGER, ends_ms
from kstoolkit.findings.incidents import GAP, frame_of, incidents_of, unmerged
from kstoolkit.findings.peers import integers
from kstoolkit.findings.rulefiles import load_rules, rules_from_json
from kstoolkit.findings.rules import (
    DEFAULT_RULES,
    Ceiling,
    Learning,
    as_rules,
    check_windows,
    of_parts,
    windowed,
)
from kstoolkit.findings.stories import find_in_windows, judged_in_windows
from kstoolkit.moments import moment_ms, moment_text
from kstoolkit.pipeline.batches import told_after
from kstoolkit.pipeline.run import Run, load_run
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.records import Viewed, counted
from kstoolkit.units import format_span
from kstoolkit.windows import as_window, length_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from kstoolkit.findings.finding import Findings
    from kstoolkit.findings.incidents import Incidents
    from kstoolkit.findings.peers import Integers
    from kstoolkit.findings.rules import Rule
    from kstoolkit.moments import Moment
    from kstoolkit.pipeline.runfolder import Settings
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window

_DAY_MS = 86_400_000


def find(
    path: str | os.PathLike[str] | Run, rules: Rule | Sequence[Rule] = DEFAULT_RULES
) -> Findings:
    """Return what the rules find in a changelog, each story once.

    Parameters
    ----------
    path
        A changelog folder, the run folder that it lies in, or the run.
    rules
        What to look for: a rule, or several.

    Raises
    ------
    InputError
        If there is no changelog.
    ConfigurationError
        If the changelog lacks all or part of a rule's window: what ``min_count`` left out isn't 0.
    """
    where = Path(path if isinstance(path, str | os.PathLike) else path.folder.path)
    changelog, rules = Changelog.open(where), as_rules(rules)
    folder = RunFolder(changelog.path.parent)
    settings = folder.settings()
    counted = () if settings is None else settings.cascade.levels
    if settings is not None:
        check_counted(rules, folder, settings)
    kinds = {rule.window.size_ms: rule.window for rule in windowed(rules)}
    kinds |= {window.size_ms: window for window in counted}
    levels: dict[Window | Duration, pa.Table] = {
        kinds.get(each, as_window(length_label(each))): changelog.counters(each).to_table()
        for each in changelog.window_lengths_ms()
    }
    return find_in_windows(levels, rules)


def check_counted(rules: Sequence[Rule], folder: RunFolder, settings: Settings) -> None:
    """Raise a ConfigurationError unless a run kept all counts that the rules need."""
    check_windows(rules, settings.cascade.levels)
    least = dict(zip(settings.windows, settings.min_count, strict=False))
    earlier = told_after(folder, columns=("left_out",)).sums("left_out")
    for rule in windowed(rules):
        below, label = least.get(rule.window.label, 1), rule.window.label
        may = rule.count + 1 if isinstance(rule, Ceiling) and rule.by is None else 1
        if below > may or (below == 1 and earlier.get(label, 0)):
            which = f"those below {below}" if below > 1 else "some in an earlier run"
            message = f"The rule {rule.name!r} needs all counts of {label}, and min_count left "
            message += f"out {which}."
            hint = "What was found while it was counted is in its findings, which saw all of them."
            raise ConfigurationError(message, hint=hint)


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(Viewed):
    """What other rules would have told, beside what was told.

    Parameters
    ----------
    since_ms, until_ms
        From when until when counts were judged, epoch ms UTC.
    before, after
        Incidents of the rules that ran, and of the others; none that was merged into another.
    gained, lost, kept
        Those ``after`` that touch none ``before`` of the same user or campaign, those ``before``
        that touch none ``after``, and the others ``after``.
    figures
        Of the rules that ran, and of the others: ``users``, ``incidents``, ``findings`` (a window
        each) and ``learnt`` (those of rules that learn what is usual), the last three also with
        ``_a_day``; and ``budget``, of false alarms a day by rules that learn.
    """

    since_ms: int
    until_ms: int
    before: Incidents
    after: Incidents
    gained: Incidents
    lost: Incidents
    kept: Incidents
    figures: dict[str, tuple[float, float]]

    @property
    def days(self) -> float:
        """How many days were judged."""
        return (self.until_ms - self.since_ms) / _DAY_MS

    @property
    def users(self) -> dict[str, list[str]]:
        """Who is ``gained`` and ``lost``: has incidents by the other rules alone, or by none."""
        was, now = _users(self.before), _users(self.after)
        return {"gained": sorted(now - was), "lost": sorted(was - now)}

    @property
    def seen(self) -> str:
        """How many incidents there are, and how many are gained and lost."""
        told = f"{counted(len(self.after), 'incidents')} instead of {len(self.before):,}"
        return f"{told}: {len(self.gained):,} gained, {len(self.lost):,} lost"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, as ``--json`` prints them; of those kept, how many."""
        told = {name: getattr(self, name) for name in ("since_ms", "until_ms", "days")}
        told |= {n: {"before": was, "after": now} for n, (was, now) in self.figures.items()}
        told |= {f"users_{change}": names for change, names in self.users.items()}
        changed = {name: list(getattr(self, name).to_dicts()) for name in ("gained", "lost")}
        return told | {"kept": len(self.kept)} | changed

    def to_pandas(self) -> pd.DataFrame:
        """Return one row an incident: its ``change``, and the columns of incidents."""
        names = ("gained", "lost", "kept")
        rows = ({"change": n, **row} for n in names for row in getattr(self, n).to_dicts())
        return frame_of(rows, "change")

    def __str__(self) -> str:
        """Return it in three lines."""
        names = ("incidents_a_day", "learnt_a_day", "budget")
        (was, now), (usual, learnt), (allowed, budget) = (self.figures[name] for name in names)
        more, fewer = map(len, self.users.values())
        over = f"{self.days:,.2f} days" if self.days >= 1 else format_span(self.days * 86_400)
        return (
            f"{self.seen}, {len(self.kept):,} kept; {counted(more, 'users')} gained, {fewer:,} lost"
            f".\nIncidents a day: {now:,.2f} instead of {was:,.2f}, over {over}.\n"
            f"Findings a day of rules that learn: {learnt:,.2f} instead of {usual:,.2f}; their "
            f"budget is {budget:g} instead of {allowed:g}."
        )

    def __repr__(self) -> str:
        return f"WhatIf({self.seen})"

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())
        gained, lost = self.gained._repr_html_(), self.lost._repr_html_()
        return f"{said}<p>Gained:</p>{gained}<p>Lost:</p>{lost}"


def what_if(
    run: str | os.PathLike[str] | Run,
    rules: str | os.PathLike[str] | Rule | Sequence[Rule],
    *,
    since: Moment | None = None,
    gap: Duration = GAP,
) -> WhatIf:
    """Return which incidents other rules would have told of a run, against those that were told.

    Nothing is counted again. A run with an end tells the same by these rules, under the same ids if
    it takes one batch; who is marked as known by now is exempt. A live run judges as time goes:
    what came too late for that is judged here, and what waits for its flush is not.

    Parameters
    ----------
    run, rules
        The run, or its folder; and what to look for instead, or the path of a TOML file of that.
    since
        Only incidents that end later; what is usual is learnt from earlier counts too.
    gap
        Within how much time findings are one incident, and incidents of both are the same.

    Raises
    ------
    InputError
        If there is no run.
    ConfigurationError
        If a rule looks at what was not counted, at items, or at counts of which ``min_count`` left
        some out; or if nothing was counted after ``since``.
    ColumnError
        If a rule is by a part that actions have not.
    """
    run = run if isinstance(run, Run) else load_run(run)
    if isinstance(rules, str | os.PathLike):
        rules = load_rules(os.fspath(rules))
    settings, given = run.settings, (*as_rules(rules), *run.marks.exempts())
    check_counted(given, run.folder, settings)
    ran, new = (of_parts(r, settings.named) for r in (rules_from_json(settings.rules), given))
    changelog, batches = run.changelog, told_after(run.folder, columns=("batch_ms",))
    begin_ms, end_ms = _span(changelog, settings, (*ran, *new))
    if batches and (reached_ms := batches[-1].reached_ms) is not None:
        end_ms = reached_ms + 1
    since_ms = begin_ms if since is None else max(begin_ms, moment_ms(since))
    if since_ms >= end_ms or not batches:  # a live one may have begun just now
        message = f"Nothing was counted after {moment_text(since_ms)}: there is nothing to judge."
        raise ConfigurationError(message, hint="Give an earlier since, or none.")
    found = _as_told(_judged(changelog, new, settings), integers(batches.table, "batch_ms"))
    now: dict[str, Any] = {"reached_ms": end_ms - 1, "clock_ms": batches[-1].batch_ms}
    told = run.complete(incidents_of([found], gap=gap, parts=settings.parts, **now))
    later_ms = since_ms - (since_ms == begin_ms)  # a session of one moment ends as it begins
    both = [unmerged(each) for each in (run.incidents(gap), told)]
    is_same = [each.touching(other, gap) for each, other in (both, both[::-1])]
    later = [integers(each.table, "until_ms") > later_ms for each in both]
    before, after = (each.where(some) for each, some in zip(both, later, strict=True))
    lost, gained = (e.where(some & ~n) for e, some, n in zip(both, later, is_same, strict=True))
    days, kept = (end_ms - since_ms) / _DAY_MS, both[1].where(later[1] & is_same[1])
    was, other = (_figures(*each, later_ms, days) for each in ((before, ran), (after, new)))
    figures = {name: (number, other[name]) for name, number in was.items()}
    return WhatIf(since_ms, end_ms, before, after, gained, lost, kept, figures)


def _span(changelog: Changelog, settings: Settings, rules: Sequence[Rule]) -> tuple[int, int]:
    """Return from when until when there are counts of all windows that rules look at."""
    spans = {w.label: changelog.span_ms(w.size_ms) for w in settings.cascade.levels}
    known = {label: span for label, span in spans.items() if span}
    cut = {label for label, n in zip(settings.windows, settings.min_count, strict=False) if n > 1}
    whole = {rule.window.label for rule in windowed(rules)} & known.keys() - cut
    first = min((each for each, _ in known.values()), default=0)
    begin_ms = max((known[label][0] for label in whole), default=first)  # others may have expired
    return begin_ms, max((each + 1 for _, each in known.values()), default=0)


def _judged(changelog: Changelog, rules: Sequence[Rule], settings: Settings) -> pa.Table:
    """Return what rules find in the windows that they look at."""
    looked = {rule.window for rule in windowed(rules)}
    counters = {window: changelog.counters(window.size_ms) for window in looked}
    counts = {window: each.to_table() for window, each in counters.items() if len(each)}
    return judged_in_windows(counts, rules, settings.parts)[0]


def _as_told(found: pa.Table, clocks_ms: Integers) -> pa.Table:
    """Return findings as told by the first batch whose clock was past their window."""
    clocks_ms = np.maximum.accumulate(clocks_ms)
    batch = np.searchsorted(clocks_ms[:-1], np.asarray(ends_ms(found), np.int64))
    at = found.schema.get_field_index("first_seen_ms")
    told = found.set_column(at, found.schema.field(at), pa.array(clocks_ms[batch]))
    return told.append_column("batch", pa.array(batch)).sort_by("batch")


def _figures(
    told: Incidents, rules: Sequence[Rule], later_ms: int, days: float
) -> dict[str, float]:
    """Return how much rules tell; of findings, those whose windows end later."""
    table, edges = told.evidence.table, np.zeros(len(told.evidence) + 1, np.int64)
    edges[integers(told.table, "first")] += 1
    edges[integers(told.table, "last")] -= 1
    is_told = (np.cumsum(edges)[:-1] > 0) & (np.asarray(ends_ms(table), np.int64) > later_ms)
    kinds = table["kind"].filter(pa.array(is_told)).to_pylist()
    learnt = sum(kind not in {Ceiling.__name__, LONGER} for kind in kinds)
    numbers = {"incidents": len(told), "findings": len(kinds), "learnt": learnt}
    a_day = {f"{name}_a_day": number / days for name, number in numbers.items()}
    budget = sum(each.false_alarms_per_day or 0 for each in rules if isinstance(each, Learning))
    return {**numbers, "users": len(_users(told)), **a_day, "budget": budget}


def _users(told: Incidents) -> set[str]:
    return {*told.table["user"].drop_null().unique().to_pylist()}
