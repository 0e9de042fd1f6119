"""Rows of a store, or differences of two, as a file: Parquet, JSON lines or CSV.

The file is there whole or not at all, and never among a store's own files.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from kstoolkit.errors import ConfigurationError, Option, OutputError, naming
from kstoolkit.formats.columns import HEADERS
from kstoolkit.rocksdb.faults import StoreResourceError
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.rows import in_hex, json_text
from kstoolkit.stores.spark.checkpoint import checkpoint_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kstoolkit.stores.comparing.storediff import StoreDiff
    from kstoolkit.stores.rows.readable import Rows

    _Exportable = Rows | StoreDiff

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextmanager
def _appearing(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a hidden path that becomes the target's at the end, or goes."""
    _check_free(target, overwrite=overwrite)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield beside
        _check_free(target, overwrite=overwrite)
        beside.replace(target)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        message = f"Rows can't be written to {str(target)!r}: {why}."
        if error.errno in _NO_ROOM:
            raise StoreResourceError(message, hint="Make room there, or name another.") from error
        hint = "Name a file in a folder that exists, and that you may write to."
        raise OutputError(message, hint=hint) from error
    finally:
        beside.unlink(missing_ok=True)


def _check_free(target: Path, *, overwrite: bool) -> None:
    if not overwrite and os.path.lexists(target):
        message = f"There is a file {str(target)!r} already."
        hint = naming("Name another, or say {overwrite}.", overwrite=Option("overwrite", "True"))
        raise OutputError(message, hint=hint)


def _check_is_elsewhere(target: Path, store: HasRows) -> None:
    """Refuse a file among the store's own, where its engine would come upon it."""
    path = getattr(store, "path", None)
    if path is None:
        return
    folder = Path(path).resolve()
    checkpoint = checkpoint_of(folder)
    whole = folder if checkpoint is None else checkpoint.path
    if whole in target.resolve().parents:
        message = f"{str(target)!r} lies in the store's own folder, {str(whole)!r}."
        raise OutputError(message, hint="Name a file elsewhere: that folder is its engine's.")


_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # of the years 1 to 9999, UTC
_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 32 << 20
_LINES_AT_ONCE = 10_000


def export(
    rows: HasRows | Rows | StoreDiff, path: str | os.PathLike[str], *, overwrite: bool = False
) -> int:
    """Write rows to a file, and return how many.

    They are written beside the file, under a hidden name that becomes its own at the end: the file
    is there whole, or not at all. Memory holds some megabytes of them at a time.

    Parameters
    ----------
    rows
        A store, some rows of one, or the differences of two.
    path
        The file, in a folder that is there, and not in the store's own. Its name says what to
        write: ``.parquet``, ``.jsonl`` or ``.json`` (one JSON object a line), ``.csv``; the texts
        also with ``.gz`` or ``.zst`` behind. Parquet has the columns of ``to_arrow()``, and so has
        CSV, with bytes in hex, headers as JSON, texts in quotes, and times that are no date as
        epoch ms; a JSON object has the fields of ``json_lines()``. Texts in CSV are as they are: a
        spreadsheet should import those columns as text, as ``=`` begins a formula there.
    overwrite
        Whether a file that is there is to be replaced.

    Raises
    ------
    ConfigurationError
        If the name ends otherwise.
    OutputError
        If the file is there already, lies in the folder of the store, or can't be written.
    StoreResourceError
        If there is no room for it.

    Examples
    --------
    >>> import tempfile
    >>> from kstoolkit.stores.comparing.folders import listed
    >>> store = listed("counts", [(b"anna", b"3")], key_serde="string", value_serde="json")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(store.rows(), f"{folder}/rows.csv.gz")
    1
    """
    target = Path(path)
    write = _writer(target)
    if isinstance(rows, HasRows):
        _check_is_elsewhere(target, rows)
        rows = rows.rows()
    with _appearing(target, overwrite=overwrite) as beside:
        return write(rows, beside)


