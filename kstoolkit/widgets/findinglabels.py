"""Findings as a panel shows them: a line in a list, a table, the whole story of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kstoolkit.findings.finding import evidence
from kstoolkit.markup import Html, joined, plain, sentence, shortened
from kstoolkit.markup import element as html
from kstoolkit.records import counted
from kstoolkit.units import format_count
from kstoolkit.widgets.showing import table_html

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kstoolkit.findings.finding import Finding, Findings


MOST_LISTED = 200

_LONGEST_OPTION = 48
_LONGEST_OFFERED = 100
_MOST_OFFERED = 200
_COLUMNS = ("user", "action", "window", "start (UTC)", "count", "expected")


def option_label(text: str) -> str:
    r"""Return a text from the data as one line of a list.

    Examples
    --------
    >>> option_label("a\nb")
    'a[U+000A]b'
    """
    return plain(shortened(text, _LONGEST_OPTION))


def finding_labels(findings: Iterable[Finding], known: Collection[str]) -> list[str]:
    """Return a line for each finding; those about known users say so."""
    return [_label(each, known=each.user in known) for each in findings]


def _label(finding: Finding, *, known: bool) -> str:
    who = f"{option_label(finding.user)}, “{option_label(finding.action)}”"
    against = f"expected {finding.expected}"
    if finding.ceiling is not None:
        against = f"ceiling {format_count(finding.ceiling)}"
    when = f"{finding.window_start:%Y-%m-%d %H:%M}, {finding.window}"
    known_or_not = "known: " if known else ""
    return f"{known_or_not}{who}: {format_count(finding.count)} ({against}), {when}"


def findings_table(findings: Sequence[Finding], of: int) -> Html:
    """Return the first of some findings as a table; nothing if there are none."""
    if not findings:
        return Html()
    rows = [
        (
            each.user,
            each.action,
            each.window,
            f"{each.window_start:%Y-%m-%d %H:%M}",
            each.count,
            each.expected,
        )
        for each in findings
    ]
    note = f"the first {len(findings)} of {format_count(of)}" if len(findings) < of else ""
    return table_html(_COLUMNS, rows, note)


def seen(found: int, of: int, left_out: int) -> str:
    """Return how many findings there are to see, and which are not listed.

    Examples
    --------
    >>> seen(3, 5, 2)
    '3 of 5 findings; 2 about known users left out.'
    """
    told = f"{format_count(found)} of {counted(of, 'findings')}"
    if found > MOST_LISTED:
        told += f"; the {MOST_LISTED} most severe are listed, filters show others"
    if left_out:
        told += f"; {format_count(left_out)} about known users left out"
    return f"{told}."


def story_html(finding: Finding) -> Html:
    """Return a finding's sentence and figures."""
    told = sentence(finding.sentence, finding.user, finding.action)
    return joined(html("p", told), table_html(("what", "figure"), evidence(finding)))


def story_key(finding: Finding) -> tuple[str, str, str, int, int]:
    """Return what a finding is known by, while its count may grow."""
    at = finding.window_start_ms
    return (finding.rule, finding.user, finding.action, finding.window_ms, at)


def window_labels(findings: Findings) -> list[str]:
    """Return the labels of the findings' windows, the shortest first."""
    labels = findings.table["window"].to_pylist()
    lengths = dict(zip(labels, findings.table["window_ms"].to_pylist(), strict=True))
    return sorted(lengths, key=lambda label: lengths[label])


def most_frequent(findings: Findings, column: str) -> list[str]:
    """Return the names to be offered: the 200 most frequent, without very long ones.

    What is not offered can be typed.
    """
    table = pc.value_counts(findings.table[column].combine_chunks())
    counts = sorted(table.to_pylist(), key=lambda each: (-each["counts"], each["values"]))
    names = [each["values"] for each in counts]
    return [name for name in names if len(name) <= _LONGEST_OFFERED][:_MOST_OFFERED]
