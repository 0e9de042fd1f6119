"""What a page says of a run: summary, incidents with their plots, users, dead letters, its origin.

Incidents come as :meth:`~kstoolkit.findings.incidents.Incidents.top` orders them: open ones that
nobody marked first, the surest before others; but one of each user before a second one of anybody.
What was merged is told with what it is part of. Each has its findings as evidence, and a plot of
the counts around the foremost one, in which others of that action are marked. Of the dead letters,
ten at most are shown, one of each reason first.

This module joins the pipeline to the page: nobody imports it before a run is to be reported.
"""

from __future__ import annotations

import platform
import shlex
from collections import Counter
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.events.event import REASONS
from kstoolkit.findings.finding import CAMPAIGN, DISTINCT
from kstoolkit.findings.incidents import MERGED, Incidents
from kstoolkit.findings.rulefiles import rules_from_json
from kstoolkit.findings.rules import DEFAULT_RULES, shared
from kstoolkit.findings.stories import by_parts
from kstoolkit.markup import Html, element, isolated, joined, sentence, shortened, text
from kstoolkit.pipeline.run import sampled_letters
from kstoolkit.pipeline.story import LevelCounts
from kstoolkit.records import counted
from kstoolkit.report.figures import described, drawing, framed
from kstoolkit.report.findings import SHOWN, evidence_table
from kstoolkit.report.page import Origin, ReportPart, Section, keyed
from kstoolkit.report.tables import (
    LONGEST_IN_TABLE,
    announced,
    facts,
    moment,
    nothing,
    period,
    quoted_path,
    shown_path,
    table,
)
from kstoolkit.units import format_count
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from kstoolkit.findings.finding import Finding, Findings
    from kstoolkit.findings.incidents import Incident
    from kstoolkit.pipeline.batches import RunSummary
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import Settings
    from kstoolkit.report.page import Ids


_FRAMES = {"frame", "staged"}
"""Feeds whose events came from a DataFrame, rather than from files."""

_NO_INCIDENTS = nothing("No incidents: no count crossed the line of any rule.")
_COLUMNS = ("No.", "User", "Actions", "From, UTC", "State", "Certainty", "Findings")
_COUNTS_NO_EVENTS = {DISTINCT, CAMPAIGN}


