"""Where the parts of bundles lie that kstoolkit wrote into a topic, found for all of them at once.

:mod:`kstoolkit.formats.topicbundle` draws the layout. Anything that differs from it, be it damaged
or written by another program, is found and left to others: nothing is read from beyond a bundle's
end, and what is gone through grows no faster than the bytes do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.runs import run_edges, run_places, run_sums
from kstoolkit.formats.topicmessage import VERSION
from kstoolkit.formats.varints import LONGEST, MORE, numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


COUNTS, UPDATED, ACTION = 0x12, 0x18, 0x22  # tags: number of the field, and its wire type
_LONGEST_LENGTH = 5  # bytes that a length takes at most: protobuf's are below 2 GiB
_FEW = 16  # bundles: of fewer than that, the actions are found one by one


@dataclass(frozen=True, slots=True, eq=False)
class BundleLayout:
    """Where the parts lie; what is said of bundles that are not ours means nothing.

    Parameters
    ----------
    data
        The bytes of all bundles.
    is_ours
        Which bundles are laid out as ours are.
    size
        How many actions each has.
    counts_at, counts_bytes
        Where its counts begin, and how many bytes they are.
    updated_at_ms
        When a count last changed, epoch ms UTC.
    action_begins, action_ends
        Of the actions of all bundles, in a row.
    """

    data: NDArray[np.uint8]
    is_ours: NDArray[np.bool_]
    size: NDArray[np.int64]
    counts_at: NDArray[np.int64]
    counts_bytes: NDArray[np.int64]
    updated_at_ms: NDArray[np.int64]
    action_begins: NDArray[np.int64]
    action_ends: NDArray[np.int64]

    @classmethod
    def of(cls, column: ByteColumn) -> BundleLayout:
        """Find the parts of all bundles."""
        data = column.data if len(column.data) else np.zeros(1, np.uint8)
        starts, ends = column.starts, column.ends
        is_ours = (_bytes_at(data, starts) == VERSION) & (_bytes_at(data, starts + 1) == COUNTS)
        length, counts_at, is_read = _varints_at(data, starts + 2, _LONGEST_LENGTH)
        counts_bytes = length.astype(np.int64)
        is_ours &= is_read & (counts_at + counts_bytes <= ends)
        counts_bytes[~is_ours] = 0
        size, is_whole = _sizes(data, counts_at, counts_bytes)
        at = counts_at + counts_bytes
        updated, at_actions, is_read = _varints_at(data, at + 1, LONGEST)
        is_ours &= is_whole & is_read & (_bytes_at(data, at) == UPDATED)
        size[~is_ours] = 0
        walk = _Walk.over(data, at_actions, ends, size)
        is_ours &= walk.is_ours
        return cls(
            data,
            is_ours,
            size,
            counts_at,
            counts_bytes,
            updated.view(np.int64),
            walk.begins,
            walk.stops,
        )

    def counts(self) -> NDArray[np.uint64]:
        """Return the counts of all bundles, in a row; all bundles must be ours."""
        data = self.data[run_places(self.counts_at, self.counts_bytes)]
        last = np.flatnonzero(data < MORE)
        width = np.diff(last, prepend=-1)
        return numbers_of(data, width, last + 1 - width)

    def actions(self) -> ByteColumn:
        """Return the actions of all bundles, in a row; all bundles must be ours."""
        is_null = np.zeros(len(self.action_begins), np.bool_)
        return ByteColumn(self.data, self.action_begins, self.action_ends, is_null)


def _bytes_at(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the bytes at some places; behind the end, the last one."""
    return data[np.minimum(at, len(data) - 1)]


