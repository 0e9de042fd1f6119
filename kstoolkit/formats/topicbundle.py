"""CountBundle, version 2: one user's counts of one window in a record of a changelog topic.

::

    version: 2 (1 byte) · protobuf

    syntax = "proto3";
    message CountBundle {
      repeated uint32 action_id = 1;   // not in this version: no store is at hand to look them up
      repeated uint64 count = 2;       // packed; the latest count of each action
      int64 updated_at_ms = 3;         // when one of them last changed, epoch ms UTC
      repeated string action = 4;      // as many as counts: action i has count i; none twice
    }

All of the user's actions in the window are in it, those with unchanged counts too: compaction keeps
only the last record of a key. A record without a value, a tombstone, says that the window is gone.
kstoolkit writes the fields in the order count, updated_at_ms, action, and a time of 0 as well::

    02 | 12 02 3d 07 | 18 80 80 b2 fd fb 29 | 22 04 72 65 61 64 | 22 04 65 64 69 74
         counts 61, 7   2015-09-12 03:49:57    "read"              "edit"

Version 5 has actions of several parts, each the one text of :mod:`kstoolkit.formats.actions`, and
behind them what the parts are called, which is the same in all records of a topic::

      repeated string part = 5;        // such as "region", "operation"

    05 | 12 01 3d | 18 05 | 22 09 65 75 1f 64 65 6c 65 74 65 | 2a 06 72 65 67 69 6f 6e | 2a 02 6f 70
         count 61   5 ms    "eu", "delete"                     "region"                  "op"

Version 8 has a user's sessions that begin at one time, with actions of one or of several parts:
behind the counts, in the same field, stands how long each session lasted, in ms. One that is no
more, as another swallowed it, has a count of 0; where none is left, a tombstone says so.

Versions 1, 3 and 6 in a topic are no bundles but blocks of many users' counts
(:mod:`kstoolkit.formats.countblock`); the bundles of versions 1, 4, 7 and 9
(:mod:`kstoolkit.formats.countbundle`) lie in stores.

Records are read and written as columns: where the parts lie is found for all bundles at once. What
differs from the layout, be it damaged or written by another program in another order or with fields
of its own, is left to protobuf's runtime. Nothing is read from beyond a bundle's end, and what is
gone through grows no faster than the bytes do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # ships no types

from kstoolkit.errors import FormatError
from kstoolkit.formats import countblock
from kstoolkit.formats.columns import ByteColumn, joined_cells, run_edges, run_places, run_sums
from kstoolkit.formats.countbundle import (
    COUNTS_TAG,
    FIELDS,
    LONGEST_VARINT,
    MORE_BIT,
    NAME,
    UPDATED_TAG,
    decode_varints,
    lasted_of,
    message_class,
    varint_cells,
    varint_widths,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_VERSION, _VERSION_OF_PARTS, _VERSION_OF_SESSIONS = 2, 5, 8
_VERSIONS = {_VERSION, _VERSION_OF_PARTS, _VERSION_OF_SESSIONS}
_ACTION_TAG, _PART_TAG = 0x22, 0x2A


class ActionBundle(NamedTuple):
    """One bundle: actions, the count of each, and when one last changed (epoch ms UTC).

    Where actions have several parts, these are called so. ``lasted_ms``: how long sessions were.
    """

    actions: list[str]
    counts: list[int]
    updated_at_ms: int
    parts: tuple[str, ...] | None = None
    lasted_ms: list[int] | None = None


_MESSAGE = message_class(
    NAME, [*FIELDS, ("action", "repeated string"), ("part", "repeated string")]
)


def _decode(value: bytes | None) -> ActionBundle:
    """Return one bundle, with its fields in any order."""
    if not value or value[0] not in _VERSIONS:
        raise _of_another_version(value)
    try:
        message = _MESSAGE.FromString(value[1:])
    except DecodeError as error:
        raise _damaged(value) from error
    parts = None if value[0] == _VERSION else tuple(message.part)
    actions, counts, lasted = list(message.action), list(message.count), None
    if value[0] == _VERSION_OF_SESSIONS:
        counts, lasted, parts = counts[: len(actions)], counts[len(actions) :], parts or None
    if len(actions) != len(counts) or (lasted and len(lasted) != len(counts)) or parts == ():
        raise _damaged(value)
    return ActionBundle(actions, counts, message.updated_at_ms, parts, lasted)


def _of_another_version(value: bytes | None) -> FormatError:
    if value and countblock.is_block(value):
        message = f"{len(value):,} bytes that are a block of many users' counts, no {NAME}."
        return FormatError(message, hint="Their key says so too: read them as blocks.")
    if value and value[0] > _VERSION:
        return FormatError.version(NAME, value[0], _VERSION_OF_SESSIONS)
    if value is None:
        message = f"A record without a value is a tombstone, and no {NAME}."
        return FormatError(message, hint="Leave it out.")
    return _damaged(value)


def _damaged(value: bytes) -> FormatError:
    message = f"{len(value):,} bytes that are no {NAME}: {value[:32].hex()}."
    hint = "Give a topic that only kstoolkit writes to; or count its events again into another."
    return FormatError(message, hint=hint)


_LONGEST_LENGTH = 5  # bytes that a length takes at most: protobuf's are below 2 GiB
_FEW = 16  # bundles: of fewer than that, the actions are found one by one


class _BundleLayout:
    """Where the parts of all bundles lie; said of bundles that are not ours, it means nothing."""

    def __init__(self, column: ByteColumn, version: int = _VERSION, ending: bytes = b"") -> None:
        data = column.data if len(column.data) else np.zeros(1, np.uint8)
        starts, ends = column.starts, column.ends - len(ending)
        is_ours = (_bytes_at(data, starts) == version) & (ends > starts)
        for place, byte in enumerate(ending):
            is_ours &= _bytes_at(data, np.maximum(ends + place, starts)) == byte
        is_ours &= _bytes_at(data, starts + 1) == COUNTS_TAG
        length, self._counts_at, is_read = _varints_at(data, starts + 2, _LONGEST_LENGTH)
        counts_bytes = length.astype(np.int64)
        is_ours &= is_read & (self._counts_at + counts_bytes <= ends)
        counts_bytes[~is_ours] = 0
        size, is_whole = _sizes(data, self._counts_at, counts_bytes)
        self._times = 2 if version == _VERSION_OF_SESSIONS else 1  # so many numbers an action
        is_whole &= size % self._times == 0
        size //= self._times
        at = self._counts_at + counts_bytes
        updated, at_actions, is_read = _varints_at(data, at + 1, LONGEST_VARINT)
        is_ours &= is_whole & is_read & (_bytes_at(data, at) == UPDATED_TAG)
        size[~is_ours] = 0
        self._walk = _Walk(data, at_actions, ends, size)
        self._data, self._counts_bytes, self.size = data, counts_bytes, size
        self.is_ours = is_ours & self._walk.is_ours
        self.updated_at_ms = updated.view(np.int64)

    def counts(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64] | None]:
        """Return the counts of all bundles, all ours, and of sessions how long they lasted."""
        data = self._data[run_places(self._counts_at, self._counts_bytes)]
        last = np.flatnonzero(data < MORE_BIT)
        width = np.diff(last, prepend=-1)
        numbers = decode_varints(data, width, last + 1 - width)
        if self._times == 1:
            return numbers, None
        begins = run_edges(2 * self.size)[:-1]
        places = [run_places(begins + number * self.size, self.size) for number in range(2)]
        return numbers[places[0]], numbers[places[1]]

    def actions(self) -> ByteColumn:
        """Return the actions of all bundles, in a row; all bundles must be ours."""
        begins = self._walk.begins
        return ByteColumn(self._data, begins, self._walk.stops, np.zeros(len(begins), np.bool_))


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
        numbers[left] |= (found & np.uint8(MORE_BIT - 1)).astype(np.uint64) << np.uint64(7 * place)
        ends[left] += 1
        is_read[left] = _may_end(found, place + 1)
        left = left[found >= MORE_BIT]
        if not left.size:
            break
    is_read[left] = False
    return numbers, ends, is_read


def _may_end(last: NDArray[np.uint8], width: NDArray[np.int64] | int) -> NDArray[np.bool_]:
    """Return whether varints of these widths end in these bytes, if no byte of them is idle."""
    fits: NDArray[np.bool_] = (last > 0) | np.equal(width, 1)
    return fits & (np.less(width, LONGEST_VARINT) | (np.equal(width, LONGEST_VARINT) & (last <= 1)))


def _sizes(
    data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return how many varints each run of bytes has, and whether it is whole ones."""
    row = data[run_places(begins, lengths)]
    edges = run_edges(lengths)
    is_last = row < MORE_BIT
    size = run_sums(is_last.astype(np.int64), lengths)
    # A run that stops inside a varint spoils the first of the next run as well, which does no harm.
    is_whole: NDArray[np.bool_] = (lengths == 0) | np.append(is_last, True)[edges[1:] - 1]
    last = np.flatnonzero(is_last)
    wrong = last[~_may_end(row[last], np.diff(last, prepend=-1))]
    is_whole[np.searchsorted(edges[1:], wrong, side="right")] = False
    return size, is_whole


