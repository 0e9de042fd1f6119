"""Who needs a look, and why: a row a user on one axis of time, and below that a card for each.

A card tells all incidents of a user, or of a campaign, what deserves a look most first; the counts
of the foremost one's action around them, at every level; and, folded on a screen, the windows that
they were found in. What was merged is told with what it is part of. A part of a page that has
findings alone, or one of them, is made here as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.finding import LONGER, Findings, chance, ends_ms, evidence, too_long
from kstoolkit.findings.incidents import CERTAINTIES, OPEN
from kstoolkit.markup import Html, element, isolated, joined, sentence, text
from kstoolkit.pipeline.story import user_history
from kstoolkit.records import counted
from kstoolkit.report.figures import plotted
from kstoolkit.report.frames import line
from kstoolkit.report.page import ReportPart, Section, joint, living
from kstoolkit.report.strips import Axis, pills, strips
from kstoolkit.report.tables import LONGEST_IN_TABLE, announced, facts, moment, nothing, table
from kstoolkit.units import format_count
from kstoolkit.views.findings import People
from kstoolkit.views.findings import strips as moving

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.counters.counters import Counters
    from kstoolkit.findings.finding import Finding
    from kstoolkit.findings.incidents import Incident, Incidents
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import Settings
    from kstoolkit.report.page import Ids, Span

SHOWN = 20
"""Incidents, findings, users and raw records on a page: what one person looks at in one sitting."""
_COLUMNS = ("No.", "User", "Action", "Window, UTC", "Count", "Expected", "Chance")
_AROUND_MS = 6 * 3_600_000
_SAID = {"user", "since", "until", "actions", "windows", "peak", "certainty"}
_SAID.add("expected at the peak")
"""Facts of an incident that its sentence, its findings and the heading tell."""
_KEYS = {"count": "counts", "flag": "windows with a finding"}
_KEYS |= {"expected": "expected range", "incident": "time of an incident"}


def findings_part(findings: Findings, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of findings: the first ``limit``, most abnormal first."""
    key, heading = ids.new("findings"), text("Findings")
    if not len(findings):
        none = nothing("No findings: no count crossed the line of any rule.")
        section = Section(key=key, heading=heading, body=joined(line(findings), none))
        return ReportPart(title="Findings", section=section)
    shown = list(findings.top(SHOWN if limit is None else limit))
    told = element("ol", *(element("li", _said(each)) for each in shown))
    rows = [(text(str(number)), *_cells(each)) for number, each in enumerate(shown, 1)]
    at_a_glance = table(_caption(len(shown), len(findings)), _COLUMNS, rows, numbers={0, 4})
    body = joined(line(findings), plotted(findings, key), at_a_glance, told)
    first = pc.min(findings.table["window_start_ms"]).as_py()
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


def _windows_table(shown: Sequence[Finding], total: int) -> Html:
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


@dataclass(frozen=True, slots=True)
class Story:
    """What is told of a user, or of a campaign: incidents, of how many, the foremost first."""

    key: str
    incidents: Sequence[Incident]
    total: int

    @property
    def first(self) -> Incident:
        """What deserves a look most."""
        return self.incidents[0]

    @property
    def span_ms(self) -> Span:
        """From when to when its incidents are, epoch ms UTC."""
        return min(e.since_ms for e in self.incidents), max(e.until_ms for e in self.incidents)


def stories_of(found: Incidents, ids: Ids, most: int) -> tuple[list[Story], int]:
    """Return the foremost users with what is told of each, and how many there are of all."""
    people = People(found)
    stories = []
    for row in range(min(most, len(people))):
        told = people.of(row)
        stories.append(Story(ids.new(f"user-{row + 1}"), list(told[:most]), len(told)))
    return stories, len(people)


def look(found: Incidents, stories: Sequence[Story], total: int, span: Span | None) -> Html:
    """Return who needs a look, why, and when: a row a user, on one axis of time."""
    if not stories:
        return nothing("No incidents: no count crossed the line of any rule.")
    axis = Axis(*(joint([span, *(each.span_ms for each in stories)]) or (0, 1)))
    some = f"{announced(len(stories), total, 'users')}, {counted(len(found), 'incidents')}"
    order = "Open ones come first, then the surest, and of these the most severe."
    told = element("p", f"{some}: {_grades(found)}. {order}")
    head = element("div", axis.html(), element("span", "since, UTC"), class_="head")
    rows = [_row(number, each, axis) for number, each in enumerate(stories, 1)]
    return joined(told, head, element("ol", *rows, class_="look"))


def _grades(found: Incidents) -> str:
    grades = Counter(found.table["grade"].to_pylist())
    sure = [f"{format_count(n)} {CERTAINTIES[grade]}" for grade, n in sorted(grades.items())]
    is_open = pc.sum(pc.equal(found.table["state"], OPEN)).as_py()
    return f"{', '.join(sure)}; {format_count(is_open) if is_open else 'none'} open"


def _row(number: int, story: Story, axis: Axis) -> Html:
    first = story.first
    more = f", and {counted(story.total - 1, 'incidents')} more" if story.total > 1 else ""
    return element(
        "li",
        element("span", str(number), class_="rank"),
        element("a", isolated(first.who, LONGEST_IN_TABLE), href=f"#{story.key}"),
        element("span", _why(first.peak), more, class_="why"),
        pills(story.incidents, axis),
        moment(first.since_ms, zone=""),
        _sure(first),
    )


