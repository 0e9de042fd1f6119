"""What a page says of findings: all at a glance, then each in a sentence, with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kstoolkit.findings.finding import LONGER, chance, ends_ms, evidence, too_long
from kstoolkit.markup import Html, element, isolated, joined, sentence, text
from kstoolkit.report.figures import plotted
from kstoolkit.report.frames import line
from kstoolkit.report.page import ReportPart, Section
from kstoolkit.report.tables import (
    LONGEST_IN_TABLE,
    announced,
    facts,
    moment,
    nothing,
    table,
)
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.findings.finding import Finding, Findings
    from kstoolkit.report.page import Ids


SHOWN = 20
"""Incidents, findings, users and raw records on a page: what one person looks at in one sitting."""
_NO_FINDINGS = nothing("No findings: no count crossed the line of any rule.")
_COLUMNS = ("No.", "User", "Action", "Window, UTC", "Count", "Expected", "Chance")


def findings_part(findings: Findings, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of findings: the first ``limit``, most abnormal first."""
    key, heading = ids.new("findings"), text("Findings")
    if not len(findings):
        section = Section(key=key, heading=heading, body=joined(line(findings), _NO_FINDINGS))
        return ReportPart(title="Findings", section=section)
    shown = list(findings.top(SHOWN if limit is None else limit))
    told = element("ol", *(element("li", _said(each)) for each in shown))
    rows = [(text(str(number)), *_cells(each)) for number, each in enumerate(shown, 1)]
    at_a_glance = table(_caption(len(shown), len(findings)), _COLUMNS, rows, numbers={0, 4})
    body = joined(line(findings), plotted(findings, key), at_a_glance, told)
    starts = findings.table["window_start_ms"]
    first = pc.min(starts).as_py()
    last = pc.max(ends_ms(findings.table)).as_py()
    section = Section(key=key, heading=heading, body=body)
    return ReportPart(title="Findings", section=section, span_ms=(first, last))


def finding_part(finding: Finding, ids: Ids, _limit: int | None) -> ReportPart:
    """Return what the page says of one finding: its sentence, its plot, its evidence."""
    key = ids.new("finding")
    heading = joined(isolated(finding.user), " · ", isolated(finding.what))
    told = facts((what, isolated(said, 300)) for what, said in evidence(finding))
    body = joined(element("p", _said(finding)), plotted(finding, key), told)
    return ReportPart(
        title=f"{finding.user} · {finding.what}",
        section=Section(key=key, heading=heading, body=body),
        span_ms=(finding.window_start_ms, finding.window_end_ms),
    )


def _caption(shown: int, total: int) -> str:
    return f"{announced(shown, total, 'findings')}, most abnormal first."


def evidence_table(shown: Sequence[Finding], total: int) -> Html:
    """Return the findings of one user as a table, a row each; and of which rule, if of several."""
    heads, rows = [*_COLUMNS[2:]], [[*_cells(each)[1:]] for each in shown]
    if len({each.rule for each in shown}) > 1:
        heads.append("Rule")
        rows = [[*row, isolated(each.rule)] for row, each in zip(rows, shown, strict=True)]
    return table(_caption(len(shown), total), heads, rows, numbers={2})


def _said(finding: Finding) -> Html:
    return sentence(finding.sentence, finding.user, *finding.values())


def _cells(finding: Finding) -> Sequence[Html]:
    start = moment(finding.window_start_ms, zone="")
    return (
        isolated(finding.user, LONGEST_IN_TABLE),
        isolated(finding.what, LONGEST_IN_TABLE),
        element("span", start, ", ", finding.window, class_="whole" * (finding.window_ms > 0)),
        text(format_count(finding.count)),
        isolated(finding.expected),
        isolated(_chance(finding)),
    )


def _chance(finding: Finding) -> str:
    if finding.kind == LONGER:
        return f"unknown ({too_long(finding)})"
    if finding.ceiling is not None:
        return f"unknown (ceiling {format_count(finding.ceiling)})"
    return chance(finding.log10_probability)