class _Walk:
    """A way through the actions of bundles, ``size`` of each: all first ones, then the second."""

    def __init__(
        self,
        data: NDArray[np.uint8],
        at: NDArray[np.int64],
        ends: NDArray[np.int64],
        size: NDArray[np.int64],
    ) -> None:
        self.data, self.at, self.ends, self.first = data, at.copy(), ends, run_edges(size)
        self.begins, self.stops = np.zeros((2, self.first[-1]), np.int64)
        self.is_ours = np.ones(len(at), np.bool_)
        order = np.argsort(-size, kind="stable")  # those that have another action are in front
        having = np.searchsorted(-size[order], -np.arange(size.max(initial=0)))
        for number, count in enumerate(having.tolist()):
            if count < _FEW:
                for bundle in order[:count].tolist():
                    self._alone(bundle, number)
                break
            self._together(order[:count], number)
        self.is_ours &= self.at == ends

    def _together(self, bundles: NDArray[np.intp], number: int) -> None:
        """Go on behind one action of each of these bundles."""
        tag = _bytes_at(self.data, self.at[bundles])
        length, text_at, is_read = _varints_at(self.data, self.at[bundles] + 1, _LONGEST_LENGTH)
        self.is_ours[bundles] &= is_read & (tag == _ACTION_TAG)
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
    while at < len(data) and data[at] == _ACTION_TAG and len(found) < most:
        length, begin = 0, at + 1
        for place, byte in enumerate(data[begin : begin + _LONGEST_LENGTH]):
            length |= (byte & (MORE_BIT - 1)) << (7 * place)
            if byte < MORE_BIT:
                begin += place + 1
                break
        else:
            break
        at = begin + length
        found.append((begin, at))
    return found


