"""What the rows of a store are read into: columns of bytes, rows unwrapped, decoded values.

The bytes of all rows lie in one buffer, and a cell is where it starts and ends: to cut a prefix off
every row is an addition, to read a number out of every row one gather (:class:`ByteColumn`). A
store wraps what the application gave it: window times go into the key, a timestamp or headers in
front of the value. A layout takes that off and says what it held (:class:`RowColumns`); the
application's own key and value then are for a serde to read (:mod:`kstoolkit.formats.serdes`),
which gives values, and for some rows why there is none (:class:`Decoded`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

_INTEGERS = {1: ">i1", 2: ">i2", 4: ">i4", 8: ">i8"}


@dataclass(frozen=True, slots=True, eq=False)
class ByteColumn:
    r"""Byte strings, one a row: where in ``data``, which may have others, each begins and ended.

    Of a null both are 0: it has no bytes at all, which is not the same as none of them.

    >>> keys = ByteColumn.of([b"Anna\x00\x01", b"Bo\x00\x02", b"x"])
    >>> keys.lengths.tolist()
    [6, 4, 1]
    >>> whole = keys.take(keys.lengths >= 2)
    >>> whole.integers(2, at=-2).tolist(), whole.part(end=-2).to_list()
    ([1, 2], [b'Anna', b'Bo'])
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    is_null: NDArray[np.bool_]

    @classmethod
    def of(cls, cells: Sequence[bytes | None] | pa.Array) -> ByteColumn:
        """Return a column of byte strings; None is null, and Arrow's bytes are shared."""
        is_arrow = isinstance(cells, pa.Array)
        if not (is_arrow or cells):  # at its first array Arrow looks for pandas, and loads it
            nowhere = np.zeros(0, np.int64)
            return cls(np.zeros(0, np.uint8), nowhere, nowhere, np.zeros(0, bool))
        return cls.from_arrow(cells if is_arrow else pa.array(cells, pa.large_binary()))

    @classmethod
    def from_arrow(cls, array: pa.Array) -> ByteColumn:
        """Return an Arrow array of (large) binary or string as a column; its bytes are shared."""
        large = array.cast(pa.large_binary())
        _, offsets, data = large.buffers()
        place = np.frombuffer(offsets, dtype=np.int64, count=len(large) + 1 + large.offset)
        place = place[large.offset :]
        is_null = np.asarray(large.is_null())
        bare = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
        return cls(bare, np.where(is_null, 0, place[:-1]), np.where(is_null, 0, place[1:]), is_null)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many bytes each row has; 0 for nulls."""
        return self.ends - self.starts

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> ByteColumn:
        """Return the chosen rows, by mask or by positions."""
        return ByteColumn(self.data, self.starts[chosen], self.ends[chosen], self.is_null[chosen])

    def part(
        self, start: int | NDArray[np.int64] = 0, end: int | NDArray[np.int64] | None = None
    ) -> ByteColumn:
        """Return a part of every row, as slices do; its ends are one number, or one a row."""
        first = self._place(start)
        last = self.ends if end is None else np.maximum(self._place(end), first)
        return ByteColumn(self.data, first, last, self.is_null)

    def integers(self, width: Literal[1, 2, 4, 8], *, at: int = 0) -> NDArray[np.int64]:
        """Return the signed big-endian number of ``width`` bytes that begins ``at`` in each row.

        Negative: so many bytes before its end. A row that is too short for that is an IndexError:
        leave those out first, by their :attr:`lengths`.
        """
        first = self.ends + at if at < 0 else self.starts + at
        if (first < self.starts).any() or (first + width > self.ends).any():
            message = f"A row has no {width} bytes at {at}."
            raise IndexError(message)
        # A view of the number at every place, of which the wanted ones are taken.
        places = max(len(self.data) - width + 1, 0)
        view: NDArray[np.int64] = np.ndarray((places,), _INTEGERS[width], self.data, strides=(1,))
        return view[first].astype(np.int64)

    def equal_to(self, cell: bytes) -> NDArray[np.bool_]:
        """Return which rows are these bytes; a null is not.

        >>> ByteColumn.of([b"a", b"ab", None]).equal_to(b"a").tolist()
        [True, False, False]
        """
        equal: NDArray[np.bool_] = (self.lengths == len(cell)) & ~self.is_null
        found = self.data[self.starts[equal][:, None] + np.arange(len(cell))]
        equal[equal] = (found == np.frombuffer(cell, dtype=np.uint8)).all(axis=1)
        return equal

    def first_bytes(self) -> NDArray[np.int64]:
        """Return the first byte of each row as a number without sign; -1 where there is none."""
        found = np.full(len(self), -1, dtype=np.int64)
        has = self.lengths > 0
        found[has] = self.data[self.starts[has]]
        return found

    def followed_by(self, other: ByteColumn) -> ByteColumn:
        """Return these rows, and behind them those of another column.

        >>> ByteColumn.of([b"a"]).followed_by(ByteColumn.of([b"b", None])).to_list()
        [b'a', b'b', None]
        """
        if not len(other):
            return self
        if not len(self):
            return other
        data, shift = self.data, np.zeros(1, np.int64)
        if other.data is not self.data:
            data = np.concatenate([self.data, other.data])
            shift = np.where(other.is_null, 0, len(self.data))
        return ByteColumn(
            data,
            np.concatenate([self.starts, other.starts + shift]),
            np.concatenate([self.ends, other.ends + shift]),
            np.concatenate([self.is_null, other.is_null]),
        )

    def to_arrow(self) -> pa.Array:
        """Return the rows as Arrow large binary."""
        there = np.flatnonzero(~self.is_null)
        starts, ends, place = _in_order(self.starts[there], self.ends[there])
        if (starts[1:] < ends[:-1]).any():
            # Byte by byte, as some rows lie in others.
            offsets = run_edges(self.lengths)
            places = run_places(self.starts, self.lengths)
            valid = pa.py_buffer(np.packbits(~self.is_null, bitorder="little"))
            buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(self.data[places])]
            return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)
        # Cells and what lies between them, by turns: Arrow copies the cells, each in one go.
        bounds = np.zeros(2 * len(starts) + 1, dtype=np.int64)
        bounds[:-1:2], bounds[1::2], bounds[-1] = starts, ends, ends.max(initial=0)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(self.data))]
        by_turns = pa.Array.from_buffers(pa.large_binary(), 2 * len(starts), buffers)
        wanted = np.zeros(len(self), dtype=np.int64)
        wanted[there] = 2 * place
        return by_turns.take(pa.array(wanted, mask=self.is_null))

    def to_list(self) -> list[bytes | None]:
        """Return the rows as Python's bytes."""
        cells: list[bytes | None] = self.to_arrow().to_pylist()
        return cells

    def _place(self, index: int | NDArray[np.int64]) -> NDArray[np.int64]:
        from_start = np.minimum(self.starts + index, self.ends)
        from_end = np.maximum(self.ends + index, self.starts)
        return np.asarray(np.where(np.asarray(index) < 0, from_end, from_start))


