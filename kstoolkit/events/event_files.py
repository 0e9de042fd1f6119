"""Events as files: JSON lines, CSV or Parquet, plain or compressed; the same bytes every time.

Text is joined in columns, not row by row. A gzip file carries no time and no name, and its deflate
stream is fed in fixed pieces, so that its bytes depend on the events (and on zlib) alone.
"""

from __future__ import annotations

import csv
import io
import json
import os
import struct
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstoolkit.errors import ConfigurationError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


FileFormat = Literal["json", "csv", "parquet"]
Compression = Literal["gzip", "zstd"]

_FORMATS = ("json", "csv", "parquet")
_SUFFIXES = {None: "", "gzip": ".gz", "zstd": ".zst"}
_ROWS_AT_A_TIME = 100_000
_GZIP_HEADER = bytes.fromhex("1f8b 08 00 00000000 02 ff")
"""Deflate, no flags, no time, best compression, unknown system (RFC 1952)."""


def write_events(
    events: pa.Table,
    folder: Path,
    *,
    file_format: FileFormat,
    compression: Compression | None,
    files: int,
) -> list[Path]:
    """Write events to ``folder`` as ``files`` files of about equal size, and return their paths.

    Each file appears under its name only once it is whole.

    Parameters
    ----------
    events
        Columns time (timestamp in ms), user and action.
    file_format, compression
        How to write them. A Parquet file is compressed inside and keeps its plain name.

    Raises
    ------
    ConfigurationError
        If there is no such format or compression, or there are fewer events than files.
    OutputError
        If the folder can't be written, or holds other files of events.
    """
    _check(file_format, compression, files, events.num_rows)
    suffix = "" if file_format == "parquet" else _SUFFIXES[compression]
    names = [f"events-{number + 1:03}.{file_format}{suffix}" for number in range(files)]
    _check_leftovers(folder, names)
    ends = [events.num_rows * (number + 1) // files for number in range(files)]
    for name, start, end in zip(names, [0, *ends], ends, strict=False):
        with replacing(folder / name) as out:
            _write(events.slice(start, end - start), out, file_format, compression)
    return [folder / name for name in names]


def _check(file_format: str, compression: str | None, files: int, rows: int) -> None:
    if file_format not in _FORMATS:
        message = f"There is no format {file_format!r} for events."
        raise ConfigurationError(message, hint="Choose one of: json, csv, parquet.")
    if compression not in _SUFFIXES:
        message = f"There is no compression {compression!r}."
        raise ConfigurationError(message, hint="Choose gzip, zstd, or None for none.")
    if not 1 <= files <= rows:
        message = f"{rows:,} events don't fill {files:,} files."
        raise ConfigurationError(message, hint="Give a number of files between 1 and the events'.")


def _check_leftovers(folder: Path, names: list[str]) -> None:
    left = sorted({path.name for path in folder.glob("events-*")} - set(names))
    if left:
        message = f"{folder} already holds {left[0]}, which these events would not replace."
        raise OutputError(message, hint="Remove the old events, or give another folder.")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` when all of it is written, and not before.

    Raises
    ------
    OutputError
        If it can't be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as out:
            yield out
        unfinished.replace(path)
    except OSError as error:
        message = f"Can't write {path}: {error.strerror or error}."
        raise OutputError(message, hint="Give a folder that you may write to.") from error
    finally:
        if unfinished.parent.is_dir():
            unfinished.unlink(missing_ok=True)


def _write(
    events: pa.Table, out: BinaryIO, file_format: FileFormat, compression: Compression | None
) -> None:
    if file_format == "parquet":
        pq.write_table(events, out, compression=compression or "none")
        return
    pieces = _TEXT[file_format](events)
    if compression == "gzip":
        out.writelines(gzip_pieces(pieces))
    elif compression == "zstd":
        with pa.CompressedOutputStream(pa.PythonFile(out), "zstd") as stream:
            for piece in pieces:
                stream.write(piece)
    else:
        out.writelines(pieces)


def gzip_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a gzip file that holds ``pieces``, the same bytes for the same pieces.

    Examples
    --------
    >>> import gzip
    >>> gzip.decompress(b"".join(gzip_pieces([b"one ", b"two"])))
    b'one two'
    """
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    checksum = size_bytes = 0
    yield _GZIP_HEADER
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
        size_bytes += len(piece)
        yield deflate.compress(piece)
    yield deflate.flush() + struct.pack("<LL", checksum, size_bytes & 0xFFFFFFFF)


def json_lines(events: pa.Table) -> Iterator[bytes]:
    """Yield events as JSON lines, many at a time.

    Examples
    --------
    >>> row = {"time": 1_757_667_600_000, "user": "zoë.kim", "action": "edit"}
    >>> schema = pa.schema({"time": pa.timestamp("ms"), "user": pa.string(), "action": pa.string()})
    >>> print(b"".join(json_lines(pa.Table.from_pylist([row], schema=schema))).decode(), end="")
    {"time":"2025-09-12T09:00:00.000Z","user":"zoë.kim","action":"edit"}
    """
    head, user, action, end = '{"time":"', 'Z","user":', ',"action":', "}\n"
    for time, users, actions in _columns(events, lambda text: json.dumps(text, ensure_ascii=False)):
        yield _as_one(
            pc.binary_join_element_wise(head, time, user, users, action, actions, end, "")
        )


def _csv(events: pa.Table) -> Iterator[bytes]:
    yield b"time,user,action\n"
    for time, users, actions in _columns(events, _quoted):
        yield _as_one(pc.binary_join_element_wise(time, "Z,", users, ",", actions, "\n", ""))


def _quoted(text: str) -> str:
    line = io.StringIO()
    # Only characters of the line's end make the writer quote a line break, so it is needed here.
    csv.writer(line, lineterminator="\r\n").writerow([text])
    return line.getvalue().removesuffix("\r\n")


def _columns(
    events: pa.Table, encode: Callable[[str], str]
) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
    for start in range(0, events.num_rows, _ROWS_AT_A_TIME):
        some = events.slice(start, _ROWS_AT_A_TIME).combine_chunks()
        times = some["time"].cast(pa.int64()).to_numpy().astype("datetime64[ms]")
        yield (
            pa.array(np.datetime_as_string(times)),
            _encoded_once(some["user"], encode),
            _encoded_once(some["action"], encode),
        )


def _encoded_once(column: pa.ChunkedArray, encode: Callable[[str], str]) -> pa.Array:
    """Encode each different text once, however often it occurs."""
    texts = column.combine_chunks().dictionary_encode()
    return pa.array(map(encode, texts.dictionary.to_pylist()), pa.string()).take(texts.indices)


def _as_one(lines: pa.Array) -> bytes:
    """Return all lines as one: they already lie one after the other in memory."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    start, end = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return memoryview(lines.buffers()[2])[start:end].tobytes()


_TEXT: dict[str, Callable[[pa.Table], Iterator[bytes]]] = {"json": json_lines, "csv": _csv}