def _writer(target: Path) -> Callable[[_Exportable, Path], int]:
    suffixes = [each.lower() for each in target.suffixes]
    compression = _COMPRESSION.get(suffixes[-1]) if suffixes else None
    last = suffixes[-2:-1] if compression else suffixes[-1:]
    match last:
        case [".jsonl" | ".json"]:
            return partial(_json, compression=compression)
        case [".csv"]:
            return partial(_csv, compression=compression)
        case [".parquet"] if compression is None:
            return _parquet
    message = f"The name {target.name!r} does not say what to write."
    hint = "End it in .parquet, .jsonl or .csv; the last two also with .gz or .zst behind."
    raise ConfigurationError(message, hint=hint)


def _parquet(rows: _Exportable, path: Path) -> int:
    parts = (part.to_arrow() for part in rows.batches())
    first = next(parts)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        return _write_all(writer, _row_groups(_of_schema(first, parts)))


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables together until they are worth a row group, which readers take in one go."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        num_rows = sum(len(each) for each in held)
        if num_rows >= _GROUP_ROWS or sum(each.nbytes for each in held) >= _GROUP_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _csv(rows: _Exportable, path: Path, *, compression: str | None) -> int:
    tables = (part.to_arrow() for part in rows.batches())
    parts = (pa.table([*map(_as_text, each.columns)], each.column_names) for each in tables)
    first = next(parts)
    with (
        pa.output_stream(path, compression=compression) as file,
        pc_csv.CSVWriter(file, first.schema) as writer,
    ):
        return _write_all(writer, _of_schema(first, parts))


def _write_all(writer: pq.ParquetWriter | pc_csv.CSVWriter, tables: Iterator[pa.Table]) -> int:
    number = 0
    for table in tables:
        writer.write_table(table)
        number += len(table)
    return number


def _json(rows: _Exportable, path: Path, *, compression: str | None) -> int:
    number, held = 0, []
    with pa.output_stream(path, compression=compression) as file:
        for line in rows.json_lines():  # not kept by a name: with the loop, its store is let go
            held.append(f"{line}\n")
            number += 1
            if number % _LINES_AT_ONCE == 0:
                file.write("".join(held).encode())
                held.clear()
        file.write("".join(held).encode())
    return number


def _of_schema(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    for table in others:
        yield _with_columns(first.schema, table).cast(first.schema)


def _with_columns(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """Return a table with the columns of a schema; those that it lacks are null."""
    if new := [name for name in table.column_names if name not in schema.names]:
        message = f"Later rows tell their {new[0]!r}, which the first thousands of them do not."
        raise OutputError(message, hint="Write them as .jsonl, where each row has its own fields.")
    for each in schema:
        if each.name not in table.column_names:
            table = table.append_column(each, pa.nulls(len(table), each.type))
    return table.select(schema.names)


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    kind = column.type
    if pa.types.is_large_binary(kind):
        return in_hex(column.combine_chunks())
    if pa.types.is_timestamp(kind):
        # Arrow can't write years but 1 to 9999: the others are told in ms.
        time_ms = column.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        is_date = pc.and_(pc.greater_equal(time_ms, _FIRST_MS), pc.less_equal(time_ms, _LAST_MS))
        dates = pc.if_else(is_date, column, None).cast(pa.large_string())
        return pc.if_else(is_date, dates, time_ms.cast(pa.large_string()))
    is_nested = pa.types.is_nested(kind)
    if pa.types.is_null(kind) or (is_nested and column.null_count == len(column)):
        return pa.nulls(len(column), pa.large_string())
    if not is_nested:
        return column
    cells = column.to_pylist()
    if kind == HEADERS:
        cells = [cell and [[each["name"], each["value"]] for each in cell] for cell in cells]
    texts = [None if cell is None else json_text(cell) for cell in cells]
    return pa.array(texts, pa.large_string())
