"""A finding's evidence in few words: what was seen, what was expected, and why it was told."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from kstoolkit.findings.sentence import chance
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.findings.finding import Finding


_COLUMNS = ("user", "action", "window", "start (UTC)", "count", "expected", "why")


def evidence(finding: Finding) -> list[tuple[str, str]]:
    """Return (what, figure) for people, in the order to be read.

    Examples
    --------
    >>> from kstoolkit.findings.finding import Finding
    >>> found = Finding(rule="Ceiling 10 per 1 minute", kind="Ceiling", user="Anna", action="read",
    ...                 window="1 minute", window_ms=60_000, window_start_ms=0, count=12,
    ...                 ceiling=10)
    >>> for what, figure in evidence(found)[:6]:
    ...     print(f"{what}: {figure}")
    user: Anna
    action: read
    window: 1 minute from 1970-01-01 00:00:00 UTC
    count: 12
    expected: unknown (no baseline)
    ceiling: 10
    """
    levels = ", ".join(f"{name} {format_count(n)}" for name, n in finding.other_levels.items())
    return [
        ("user", finding.user),
        ("action", finding.action),
        ("window", f"{finding.window} from {finding.window_start:%Y-%m-%d %H:%M:%S} UTC"),
        ("count", format_count(finding.count)),
        ("expected", finding.expected),
        ("ceiling", "none" if finding.ceiling is None else format_count(finding.ceiling)),
        ("chance of this or more", chance(finding.log10_probability)),
        ("in other windows", levels or "unknown (not kept)"),
        ("rule", finding.rule),
    ]


def in_short(finding: Finding) -> str:
    """Return who did what, how often and when, against what, in one line."""
    told = dict(evidence(finding))
    against = [f"expected {told['expected']}"]
    if finding.ceiling is not None:
        against.append(f"ceiling {told['ceiling']}")
    if finding.log10_probability is not None:
        against.append(f"chance {told['chance of this or more']}")
    count, who = told["count"], f"{finding.user!r}, {finding.action!r}"
    return f"{who}: {count} in {told['window']}, {', '.join(against)}"


def finding_html(finding: Finding) -> str:
    """Return a finding as HTML: its sentence, and its evidence as a table."""
    rows = "".join(
        f"<tr><th scope='row' style='text-align:left'>{escape(what)}</th>"
        f"<td style='text-align:left'>{escape(figure)}</td></tr>"
        for what, figure in evidence(finding)
    )
    return f"<p>{escape(finding.sentence)}</p><table>{rows}</table>"


def findings_html(caption: str, findings: Iterable[Finding]) -> str:
    """Return findings as an HTML table, one a row."""
    head = "".join(f"<th scope='col'>{name}</th>" for name in _COLUMNS)
    body = "".join(f"<tr>{_cells(each)}</tr>" for each in findings)
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cells(row: Finding) -> str:
    start = f"{row.window_start:%Y-%m-%d %H:%M}"
    why = f"chance {chance(row.log10_probability)}"
    if row.ceiling is not None:
        why = f"ceiling {format_count(row.ceiling)}"
    told = (row.user, row.action, row.window, start, format_count(row.count), row.expected, why)
    return "".join(f"<td>{escape(text)}</td>" for text in told)
