"""The report as a file: it is there whole, or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import OutputError
from kstoolkit.report.page import DEFAULT_TOP, render_report

if TYPE_CHECKING:
    from kstoolkit.report.content import ReportContent

__all__ = ["write_report"]


def write_report(path: str | Path, content: ReportContent, *, top: int = DEFAULT_TOP) -> Path:
    """Write a self-contained HTML report and return where it lies.

    A report that is there already is replaced in one step, so that whoever has it open, or is
    copying it, never sees half of one.

    Parameters
    ----------
    path
        The file, in a folder that is there.
    content
        What to say.
    top
        How many findings, users and raw records to show; the page says how many there are.

    Raises
    ------
    OutputError
        If the file can't be written.

    Examples
    --------
    >>> import tempfile
    >>> from datetime import UTC, datetime
    >>> from kstoolkit.report import Origin, ReportContent
    >>> origin = Origin(generated_at=datetime(2015, 9, 13, tzinfo=UTC))
    >>> content = ReportContent(title="Edits", origin=origin)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(f"{folder}/report.html", content)
    ...     path.name, path.stat().st_size > 1_000
    ('report.html', True)
    """
    target = Path(path)
    page = render_report(content, top=top).encode()
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(page)
        beside.replace(target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        message = f"The report can't be written to {target}: {error.strerror}."
        hint = "Name a file in a folder that exists and that you may write to."
        raise OutputError(message, hint=hint) from error
    return target
