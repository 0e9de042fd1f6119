"""One file of the changelog: how it is written, and read no further than is asked for.

Each row group holds one level of one bucket of users. The file's metadata names them, as JSON
under ``kstoolkit.row_groups``: ``{"buckets": 8, "groups": [[bucket, window_ms], ...]}``. A file
that another tool wrote does not say; it is read whole, and filtered. Pages carry a checksum, which
is looked at: a flipped byte is told, and never counted.

Where an action has several parts, each has a column of its own under its name in the place of
``action``, null where there is none; the metadata names them, too: ``"parts": ["region", "op"]``.
Of a file that another tool wrote they are the columns that are none of the others.

Where sessions are counted, all rows have a ``window_end`` besides, of a session its last event's
time. The ``window_ms`` of sessions is minus their gap; a session of count 0 is one no more.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstoolkit.counters.counters import Counters, buckets_of
from kstoolkit.errors import FormatError
from kstoolkit.formats.actions import joined, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    _Bucket = tuple[int, int]

TIME = pa.timestamp("ms", tz="UTC")
_SCHEMA = pa.schema(
    {"window_ms": pa.int64(), "window_start": TIME, "user": pa.string(), "action": pa.string()}
    | {"count": pa.int64(), "changed_at": TIME}
)
"""The columns, as every reader sees them."""
_TEXT = pa.dictionary(pa.int32(), pa.string())
_END = "window_end"
_OTHERS = [_END, *(name for name in _SCHEMA.names if name != "action")]


def _coded(parts: Sequence[str] | None, *, has_ends: bool = False) -> pa.Schema:
    """Return the columns of a file, texts by dictionary: how they are at hand."""
    before, after = list(_SCHEMA)[:2], list(_SCHEMA)[4:]
    texts = (pa.field(name, _TEXT) for name in ["user", *(parts or ["action"])])
    return pa.schema([*before, *texts, *after, *[pa.field(_END, TIME)] * has_ends])


_GROUPS_KEY = "kstoolkit.row_groups"
_GROUP_ROWS = 8_000_000


class ChangelogWriter:
    """Writes one file: a row group for each level of each bucket.

    Users are spread among so many ``buckets``; ``changed_ms`` is the clock of the micro-batch that
    reports the counts, epoch ms UTC. An action that has several ``parts`` has them by these names;
    ``has_ends``: sessions are among the levels.
    """

    def __init__(
        self,
        path: Path,
        *,
        buckets: int,
        changed_ms: int,
        parts: tuple[str, ...] | None = None,
        has_ends: bool = False,
    ) -> None:
        self._path, self.buckets, self.changed_ms = path, buckets, changed_ms
        self.parts, self._schema = parts, _coded(parts, has_ends=has_ends)
        self.groups: list[tuple[int, int]] = []
        self.rows = self.size_bytes = 0
        # Without Arrow's own schema inside, every reader sees plain strings.
        self._file = pq.ParquetWriter(
            path, self._schema, compression="zstd", store_schema=False, write_page_checksum=True
        )

    def write(self, bucket: int, window_ms: int, counters: Counters) -> None:
        """Write the latest counts of one level of one bucket."""
        for start in range(0, len(counters), _GROUP_ROWS):
            part = counters.take(np.arange(start, min(start + _GROUP_ROWS, len(counters))))
            self._file.write_batch(self._batch(part, window_ms), row_group_size=_GROUP_ROWS)
            self.groups.append((bucket, window_ms))
            self.rows += len(part)

    def _batch(self, counters: Counters, window_ms: int) -> pa.RecordBatch:
        columns, rows = counters.to_batch().columns, len(counters)
        actions = columns[2:3] if counters.parts is None else _coded_actions(counters)
        window = pa.repeat(pa.scalar(window_ms, pa.int64()), rows)
        changed_at = pa.repeat(pa.scalar(self.changed_ms, pa.int64()).cast(TIME), rows)
        starts, count = columns[0].cast(TIME), columns[3].cast(pa.int64())
        told = [window, starts, columns[1], *actions, count, changed_at]
        if _END in self._schema.names:
            is_session = counters.end_ms is not None
            ends = counters.end_ms if is_session else counters.start_ms + window_ms
            told.append(pa.array(ends).cast(TIME))
        return pa.record_batch(told, schema=self._schema)

    def close(self) -> None:
        """Write the file's end, with what its row groups hold."""
        told: dict[str, object] = {"buckets": self.buckets, "groups": self.groups}
        if self.parts is not None:
            told["parts"] = self.parts
        self._file.add_key_value_metadata({_GROUPS_KEY: json.dumps(told)})
        self._file.close()
        with suppress(FileNotFoundError):  # a folder that is gone hides no error at hand
            self.size_bytes = self._path.stat().st_size


