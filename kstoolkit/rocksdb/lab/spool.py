"""Rows to replay, kept in a file, so that each trial writes the same ones in the same order."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.rocksdb.lab.workloads import BATCH_ROWS, Batch
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["keep_rows", "kept_rows"]

_BYTES = pa.binary()
_SCHEMA = pa.schema([("key", _BYTES), ("value", _BYTES)])


def keep_rows(rows: Iterable[tuple[bytes, bytes | None]], path: Path, *, disk_bytes: int) -> int:
    """Write rows to a file of Arrow's stream format; return how many.

    Raises
    ------
    ConfigurationError
        If something is no row, or the rows take more than ``disk_bytes``.
    InputError
        If there are none.
    """
    source = iter(rows)
    number = 0
    with path.open("wb") as file, pa.ipc.new_stream(file, _SCHEMA) as stream:
        while some := list(islice(source, BATCH_ROWS)):
            stream.write_batch(_batch(some))
            number += len(some)
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


def _batch(rows: list[tuple[bytes, bytes | None]]) -> pa.RecordBatch:
    hint = "Give pairs such as (b'key', b'value'); a value of None deletes its key."
    try:
        keys, values = (pa.array(column) for column in zip(*rows, strict=True))
    except (TypeError, ValueError) as error:  # which Arrow's own errors are, too
        message = f"Rows to replay are pairs of keys and values in bytes: {error}."
        raise ConfigurationError(message, hint=hint) from error
    for what, column, known in (("keys", keys, [_BYTES]), ("values", values, [_BYTES, pa.null()])):
        if column.type not in known:
            message = f"Rows to replay have {what} of type {column.type}; they are to be bytes."
            raise ConfigurationError(message, hint=hint)
    if keys.null_count:
        message = "A row to replay has no key."
        raise ConfigurationError(message, hint=hint)
    return pa.record_batch([keys, values.cast(_BYTES)], _SCHEMA)