def _in_order(
    starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.intp]]:
    """Return the cells in the order in which they lie, each once, and which of them each row is."""
    if not (starts[1:] < ends[:-1]).any():
        return starts, ends, np.arange(len(starts))
    order = np.lexsort((ends, starts))
    starts, ends = starts[order], ends[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1])
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.cumsum(is_new) - 1
    return starts[is_new], ends[is_new], place


def joined_cells(*columns: pa.Array | pa.Scalar) -> pa.Array:
    """Return columns of Arrow large binary behind each other, cell by cell; null where one is.

    >>> column = pa.array([b"a", None], pa.large_binary())
    >>> joined_cells(column, pa.scalar(b"z", pa.large_binary())).to_pylist()
    [b'az', None]
    """
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))


def fixed_cells(numbers: NDArray[Any]) -> pa.Array:
    r"""Return the bytes of each number, or of each row of numbers, as Arrow large binary.

    >>> fixed_cells(np.array([258, 3], ">i2")).to_pylist()
    [b'\x01\x02', b'\x00\x03']
    """
    ends = np.arange(len(numbers) + 1, dtype=np.int64) * numbers.itemsize * prod(numbers.shape[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)


HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
"""Record headers of a row: names may repeat, and a value may be null."""


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """What lies in some rows of a store.

    ``row`` is which row on disk each of these comes from: one on disk may hold several, or none.
    ``key`` and ``value`` are the application's own bytes; the value is null where there is none. Of
    times, which are epoch ms UTC as Arrow int64, and ``headers``, of type :data:`HEADERS`, those
    that this kind of store does not have are None. ``timestamp_ms`` is the row's own time: of a
    version, from when on it was the valid one, up to ``valid_to_ms``, null if it still is.
    ``problems`` says why a row could not be taken apart, by its position in these columns: its key
    and value are the bytes on disk, whole, and its other columns are null. ``inner_key`` and
    ``inner_value`` are what is for the application's serdes, where the engine put something of its
    own around it; None where it is all of it. ``details`` are columns that only this kind of store
    has, by their names; ``num_left_out`` rows on disk only said where others lie, and are no rows.
    """

    row: NDArray[np.intp]
    key: ByteColumn
    value: ByteColumn
    window_start_ms: pa.Array | None = None
    window_end_ms: pa.Array | None = None
    timestamp_ms: pa.Array | None = None
    headers: pa.Array | None = None
    problems: dict[int, str] = field(default_factory=dict)
    inner_key: ByteColumn | None = None
    inner_value: ByteColumn | None = None
    valid_to_ms: pa.Array | None = None
    details: dict[str, pa.Array] = field(default_factory=dict)
    num_left_out: int = 0

    @property
    def record_key(self) -> ByteColumn:
        """The bytes that the application's serde for keys is to read."""
        return self.key if self.inner_key is None else self.inner_key

    @property
    def record_value(self) -> ByteColumn:
        """The bytes that the application's serde for values is to read."""
        return self.value if self.inner_value is None else self.inner_value

    def __len__(self) -> int:
        return len(self.row)

    def take(self, chosen: NDArray[np.bool_]) -> RowColumns:
        """Return the rows that a mask chooses.

        >>> column = ByteColumn.of([b"a", b"b"])
        >>> rows = RowColumns(np.arange(2), column, column, problems={1: "torn"})
        >>> rows.take(np.array([False, True])).problems
        {0: 'torn'}
        """
        place, mask = np.cumsum(chosen) - 1, pa.array(chosen)
        columns = ((name, getattr(self, name)) for name in _COLUMNS)
        cells = ((name, getattr(self, name)) for name in _CELLS)
        return replace(
            self,
            row=self.row[chosen],
            problems={int(place[at]): why for at, why in self.problems.items() if chosen[at]},
            details={name: column.filter(mask) for name, column in self.details.items()},
            **{name: column.filter(mask) for name, column in columns if column is not None},
            **{name: column.take(chosen) for name, column in cells if column is not None},
        )

    @classmethod
    def whole(cls, keys: ByteColumn, values: ByteColumn) -> RowColumns:
        """Return rows that a store has wrapped in nothing.

        >>> rows = RowColumns.whole(ByteColumn.of([b"a"]), ByteColumn.of([b"1"]))
        >>> rows.key.to_list(), rows.window_start_ms
        ([b'a'], None)
        """
        return cls(np.arange(len(keys)), keys, values)


_COLUMNS = ("window_start_ms", "window_end_ms", "timestamp_ms", "headers", "valid_to_ms")
_CELLS = ("key", "value", "inner_key", "inner_value")
"""What of rows is in Arrow's columns, and what is in ours."""


def numbers_of(column: pa.Array | None, length: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the numbers of a column of times, 0 for nulls, and which are no nulls.

    A column that a kind of store does not have is null in all its rows.

    >>> numbers, known = numbers_of(pa.array([5, None], pa.int64()), 2)
    >>> numbers.tolist(), known.tolist()
    ([5, 0], [True, False])
    """
    if column is None:
        return np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.bool_)
    return np.asarray(column.fill_null(0)), np.asarray(column.is_valid())


def is_utf8(raw: bytes) -> bool:
    """Whether some bytes are text in UTF-8."""
    try:
        return raw.isascii() or bool(raw.decode())
    except UnicodeDecodeError:
        return False


def said_of(which: NDArray[np.bool_], why: str) -> dict[int, str]:
    """Return the same reason for each of some rows."""
    return dict.fromkeys(np.flatnonzero(which).tolist(), why)


def except_at(positions: Iterable[int], count: int) -> NDArray[np.bool_]:
    """Return a mask of ``count`` rows that leaves some positions out.

    >>> except_at([1], 3).tolist()
    [True, False, True]
    """
    left = np.ones(count, dtype=np.bool_)
    left[list(positions)] = False
    return left


def run_edges(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each run begins, and behind them where the last one ends.

    >>> run_edges(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    found = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size, out=found[1:])
    return found


def run_places(begins: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return begin, begin + 1, ... for each run of a given size.

    >>> run_places(np.array([10, 50]), np.array([2, 3])).tolist()
    [10, 11, 50, 51, 52]
    """
    before = run_edges(size)
    found = np.arange(before[-1])
    found += np.repeat(begins - before[:-1], size)
    return found


def run_sums(values: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of each run."""
    return np.asarray(np.diff(run_edges(values)[run_edges(size)]))


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Bytes that a serde could not read, and why.

    >>> Undecoded(b"xy", "2 bytes, not 8")
    Undecoded(7879: 2 bytes, not 8)
    """

    raw: bytes
    why: str

    def __repr__(self) -> str:
        return f"Undecoded({self.raw.hex()}: {self.why})"


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The values of a column; null where it is null, and where it could not be read.

    They are an Arrow array of one type, or a list of Python's values. ``problems`` says why a row
    could not be read, by its position.
    """

    values: pa.Array | list[Any]
    problems: dict[int, str] = field(default_factory=dict)

    def take(self, chosen: NDArray[np.bool_]) -> Decoded:
        """Return the values of the rows that a mask chooses."""
        place = np.cumsum(chosen) - 1
        problems = {int(place[at]): why for at, why in self.problems.items() if chosen[at]}
        if isinstance(self.values, list):
            return Decoded([self.values[at] for at in np.flatnonzero(chosen)], problems)
        return Decoded(self.values.filter(pa.array(chosen)), problems)

    def to_list(self, column: ByteColumn) -> list[Any]:
        """Return one Python value a row, :class:`Undecoded` where ``column`` could not be read."""
        values = self.values if isinstance(self.values, list) else self.values.to_pylist()
        if self.problems:
            rows = np.array(sorted(self.problems), dtype=np.intp)
            for row, raw in zip(rows.tolist(), column.take(rows).to_list(), strict=True):
                values[row] = Undecoded(raw or b"", self.problems[row])
        return values


def each_cell(column: ByteColumn, read: Callable[[bytes], Any]) -> Decoded:
    """Ask about each cell: for what has no whole-column way, and for what others wrote.

    Whatever ``read`` raises is why that one cell could not be read.
    """
    values: list[Any] = []
    problems: dict[int, str] = {}
    for row, raw in enumerate(column.to_list()):
        value = None
        if raw is not None:
            try:
                value = read(raw)
            except Exception as error:  # noqa: BLE001 - a callable of the user's may raise anything
                problems[row] = _reason(error)
        values.append(value)
    return Decoded(values, problems)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8 at byte {error.start}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def foreign_version(what: str, found: int, known: int, engine: str) -> FormatError:
    """Return the error of a version of an engine's that this kstoolkit does not know."""
    found_error = FormatError.version(what, found, known)
    hint = f"A newer {engine} wrote it, or it is damaged; a newer kstoolkit may read it."
    return FormatError(found_error.message, hint=hint)
