"""The shorter sections of a report: each takes its part of the content and returns HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.markup import Html, element, isolated, joined, sentence, shortened, text
from kstoolkit.report.moments import moment, period
from kstoolkit.report.tables import LONGEST_IN_TABLE, announced, facts, nothing, table
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from kstoolkit.report.content import DeadLetters, DeadLetterSample, Origin, ReportContent


LONGEST_RAW = 800
LONGEST_COMMAND = 2_000


def summary_section(content: ReportContent) -> Html:
    """Return what was read and counted, as labels and values."""
    if not content.summary:
        return nothing("No summary was kept.")
    return facts((label, isolated(value, 300)) for label, value in content.summary)


def users_section(content: ReportContent, top: int) -> Html:
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


def dead_letters_section(letters: DeadLetters, top: int) -> Html:
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
    command = element("p", "Made by ", element("code", isolated(given, LONGEST_COMMAND)))
    versions = [(name, isolated(version)) for name, version in origin.versions]
    ends = [("Data from", origin.first_event_ms), ("Data to", origin.last_event_ms)]
    times = [(label, moment(time_ms)) for label, time_ms in ends if time_ms is not None]
    return joined(facts([("Made", moment(made_ms)), *times, *versions]), command)


def covered(origin: Origin) -> Html:
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
    raw = text(shortened(sample.raw, LONGEST_RAW), keep="\n\t")
    shown = element("pre", raw, dir="auto") if raw else nothing("No raw text.")
    return element("figure", caption, shown, class_="raw")


def _more(letters: DeadLetters, top: int) -> Html:
    shown = min(len(letters.samples), top)
    said = announced(shown, letters.total, "record", which="")
    return text("") if shown >= letters.total else element("p", f"{said}.", class_="nothing")
