"""The report as a file: it is there whole, or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kstoolkit.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path


def write_page(target: Path, page: bytes) -> Path:
    """Write a page and return where it lies.

    A file that is there already is replaced in one step, so that whoever has it open, or is copying
    it, never sees half of one.

    Raises
    ------
    OutputError
        If the file can't be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Path(folder) / "report.html", b"<p>").read_bytes()
    b'<p>'
    """
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
