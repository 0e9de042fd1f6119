"""The findings of a report: all at a glance, then each with its plot and its evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.markup import Html, element, isolated, joined, sentence, shortened, text
from kstoolkit.report.figures import described, drawing
from kstoolkit.report.moments import moment, period
from kstoolkit.report.tables import LONGEST_IN_TABLE, announced, facts, nothing, table
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.report.content import CountSeries, ReportContent, ReportFinding

__all__ = ["findings_section"]

COLUMNS = ("No.", "User", "Action", "Window, UTC", "Count", "Expected", "Chance")


def findings_section(content: ReportContent, top: int) -> Html:
    """Return the first ``top`` findings, and how many there are."""
    if not content.total_findings:
        return nothing("No findings: no count crossed the line of any rule.")
    shown = content.findings[:top]
    said = announced(len(shown), content.total_findings, "finding")
    rows = [_row(number, finding) for number, finding in enumerate(shown, 1)]
    overview = table(f"{said}, most abnormal first.", COLUMNS, rows, numbers={0, 4})
    return joined(overview, *(_article(n, finding) for n, finding in enumerate(shown, 1)))


def _row(number: int, finding: ReportFinding) -> Sequence[Html]:
    return (
        element("a", str(number), href=f"#finding-{number}"),
        isolated(finding.user, LONGEST_IN_TABLE),
        isolated(finding.action, LONGEST_IN_TABLE),
        _window(finding),
        text(format_count(finding.count)),
        isolated(finding.expected),
        isolated(finding.probability),
    )


def _window(finding: ReportFinding) -> Html:
    start = moment(finding.window_start_ms, zone="")
    return element("span", start, ", ", finding.window, class_="whole")


def _article(number: int, finding: ReportFinding) -> Html:
    name = f"finding-{number}"
    rank = element("span", str(number), class_="rank")
    heading = (rank, isolated(finding.user), " · ", isolated(finding.action))
    return element(
        "article",
        element("h3", *heading, id=f"{name}-title"),
        element("p", sentence(finding.sentence, finding.user, finding.action)),
        _figure(name, finding),
        _evidence(finding),
        id=name,
        aria_labelledby=f"{name}-title",
    )


def _evidence(finding: ReportFinding) -> Html:
    return facts(
        [
            ("Rule", isolated(finding.rule)),
            ("Window", period(finding.window_start_ms, finding.window_end_ms)),
            ("Count", text(format_count(finding.count))),
            ("Expected", isolated(finding.expected)),
            ("Chance of this or more", isolated(finding.probability)),
            ("In other windows", _levels(finding)),
            ("First seen", moment(finding.first_seen_ms, unknown="unknown (not kept)")),
        ]
    )


def _levels(finding: ReportFinding) -> Html:
    if not finding.other_levels:
        return text("unknown (not kept)")
    # What belongs together stays on one line.
    levels = [
        f"{label}: {format_count(n)}".replace(" ", "\N{NO-BREAK SPACE}")
        for label, n in finding.other_levels
    ]
    return text(" · ".join(levels))


def _figure(name: str, finding: ReportFinding) -> Html:
    if finding.series is None:
        return nothing("No plot: the counts around this window were not kept.")
    series = _with_own_window(finding.series, finding)
    label = f"{shortened(finding.action, 100)} by {shortened(finding.user, 100)}."
    drawn = drawing(series, name=name, label=f"{label} {described(series)}")
    caption = f"Counts of windows of {finding.window}; {_without_bar(series)}."
    return element(
        "figure",
        element("div", drawn, class_="scroll", tabindex=0),
        element("figcaption", caption),
    )


def _without_bar(series: CountSeries) -> str:
    if series.min_count <= 1:
        return "one without a bar had no events"
    return f"one without a bar had fewer than {format_count(series.min_count)} events"


def _with_own_window(series: CountSeries, finding: ReportFinding) -> CountSeries:
    start = finding.window_start_ms
    times = np.asarray(series.times_ms, dtype=np.int64)
    counts = np.asarray(series.counts, dtype=np.int64)
    if start not in times:
        # A count that is too small to be recorded is still known from its finding.
        times, counts = np.append(times, start), np.append(counts, finding.count)
    flagged = np.append(np.asarray(series.flagged_ms, dtype=np.int64), start)
    return replace(series, times_ms=times, counts=counts, flagged_ms=flagged)
