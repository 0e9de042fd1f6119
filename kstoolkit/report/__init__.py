"""A self-contained HTML report of a run: plain records in, one file out.

It needs no network, runs no script, suits light and dark screens, and prints on A4.
"""

from __future__ import annotations

from kstoolkit.report.content import (
    CountSeries,
    DeadLetters,
    DeadLetterSample,
    Origin,
    ReportContent,
    ReportFinding,
    ReportUser,
)
from kstoolkit.report.file import write_report
from kstoolkit.report.page import render_report

__all__ = [
    "CountSeries",
    "DeadLetterSample",
    "DeadLetters",
    "Origin",
    "ReportContent",
    "ReportFinding",
    "ReportUser",
    "render_report",
    "write_report",
]
