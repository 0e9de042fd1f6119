"""Self-contained HTML reports: a run's, or of anything that people look at.

A report needs no network, runs no script, suits light and dark screens, and prints on A4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.report.report import Report
from kstoolkit.report.runs import (
    DEFAULT_TOP,
    DeadLetters,
    DeadLetterSample,
    Origin,
    ReportContent,
    ReportFinding,
    ReportUser,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "DeadLetterSample",
    "DeadLetters",
    "Origin",
    "Report",
    "ReportContent",
    "ReportFinding",
    "ReportUser",
    "render_report",
    "write_report",
]


def render_report(content: ReportContent, *, top: int = DEFAULT_TOP) -> str:
    """Return the report of a run as one self-contained HTML page.

    Parameters
    ----------
    content
        What to say.
    top
        How many findings, users and raw records to show; the page says how many there are.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> origin = Origin(generated_at=datetime(2015, 9, 13, tzinfo=UTC))
    >>> page = render_report(ReportContent(title="Edits", origin=origin))
    >>> "No findings" in page and "<script" not in page
    True
    """
    return Report(content.title).add(content, limit=top).html()


def write_report(path: str | Path, content: ReportContent, *, top: int = DEFAULT_TOP) -> Path:
    """Write the report of a run, and return where it lies.

    Parameters
    ----------
    path
        The file, in a folder that is there.
    content, top
        As in :func:`render_report`.

    Raises
    ------
    OutputError
        If the file can't be written.

    Examples
    --------
    >>> import tempfile
    >>> from datetime import UTC, datetime
    >>> origin = Origin(generated_at=datetime(2015, 9, 13, tzinfo=UTC))
    >>> content = ReportContent(title="Edits", origin=origin)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(f"{folder}/report.html", content)
    ...     path.name, path.stat().st_size > 1_000
    ('report.html', True)
    """
    return Report(content.title).add(content, limit=top).write(path)
