"""The findings of a report: all at a glance, then each with its plot and its evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.markup import Html, element, isolated, joined, sentence, shortened, text
from kstoolkit.report.figures import described, drawing
from kstoolkit.report.moments import moment, period
from kstoolkit.report.section import Section
from kstoolkit.report.tables import LONGEST_IN_TABLE, announced, facts, nothing, table
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.pipeline.run import LevelCounts
    from kstoolkit.report.content import ReportContent, ReportFinding
    from kstoolkit.report.section import Ids


COLUMNS = ("No.", "User", "Action", "Window, UTC", "Count", "Expected", "Chance")


def findings_section(content: ReportContent, ids: Ids, top: int) -> Section:
    """Return the first ``top`` findings, and how many there are."""
    key = ids.new("findings")
    if not content.total_findings:
        said = nothing("No findings: no count crossed the line of any rule.")
        return Section(key=key, heading=text("Findings"), body=said)
    shown = content.findings[:top]
    names = [ids.new(f"finding-{number}") for number in range(1, len(shown) + 1)]
    told = zip(names, shown, strict=True)
    articles = [_article(n, name, finding) for n, (name, finding) in enumerate(told, 1)]
    return Section(
        key=key,
        heading=text("Findings"),
        body=overview(shown, content.total_findings, names),
        inner=tuple(articles),
    )


def overview(
    shown: Sequence[ReportFinding], total: int, names: Sequence[str] | None = None
) -> Html:
    """Return findings as a table, a row each; ``names`` are the ids of their articles."""
    said = announced(len(shown), total, "finding")
    rows = [
        (_number(n, names[n - 1] if names else None), *_cells(finding))
        for n, finding in enumerate(shown, 1)
    ]
    return table(f"{said}, most abnormal first.", COLUMNS, rows, numbers={0, 4})


def _number(number: int, name: str | None) -> Html:
    return element("a", str(number), href=f"#{name}") if name else text(str(number))


def _cells(finding: ReportFinding) -> Sequence[Html]:
    return (
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


def _article(number: int, name: str, finding: ReportFinding) -> Section:
    rank = element("span", str(number), class_="rank")
    said = element("p", sentence(finding.sentence, finding.user, finding.action))
    return Section(
        key=name,
        heading=joined(rank, isolated(finding.user), " · ", isolated(finding.action)),
        body=joined(said, _figure(name, finding), evidence(finding)),
        tag="article",
    )


def evidence(finding: ReportFinding) -> Html:
    """Return what is known of a finding, as labels and values."""
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


def _without_bar(series: LevelCounts) -> str:
    if series.min_count <= 1:
        return "one without a bar had no events"
    return f"one without a bar had fewer than {format_count(series.min_count)} events"


def _with_own_window(series: LevelCounts, finding: ReportFinding) -> LevelCounts:
    start, times, counts = finding.window_start_ms, series.times_ms, series.counts
    if start not in times:
        # A count that is too small to be recorded is still known from its finding.
        place = np.searchsorted(times, start)
        times, counts = np.insert(times, place, start), np.insert(counts, place, finding.count)
    flagged = np.union1d(series.flagged_ms, [start])
    return replace(series, times_ms=times, counts=counts, flagged_ms=flagged)
