"""A column of byte strings, cut and read all at once.

The bytes of all rows lie in one buffer; a cell is where it starts and where it ends. So to cut a
prefix off every row is an addition, and to read a number out of every row is one gather.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_INTEGERS = {1: ">i1", 2: ">i2", 4: ">i4", 8: ">i8"}


@dataclass(frozen=True, slots=True, eq=False)
class ByteColumn:
    r"""Byte strings, one a row, some of them null.

    Parameters
    ----------
    data
        The bytes of all rows, and maybe others in between.
    starts, ends
        Where in ``data`` each row begins, and where it has ended. Of a null, both are 0.
    is_null
        Which rows have no bytes at all, which is not the same as none of them.

    Examples
    --------
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
    def of(cls, cells: Sequence[bytes | None]) -> ByteColumn:
        """Return a column of byte strings; None is null."""
        return cls.from_arrow(pa.array(cells, pa.large_binary()))

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
        """Return a part of every row, as slices do: of what is too short, as much as there is.

        Parameters
        ----------
        start, end
            From and up to which byte, one number for all or one a row. Negative ones count from
            the end of the row; None is the end.
        """
        first = self._place(start)
        last = self.ends if end is None else np.maximum(self._place(end), first)
        return ByteColumn(self.data, first, last, self.is_null)

    def integers(self, width: Literal[1, 2, 4, 8], *, at: int = 0) -> NDArray[np.int64]:
        """Return the signed big-endian number of ``width`` bytes that begins ``at`` in each row.

        Parameters
        ----------
        width
            How many bytes it has.
        at
            Where it begins; negative: so many bytes before the end of the row.

        Raises
        ------
        IndexError
            If a row is too short for that: leave those out first, by their :attr:`lengths`.
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

        Examples
        --------
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

    def to_arrow(self) -> pa.Array:
        """Return the rows as Arrow large binary."""
        there = np.flatnonzero(~self.is_null)
        starts, ends, place = _in_order(self.starts[there], self.ends[there])
        if (starts[1:] < ends[:-1]).any():
            return self._gathered()
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

    def _gathered(self) -> pa.Array:
        """Return the rows, byte by byte: for those of which some lie in others."""
        offsets = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        places = np.arange(offsets[-1])
        places += np.repeat(self.starts - offsets[:-1], self.lengths)
        valid = pa.py_buffer(np.packbits(~self.is_null, bitorder="little"))
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(self.data[places])]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

    def _place(self, index: int | NDArray[np.int64]) -> NDArray[np.int64]:
        from_start = np.minimum(self.starts + index, self.ends)
        from_end = np.maximum(self.ends + index, self.starts)
        place: NDArray[np.int64] = np.where(np.asarray(index) < 0, from_end, from_start)
        return place


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
