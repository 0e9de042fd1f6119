"""From a run to its report: what a stranger should see first, as the report's plain records.

Findings come as :meth:`~kstoolkit.findings.finding.Findings.top` orders them: the best of each
kind of rule in turn, ceilings by how many times over they are exceeded, others by how improbable
the count is. Of a user's action, each kind of rule tells the most abnormal window alone; the other
ones are marked in its plot and counted beside its sentence.

This module joins the pipeline to the report, which brings the plots along: nobody imports it
before a report is asked for.

Where a report comes from: what took part, what makes it again, and the time that it covers.

Which of a run's dead letters a report shows: one of each reason first, ten at most.
"""

from __future__ import annotations

import platform
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import version
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from kstoolkit.events.event import REASONS
from kstoolkit.findings.rules import DEFAULT_RULES, rules_from_json
from kstoolkit.pipeline.run import LevelCounts, iter_dead_letters
from kstoolkit.report.runs import (
    DeadLetters,
    DeadLetterSample,
    Origin,
    ReportContent,
    ReportFinding,
    ReportUser,
    report_finding,
)
from kstoolkit.report.tables import quoted_path, shown_path
from kstoolkit.units import format_count
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from kstoolkit.findings.finding import Finding, Findings
    from kstoolkit.pipeline.batches import RunSummary
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import Settings
    from kstoolkit.windows import Window


_FRAMES = {"frame", "staged"}


def _origin_of(run: Run) -> Origin:
    """Return where a run's report comes from, with the time that its counts cover.

    The time goes from the start of the first window to the end of the last one, of the shortest
    windows that there are.
    """
    settings = run.settings
    finest = min(settings.cascade.windows, key=lambda window: window.size_ms)
    span = run.changelog.span_ms(finest.size_ms)
    first_ms, last_ms = span or (None, None)
    return Origin(
        generated_at=datetime.now(UTC),
        versions=_versions(settings),
        command=_command_of(settings, run.folder.path),
        first_event_ms=first_ms,
        last_event_ms=None if last_ms is None else last_ms + finest.size_ms,
    )


def _from_files(settings: Settings) -> bool:
    """Return whether the events came from files, rather than from a DataFrame."""
    return settings.feed not in _FRAMES


def _command_of(settings: Settings, out: Path) -> str | None:
    """Return what makes a run and its report again; ``None`` for one on a DataFrame.

    Rules other than the default ones are in a file of the user's; the command can but name one.
    """
    if not _from_files(settings):
        return None
    columns = settings.columns
    options = {
        "--event-time": columns["event_time"],
        "--user": columns["user"],
        "--action": columns["action"],
        "--windows": ",".join(settings.windows),
        "--buckets": str(settings.buckets),
    }
    least = set(settings.min_count)
    if len(least) == 1 and least != {1}:
        options["--min-count"] = str(*least)
    own_rules = rules_from_json(settings.rules) != DEFAULT_RULES
    if own_rules:
        options["--rules"] = "rules.toml"
    words = [f"{name} {shlex.quote(value)}" for name, value in options.items()]
    if settings.time == "processing":
        words.append("--processing-time")
    folder = quoted_path(out)
    run = f"kstoolkit run {quoted_path(Path(settings.source))} {' '.join(words)} --out {folder}"
    note = "  # rules.toml: the rules named above" if own_rules else ""
    return f"{run} && kstoolkit report {folder}{note}"


def _versions(settings: Settings) -> list[tuple[str, str]]:
    mine = version("kstoolkit")
    if settings.written_by != mine:
        mine = f"{mine} (the run: {settings.written_by})"
    return [
        ("kstoolkit", mine),
        ("PySpark", version("pyspark")),
        ("Python", platform.python_version()),
    ]


_SAMPLES = 10


def _reported_letters(out: Path, counted: Mapping[str, int]) -> DeadLetters:
    """Return how many dead letters there are of each reason, and some of them.

    Parameters
    ----------
    out
        The run's folder.
    counted
        How many there are by reason code.
    """
    counts = dict(sorted(counted.items(), key=lambda each: (-each[1], each[0])))
    return DeadLetters(
        counts=[(f"{name}: {REASONS.get(name, name)}", count) for name, count in counts.items()],
        samples=_samples(out, counts),
    )


def _samples(out: Path, counts: Mapping[str, int]) -> list[DeadLetterSample]:
    """Return some dead letters; of millions, no more are read than it takes to find these."""
    held: dict[str, list[DeadLetterSample]] = {reason: [] for reason in counts}
    for number, letters in iter_dead_letters(out):
        for reason in letters["reason"].unique().to_pylist():
            room = _SAMPLES - len(held.setdefault(reason, []))
            first = letters.filter(pc.equal(letters["reason"], reason)).slice(0, room)
            held[reason] += [_sample(row, number) for row in first.to_pylist()]
        if all(len(held[reason]) >= min(counts[reason], _SAMPLES) for reason in counts):
            break
    in_turn = chain.from_iterable(zip_longest(*held.values()))
    return [sample for sample in in_turn if sample is not None][:_SAMPLES]