def run_part(run: Run, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of a run: at most ``limit`` incidents, users and raw records.

    A live run is reported as far as it is.
    """
    top = SHOWN if limit is None else limit
    settings, summary, users, found = run.settings, run.summary(), run.users(), run.incidents()
    found = found.where(np.asarray(pc.not_equal(found.table["state"], MERGED)))
    letters = _dead_letters(run.folder.path, summary.dead_letters, top)
    inner = (
        _section("Summary", _summary(settings, summary), ids),
        _incidents_section(run, found, ids, top),
        _section("Users", _users(users, top), ids),
        _section("Dead letters", letters, ids),
    )
    title, origin = title_of(settings), _origin_of(run)
    told = f"{counted(len(found), 'incidents')} · {counted(len(users), 'users')}"
    return ReportPart(
        title=title,
        section=Section(key=ids.new("run"), heading=isolated(title, 200), inner=inner),
        span_ms=origin.span_ms,
        lead=joined(_covered(origin), f" · {told} scored"),
        origin=origin,
    )


def title_of(settings: Settings) -> str:
    """Return what the report of a run is called."""
    source = f" in {Path(settings.source).name}" if settings.feed not in _FRAMES else ""
    return f"Abnormal users{source}"


def _section(name: str, body: Html, ids: Ids) -> Section:
    kind = keyed(name)
    return Section(key=ids.new(kind), heading=text(name), body=body, kind=kind)


def _covered(origin: Origin) -> Html:
    if origin.span_ms is None:
        return text("time unknown (no events)")
    first, last = (time - time % 60_000 for time in origin.span_ms)
    return period(first, last)


def _summary(settings: Settings, summary: RunSummary) -> Html:
    """Return the summary, with what was looked for, and without what the page says itself.

    The page lists each finding once, where the summary counts each time that it was reported; and
    it has a section for dead letters.
    """
    each = shared([*rules_from_json(settings.rules)])
    rules = "; ".join(rule.name for rule in each) or "none"
    (events, *rest) = [
        (what, figure)
        for what, figure in summary.rows()
        if what != "findings reported" and not what.startswith("dead letters")
    ]
    told = [events, ("windows", ", ".join(settings.windows)), ("rules", rules), *rest]
    return facts((what, isolated(figure, 300)) for what, figure in told)


def _drawn(
    settings: Settings, counts: Mapping[str, pa.Table], peak: Finding, evidence: Findings
) -> LevelCounts:
    """Return the counts around the foremost finding of an incident; ``evidence`` is all of it."""
    told = {"user": peak.user, "action": peak.action, "window": peak.window}
    same = _about(evidence.of_view(peak.by), **told)  # what is marked in one plot
    return _series(settings, counts[peak.window], peak, same)


def _counts(run: Run, findings: Iterable[Finding]) -> dict[str, pa.Table]:
    """Return what to draw, by window: each level is read once, for all its users together."""
    users: dict[str, set[str]] = {}
    for finding in findings:
        users.setdefault(finding.window, set()).add(finding.user)
    return {
        label: run.changelog.counters(as_window(label).size_ms, users=names).to_table()
        for label, names in users.items()
    }


def _series(settings: Settings, level: pa.Table, finding: Finding, same: pa.Table) -> LevelCounts:
    """Return the counts around a finding; ``same`` are the findings that are marked."""
    is_whole = finding.by is None or finding.by == settings.parts
    level = level if is_whole else by_parts(level, finding.by)
    mine = _about(level, user=finding.user, action=finding.action)
    if finding.kind in _COUNTS_NO_EVENTS:  # no more is known than what was found
        mine = same.filter(pc.equal(same["rule"], finding.rule))
    mine = mine.sort_by("window_start_ms")
    is_session, start = finding.session_end_ms is not None, finding.window_start_ms
    times, counts = mine["window_start_ms"].to_numpy(), mine["count"].to_numpy().astype(np.int64)
    ends = mine["end_ms"].to_numpy() if is_session and mine.num_rows else times
    if start not in times:
        # A count that is too small to be recorded is still known from its finding.
        place = np.searchsorted(times, start)
        times, counts = np.insert(times, place, start), np.insert(counts, place, finding.count)
        ends = np.insert(ends, place, finding.window_end_ms)
    least = dict(zip(settings.windows, settings.min_count, strict=False))
    return LevelCounts(
        window=as_window(finding.window),
        times_ms=times,
        counts=counts,
        flagged_ms=np.unique(same["window_start_ms"].to_numpy()),
        expected_low=finding.expected_low,
        expected_high=finding.expected_high,
        ceiling=finding.ceiling,
        min_count=least.get(finding.window, 1),
        ends_ms=ends if is_session else None,
    )


def _about(table: pa.Table, **wanted: str) -> pa.Table:
    return table.filter(reduce(pc.and_, (pc.equal(table[name], wanted[name]) for name in wanted)))


def _incidents_section(run: Run, found: Incidents, ids: Ids, top: int) -> Section:
    key, heading = ids.new("incidents"), text("Incidents")
    if not len(found):
        return Section(key=key, heading=heading, body=_NO_INCIDENTS)
    shown = _in_turn(found, top)
    names = [ids.new(f"incident-{number}") for number in range(1, len(shown) + 1)]
    counts = _counts(run, (each.peak for each in shown))
    series = (_drawn(run.settings, counts, each.peak, found.evidence) for each in shown)
    named = enumerate(zip(names, shown, series, strict=True), 1)
    articles = tuple(_article(number, *each) for number, each in named)
    rows = [_cells(*each) for each in enumerate(zip(names, shown, strict=True), 1)]
    caption = f"{announced(len(shown), len(found), 'incidents')}, of each user the foremost first."
    at_a_glance = table(caption, _COLUMNS, rows, numbers={0, 6})
    return Section(key=key, heading=heading, body=at_a_glance, inner=articles)


def _in_turn(found: Incidents, top: int) -> list[Incident]:
    """Return those that deserve a look most: one of each user, before a second one of anybody."""
    told, seen, turns = found.top(len(found)), Counter[str](), []
    for user in told.table["user"].to_pylist():
        turns.append(seen[user])
        seen[user] += user is not None
    rows = np.argsort(turns, kind="stable")[:top]
    return list(Incidents(told.table.take(pa.array(rows)), told.evidence))


def _cells(number: int, named: tuple[str, Incident]) -> Sequence[Html]:
    name, each = named
    return (
        element("a", str(number), href=f"#{name}"),
        isolated(each.who, LONGEST_IN_TABLE),
        _actions(each, LONGEST_IN_TABLE),
        moment(each.since_ms, zone=""),
        text(each.state if each.mark is None else f"{each.state}, {each.mark}"),
        text(each.certainty),
        text(format_count(len(each.findings))),
    )


def _actions(incident: Incident, longest: int) -> Html:
    first, *others = incident.actions
    more = f" and {counted(len(others), 'others')}" if others else ""
    return joined(isolated(first, longest), more)


def _article(number: int, name: str, incident: Incident, series: LevelCounts) -> Section:
    rank = element("span", str(number), class_="rank")
    peak, shown = incident.peak, incident.findings.top(10)
    names = (incident.user or "", *incident.actions[:3], *peak.values())
    said = [(what, isolated(figure, 300)) for what, figure in incident.facts() if what != "user"]
    return Section(
        key=name,
        heading=joined(rank, isolated(incident.who), " · ", _actions(incident, 100)),
        body=joined(
            element("p", sentence(incident.sentence, *names)),
            _figure(name, peak, series),
            facts(said),
            evidence_table(shown, len(incident.findings)),
        ),
        tag="article",
    )


def _figure(name: str, finding: Finding, series: LevelCounts) -> Html:
    label = f"{shortened(finding.what, 100)} by {shortened(finding.user, 100)}."
    drawn = drawing(series, name=name, label=f"{label} {described(series)}")
    windows = f"windows of {finding.window}" if series.ends_ms is None else f"each {finding.window}"
    bars = _without_bar(series)
    if finding.kind in _COUNTS_NO_EVENTS:
        bars = "one without a bar was not found"
    if series.flagged_ms.size > 1 and finding.expected_high is not None:
        bars += "; what was expected is that of the peak"
    return framed(drawn, joined("Counts of “", isolated(finding.what), f"” in {windows}; {bars}."))


def _without_bar(series: LevelCounts) -> str:
    if series.ends_ms is not None:
        return "a bar goes from its first event to its last"
    if series.min_count <= 1:
        return "one without a bar had no events"
    return f"one without a bar had fewer than {format_count(series.min_count)} events"


def _users(users: pd.DataFrame, top: int) -> Html:
    if users.empty:
        return nothing("No users were scored.")
    shown = users.head(top)
    ranked = zip(shown["user"], shown["score"], shown["reason"], strict=True)
    rows = []
    for number, (user, score, reason) in enumerate(ranked, 1):
        name, rank = isolated(user, LONGEST_IN_TABLE), text(str(number))
        rows.append((rank, name, text(f"{score:,.2f}"), sentence(reason, user)))
    some = announced(len(shown), len(users), "users")
    caption = f"{some}, most abnormal first, over all windows and actions."
    return table(caption, ("No.", "User", "Score", "Reason"), rows, numbers={0, 2})


def _dead_letters(out: Path, by_reason: Mapping[str, int], top: int) -> Html:
    """Return how many records were not counted, by reason, and some of them raw."""
    total = sum(by_reason.values())
    if not total:
        return nothing("No dead letters: every record was read and counted.")
    counts = dict(sorted(by_reason.items(), key=lambda each: (-each[1], each[0])))
    rows = []
    for reason, count in counts.items():
        meaning = element("code", isolated(f"{reason}: {REASONS.get(reason, reason)}"))
        rows.append((meaning, text(format_count(count))))
    caption = f"{counted(total, 'records')} not counted, by reason."
    told = table(caption, ("Reason", "Records"), rows, numbers={1})
    shown = sampled_letters(out, counts, min(top, 10))
    some = announced(len(shown), total, "records", which="")
    more = [element("p", f"{some}.", class_="nothing")] if len(shown) < total else []
    return joined(told, *map(_sample, shown), *more)


def _sample(letter: Mapping[str, Any]) -> Html:
    detail, path, raw = (letter[name] for name in ("detail", "file", "raw"))
    reason = element("code", isolated(f"{letter['reason']}{f': {detail}' if detail else ''}"))
    file = "unknown file" if path is None else shown_path(path)
    caption = (reason, " · ", isolated(file, 200), f" · batch {letter['batch']}")
    shown = nothing("No raw text.")
    if raw:
        shown = element("pre", text(shortened(raw, 800), keep="\n\t"), dir="auto")
    return element("figure", element("figcaption", *caption), shown, class_="raw")


def _origin_of(run: Run) -> Origin:
    """Return where a run's report comes from, and the time that its shortest windows cover."""
    settings = run.settings
    finest = min(settings.cascade.windows, key=lambda window: window.size_ms)
    span = run.changelog.span_ms(finest.size_ms)
    return Origin(
        generated_at=datetime.now(UTC),
        versions=_versions(settings),
        command=_command_of(settings, run.folder.path),
        span_ms=None if span is None else (span[0], span[1] + finest.size_ms),
    )


def _versions(settings: Settings) -> Sequence[tuple[str, str]]:
    mine = version("kstoolkit")
    if settings.written_by != mine:
        mine = f"{mine} (the run: {settings.written_by})"
    spark, python = version("pyspark"), platform.python_version()
    return [("kstoolkit", mine), ("PySpark", spark), ("Python", python)]


def _command_of(settings: Settings, out: Path) -> str | None:
    """Return what makes a run and its report again; ``None`` for one on a DataFrame.

    Rules other than the default ones are in a file of the user's; the command can but name one.
    """
    if settings.feed in _FRAMES:
        return None
    columns, least = settings.columns, set(settings.min_count)
    actions = columns["action"] if isinstance(columns["action"], list) else [columns["action"]]
    options = [
        ("--event-time", columns["event_time"]),
        ("--user", columns["user"]),
        *(("--action", each) for each in actions),
        ("--windows", ",".join(settings.windows)),
        ("--buckets", str(settings.buckets)),
    ]
    if len(least) == 1 and least != {1}:
        options.append(("--min-count", str(*least)))
    own_rules = rules_from_json(settings.rules) != DEFAULT_RULES
    if own_rules:
        options.append(("--rules", "rules.toml"))
    words = [f"{name} {shlex.quote(value)}" for name, value in options]
    if settings.time == "processing":
        words.append("--processing-time")
    folder = quoted_path(out)
    run = f"kstoolkit run {quoted_path(Path(settings.source))} {' '.join(words)} --out {folder}"
    note = "  # rules.toml: the rules named above" if own_rules else ""
    return f"{run} && kstoolkit report {folder}{note}"