def _coded_actions(counters: Counters) -> list[pa.DictionaryArray]:
    """Return the parts of counters' actions as columns, texts by dictionary."""
    rows, parts = pa.array(counters.action), split(counters.actions, len(counters.named))
    return [texts.dictionary_encode().take(rows) for texts in parts]


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Raise what Arrow makes of bytes that are not as they should be as an error of ours.

    What the system says (no such file, no permission) passes as it is.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(path, error) from error


def opened(path: Path) -> pq.ParquetFile:
    """Return the file, open for reading, texts by dictionary; a damaged one is a FormatError."""
    try:
        with _understood(path):
            metadata = pq.read_metadata(path)
            parts = stored_parts(metadata)
            file = pq.ParquetFile(
                path,
                metadata=metadata,
                read_dictionary=["user", *(parts or ["action"])],
                page_checksum_verification=True,
            )
    except KeyError as error:
        raise _lacking(path, error.args[0].decode()) from error
    for name in _coded(parts).names:
        if name not in file.schema_arrow.names:
            file.close()
            raise _lacking(path, name)
    return file


def stored_parts(metadata: pq.FileMetaData) -> tuple[str, ...] | None:
    """Return what the parts of a file's actions are called; ``None`` if an action is one column."""
    text, names = (metadata.metadata or {}).get(_GROUPS_KEY.encode()), metadata.schema.names
    if "action" in names and (text is None or b'"parts"' not in text):
        return None
    with suppress(ValueError, TypeError, KeyError):  # whoever asks for its row groups is told
        return tuple(map(str, json.loads(text or b"{}")["parts"]))
    return tuple(name for name in names if name not in _OTHERS) or None


def _stored_groups(
    file: pq.ParquetFile, path: Path, ours: pa.Schema
) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """Return what the file says of its row groups: among how many buckets, and what each holds."""
    text = (file.metadata.metadata or {}).get(_GROUPS_KEY.encode())
    # Arrow hands metadata on to whatever is written from a table, true or not by then.
    if text is None or not file.schema_arrow.equals(ours):
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
    first = (str(why).splitlines() or ["no reason given"])[0].rstrip(".")
    message = f"{path} is damaged, or no part of a changelog: {first}."
    hint = "Restore it from a copy; without one, count its events again into another folder."
    return FormatError(message, hint=hint)


def _lacking(path: Path, column: str) -> FormatError:
    message = f"{path} is no part of a changelog: it has no column {column!r}."
    return FormatError(message, hint=f"It takes: {', '.join(_SCHEMA.names)}.")


_WORTH_THREADS = 100_000  # rows; handing less to threads takes longer than reading it