def _sample(row: Mapping[str, str | None], number: int) -> DeadLetterSample:
    file, detail = row["file"], row["detail"]
    return DeadLetterSample(
        reason=f"{row['reason']}: {detail}" if detail else str(row["reason"]),
        raw=row["raw"] or "",
        file=None if file is None else shown_path(file),
        batch=number,
    )


SHOWN = 20
"""Findings and users in a report: what one person looks at in one sitting."""

_STORY = ("kind", "user", "action", "window")


def report_of(run: Run, *, top: int = SHOWN) -> ReportContent:
    """Return what a report says of a run.

    Parameters
    ----------
    run
        The run; a live one is reported as far as it is.
    top
        How many findings and users to describe; the report says how many there are.

    Raises
    ------
    FormatError
        If a file of the run is damaged.
    """
    settings, summary = run.settings, run.summary()
    findings, users = run.findings, run.users()
    return ReportContent(
        title=_title(settings),
        summary=_summary_rows(settings, summary),
        findings=_report_findings(run, settings, findings, top),
        num_findings=len(findings),
        users=_users(users.head(top)),
        num_users=len(users),
        dead_letters=_reported_letters(run.folder.path, summary.dead_letters),
        origin=_origin_of(run),
    )


def _title(settings: Settings) -> str:
    source = f" in {Path(settings.source).name}" if _from_files(settings) else ""
    return f"Abnormal users{source}"


def _summary_rows(settings: Settings, summary: RunSummary) -> list[tuple[str, str]]:
    """Return the summary's rows, with what was looked for, and without what the page says itself.

    The page lists each finding once, where the summary counts each time that it was reported; and
    it has a section for dead letters.
    """
    rules = "; ".join(rule.name for rule in rules_from_json(settings.rules)) or "none"
    (events, *rest) = [
        (what, figure)
        for what, figure in summary.rows()
        if what != "findings reported" and not what.startswith("dead letters")
    ]
    return [events, ("windows", ", ".join(settings.windows)), ("rules", rules), *rest]


@dataclass(frozen=True, slots=True)
class _Level:
    """The counts of one kind of window, of the users found there."""

    window: Window
    counts: pa.Table
    min_count: int

    def series(self, finding: Finding, flagged_ms: NDArray[np.int64]) -> LevelCounts:
        """Return the counts around a finding, with the starts of all windows to mark."""
        mine = _about(self.counts, user=finding.user, action=finding.action)
        times_ms = mine["window_start_ms"].to_numpy()
        order = np.argsort(times_ms)
        return LevelCounts(
            window=self.window,
            times_ms=times_ms[order],
            counts=mine["count"].to_numpy().astype(np.int64)[order],
            flagged_ms=flagged_ms,
            expected_low=finding.expected_low,
            expected_high=finding.expected_high,
            ceiling=finding.ceiling,
            min_count=self.min_count,
        )


def _about(table: pa.Table, **wanted: str) -> pa.Table:
    return table.filter(reduce(pc.and_, (pc.equal(table[name], wanted[name]) for name in wanted)))


def _levels(run: Run, settings: Settings, findings: Iterable[Finding]) -> dict[str, _Level]:
    """Return what to draw, by window: each level is read once, for all its users together."""
    users: dict[str, set[str]] = {}
    for finding in findings:
        users.setdefault(finding.window, set()).add(finding.user)
    least = dict(zip(settings.windows, settings.min_count, strict=False))
    levels = {}
    for label, names in users.items():
        window = as_window(label)
        counts = run.changelog.counters(window.size_ms, users=names).to_table()
        levels[label] = _Level(window, counts, least.get(label, 1))
    return levels


def _report_findings(
    run: Run, settings: Settings, findings: Findings, top: int
) -> list[ReportFinding]:
    stories: dict[tuple[str, ...], Finding] = {}
    for finding in findings.top(len(findings)):
        if len(stories) == top:
            break
        stories.setdefault(_story(finding), finding)
    levels = _levels(run, settings, stories.values())
    return [_report_finding(each, levels[each.window], findings) for each in stories.values()]


def _story(finding: Finding) -> tuple[str, ...]:
    return tuple(getattr(finding, name) for name in _STORY)


def _report_finding(finding: Finding, level: _Level, findings: Findings) -> ReportFinding:
    same = _about(findings.table, **dict(zip(_STORY, _story(finding), strict=True)))
    return report_finding(
        finding,
        series=level.series(finding, same["window_start_ms"].to_numpy()),
        also=_others(same.num_rows - 1, finding.window),
    )


def _others(number: int, window: str) -> str:
    if not number:
        return ""
    said = "one other window" if number == 1 else f"{format_count(number)} other windows"
    return f" Also found: {said} of {window}, marked in the plot."


def _users(ranked: pd.DataFrame) -> list[ReportUser]:
    rows = ranked[["user", "score", "reason"]].to_dict("records")
    return [ReportUser(user=row["user"], score=row["score"], reason=row["reason"]) for row in rows]