def _sure(incident: Incident) -> Html:
    """Return how sure it is, and what else is to be known before one looks."""
    said = [incident.certainty, *(["open"] if incident.state == OPEN else []), incident.mark]
    grade = ", ".join(each for each in said if each)
    return element("span", grade, class_=f"grade {incident.certainty}")


def _why(peak: Finding) -> Html:
    limit = too_long(peak) if peak.kind == LONGER else f"expected {peak.expected}"
    if peak.ceiling is not None:
        limit = f"ceiling {format_count(peak.ceiling)}"
    count = f"{format_count(peak.count)} in {peak.window}"
    kept = limit.replace(" ", "\N{NO-BREAK SPACE}", 1)  # what it was, and how much, on one line
    return joined(isolated(peak.what, LONGEST_IN_TABLE), f": {count}, {kept}")


def cards(
    run: Run, found: Incidents, stories: Sequence[Story], users: pd.DataFrame, span: Span | None
) -> tuple[Section, ...]:
    """Return a card for each user."""
    names = {each.first.user for each in stories if each.first.user is not None}
    ranked = users[users["user"].isin(names)].itertuples()
    ranks = {row.user: _rank(row, users.attrs["users"]) for row in ranked}
    of = run.settings, _ReadOnce(run.changelog, names)
    sections = []
    for number, story in enumerate(stories, 1):
        peak, drawn = story.first.peak, Html()
        if story.first.user is not None:
            told = {"findings": found.evidence.table, "about": peak}
            history = user_history(of, peak.user, peak.parts, **told)
            since_ms, until_ms = story.span_ms
            first, last = joint([span, story.span_ms]) or story.span_ms  # as far as the run goes
            axis = Axis(max(since_ms - _AROUND_MS, first), min(until_ms + _AROUND_MS, last))
            still = strips(history, axis, story.incidents)
            zoom = [axis.since_ms, axis.until_ms]
            drawn = living(still, moving(history, story.first) | {"zoom": zoom})
        sections.append(_card(number, story, drawn, ranks.get(story.first.user)))
    return tuple(sections)


def legend(settings: Settings) -> Html:
    """Return what the colours of the cards mean, and what is not in them."""
    keys = [element("span", said, class_=f"key {kind}") for kind, said in _KEYS.items()]
    least = zip(settings.windows, settings.min_count, strict=False)
    kept = [f" {window}: counts below {n} are not kept." for window, n in least if n > 1]
    said = (
        "A bar of several windows is as high as the highest. A higher one that is not flagged was"
        " within what was expected by then, or came before anything could be expected."
    )
    return element("p", *keys, said, *kept, class_="legend")


def _rank(row: Any, total: int) -> str:
    return f"No. {format_count(row.Index + 1)} of {counted(total, 'users')}, {row.score:.2f}"


def _card(number: int, story: Story, drawn: Html, rank: str | None) -> Section:
    first, total = story.first, story.total
    what, *others = first.actions
    more = f" and {counted(len(others), 'others')}" if others else ""
    which = ("Counts of “", isolated(first.peak.what), "” alone")
    caption = element("figcaption", *which) if others else Html()
    some = announced(len(story.incidents), total, "incidents")
    left_out = nothing(f"{some}.") if len(story.incidents) < total else Html()
    said = []
    for each in story.incidents:
        names = (each.user or "", *each.actions[:3], *each.peak.values())
        sure = Html() if total == 1 else _sure(each)
        said.append(element("p", sentence(each.sentence, *names), " ", sure))
    figure = element("figure", drawn, caption) if drawn else Html()
    rank_ = element("span", str(number), class_="rank")
    return Section(
        key=story.key,
        heading=joined(rank_, isolated(first.who), " · ", isolated(what), more, " ", _sure(first)),
        body=joined(element("div", *said, left_out), figure, _evidence(story, rank)),
        tag="article",
        kind="user",
    )


def _evidence(story: Story, rank: str | None) -> Html:
    """Return what a card folds: incidents' facts, and how the user ranks; windows, if several."""
    every = Findings(pa.concat_tables([each.findings.table for each in story.incidents]))
    told = [
        [(what, said) for what, said in each.facts() if what not in _SAID]
        for each in story.incidents
    ]
    if rank is not None:
        told[0].append(("by score", rank))
    about = [facts((what, isolated(said, 300)) for what, said in each) for each in told]
    windows = [_windows_table(list(every.top(20)), len(every))] if len(every) > 1 else []
    return element("details", element("summary", "Evidence"), *about, *windows)


class _ReadOnce:
    """Counts of some users: each level is read once, for all of them together."""

    def __init__(self, changelog: Changelog, users: set[str]) -> None:
        self._read = cache(lambda window_ms: changelog.counters(window_ms, users=users))

    def counters(self, window_ms: int, *, users: set[str]) -> Counters:
        found = self._read(window_ms)
        mine = pc.is_in(found.users, value_set=pa.array([*users], found.users.type))
        return found.take(np.asarray(mine)[found.user])  # numpy's texts lose NULs at their ends