@dataclass(frozen=True, slots=True)
class CountsFile:
    """One file of the changelog, to be read.

    ``buckets`` is among how many its users are spread, ``groups`` the bucket and the window length
    of each row group; ``None``, and none, if the file does not say. Where an action has several
    ``parts``, they are called so; ``has_ends``: it tells where windows and sessions end.
    """

    path: Path
    num_rows: int
    buckets: int | None
    groups: tuple[tuple[int, int], ...]
    parts: tuple[str, ...] | None = None
    has_ends: bool = False

    @classmethod
    def open(cls, path: Path) -> CountsFile:
        """Read the end of the file, where it is said what the rest holds; as of :func:`opened`."""
        with opened(path) as file:
            parts, has_ends = stored_parts(file.metadata), _END in file.schema_arrow.names
            buckets, groups = _stored_groups(file, path, _coded(parts, has_ends=has_ends))
            return cls(path, file.metadata.num_rows, buckets, groups, parts, has_ends)

    def window_lengths_ms(self) -> set[int]:
        """Return the lengths of the windows that have counts here."""
        if self.buckets is not None:
            return {window_ms for _, window_ms in self.groups}
        return set(self._lengths_ms().unique().to_pylist())

    def rows(self, window_ms: int | None) -> int:
        """Return how many counts it holds, of one window length or of all."""
        if window_ms is None:
            return self.num_rows
        if self.buckets is None:
            return int(pc.sum(pc.equal(self._lengths_ms(), window_ms)).as_py() or 0)
        with opened(self.path) as file:
            return sum(
                int(file.metadata.row_group(number).num_rows)
                for number, (_, length_ms) in enumerate(self.groups)
                if length_ms == window_ms
            )

    def read(
        self, window_ms: int, *, users: pa.Array | None = None, bucket: _Bucket | None = None
    ) -> Iterator[Counters]:
        """Yield the counts of one window length, in pieces that fit into memory.

        Of these users only, or of one bucket's: its number, and of how many. If these divide the
        file's own, no further row group is read.
        """
        if self.buckets is None:
            tables = self._filtered(window_ms)
        else:
            tables = self._picked(self._groups_with(window_ms, users, bucket))
        for table in tables:
            known = None if users is None else pc.is_in(table["user"], value_set=users)
            counters = self._counters(table if known is None else table.filter(known), window_ms)
            if bucket is not None and (not self.buckets or self.buckets % bucket[1]):
                mine = buckets_of(counters.users, bucket[1]) == bucket[0]
                counters = counters.take(mine[counters.user])
            if len(counters):
                yield counters

    def span_ms(self, column: str, window_ms: int | None = None) -> tuple[int, int] | None:
        """Return the first and the last time in a column, epoch ms UTC; ``None`` without rows.

        The column is ``"window_start"`` or ``"changed_at"``; ``window_ms``: of such windows.
        """
        with opened(self.path) as file, _understood(self.path):
            if self.buckets is None:
                table = file.read(["window_ms", column])
                if window_ms is not None:
                    table = table.filter(pc.equal(table["window_ms"], window_ms))
                spans = [_span(table[column].cast(TIME))]
            else:
                spans = [
                    _stored_span(file, number, column)
                    for number, (_, length_ms) in enumerate(self.groups)
                    if window_ms in {None, length_ms}
                ]
        return joined_span(spans)

    def _groups_with(
        self, window_ms: int, users: pa.Array | None, bucket: _Bucket | None
    ) -> list[int]:
        """Return the row groups that may hold what is asked for."""
        wanted = None if users is None else set(buckets_of(users, self.buckets or 1).tolist())
        if bucket is not None and self.buckets and self.buckets % bucket[1] == 0:
            mine = set(range(bucket[0], self.buckets, bucket[1]))
            wanted = mine if wanted is None else wanted & mine
        return [
            number
            for number, (held, length_ms) in enumerate(self.groups)
            if length_ms == window_ms and (wanted is None or held in wanted)
        ]

    @property
    def _counter(self) -> list[str]:
        texts = ["user", *(self.parts or ["action"])]
        return ["window_start", *texts, "count", *[_END] * self.has_ends]

    def _lengths_ms(self) -> pa.ChunkedArray:
        with opened(self.path) as file, _understood(self.path):
            return file.read(["window_ms"])["window_ms"].cast(pa.int64())

    def _picked(self, groups: list[int]) -> Iterator[pa.Table]:
        if not groups:  # most files hold nothing of a few users
            return
        with opened(self.path) as file:
            small = self.num_rows < _WORTH_THREADS  # then one call takes less than several
            for some in [groups] if small else [[number] for number in groups]:
                yield self._row_groups(file, some)

    def _counters(self, table: pa.Table, window_ms: int) -> Counters:
        starts = table["window_start"].cast(pa.int64()).to_numpy()
        count = table["count"].to_numpy().astype(np.uint64)
        parts = [table[name].combine_chunks().dictionary_encode() for name in self.parts or ()]
        actions = joined(parts) if parts else table["action"]
        ends = table[_END].cast(pa.int64()).to_numpy() if window_ms < 0 else None
        return Counters.of(starts, table["user"], actions, count, self.parts, ends)

    def _row_groups(self, file: pq.ParquetFile, numbers: list[int]) -> pa.Table:
        with _understood(self.path):
            rows = sum(file.metadata.row_group(each).num_rows for each in numbers)
            table = file.read_row_groups(numbers, self._counter, use_threads=rows >= _WORTH_THREADS)
            table.validate(full=True)  # the head of a page has no checksum
            return table

    def _filtered(self, window_ms: int) -> Iterator[pa.Table]:
        columns = ["window_ms", *self._counter]
        # Other tools have their own widths of text, and their own units of time.
        all_types = _coded(self.parts, has_ends=self.has_ends)
        types, path = pa.schema([all_types.field(name) for name in columns]), self.path
        with opened(path) as file, _understood(path):
            for batch in file.iter_batches(columns=columns):
                table = pa.Table.from_batches([batch]).select(columns).cast(types)
                if any(table[n].null_count for n in columns if n not in (self.parts or ())):
                    raise damaged(path, "it has rows with nothing in a column")
                if len(table) and pc.min(table["count"]).as_py() < 0:
                    raise damaged(path, "it has counts below 0")
                yield table.filter(pc.equal(table["window_ms"], window_ms))


def joined_span(spans: Iterable[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Return what several spans reach over together; ``None`` if none is known."""
    known = [span for span in spans if span is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _stored_span(file: pq.ParquetFile, number: int, column: str) -> tuple[int, int] | None:
    place = file.schema_arrow.get_field_index(column)
    told = file.metadata.row_group(number).column(place).statistics
    if told is not None and told.has_min_max:
        return int(told.min_raw), int(told.max_raw)
    return _span(file.read_row_group(number, [column])[column])


def _span(times: pa.ChunkedArray) -> tuple[int, int] | None:
    found = pc.min_max(times.cast(pa.int64())).as_py()
    return None if found["min"] is None else (found["min"], found["max"])
