"""A run on a page: summary, findings with their plots, users, dead letters.

What a report is made of, as plain records: they can be filled without Spark.

Times are epoch milliseconds, UTC. What can't be known is said by whoever fills the record, as in
``"unknown (no history yet)"``.

The findings of a report: all at a glance, then each with its plot and its evidence.

The shorter sections of a report: each takes its part of the content and returns HTML.

Findings on a page that are not part of a run's report: all at a glance, and in sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.finding import chance
from kstoolkit.markup import Html, element, isolated, joined, sentence, shortened, text
from kstoolkit.report.figures import described, drawing, plotted
from kstoolkit.report.frames import line
from kstoolkit.report.section import Part, Section, keyed
from kstoolkit.report.tables import (
    LONGEST_IN_TABLE,
    announced,
    facts,
    moment,
    nothing,
    period,
    table,
)
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kstoolkit.findings.finding import Finding, Findings
    from kstoolkit.pipeline.run import LevelCounts
    from kstoolkit.report.section import Ids, Span


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportFinding:
    """One finding: its sentence, its evidence, and the counts around it.

    Parameters
    ----------
    sentence
        The finding in words.
    rule, user, action, window
        Names, as people write them; the window is a label such as ``"1 hour"``.
    window_start_ms, window_end_ms
        The window at fault.
    count
        Events in it.
    expected, probability
        In few words: ``"2 to 14"``, ``"3 in 10⁹"``, ``"unknown (no history yet)"``.
    first_seen_ms
        When the finding first appeared; ``None`` if that was not kept.
    other_levels
        The counts of the cascade's other windows at that time: label and count.
    series
        The counts to plot; ``None`` if they were not kept.
    """

    sentence: str
    rule: str
    user: str
    action: str
    window: str
    window_start_ms: int
    window_end_ms: int
    count: int
    expected: str
    probability: str
    first_seen_ms: int | None = None
    other_levels: Sequence[tuple[str, int]] = ()
    series: LevelCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportUser:
    """A user with a score, and the reason for it in words."""

    user: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSample:
    """One record that was not counted: why, where it came from, and its raw text."""

    reason: str
    raw: str
    file: str | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """How many records were not counted, by reason code, and some of them."""

    counts: Sequence[tuple[str, int]] = ()
    samples: Sequence[DeadLetterSample] = ()

    @property
    def total(self) -> int:
        """The dead letters of all reasons."""
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a report comes from: the versions, the command, the time covered, when it was made.

    Parameters
    ----------
    generated_at
        When; aware of its zone.
    versions
        Name and version of what took part.
    command
        What makes this run again.
    first_event_ms, last_event_ms
        The time that the events cover; ``None`` without events.

    Raises
    ------
    ConfigurationError
        If ``generated_at`` has no zone.
    """

    generated_at: datetime
    versions: Sequence[tuple[str, str]] = ()
    command: str | None = None
    first_event_ms: int | None = None
    last_event_ms: int | None = None

    def __post_init__(self) -> None:
        if self.generated_at.utcoffset() is None:
            message = f"The time {self.generated_at} has no zone."
            raise ConfigurationError(message, hint="Give datetime.now(UTC).")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportContent:
    """Everything that a report says.

    Parameters
    ----------
    title
        Of the whole report.
    summary
        Label and value, in the order to be read.
    findings, users
        Most abnormal first.
    num_findings, num_users
        How many there are altogether, if only the first of them are given.
    dead_letters, origin
        See there.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> origin = Origin(generated_at=datetime(2015, 9, 13, tzinfo=UTC))
    >>> ReportContent(title="Edits", origin=origin).total_findings
    0
    """

    title: str
    origin: Origin
    summary: Sequence[tuple[str, str]] = ()
    findings: Sequence[ReportFinding] = ()
    num_findings: int | None = None
    users: Sequence[ReportUser] = ()
    num_users: int | None = None
    dead_letters: DeadLetters = field(default_factory=DeadLetters)

    @property
    def total_findings(self) -> int:
        """All findings, those included that are not given."""
        return len(self.findings) if self.num_findings is None else self.num_findings

    @property
    def total_users(self) -> int:
        """All users with a score, those included that are not given."""
        return len(self.users) if self.num_users is None else self.num_users


_COLUMNS = ("No.", "User", "Action", "Window, UTC", "Count", "Expected", "Chance")


def _findings_section(content: ReportContent, ids: Ids, top: int) -> Section:
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
        body=_overview(shown, content.total_findings, names),
        inner=tuple(articles),
    )


def _overview(
    shown: Sequence[ReportFinding], total: int, names: Sequence[str] | None = None
) -> Html:
    """Return findings as a table, a row each; ``names`` are the ids of their articles."""
    said = announced(len(shown), total, "finding")
    rows = [
        (_number(n, names[n - 1] if names else None), *_cells(finding))
        for n, finding in enumerate(shown, 1)
    ]
    return table(f"{said}, most abnormal first.", _COLUMNS, rows, numbers={0, 4})


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


