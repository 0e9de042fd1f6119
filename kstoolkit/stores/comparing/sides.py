"""How the rows of a side are put in order, however many: sorted runs in a scratch folder, merged.

Rows come in the order of one engine's disk. As many as fit into a run are sorted in memory and
written as Arrow's stream format; of each run one block at a time is read to merge them. Should
there be many runs, some are merged into one first.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError, Sentence, naming
from kstoolkit.formats.columns import HEADERS, ByteColumn, RowColumns, except_at
from kstoolkit.stores.comparing.identity import END_BYTES, identities, meanings
from kstoolkit.stores.rows.rows import decoded_rows
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from kstoolkit.stores.rows.readable import Rows

_BYTES, _TIME = pa.large_binary(), pa.int64()
_TIMES = ("window_start_ms", "window_end_ms", "timestamp_ms")

ROW = pa.schema(
    [
        *((name, _BYTES) for name in ("key", "value")),
        *((name, _TIME) for name in _TIMES),
        *(("headers", HEADERS), ("problem", pa.string()), ("family", pa.string())),
        *((name, _BYTES) for name in ("inner_key", "inner_value")),
    ]
)
"""A row as the spool keeps it."""

SPOOLED = pa.schema([("identity", _BYTES), ("is_b", pa.bool_()), ("meaning", _BYTES), *ROW])
"""A row with what it is compared by; a ``meaning`` is there only if values are compared by it."""


@dataclass(slots=True)
class Side:
    """One side of a comparison, all of whose rows are asked for.

    With ``by_value``, keys and values are compared by what they stand for, not by their bytes; with
    ``by_family``, rows of different column families are different rows. ``has_ends`` says whether a
    row has told when its window ends; ``has_families`` is None if there are no rows.
    """

    rows: Rows
    is_b: bool
    by_value: bool
    by_family: bool = False
    has_ends: bool = False
    has_families: bool | None = field(init=False, default=None)
    _parts: Iterator[RowColumns] = field(init=False)

    def __post_init__(self) -> None:
        if self.rows.limit is not None:
            name = self.rows.source.name
            message = f"Of the rows of {name!r}, only the first {self.rows.limit} are given."
            hint = naming(
                "Each engine has an order of its own: leave the limit out, or give {since}."
            )
            raise ConfigurationError(message, hint=hint)
        self._parts = self.rows.source.read(self.rows.asked)
        first = next(self._parts, None)
        if first is not None:
            self.has_families = "family" in first.details
            self._parts = chain([first], self._parts)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows as :data:`SPOOLED`, in parts of some thousands; once."""
        return map(self._spooled, self._parts)

    def _spooled(self, part: RowColumns) -> pa.Table:
        """Return some rows of the source, those that are asked for."""
        wanted = self.rows.asked.chosen(part)
        rows = part if wanted.all() else part.take(wanted)
        ends = rows.window_end_ms
        self.has_ends |= ends is not None and ends.null_count < len(ends)
        key, meaning = self._compared(rows)
        identity = identities(
            key,
            torn=~except_at(rows.problems, len(rows)),
            window_start_ms=rows.window_start_ms,
            timestamp_ms=None if rows.valid_to_ms is None else rows.timestamp_ms,
            window_end_ms=ends,
        )
        is_b = pa.array(np.full(len(rows), self.is_b))
        return pa.table([identity, is_b, meaning, *_cells(rows)], SPOOLED)

    def _compared(self, rows: RowColumns) -> tuple[ByteColumn, pa.Array]:
        if not self.by_value:
            return self._in_family(rows, rows.key), pa.nulls(len(rows), _BYTES)
        decoded = decoded_rows(rows, self.rows.key_serde, self.rows.value_serde)
        key = meanings(rows.record_key, decoded.key)
        # A serde may have nothing to say of a key, but the row is one all the same.
        key = key.fill_null(b"") if key.null_count else key
        meant = meanings(rows.record_value, decoded.value)
        return self._in_family(rows, ByteColumn.from_arrow(key)), meant

    def _in_family(self, rows: RowColumns, key: ByteColumn) -> ByteColumn:
        """Return keys, with the families in front that they are of."""
        if not self.by_family:
            return key
        # By name: a family's number differs from version to version, and between partitions.
        family = rows.details["family"].cast(pa.large_string()).cast(_BYTES).fill_null(b"")
        end = pa.scalar(b"\x00", _BYTES)
        return ByteColumn.from_arrow(pc.binary_join_element_wise(family, key.to_arrow(), end))


def rows_from(table: pa.Table, *, has_families: bool) -> RowColumns:
    """Return rows of the columns :data:`ROW`; one that is not there is null in all of them."""
    one = {name: table[name].combine_chunks() for name in ROW.names}
    why = one["problem"].to_pylist() if one["problem"].null_count < len(table) else []
    key, value, inner_key, inner_value = (
        ByteColumn.from_arrow(one[name]) for name in ("key", "value", "inner_key", "inner_value")
    )
    return RowColumns(
        np.arange(len(table)),
        key,
        value,
        **{name: one[name] for name in _TIMES},
        headers=one["headers"],
        problems={at: problem for at, problem in enumerate(why) if problem is not None},
        inner_key=None if inner_key.is_null.all() else inner_key,
        inner_value=None if inner_value.is_null.all() else inner_value,
        details={"family": one["family"]} if has_families else {},
    )


