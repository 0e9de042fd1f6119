"""Files as records of a topic: what each holds, byte for byte, and whose and of when it is.

A line of JSON is a record as it stands, whatever is in it: whoever reads the topic judges. A row of
CSV or Parquet is a JSON object of its columns; what is no row of CSV is its raw text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.events.csvfile import csv_header, read_csv_rows
from kstoolkit.events.event_files import json_lines
from kstoolkit.events.jsonchunks import CHUNK_BYTES, LONGEST_LINE_BYTES, Lines, chunks_of
from kstoolkit.events.jsonobjects import json_objects
from kstoolkit.events.jsonvalues import read_json_values
from kstoolkit.events.opening import format_of
from kstoolkit.events.parquetfile import parquet_names, read_parquet_rows
from kstoolkit.events.pieces import require
from kstoolkit.events.texts import as_text
from kstoolkit.events.times import to_epoch_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kstoolkit.events.pieces import Columns
    from kstoolkit.events.simulator import Simulation
    from kstoolkit.events.times import TimeUnit


_ROWS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class RawRecords:
    """Some records, in the order of their file.

    Parameters
    ----------
    values
        What each holds.
    users
        Whose each is, in UTF-8; ``None`` where that can't be told.
    time_ms, has_time
        Its event time, and whether that could be read.
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
    32 MiB there is a beginning that is longer than that.

    Parameters
    ----------
    path
        The file, plain or compressed.
    columns
        Which columns are what; plain names.
    file_format
        ``"json"``, ``"csv"`` or ``"parquet"``; told from the name if not given.
    time_unit
        The unit of epoch times; told from their size if not given.

    Raises
    ------
    ColumnError
        If the header of a file with columns lacks one.
    OSError
        If the file can't be read to its end.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from kstoolkit.events.pieces import Columns
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.json"
    >>> _ = path.write_text('{"at": "1970-01-01T00:00:01Z", "who": "Zoë"}\nrubbish\n')
    >>> (found,) = read_raw_records(str(path), Columns("at", "who", "who"))
    >>> found.values[1], [each and each.decode() for each in found.users], found.time_ms.tolist()
    (b'rubbish', ['Zoë', None], [1000, 0])
    """
    match format_of(path, file_format):
        case "json":
            yield from _of_json(path, columns, time_unit)
        case "csv":
            yield from _of_csv(path, columns, time_unit)
        case "parquet":
            yield from _of_parquet(path, columns, time_unit)


def simulated_records(simulation: Simulation) -> Iterator[RawRecords]:
    """Yield the events of a simulation, as its own files of JSON lines would have them.

    Examples
    --------
    >>> from kstoolkit.events.simulator import simulate
    >>> first = next(simulated_records(simulate(event_count=1000, users=50)))
    >>> first.values[0][:8], first.has_time.all()
    (b'{"time":', np.True_)
    """
    events = simulation.events()
    for start in range(0, events.num_rows, _ROWS):
        some = events.slice(start, _ROWS).combine_chunks()
        values = b"".join(json_lines(some)).split(b"\n")[:-1]
        yield _records(values, some["user"].chunk(0), some["time"].chunk(0), None)


def _of_json(path: str, columns: Columns, unit: TimeUnit | None) -> Iterator[RawRecords]:
    types: dict[str, pa.DataType] = dict.fromkeys(columns, pa.string())
    for chunk in chunks_of(path, CHUNK_BYTES, LONGEST_LINE_BYTES):
        values = _lines(chunk)
        users: NDArray[np.object_] = np.full(len(values), None)
        time_ms, has_time = np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
        for part in read_json_values(pa.array(values, pa.binary()), columns, types):
            users[part.rows] = np.array(_names(part.users), dtype=object)
            time_ms[part.rows], has_time[part.rows] = to_epoch_ms(part.times, unit)
        yield RawRecords(values, users.tolist(), time_ms, has_time)


def _lines(chunk: bytes) -> list[bytes]:
    lines = Lines.of(chunk)
    every = zip(lines.starts.tolist(), lines.ends.tolist(), strict=True)
    return [line for start, end in every if not (line := chunk[start:end]).isspace()]


def _of_csv(path: str, columns: Columns, unit: TimeUnit | None) -> Iterator[RawRecords]:
    names = csv_header(path)
    for rows, bad in read_csv_rows(path, columns):
        users, times = (
            rows.column(names.index(each)) for each in (columns.user, columns.event_time)
        )
        found = _records(json_objects(rows, names), users, times, unit)
        yield _with_raw(found, [text.encode("utf-8", "replace") for text, _ in bad])


def _with_raw(found: RawRecords, raw: list[bytes]) -> RawRecords:
    """Return records with some behind them of which nothing is known."""
    if not raw:
        return found
    return RawRecords(
        found.values + raw,
        found.users + [None] * len(raw),
        np.append(found.time_ms, np.zeros(len(raw), np.int64)),
        np.append(found.has_time, np.zeros(len(raw), np.bool_)),
    )


def _of_parquet(path: str, columns: Columns, unit: TimeUnit | None) -> Iterator[RawRecords]:
    names = parquet_names(path)
    require(columns, names, path)
    for rows in read_parquet_rows(path, _ROWS):
        users, times = (rows.column(each) for each in (columns.user, columns.event_time))
        yield _records(json_objects(rows, names), users, times, unit)


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