_AROUND = 5  # varints of a bundle in front of its actions, beside its counts


@dataclass(frozen=True, slots=True, eq=False)
class ActionBundles:
    """Many bundles, as columns: ``size`` actions each, and those of all bundles in a row.

    An ``action`` is a place in ``actions``, the texts, each once; where actions have several
    ``parts``, these are called so. ``updated_at_ms`` is one a bundle, epoch ms UTC. Of sessions,
    ``lasted_ms`` is how long each lasted, beside ``count``.
    """

    size: NDArray[np.int64]
    action: NDArray[np.int32]
    count: NDArray[np.uint64]
    updated_at_ms: NDArray[np.int64]
    actions: pa.Array
    parts: tuple[str, ...] | None = None
    lasted_ms: NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, bundles: Sequence[ActionBundle]) -> ActionBundles:
        """Return single bundles as columns."""
        texts = pa.array([each for one in bundles for each in one.actions], pa.string())
        action = texts.dictionary_encode()
        return cls(
            np.array([len(one.actions) for one in bundles], np.int64),
            np.asarray(action.indices, dtype=np.int32),
            np.array([each for one in bundles for each in one.counts], np.uint64),
            np.array([one.updated_at_ms for one in bundles], np.int64),
            action.dictionary,
            next((one.parts for one in bundles), None),
            lasted_of(bundles),
        )

    def __len__(self) -> int:
        return len(self.size)


def encode_many(bundles: ActionBundles) -> pa.Array:
    """Return the bytes of each bundle, as Arrow large binary.

    >>> one = ActionBundles.of([ActionBundle(["read", "edit"], [61, 7], 5)])
    >>> encode_many(one)[0].as_py().hex(" ")
    '02 12 02 3d 07 18 05 22 04 72 65 61 64 22 04 65 64 69 74'
    """
    ending = pa.scalar(_ending(bundles.parts), pa.large_binary())
    return joined_cells(_in_front(bundles), _texts(bundles), ending)


def _ending(parts: tuple[str, ...] | None) -> bytes:
    """Return what is behind the actions of each bundle: what their parts are called."""
    texts = [name.encode() for name in parts or ()]  # none is as long as a varint of two bytes says
    return b"".join(bytes([_PART_TAG, len(text)]) + text for text in texts)


