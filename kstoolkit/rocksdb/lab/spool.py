"""Rows to replay, kept in a file, so that each trial writes the same ones in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.rocksdb.lab.workloads import BATCH_ROWS, Batch
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


_BATCH_BYTES = 4 << 20
_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def keep_rows(rows: Iterable[tuple[bytes, bytes | None]], path: Path, *, disk_bytes: int) -> int:
    """Write rows to a file of Arrow's stream format; return how many.

    Raises
    ------
    ConfigurationError
        If something is no row, or the rows take more than ``disk_bytes``.
    InputError
        If there are none.
    """
    number = 0
    with path.open("wb") as file, pa.ipc.new_stream(file, _SCHEMA) as stream:
        for some in _batches(rows):
            stream.write_batch(pa.record_batch([*some], _SCHEMA))
            number += len(some.keys)
            if file.tell() > disk_bytes:
                message = f"The rows to replay take more than {format_bytes(disk_bytes)}."
                raise ConfigurationError(message, hint="Raise disk_bytes, or give fewer rows.")
    if not number:
        message = "There are no rows to replay."
        raise InputError(message, hint="Give keys and values, such as a store's own rows.")
    return number


def kept_rows(path: Path) -> Iterator[Batch]:
    """Yield the rows of a file, as they were written.

    Raises
    ------
    OSError
        If the file can't be read.
    """
    with path.open("rb") as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield Batch(batch.column("key").to_pylist(), batch.column("value").to_pylist())


def _batches(rows: Iterable[tuple[bytes, bytes | None]]) -> Iterator[Batch]:
    """Yield the rows, so many at a time that neither their number nor their bytes are large."""
    batch, size = Batch([], []), 0
    for number, row in enumerate(rows, 1):
        key, value = _checked(row, number)
        batch.keys.append(key)
        batch.values.append(value)
        size += len(key) + len(value or b"")
        if len(batch.keys) == BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch
            batch, size = Batch([], []), 0
    if batch.keys:
        yield batch


def _checked(row: object, number: int) -> tuple[bytes, bytes | None]:
    match row:
        case bytes(key), (bytes() | None) as value:
            return key, value
    message = f"Row {number:,} to replay is {row!r:.80}."
    hint = "Give pairs such as (b'key', b'value'); a value of None deletes its key."
    raise ConfigurationError(message, hint=hint)
