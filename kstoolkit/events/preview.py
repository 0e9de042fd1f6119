"""A look at the first records, so that a wrong column is said before Spark is started for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kstoolkit.events.csvfile import csv_header
from kstoolkit.events.opening import format_of, open_stream
from kstoolkit.events.parquetfile import parquet_names
from kstoolkit.events.pieces import require
from kstoolkit.events.sources import is_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.events.pieces import Columns


_FIRST_BYTES = 1 << 20
_FIRST_FILES = 3


def check_columns(paths: Sequence[str], columns: Columns, file_format: str | None) -> None:
    """Check that the first files have the columns; files that can't be read are judged later.

    Raises
    ------
    ColumnError
        If none of the first records has a column, or a header has it twice.
    """
    if not is_plain(columns):
        return
    for path in paths[:_FIRST_FILES]:
        names = column_names(path, file_format)
        if names:
            require(columns, names, path)


def column_names(path: str, file_format: str | None = None) -> list[str]:
    """Return the names that a file's first records have; none if it is empty or damaged.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = path.write_text('{"time": 1, "user": "a"}')
    >>> column_names(str(path))
    ['time', 'user']
    """
    try:
        match format_of(path, file_format):
            case "parquet":
                return parquet_names(path)
            case "csv":
                return csv_header(path)
            case "json":
                return _json_names(path)
    except OSError:
        return []


def _json_names(path: str) -> list[str]:
    with open_stream(path) as stream:
        first = stream.read(_FIRST_BYTES)
    names: dict[str, None] = {}
    for line in first.split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            names.update(dict.fromkeys(record))
    return list(names)