def _varints_at(
    data: NDArray[np.uint8], at: NDArray[np.int64], longest: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the varints at some places, where they have ended, and which are as short as can be.

    An end behind that of its bundle is for the caller to find: it only grows.
    """
    numbers = np.zeros(len(at), np.uint64)
    ends = at.copy()
    is_read = np.ones(len(at), np.bool_)
    left = np.arange(len(at))
    for place in range(longest):
        found = _bytes_at(data, ends[left])
        numbers[left] |= (found & np.uint8(MORE - 1)).astype(np.uint64) << np.uint64(7 * place)
        ends[left] += 1
        is_read[left] = _may_end(found, place + 1)
        left = left[found >= MORE]
        if not left.size:
            break
    is_read[left] = False
    return numbers, ends, is_read


def _may_end(last: NDArray[np.uint8], width: NDArray[np.int64] | int) -> NDArray[np.bool_]:
    """Return whether varints of these widths end in these bytes, if no byte of them is idle."""
    fits: NDArray[np.bool_] = (last > 0) | np.equal(width, 1)
    return fits & (np.less(width, LONGEST) | (np.equal(width, LONGEST) & (last <= 1)))


def _sizes(
    data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return how many varints each run of bytes has, and whether it is whole ones."""
    row = data[run_places(begins, lengths)]
    edges = run_edges(lengths)
    is_last = row < MORE
    size = run_sums(is_last.astype(np.int64), lengths)
    # A run that stops inside a varint spoils the first of the next run as well, which does no harm.
    is_whole: NDArray[np.bool_] = (lengths == 0) | np.append(is_last, True)[edges[1:] - 1]
    last = np.flatnonzero(is_last)
    wrong = last[~_may_end(row[last], np.diff(last, prepend=-1))]
    is_whole[np.searchsorted(edges[1:], wrong, side="right")] = False
    return size, is_whole


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """A way through the actions of bundles: the first ones of all, then the second ones, and so on.

    Parameters
    ----------
    data
        The bytes of all bundles.
    at
        Where in each bundle the walk is.
    ends
        Where each bundle ends.
    first
        The place of each bundle's first action among all actions.
    begins, stops
        Where each action lies.
    is_ours
        Of which bundles the actions, as many as there should be, fill the rest.
    """

    data: NDArray[np.uint8]
    at: NDArray[np.int64]
    ends: NDArray[np.int64]
    first: NDArray[np.int64]
    begins: NDArray[np.int64]
    stops: NDArray[np.int64]
    is_ours: NDArray[np.bool_]

    @classmethod
    def over(
        cls,
        data: NDArray[np.uint8],
        at: NDArray[np.int64],
        ends: NDArray[np.int64],
        size: NDArray[np.int64],
    ) -> _Walk:
        """Walk over the actions, which begin at some places, and are so many."""
        first = run_edges(size)
        begins, stops = np.zeros(first[-1], np.int64), np.zeros(first[-1], np.int64)
        walk = cls(data, at.copy(), ends, first, begins, stops, np.ones(len(at), np.bool_))
        order = np.argsort(-size, kind="stable")  # those that have another action are in front
        having = np.searchsorted(-size[order], -np.arange(size.max(initial=0)))
        for number, count in enumerate(having.tolist()):
            if count < _FEW:
                for bundle in order[:count].tolist():
                    walk._alone(bundle, number)
                break
            walk._together(order[:count], number)
        walk.is_ours[:] &= walk.at == ends
        return walk

    def _together(self, bundles: NDArray[np.intp], number: int) -> None:
        """Go on behind one action of each of these bundles."""
        tag = _bytes_at(self.data, self.at[bundles])
        length, text_at, is_read = _varints_at(self.data, self.at[bundles] + 1, _LONGEST_LENGTH)
        self.is_ours[bundles] &= is_read & (tag == ACTION)
        place = self.first[bundles] + number
        self.begins[place] = text_at
        self.stops[place] = self.at[bundles] = text_at + length.astype(np.int64)

    def _alone(self, bundle: int, number: int) -> None:
        """Go to the end of one bundle: the only way that its number of actions costs nothing."""
        at = int(self.at[bundle])
        rest = self.data[at : self.ends[bundle]].tobytes()
        place, end = self.first[bundle] + number, self.first[bundle + 1]
        found = np.array(_texts_in(rest, int(end - place)), np.int64).reshape(-1, 2) + at
        self.is_ours[bundle] &= len(found) == end - place
        self.begins[place : place + len(found)] = found[:, 0]
        self.stops[place : place + len(found)] = found[:, 1]
        self.at[bundle] = found[-1, 1] if len(found) else at


def _texts_in(data: bytes, most: int) -> list[tuple[int, int]]:
    """Return where the actions lie that follow each other from the beginning on."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(data) and data[at] == ACTION and len(found) < most:
        length, begin = 0, at + 1
        for place, byte in enumerate(data[begin : begin + _LONGEST_LENGTH]):
            length |= (byte & (MORE - 1)) << (7 * place)
            if byte < MORE:
                begin += place + 1
                break
        else:
            break
        at = begin + length
        found.append((begin, at))
    return found