def _cells(rows: RowColumns) -> list[pa.Array]:
    why = [rows.problems.get(row) for row in range(len(rows))]
    cells = [
        rows.key.to_arrow(),
        rows.value.to_arrow(),
        *(getattr(rows, name) for name in _TIMES),
        rows.headers,
        pa.array(why, pa.string()) if rows.problems else None,
        rows.details.get("family"),
        None if rows.inner_key is None else rows.inner_key.to_arrow(),
        None if rows.inner_value is None else rows.inner_value.to_arrow(),
    ]
    return [
        pa.nulls(len(rows), kind) if each is None else each
        for each, kind in zip(cells, ROW.types, strict=True)
    ]


def merged(runs: Sequence[Path], *, has_ends: bool = True) -> Generator[pa.Table]:
    """Yield the rows of all runs by their identities; rows of one identity come in one table.

    If ``has_ends`` is not so, ends of windows are no part of an identity.
    """
    with ExitStack() as open_files:
        fronts = [_RunFront(open_files, path, has_ends=has_ends) for path in runs]
        while fronts:
            # Rows below the least last one that is known are all here; what equals it may go on.
            last = min((front.last for front in fronts if not front.ended), default=None)
            parts = [front.taken_below(last) for front in fronts]
            for front in fronts:
                if front.last == last or not len(front.rows):
                    front.read_on()
            fronts = [front for front in fronts if len(front.rows) or not front.ended]
            rows = [part for part in parts if len(part)]
            if rows:
                yield rows[0] if len(rows) == 1 else _sorted(rows)


class _RunFront:
    """The front of a run: rows that were read, and not yet merged."""

    __slots__ = ("_blocks", "_has_ends", "ended", "last", "rows")

    def __init__(self, open_files: ExitStack, path: Path, *, has_ends: bool) -> None:
        file = open_files.enter_context(pa.OSFile(str(path), "rb"))
        stream = open_files.enter_context(pa.ipc.open_stream(file))
        self._blocks, self._has_ends = iter(stream), has_ends
        self.rows = stream.schema.empty_table()
        self.last, self.ended = b"", False
        self.read_on()

    def read_on(self) -> None:
        block = next(self._blocks, None)
        if block is None:
            self.ended = True
            return
        rows = pa.Table.from_batches([block])
        if not self._has_ends:
            identity = ByteColumn.from_arrow(block.column("identity"))
            shorter = identity.part(end=-END_BYTES).to_arrow()
            rows = rows.set_column(0, "identity", shorter)
        self.rows = pa.concat_tables([self.rows, rows]).combine_chunks()
        self.last = rows["identity"][-1].as_py()

    def taken_below(self, last: bytes | None) -> pa.Table:
        """Take the rows whose identity is less; None: all there are."""
        rows, identity = self.rows, self.rows["identity"]
        number = len(rows)
        if last is not None:
            number = bisect_left(range(number), last, key=lambda row: identity[row].as_py())
        self.rows = rows.slice(number)
        return rows.slice(0, number)


def _sorted(parts: list[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(parts).combine_chunks()
    return rows.take(pc.sort_indices(rows["identity"]))


_RUN_BYTES = 32 << 20
_MOST_RUNS = 32
_BLOCK_BYTES = 512 << 10  # of each run, this much is in memory while it is merged


@dataclass(slots=True)
class Allowance:
    """How much scratch disk may be taken, and how much is."""

    disk_bytes: int
    taken_bytes: int = 0

    def take(self, size_bytes: int) -> None:
        """Take so much more, or refuse it."""
        self.taken_bytes += size_bytes
        if self.taken_bytes > self.disk_bytes:
            allowed = format_bytes(self.disk_bytes)
            message = f"The rows to compare take more than {allowed} of scratch disk."
            hint = Sentence(
                "Compare fewer rows: give rows(since=..., until=...), or raise disk_bytes.",
                "Compare fewer rows: give --since or --until.",
            )
            raise ConfigurationError(message, hint=hint)

    def remove(self, path: Path) -> None:
        """Remove a file, and give back what it took."""
        self.taken_bytes -= path.stat().st_size
        path.unlink()


@dataclass(slots=True)
class Spool:
    """Sorted runs of one store's rows; the first column is ``identity``."""

    folder: Path
    name: str
    schema: pa.Schema
    allowance: Allowance
    runs: list[Path] = field(default_factory=list)
    _held: list[pa.Table] = field(default_factory=list)
    _held_bytes: int = 0
    _written: int = 0

    def add(self, rows: pa.Table) -> None:
        """Add rows in any order."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= _RUN_BYTES:
            self._end_run()

    def finish(self) -> None:
        """Write what is still in memory, and leave no more runs than can be merged at once."""
        if self._held:
            self._end_run()
        while len(self.runs) > _MOST_RUNS:
            some, self.runs = self.runs[:_MOST_RUNS], self.runs[_MOST_RUNS:]
            with closing(merged(some)) as tables:
                self.runs.append(self._write(tables))
            for path in some:
                self.allowance.remove(path)

    def _end_run(self) -> None:
        rows = _sorted(self._held)
        self._held, self._held_bytes = [], 0
        self.runs.append(self._write([rows]))

    def _write(self, tables: Iterable[pa.Table]) -> Path:
        self._written += 1
        path = self.folder / f"{self.name}-{self._written}.arrows"
        return write_tables(tables, path, self.schema, self.allowance)


def write_tables(
    tables: Iterable[pa.Table], path: Path, schema: pa.Schema, allowance: Allowance
) -> Path:
    """Write tables of one schema to a file, in blocks that are small in memory; return where."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    counted = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema, options=options) as to:
        for table in tables:
            row_bytes = int(table.nbytes) // max(len(table), 1) + 1
            to.write_table(table.combine_chunks(), max_chunksize=max(1, _BLOCK_BYTES // row_bytes))
            allowance.take(file.tell() - counted)
            counted = file.tell()
    allowance.take(path.stat().st_size - counted)
    return path
