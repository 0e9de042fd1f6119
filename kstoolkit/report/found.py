"""Findings on a page that are not part of a run's report: all at a glance, and in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kstoolkit.findings.finding import chance
from kstoolkit.markup import element, isolated, joined, sentence, text
from kstoolkit.report.content import ReportFinding
from kstoolkit.report.facts import line
from kstoolkit.report.figures import plotted
from kstoolkit.report.findings import evidence, overview
from kstoolkit.report.part import Part
from kstoolkit.report.runs import DEFAULT_TOP
from kstoolkit.report.section import Section
from kstoolkit.report.tables import nothing
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from kstoolkit.findings.finding import Finding, Findings
    from kstoolkit.pipeline.run import LevelCounts
    from kstoolkit.report.section import Ids


def findings_part(findings: Findings, ids: Ids, limit: int | None) -> Part:
    """Return what the page says of findings: the first ``limit``, most abnormal first."""
    key = ids.new("findings")
    if not len(findings):
        body = joined(
            line(findings), nothing("No findings: no count crossed the line of any rule.")
        )
        return Part(title="Findings", section=Section(key=key, heading=text("Findings"), body=body))
    shown = [report_finding(each) for each in findings.top(DEFAULT_TOP if limit is None else limit)]
    told = element("ol", *(element("li", _said(each)) for each in shown))
    table = overview(shown, len(findings))
    body = joined(line(findings), plotted(findings, key), table, told)
    starts = findings.table["window_start_ms"]
    first = pc.min(starts).as_py()
    last = pc.max(pc.add(starts, findings.table["window_ms"])).as_py()
    section = Section(key=key, heading=text("Findings"), body=body)
    return Part(title="Findings", section=section, span_ms=(first, last))


def finding_part(finding: Finding, ids: Ids, _limit: int | None) -> Part:
    """Return what the page says of one finding: its sentence, its plot, its evidence."""
    key, told = ids.new("finding"), report_finding(finding)
    title = f"{finding.user} · {finding.action}"
    heading = joined(isolated(finding.user), " · ", isolated(finding.action))
    body = joined(element("p", _said(told)), plotted(finding, key), evidence(told))
    span_ms = (finding.window_start_ms, finding.window_end_ms)
    return Part(title=title, section=Section(key=key, heading=heading, body=body), span_ms=span_ms)


def report_finding(
    finding: Finding, *, series: LevelCounts | None = None, also: str = ""
) -> ReportFinding:
    """Return a finding as a report's plain record.

    Parameters
    ----------
    finding
        The finding.
    series
        The counts around it.
    also
        What to say after its sentence.
    """
    return ReportFinding(
        sentence=finding.sentence + also,
        rule=finding.rule,
        user=finding.user,
        action=finding.action,
        window=finding.window,
        window_start_ms=finding.window_start_ms,
        window_end_ms=finding.window_end_ms,
        count=finding.count,
        expected=_expected(finding),
        probability=_probability(finding),
        first_seen_ms=finding.first_seen_ms - finding.first_seen_ms % 1_000,
        other_levels=tuple(finding.other_levels.items()),
        series=series,
    )


def _said(finding: ReportFinding) -> str:
    return sentence(finding.sentence, finding.user, finding.action)


def _expected(finding: Finding) -> str:
    if finding.ceiling is not None and finding.expected_high is None:
        return "unknown (no baseline)"
    return finding.expected


def _probability(finding: Finding) -> str:
    if finding.ceiling is not None:
        return f"unknown (ceiling {format_count(finding.ceiling)})"
    return chance(finding.log10_probability)
