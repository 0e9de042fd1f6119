"""Values that hold several rows: what was appended to a key, one behind the other.

::

    [delimiter] · length (4) · 00 row · [delimiter] · length (4) · 00 row · …

Lengths are little-endian. RocksDB puts the delimiter between what it appends: ``,`` in checkpoints
made before ``mergeOperatorVersion`` was 2, nothing since (``MultiValuedStateEncoder``).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.bytecolumn import ByteColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LENGTH_BYTES = 4
_LENGTH = Struct("<i")
_FEW = 64
_CUT_OFF = "an element that is longer than what is left of the value"


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """The elements of values, in the order of the values.

    Parameters
    ----------
    row
        Which value each element is of.
    head
        What stands in front of its length.
    cell
        The element.
    problems
        Why a value could not be taken apart, by its position; it has no elements then.
    """

    row: NDArray[np.intp]
    head: ByteColumn
    cell: ByteColumn
    problems: dict[int, str]


def elements_of(values: ByteColumn, delimiter: bytes = b"", *, head_bytes: int = 0) -> Elements:
    """Return the elements of values.

    Parameters
    ----------
    values
        One value a key.
    delimiter
        What stands between the elements.
    head_bytes
        How many bytes stand in front of the length of an element.

    Examples
    --------
    >>> value = b"".join(len(part).to_bytes(4, "little") + part for part in [b"one", b"three"])
    >>> found = elements_of(ByteColumn.of([value, b"?"]))
    >>> found.row.tolist(), found.cell.to_list(), found.problems
    ([0, 0], [b'one', b'three'], {1: 'an element that is longer than what is left of the value'})
    """
    step = _Steps(values, head_bytes + _LENGTH_BYTES, len(delimiter))
    at, live = values.starts.copy(), np.flatnonzero(values.lengths > 0)
    found, wrong = [], list[int]()
    # One step takes an element of every value at once; few long values go faster one by one.
    while len(live) > _FEW:
        begin, end, fits = step.all_at(at[live], live)
        wrong += live[~fits].tolist()
        live, end = live[fits], end[fits]
        found.append(np.stack([live, begin[fits], end], axis=1))
        at[live] = end + len(delimiter)
        live = live[at[live] < values.ends[live]]
    for row in live.tolist():
        places = step.one(int(at[row]), int(values.ends[row]))
        wrong += [row] * (places is None)
        ends = np.array(places or (), np.int64).reshape(-1, 2)
        found.append(np.insert(ends, 0, row, axis=1))
    return _collected(values, found, wrong, head_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """From one element to the next."""

    values: ByteColumn
    first: int
    gap: int

    def all_at(
        self, at: NDArray[np.int64], live: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return where the next element of each value begins and ends, and whether it fits."""
        last = self.values.ends[live]
        begin = at + self.first
        fits = begin <= last
        places = np.where(fits, begin, self.first)[:, None] + np.arange(-_LENGTH_BYTES, 0)
        octets = self.values.data[np.where(fits[:, None], places, 0)]
        length = np.ascontiguousarray(octets).view("<i4").reshape(-1).astype(np.int64)
        end = begin + length
        return begin, end, fits & (length >= 0) & (end <= last)

    def one(self, at: int, last: int) -> array[int] | None:
        """Return where all further elements of a value begin and end; None if one does not fit."""
        data, places = self.values.data.data, array("q")
        while at < last:
            begin = at + self.first
            if begin > last:
                return None
            (length,) = _LENGTH.unpack_from(data, begin - _LENGTH_BYTES)
            if not 0 <= length <= last - begin:
                return None
            places.extend((begin, begin + length))
            at = begin + length + self.gap
        return places


def _collected(
    values: ByteColumn, found: list[NDArray[np.int64]], wrong: list[int], head_bytes: int
) -> Elements:
    places = np.concatenate([np.zeros((0, 3), dtype=np.int64), *found])
    places = places[~np.isin(places[:, 0], wrong)]
    row, begin, end = places[np.argsort(places[:, 0], kind="stable")].T
    nothing = np.zeros(len(row), dtype=bool)
    head = begin - _LENGTH_BYTES - head_bytes
    return Elements(
        row.astype(np.intp),
        ByteColumn(values.data, head, head + head_bytes, nothing),
        ByteColumn(values.data, begin, end, nothing),
        dict.fromkeys(sorted(wrong), _CUT_OFF),
    )
