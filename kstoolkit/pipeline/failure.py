"""Why Spark gave up, as one sentence: the cause, and where the rest of its words are."""

from __future__ import annotations

import re
from shutil import disk_usage
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from kstoolkit.errors import RunFailed
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from kstoolkit.pipeline.runfolder import RunFolder

__all__ = ["JAVA_IS_GONE", "java_ended", "run_failed"]

JAVA_IS_GONE = (Py4JError, ConnectionError)
"""What any call of Spark raises once its Java has ended."""

_CAUSE = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)*(\w+(?:Error|Exception))(?:: (.+))?")
_WRAPPERS = {"Py4JJavaError", "PythonException", "SparkException", "StreamingQueryException"}
"""Errors that only carry another one."""
_LITTLE_BYTES = 64 << 20


def run_failed(error: object, folder: RunFolder) -> RunFailed:
    """Return what Spark said as one sentence, and where the rest of it is."""
    message = f"Spark gave up: {_root_cause(str(error))}."
    free_bytes = disk_usage(folder.path).free
    # A state store that can't write breaks off without a word to the Python that waits for it.
    if free_bytes < _LITTLE_BYTES:
        message += f" Only {format_bytes(free_bytes)} are free where {str(folder.path)!r} lies."
    return RunFailed(
        message,
        hint="Nothing is lost: mend it and run again, it goes on from the last whole batch. "
        f"Spark's own words are in {folder.log}.",
    )


def java_ended(folder: RunFolder) -> RunFailed:
    """Return that Spark's Java ended without a word: the usual reason is the system's."""
    return RunFailed(
        "Spark's Java ended while it counted; systems do that to whoever takes most memory.",
        hint="Nothing is lost: run again, it goes on from the last whole batch. If it happens "
        "again, set KSTOOLKIT_DRIVER_MEMORY=2g, say, or max_files_per_batch. "
        f"Spark's own words are in {folder.log}.",
    )


def _root_cause(said: str) -> str:
    """Return the error at the bottom of Python's and Java's traces, which wrap one another."""
    trace, _, _ = said.partition("=== Streaming Query ===")
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [found for line in lines if (found := _CAUSE.fullmatch(line))]
    known = [cause for cause in causes if cause[1] not in _WRAPPERS]
    if not known:
        return next(iter(lines), "no reason given")
    return f"{known[-1][1]}: {known[-1][2] or 'a worker lost its connection'}".rstrip(".")