def decode_many(values: Sequence[bytes | None] | pa.Array) -> ActionBundles:
    """Return many bundles as columns: leave tombstones out.

    One of another version, or that is no bundle, is a FormatError.

    >>> value = bytes.fromhex("02 12 02 3d 07 18 05 22 04 72656164 22 04 65646974")
    >>> read = decode_many([value, value])
    >>> read.size.tolist(), read.count.tolist(), read.action.tolist(), read.actions.to_pylist()
    ([2, 2], [61, 7, 61, 7], [0, 1, 0, 1], ['read', 'edit'])
    """
    column = ByteColumn.of(values)
    first = _first_of(column)
    parts, has_ends = (None, False) if first is None else (first.parts, first.lasted_ms is not None)
    as_told = (_version_of(parts, has_ends=has_ends), _ending(parts))
    layout = _BundleLayout(column, *as_told)
    if not layout.is_ours.all():
        column = _as_ours(column, ~layout.is_ours, parts, has_ends=has_ends)
        layout = _BundleLayout(column, *as_told)
    action = layout.actions().to_arrow().dictionary_encode()
    try:
        texts = action.dictionary.cast(pa.string())
    except pa.ArrowInvalid:  # no UTF-8; which record it is in, protobuf tells
        return ActionBundles.of([_decode(value) for value in column.to_list()])
    codes = np.asarray(action.indices, dtype=np.int32)
    counts, lasted = layout.counts()
    return ActionBundles(layout.size, codes, counts, layout.updated_at_ms, texts, parts, lasted)


def _first_of(column: ByteColumn) -> ActionBundle | None:
    """Return the first bundle, whose parts and ends all others have; ``None`` if it has neither."""
    first = column.take(np.arange(min(1, len(column)))).to_list()
    has_more = first and first[0] and first[0][0] in _VERSIONS - {_VERSION}
    return _decode(first[0]) if has_more else None


def _version_of(parts: tuple[str, ...] | None, *, has_ends: bool) -> int:
    if has_ends:
        return _VERSION_OF_SESSIONS
    return _VERSION if parts is None else _VERSION_OF_PARTS


def _in_front(bundles: ActionBundles) -> pa.Array:
    """Return what each bundle has in front of its actions: nothing but varints."""
    size, has_ends = bundles.size, bundles.lasted_ms is not None
    numbers = 2 * size if has_ends else size
    first = run_edges(numbers + _AROUND)
    begins, ends = first[:-1], first[1:]
    varints = np.empty(first[-1], np.uint64)
    varints[begins] = _version_of(bundles.parts, has_ends=has_ends)
    varints[begins + 1], varints[ends - 2] = COUNTS_TAG, UPDATED_TAG
    varints[run_places(begins + 3, size)] = bundles.count
    if bundles.lasted_ms is not None:
        varints[run_places(begins + 3 + size, size)] = bundles.lasted_ms
    told = varints[run_places(begins + 3, numbers)]
    varints[begins + 2] = run_sums(varint_widths(told), numbers)
    varints[ends - 1] = bundles.updated_at_ms.astype(np.int64).view(np.uint64)
    return varint_cells(varints, first)


def _texts(bundles: ActionBundles) -> pa.Array:
    """Return the actions of each bundle: tag, length and text, one behind the other."""
    texts = bundles.actions.cast(pa.large_binary())
    lengths = np.asarray(pc.binary_length(texts)).astype(np.uint64)
    varints = np.full(2 * len(lengths), _ACTION_TAG, np.uint64)
    varints[1::2] = lengths
    tags = varint_cells(varints, np.arange(0, len(varints) + 1, 2))
    _, offsets, data = joined_cells(tags, texts).take(pa.array(bundles.action)).buffers()
    ends = np.frombuffer(offsets, np.int64)[run_edges(bundles.size)]
    return pa.Array.from_buffers(pa.large_binary(), len(bundles), [None, pa.py_buffer(ends), data])


def _as_ours(
    column: ByteColumn, others: NDArray[np.bool_], parts: tuple[str, ...] | None, *, has_ends: bool
) -> ByteColumn:
    """Return the column with the bundles that others wrote written as ours are."""
    each = [_decode(value) for value in column.take(others).to_list()]
    if any(one.parts != parts or (one.lasted_ms is not None) != has_ends for one in each):
        message = "Some records count by other parts of an action than others."
        raise FormatError(message, hint="Give a topic that one run of kstoolkit writes to.")
    read = ActionBundles.of(each)
    both = pa.concat_arrays([column.to_arrow(), encode_many(read)])
    place = np.arange(len(column))
    place[others] = len(column) + np.arange(len(read))
    return ByteColumn.from_arrow(both.take(pa.array(place)))