_LONGEST_RAW = 800
_LONGEST_COMMAND = 2_000


def _summary_section(content: ReportContent) -> Html:
    """Return what was read and counted, as labels and values."""
    if not content.summary:
        return nothing("No summary was kept.")
    return facts((label, isolated(value, 300)) for label, value in content.summary)


def _users_section(content: ReportContent, top: int) -> Html:
    """Return the most abnormal users, each with the reason for its score."""
    if not content.total_users:
        return nothing("No users were scored.")
    shown = content.users[:top]
    rows = [
        (
            text(str(number)),
            isolated(user.user, LONGEST_IN_TABLE),
            text(f"{user.score:,.2f}"),
            sentence(user.reason, user.user),
        )
        for number, user in enumerate(shown, 1)
    ]
    said = announced(len(shown), content.total_users, "user")
    caption = f"{said}, most abnormal first, over all windows and actions."
    return table(caption, ("No.", "User", "Score", "Reason"), rows, numbers={0, 2})


def _dead_letters_section(letters: DeadLetters, top: int) -> Html:
    """Return how many records were not counted, by reason, and some of them raw."""
    if not letters.total:
        return nothing("No dead letters: every record was read and counted.")
    rows = [
        (element("code", isolated(reason)), text(format_count(count)))
        for reason, count in letters.counts
    ]
    said = announced(letters.total, letters.total, "record")
    counts = table(f"{said} not counted, by reason.", ("Reason", "Records"), rows, numbers={1})
    return joined(
        counts, *(_sample(sample) for sample in letters.samples[:top]), _more(letters, top)
    )


def origin_section(origin: Origin) -> Html:
    """Return what made the report, from what, and when."""
    made_ms = round(origin.generated_at.timestamp()) * 1000
    given = origin.command or "unknown (not started from a command)"
    command = element("p", "Made by ", element("code", isolated(given, _LONGEST_COMMAND)))
    versions = [(name, isolated(version)) for name, version in origin.versions]
    ends = [("Data from", origin.first_event_ms), ("Data to", origin.last_event_ms)]
    times = [(label, moment(time_ms)) for label, time_ms in ends if time_ms is not None]
    return joined(facts([("Made", moment(made_ms)), *times, *versions]), command)


def _covered(origin: Origin) -> Html:
    """Return the time that the events cover, to the minute."""
    if origin.first_event_ms is None or origin.last_event_ms is None:
        return text("time unknown (no events)")
    first, last = (time - time % 60_000 for time in (origin.first_event_ms, origin.last_event_ms))
    return period(first, last)


def _sample(sample: DeadLetterSample) -> Html:
    file = "unknown file" if sample.file is None else sample.file
    batch = "unknown batch" if sample.batch is None else f"batch {sample.batch}"
    reason = element("code", isolated(sample.reason))
    caption = element("figcaption", reason, " · ", isolated(file, 200), f" · {batch}")
    raw = text(shortened(sample.raw, _LONGEST_RAW), keep="\n\t")
    shown = element("pre", raw, dir="auto") if raw else nothing("No raw text.")
    return element("figure", caption, shown, class_="raw")


def _more(letters: DeadLetters, top: int) -> Html:
    shown = min(len(letters.samples), top)
    said = announced(shown, letters.total, "record", which="")
    return text("") if shown >= letters.total else element("p", f"{said}.", class_="nothing")


DEFAULT_TOP = 20
"""How many findings, users and raw records are shown: what one person looks at in one sitting."""


def run_part(content: ReportContent, ids: Ids, limit: int | None) -> Part:
    """Return what the page says of a run: at most ``limit`` findings, users and raw records."""
    top = DEFAULT_TOP if limit is None else limit
    inner = (
        _section("Summary", _summary_section(content), ids),
        _findings_section(content, ids, top),
        _section("Users", _users_section(content, top), ids),
        _section("Dead letters", _dead_letters_section(content.dead_letters, top), ids),
    )
    key = ids.new("run")
    section = Section(key=key, heading=isolated(content.title, 200), inner=inner)
    return Part(
        title=content.title,
        section=section,
        span_ms=_span(content),
        lead=_lead(content),
        origin=content.origin,
    )


def _section(name: str, body: Html, ids: Ids) -> Section:
    kind = keyed(name)
    return Section(key=ids.new(kind), heading=text(name), body=body, kind=kind)


def _lead(content: ReportContent) -> Html:
    findings = announced(content.total_findings, content.total_findings, "finding")
    users = announced(content.total_users, content.total_users, "user")
    return joined(_covered(content.origin), f" · {findings} · {users} scored")


def _span(content: ReportContent) -> Span | None:
    first, last = content.origin.first_event_ms, content.origin.last_event_ms
    return None if first is None or last is None else (first, last)


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
    table = _overview(shown, len(findings))
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
