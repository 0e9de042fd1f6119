"""What a page says of a run: who needs a look, a card for each; how it ran, in an appendix.

The appendix has the run's figures, its rules, scores of users without a card, and dead letters, of
which ten at most are shown, one of each reason first.

This module joins the pipeline to the page: nobody imports it before a run is to be reported.
"""

from __future__ import annotations

import platform
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from kstoolkit.events.event import REASONS
from kstoolkit.findings.incidents import unmerged
from kstoolkit.findings.rulefiles import rules_from_json
from kstoolkit.findings.rules import DEFAULT_RULES, shared
from kstoolkit.markup import Html, element, isolated, joined, sentence, shortened, text
from kstoolkit.pipeline.run import sampled_letters
from kstoolkit.records import counted
from kstoolkit.report import tables
from kstoolkit.report.cards import SHOWN, cards, legend, look, stories_of
from kstoolkit.report.page import Origin, ReportPart, Section, keyed
from kstoolkit.report.tables import facts, nothing, quoted_path, shown_path, table
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from kstoolkit.pipeline.batches import RunSummary
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import Settings
    from kstoolkit.report.page import Ids

_FRAMES = {"frame", "staged"}
"""Feeds whose events came from a DataFrame, rather than from files."""
_FEWEST_SAMPLES = 3
_LONGEST_RAW = 240


def run_part(run: Run, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of a run: at most ``limit`` users, and raw records.

    A live run is reported as far as it is.
    """
    top = SHOWN if limit is None else limit
    settings, summary = run.settings, run.summary()
    found, origin, title = unmerged(run.incidents()), _origin_of(run), title_of(settings)
    stories, total = stories_of(found, ids, top)
    carded = {each.first.user for each in stories if each.first.user is not None}
    users = run.users(most=top, also=carded)
    letters = _dead_letters(settings, run.folder.path, summary.dead_letters, top)
    appendix = (
        _section("Operations", _summary(summary), ids, "summary"),
        _section("Rules", _rules(settings), ids),
        _section("Scores", _scores(users, carded, top), ids),
        _section("Dead letters", letters, ids),
    )
    shown = look(found, stories, total, origin.span_ms)
    inner = [_section("Who needs a look", shown, ids, "incidents")]
    if stories:
        each = cards(run, found, stories, users, origin.span_ms)
        inner.append(replace(_section("User by user", legend(settings), ids, "users"), inner=each))
    inner.append(replace(_section("Appendix", Html(), ids), inner=appendix))
    told = f"{counted(len(found), 'incidents')} · {counted(users.attrs['users'], 'users')}"
    return ReportPart(
        title=title,
        section=Section(key=ids.new("run"), heading=isolated(title, 200), inner=tuple(inner)),
        span_ms=origin.span_ms,
        lead=joined(_covered(origin), f" · {told} scored"),
        origin=origin,
    )


def title_of(settings: Settings) -> str:
    """Return what the report of a run is called."""
    source = f" in {Path(settings.source).name}" if settings.feed not in _FRAMES else ""
    return f"Abnormal users{source}"


def _section(name: str, body: Html, ids: Ids, kind: str = "") -> Section:
    kind = kind or keyed(name)
    return Section(key=ids.new(kind), heading=text(name), body=body, kind=kind)


def _covered(origin: Origin) -> Html:
    if origin.span_ms is None:
        return text("time unknown (no events)")
    first, last = (time - time % 60_000 for time in origin.span_ms)
    return tables.period(first, last)


def _summary(summary: RunSummary) -> Html:
    """Return the summary without what the page says itself.

    The page lists each finding once, where the summary counts each time that it was reported; and
    it has a section for dead letters.
    """
    return facts(
        (what, isolated(figure, 300))
        for what, figure in summary.rows()
        if what != "findings reported" and not what.startswith("dead letters")
    )


def _rules(settings: Settings) -> Html:
    rules = [isolated(each.name, 300) for each in shared([*rules_from_json(settings.rules)])]
    listed = element("ul", *(element("li", each) for each in rules)) if rules else text("none")
    return facts([("windows", isolated(", ".join(settings.windows), 300)), ("rules", listed)])


def _scores(users: pd.DataFrame, told: set[str], top: int) -> Html:
    """Return the users with the highest scores, as far as they have no card."""
    first, total = users.head(top), counted(users.attrs["users"], "users")
    if not users.attrs["users"]:
        return nothing("No users were scored.")
    shown = first[~first["user"].isin(told)]
    highest = f"the highest {format_count(len(first))} scores of {total}"
    if shown.empty:
        return nothing(f"All who have {highest} have a card above.")
    rows = map(_score, shown.itertuples())
    caption = f"Who has one of {highest}, over all windows and actions, and no card above."
    return table(caption, ("No.", "User", "Score", "Reason"), rows, numbers={0, 2})


def _score(row: Any) -> Sequence[Html]:
    place, score = text(format_count(row.Index + 1)), text(f"{row.score:,.2f}")
    return place, isolated(row.user, tables.LONGEST_IN_TABLE), score, sentence(row.reason, row.user)


def _dead_letters(settings: Settings, out: Path, by_reason: Mapping[str, int], top: int) -> Html:
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
    shown = sampled_letters(out, counts, min(top, max(len(counts), _FEWEST_SAMPLES)))
    some = tables.announced(len(shown), total, "records", which="")
    more = [element("p", f"{some}.", class_="nothing")] if len(shown) < total else []
    samples = (_sample(each, settings.source) for each in shown)
    return joined(told, element("div", *samples, class_="samples"), *more)


def _sample(letter: Mapping[str, Any], source: str) -> Html:
    detail, path, raw = (letter[name] for name in ("detail", "file", "raw"))
    reason = element("code", isolated(f"{letter['reason']}{f': {detail}' if detail else ''}"))
    file = "unknown file"
    if path is not None:  # from the source on, as the run was told of that; else as others see it
        before, found, inside = path.partition(f"{source}/")
        seen = shown_path(path)
        near = PurePath(seen).name if PurePath(seen).is_absolute() else seen
        file = found + inside if before and inside else near
    caption = (reason, " · ", isolated(file, 200), f" · batch {letter['batch']}")
    shown = nothing("No raw text.")
    if raw:
        shown = element("pre", text(shortened(raw, _LONGEST_RAW), keep="\n\t"), dir="auto")
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
    # On whose machine a folder lies, and where, helps nobody elsewhere.
    folder = shlex.quote(out.name) if shown_path(out)[:1] == "/" else quoted_path(out)
    run = f"kstoolkit run {quoted_path(Path(settings.source))} {' '.join(words)} --out {folder}"
    note = "  # rules.toml: the rules named above" if own_rules else ""
    return f"{run} && kstoolkit report {folder}{note}"
