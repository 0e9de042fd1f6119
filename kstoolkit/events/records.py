"""Events as bytes: what each record of a topic holds, and files that are the same every time.

A line of JSON is a record as it stands, whatever is in it: whoever reads the topic judges. A row of
CSV or Parquet is a JSON object of its columns; what is no row of CSV is its raw text. Columns are
encoded one by one, each different text once, and joined row by row in Arrow.

A gzip file that is written carries no time and no name, so that its bytes depend on the events (and
on zlib) alone.
"""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstoolkit.errors import ConfigurationError, OutputError, check_known
from kstoolkit.events.csv import csv_header, parquet_names, read_csv_rows, read_parquet_rows
from kstoolkit.events.event import as_text, require
from kstoolkit.events.json import Lines, chunks_of, read_json_values
from kstoolkit.events.opening import FORMATS, FileFormat, format_of
from kstoolkit.events.times import only_utf8, to_epoch_ms
from kstoolkit.formats.columns import is_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.events.event import Columns
    from kstoolkit.events.times import TimeUnit


def _json_objects(rows: pa.RecordBatch, names: Sequence[str]) -> list[bytes]:
    """Return each row as a JSON object in UTF-8.

    Numbers and booleans stay, but what is no finite number is null; times are ISO 8601, in UTC if
    they have a zone; bytes are text, or Base64 if not UTF-8; text that is not UTF-8 is null.
    """
    if not rows.num_columns:
        return [b"{}"] * rows.num_rows
    parts: list[Any] = []
    for place, (name, column) in enumerate(zip(names, rows.columns, strict=True)):
        parts += [f"{',' if place else '{'}{_compact(name)}:", _column_as_json(column)]
    joined = pc.binary_join_element_wise(*parts, "}", "")
    return joined.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _column_as_json(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        return _column_as_json(column.storage)
    if pa.types.is_dictionary(column.type):
        return _column_as_json(column.dictionary_decode())
    return _of_plain(column)


def _of_plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return pc.fill_null(column.cast(pa.string()), "null")
    if kind in {pa.string(), pa.large_string(), pa.string_view()}:
        return _each_once(only_utf8(column.cast(pa.string())))
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        in_utc = column.cast(pa.timestamp(kind.unit, "UTC")) if is_zoned else column
        return _each_once(pc.replace_substring(in_utc.cast(pa.string()), " ", "T"))
    if pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_duration(kind):
        return pa.array(map(_compact, column.to_pylist()), pa.string())
    return _each_once(column)


def _each_once(values: pa.Array, encode: Callable[[Any], str] | None = None) -> pa.Array:
    """Encode each different value once, however often it occurs."""
    if pa.types.is_binary_view(values.type):
        values = values.cast(pa.binary())
    coded = values.dictionary_encode()
    texts = pa.array(map(encode or _compact, coded.dictionary.to_pylist()), pa.string())
    return pc.fill_null(texts.take(coded.indices), "null")


def _compact(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _plain(value: Any) -> Any:
    """Return a value as JSON can tell it."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return value.decode() if is_utf8(value) else base64.b64encode(value).decode()
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value


Compression = Literal["gzip", "zstd"]

_SUFFIXES = {None: "", "gzip": ".gz", "zstd": ".zst"}
_ROWS_AT_A_TIME = 100_000


def write_events(
    events: pa.Table,
    folder: Path,
    *,
    file_format: FileFormat,
    compression: Compression | None,
    files: int,
) -> list[Path]:
    """Write events to ``folder`` as ``files`` files of about equal size, and return their paths.

    Their columns are time (timestamp in ms), user and action. Each file appears under its name only
    once it is whole. A Parquet file is compressed inside and keeps its plain name.
    """
    check_known("format", file_format, FORMATS)
    check_known("compression", compression, _SUFFIXES)
    if not 1 <= files <= events.num_rows:
        message = f"{events.num_rows:,} events don't fill {files:,} files."
        raise ConfigurationError(message, hint="Give a number of files between 1 and the events'.")
    suffix = "" if file_format == "parquet" else _SUFFIXES[compression]
    names = [f"events-{number + 1:03}.{file_format}{suffix}" for number in range(files)]
    left = sorted({path.name for path in folder.glob("events-*")} - set(names))
    if left:
        message = f"{folder} already holds {left[0]}, which these events would not replace."
        raise OutputError(message, hint="Remove the old events, or give another folder.")
    ends = [events.num_rows * (number + 1) // files for number in range(files)]
    for name, start, end in zip(names, [0, *ends], ends, strict=False):
        with replacing(folder / name) as out:
            _write(events.slice(start, end - start), out, file_format, compression)
    return [folder / name for name in names]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` when all of it is written, and not before."""
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
        with gzip_in(out) as file:
            file.writelines(pieces)
    elif compression == "zstd":
        with pa.CompressedOutputStream(pa.PythonFile(out), "zstd") as stream:
            for piece in pieces:
                stream.write(piece)
    else:
        out.writelines(pieces)


def gzip_in(out: BinaryIO) -> gzip.GzipFile:
    """Return a gzip file inside another: it has no time and no name."""
    return gzip.GzipFile("", "wb", fileobj=out, mtime=0)


def _json_lines(events: pa.Table) -> Iterator[bytes]:
    head, user, action, end = '{"time":"', 'Z","user":', ',"action":', "}\n"
    for time, users, actions in _columns(events, lambda text: json.dumps(text, ensure_ascii=False)):
        parts = (head, time, user, users, action, actions, end)
        yield _as_one(pc.binary_join_element_wise(*parts, ""))


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
            _each_once(some["user"].combine_chunks(), encode),
            _each_once(some["action"].combine_chunks(), encode),
        )


def _as_one(lines: pa.Array) -> bytes:
    """Return all lines as one: they already lie one after the other in memory."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)
    start, end = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return memoryview(lines.buffers()[2])[start:end].tobytes()


_TEXT: dict[str, Callable[[pa.Table], Iterator[bytes]]] = {"json": _json_lines, "csv": _csv}

_ROWS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class RawRecords:
    """Some records, in the order of their file.

    ``users`` are whose they are, in UTF-8, ``None`` where that can't be told; ``has_time`` is
    whether an event time could be read.
    """

    values: list[bytes]
    users: list[bytes | None]
    time_ms: NDArray[np.int64]
    has_time: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.values)


def read_raw_records(
    path: str,
    columns: Columns,
    *,
    file_format: str | None = None,
    time_unit: TimeUnit | None = None,
) -> Iterator[RawRecords]:
    r"""Yield a file's records, some megabytes at a time.

    Lines of nothing but spaces are passed over, and so is the end of a line. Of a line longer than
    32 MiB there is a beginning that is longer than that. A format that is not given is told from
    the file's name, the unit of epoch times from their size.

    A header that lacks a column is a ColumnError; a file that can't be read to its end, an OSError.

    >>> import pathlib, tempfile
    >>> from kstoolkit.events.event import Columns
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = path.write_text('{"at": "1970-01-01T00:00:01Z", "who": "Zoë"}\nrubbish\n')
    >>> (found,) = read_raw_records(str(path), Columns("at", "who", "who"))
    >>> found.values[1], [each and each.decode() for each in found.users], found.time_ms.tolist()
    (b'rubbish', ['Zoë', None], [1000, 0])
    """
    yield from _READERS[format_of(path, file_format)](path, columns, time_unit)


def records_of(events: pa.Table) -> Iterator[RawRecords]:
    """Yield events, as :func:`write_events` takes them, as files of JSON lines would have them.

    >>> from kstoolkit.events.simulator import simulate
    >>> first = next(records_of(simulate(event_count=1000, users=50).events()))
    >>> first.values[0][:8], first.has_time.all()
    (b'{"time":', np.True_)
    """
    for start in range(0, events.num_rows, _ROWS):
        some = events.slice(start, _ROWS).combine_chunks()
        values = b"".join(_json_lines(some)).split(b"\n")[:-1]
        yield _records(values, some["user"].chunk(0), some["time"].chunk(0), None)


def _of_json(path: str, columns: Columns, unit: TimeUnit | None) -> Iterator[RawRecords]:
    types: dict[str, pa.DataType] = dict.fromkeys(columns, pa.string())
    for chunk in chunks_of(path):
        lines = Lines(chunk)
        every = zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)
        values = [line for start, end in every if not (line := chunk[start:end]).isspace()]
        users: NDArray[np.object_] = np.full(len(values), None)
        time_ms, has_time = np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        for part in read_json_values(pa.array(values, pa.binary()), columns, types):
            users[part.rows] = np.array(_names(part.users), dtype=object)
            time_ms[part.rows], has_time[part.rows] = to_epoch_ms(part.times, unit)
        yield RawRecords(values, users.tolist(), time_ms, has_time)


def _of_csv(path: str, columns: Columns, unit: TimeUnit | None) -> Iterator[RawRecords]:
    names = csv_header(path)
    for rows, bad in read_csv_rows(path, columns):
        users = rows.column(names.index(columns.user))
        times = rows.column(names.index(columns.event_time))
        if rows.num_rows:
            yield _records(_json_objects(rows, names), users, times, unit)
        if bad:  # of which nothing is known
            raw = [text.encode("utf-8", "replace") for text, _ in bad]
            unknown = np.zeros(len(raw), np.int64)
            yield RawRecords(raw, [None] * len(raw), unknown, unknown.astype(np.bool_))


def _of_parquet(path: str, columns: Columns, unit: TimeUnit | None) -> Iterator[RawRecords]:
    names = parquet_names(path)
    require(columns, names, path)
    for rows in read_parquet_rows(path, _ROWS):
        users, times = (rows.column(each) for each in (columns.user, columns.event_time))
        yield _records(_json_objects(rows, names), users, times, unit)


_READERS = {"json": _of_json, "csv": _of_csv, "parquet": _of_parquet}


def _records(
    values: list[bytes], users: pa.Array, times: pa.Array, unit: TimeUnit | None
) -> RawRecords:
    return RawRecords(values, _names(users), *to_epoch_ms(times, unit))


def _names(users: pa.Array) -> list[bytes | None]:
    """Return users as text in UTF-8; nobody is called by an empty one."""
    texts = as_text(users)
    distinct = [each or None for each in texts.dictionary.cast(pa.binary()).to_pylist()]
    distinct.append(None)
    return [distinct[code] for code in pc.fill_null(texts.indices, -1).to_pylist()]
