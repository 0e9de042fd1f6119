"""A run on a page: summary, findings with their plots, users, dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.markup import isolated, joined, text
from kstoolkit.report.findings import findings_section
from kstoolkit.report.part import Part
from kstoolkit.report.section import Section, keyed
from kstoolkit.report.sections import (
    covered,
    dead_letters_section,
    summary_section,
    users_section,
)
from kstoolkit.report.tables import announced

if TYPE_CHECKING:
    from kstoolkit.markup import Html
    from kstoolkit.report.content import ReportContent
    from kstoolkit.report.part import Span
    from kstoolkit.report.section import Ids


DEFAULT_TOP = 20
"""How many findings, users and raw records are shown: what one person looks at in one sitting."""


def run_part(content: ReportContent, ids: Ids, limit: int | None) -> Part:
    """Return what the page says of a run: at most ``limit`` findings, users and raw records."""
    top = DEFAULT_TOP if limit is None else limit
    inner = (
        _section("Summary", summary_section(content), ids),
        findings_section(content, ids, top),
        _section("Users", users_section(content, top), ids),
        _section("Dead letters", dead_letters_section(content.dead_letters, top), ids),
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
    return joined(covered(content.origin), f" · {findings} · {users} scored")


def _span(content: ReportContent) -> Span | None:
    first, last = content.origin.first_event_ms, content.origin.last_event_ms
    return None if first is None or last is None else (first, last)
