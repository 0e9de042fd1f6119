"""The files of a run's input: which they are, whether they will do, and what columns they have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema

from kstoolkit.errors import InputError
from kstoolkit.events.files import check_columns, list_files, row_types
from kstoolkit.events.opening import format_of
from kstoolkit.pipeline import stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstoolkit.events.sources import Files
    from kstoolkit.pipeline.runfolder import RunFolder


_SEEN_FILES = 3


def input_paths(source: Files, folder: RunFolder) -> list[str]:
    """Return the input's files as of now, in the order of their names, without the run's own."""
    return list_files(source.path, source.file_format, without=str(folder.path))


def check_input(source: Files, folder: RunFolder, *, live: bool) -> None:
    """Say at once what is wrong with the files, before Spark is started for it.

    Raises
    ------
    InputError
        If there are none, all are empty, or one lacks a column.
    """
    found = input_paths(source, folder)
    begins = not live and not folder.ledger.exists()
    if not found and begins:
        message = f"No events in {source.path!r}: no file there has a known format."
        raise InputError(
            message, hint="Files end in .json, .jsonl, .csv or .parquet (and .gz, .zst)."
        )
    if begins and all(_is_empty(path) for path in found):
        files = "the file is empty" if len(found) == 1 else f"all {len(found)} files are empty"
        message = f"No events in {source.path!r}: {files}."
        raise InputError(message, hint="Fill it, or give another.")
    check_columns(found, source.columns, source.file_format)


def _is_empty(path: str) -> bool:
    try:
        return Path(path).stat().st_size == 0
    except FileNotFoundError:
        return True


def schema_of(source: Files, folder: RunFolder, spark: SparkSession) -> str:
    """Return the columns that expressions may name, from the first files, as Spark's JSON.

    Raises
    ------
    InputError
        If there is no file to see them in.
    """
    paths = input_paths(source, folder)[:_SEEN_FILES]
    if not paths:
        message = f"No file in {source.path!r} yet to see columns in."
        raise InputError(message, hint="Expressions need one; plain column names do not.")
    if format_of(paths[0], source.file_format) == "json":
        return stream.json_schema(spark, paths).json()
    return str(from_arrow_schema(row_types(paths[0], source.file_format)).json())
