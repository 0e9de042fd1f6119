"""A file of the changelog as Parquet: opened, and what it says of itself, or what is wrong with it.

Pages carry a checksum, which is looked at: a flipped byte is told, and never counted.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.countswriter import CODED, GROUPS_KEY, SCHEMA
from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """Raise what Arrow makes of bytes that are not as they should be as an error of ours.

    What the system says (no such file, no permission) passes as it is.

    Raises
    ------
    FormatError
        With the file and Arrow's reason, which is chained.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(path, error) from error


def opened(path: Path) -> pq.ParquetFile:
    """Return the file, open for reading; texts come by dictionary.

    Raises
    ------
    FormatError
        If it is damaged, or lacks a column.
    """
    try:
        with understood(path):
            file = pq.ParquetFile(
                path, read_dictionary=["user", "action"], page_checksum_verification=True
            )
    except KeyError as error:
        raise _lacking(path, error.args[0].decode()) from error
    for name in SCHEMA.names:
        if name not in file.schema_arrow.names:
            file.close()
            raise _lacking(path, name)
    return file


def told_groups(file: pq.ParquetFile, path: Path) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """Return what the file says of its row groups: among how many buckets, and what each holds.

    Returns
    -------
    tuple
        ``None`` and nothing, if it does not say, or what it says is not of what it holds.

    Raises
    ------
    FormatError
        If what it says makes no sense.
    """
    text = (file.metadata.metadata or {}).get(GROUPS_KEY.encode())
    # Arrow hands metadata on to whatever is written from a table, true or not by then.
    if text is None or not file.schema_arrow.equals(CODED):
        return None, ()
    try:
        told = json.loads(text)
        groups = tuple((int(bucket), int(window_ms)) for bucket, window_ms in told["groups"])
        buckets = int(told["buckets"])
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, error) from error
    return (buckets, groups) if len(groups) == file.num_row_groups else (None, ())


def damaged(path: Path, why: object) -> FormatError:
    """Return the error of a file that can't be read."""
    message = f"{path} is damaged, or no part of a changelog: {_in_a_line(why)}."
    hint = "Restore it from a copy; without one, count its events again into another folder."
    return FormatError(message, hint=hint)


def _in_a_line(why: object) -> str:
    return (str(why).splitlines() or ["no reason given"])[0].rstrip(".")


def _lacking(path: Path, column: str) -> FormatError:
    message = f"{path} is no part of a changelog: it has no column {column!r}."
    return FormatError(message, hint=f"It takes: {', '.join(SCHEMA.names)}.")
