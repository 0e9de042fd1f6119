"""CountBundle: one user's counts of one window, all actions together, as a store has them.

::

    version (1 byte) · protobuf

    syntax = "proto3";
    message CountBundle {
      repeated uint32 action_id = 1;   // packed; places in the store's dictionary of actions
      repeated uint64 count = 2;       // packed; the latest count of each
      int64 updated_at_ms = 3;         // when one of them last changed, epoch ms UTC
    }

Version 4 is the same, of actions of several parts: the texts in the store's dictionary are those of
:mod:`kstoolkit.formats.actions`. Versions 7 and 9 are of sessions, with actions of one and of
several parts: behind the counts stands how long each session lasted, in ms, and 0 is the count of a
session that is one no more. Versions 2, 5 and 8 are a topic's bundles
(:mod:`kstoolkit.formats.topicbundle`), 3 and 6 blocks of many users' counts.

Texts of actions repeat in every bundle, so that a bundle has numbers in their place; which text a
number is, the store that holds the bundle says. A single bundle is read by protobuf's own runtime,
with a class made from its fields where it is used: nothing is generated. Many are read and written
as columns: version, tags, lengths and values are all varints (seven bits a byte, the lowest first),
so a pile of bundles is one long row of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped] # ships no types
from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # ships no types

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import run_edges, run_places, run_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FIELD = descriptor_pb2.FieldDescriptorProto


def message_class(name: str, fields: Sequence[tuple[str, str]]) -> Any:
    """Return protobuf's class of a proto3 message, with fields that are numbered from 1.

    They are named and typed as a ``.proto`` file has them, such as ``"repeated uint32"``.

    >>> point = message_class("Point", [("x", "int64"), ("y", "repeated uint64")])
    >>> point(x=1, y=[2, 3]).SerializeToString().hex(" ")
    '08 01 12 02 02 03'
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, told) in enumerate(fields, start=1):
        repeated, _, kind = told.rpartition(" ")
        message.field.add(
            name=field,
            number=number,
            label=_FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL,
            type=_FIELD.Type.Value(f"TYPE_{kind.upper()}"),
        )
    pool = descriptor_pool.DescriptorPool()  # its own: no other message has the name there
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


LONGEST_VARINT = 10  # how many bytes 64 bits take at most
MORE_BIT = 0x80  # the top bit of a byte that is not the last of its varint


def varint_widths(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many bytes each number takes."""
    width = np.ones(len(numbers), np.int64)
    rest = numbers >> np.uint64(7)
    while rest.any():
        width += rest > 0
        rest >>= np.uint64(7)
    return width


def encode_varints(
    numbers: NDArray[np.uint64], width: NDArray[np.int64], begins: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the bytes of numbers one behind the other: each so wide, and beginning there."""
    data = np.empty(int(width.sum()), np.uint8)
    rest, left = numbers, width
    for place in range(LONGEST_VARINT):
        more = left > place + 1
        seven_bits = (rest & np.uint64(0x7F)).astype(np.uint8)
        data[begins + place] = seven_bits | (more.astype(np.uint8) << 7)
        if not more.any():
            break
        rest, begins, left = rest[more] >> np.uint64(7), begins[more], left[more]
    return data


def decode_varints(
    data: NDArray[np.uint8], width: NDArray[np.int64], begins: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the numbers that begin at some places, and are so wide."""
    numbers = np.zeros(len(width), np.uint64)
    chosen = np.arange(len(width))
    for place in range(int(width.max(initial=0))):
        chosen = chosen[width[chosen] > place]
        bits = (data[begins[chosen] + place] & 0x7F).astype(np.uint64)
        numbers[chosen] |= bits << np.uint64(7 * place)
    return numbers


def varint_cells(numbers: NDArray[np.uint64], first: NDArray[np.int64]) -> pa.Array:
    """Return byte strings of varints, each from one of ``first`` on up to the next.

    >>> cells = varint_cells(np.array([1, 300, 2], np.uint64), np.array([0, 2, 3]))
    >>> [cell.hex() for cell in cells.to_pylist()]
    ['01ac02', '02']
    """
    width = varint_widths(numbers)
    ends = run_edges(width)
    data = encode_varints(numbers, width, ends[:-1])
    buffers = [None, pa.py_buffer(ends[first]), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(first) - 1, buffers)


VERSION, VERSION_OF_PARTS, _VERSION_OF_SESSIONS, _VERSION_OF_BOTH = 1, 4, 7, 9
_VERSIONS = {VERSION, VERSION_OF_PARTS, _VERSION_OF_SESSIONS, _VERSION_OF_BOTH}
NAME = "CountBundle"
_IDS_TAG, COUNTS_TAG, UPDATED_TAG = 0x0A, 0x12, 0x18  # number of the field, and its wire type
_AROUND = 7  # varints of a bundle beside its ids and counts
_LARGEST_ID = 2**31 - 1  # ids are places, and columns of them int32


def version_of(*, has_parts: bool, has_ends: bool) -> int:
    """Return the version of bundles whose actions have several parts, or that are of sessions."""
    if has_ends:
        return _VERSION_OF_BOTH if has_parts else _VERSION_OF_SESSIONS
    return VERSION_OF_PARTS if has_parts else VERSION


def has_parts(version: int) -> bool:
    """Whether the actions of such bundles have several parts."""
    return version in {VERSION_OF_PARTS, _VERSION_OF_BOTH}


class Bundle(NamedTuple):
    """One bundle: ids of actions, the count of each, and when one last changed (epoch ms UTC).

    Of sessions ``lasted_ms`` says how long each was.
    """

    action_ids: list[int]
    counts: list[int]
    updated_at_ms: int
    lasted_ms: list[int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Bundles:
    """Many bundles, as columns: ``size`` actions each, and those of all bundles in a row.

    ``updated_at_ms`` is one a bundle, epoch ms UTC; ``version`` is that of all. Of sessions,
    ``lasted_ms`` is how long each lasted, beside ``count``.
    """

    size: NDArray[np.int64]
    action_id: NDArray[np.int32]
    count: NDArray[np.uint64]
    updated_at_ms: NDArray[np.int64]
    version: int = VERSION
    lasted_ms: NDArray[np.uint64] | None = None


FIELDS = [
    ("action_id", "repeated uint32"),
    ("count", "repeated uint64"),
    ("updated_at_ms", "int64"),
]
"""Name and type of each field, the same in all versions."""
_MESSAGE = message_class(NAME, FIELDS)


def decode(value: bytes) -> Bundle:
    """Return one bundle; one of an unknown version, or with ids of 2**31 and more: a FormatError.

    >>> decode(bytes([1, 0x0A, 2, 0, 3, 0x12, 2, 61, 7, 0x18, 5]))
    Bundle(action_ids=[0, 3], counts=[61, 7], updated_at_ms=5, lasted_ms=None)
    """
    if not value or value[0] not in _VERSIONS:
        raise FormatError.version(NAME, value[0] if value else 0, _VERSION_OF_BOTH)
    try:
        message = _MESSAGE.FromString(value[1:])
    except DecodeError as error:
        raise _damaged(value) from error
    ids, counts, lasted = list(message.action_id), list(message.count), None
    if _has_ends(value[0]):
        counts, lasted = counts[: len(ids)], counts[len(ids) :]
    are_places = max(ids, default=0) <= _LARGEST_ID
    if len(ids) != len(counts) or (lasted and len(ids) != len(lasted)) or not are_places:
        raise _damaged(value)
    return Bundle(ids, counts, message.updated_at_ms, lasted)


def _has_ends(version: int) -> bool:
    return version in {_VERSION_OF_SESSIONS, _VERSION_OF_BOTH}


def encode_many(bundles: Bundles) -> pa.Array:
    """Return the bytes of each bundle, as Arrow binary.

    >>> one = Bundles(np.array([2]), np.array([0, 3]), np.array([61, 7]), np.array([5]))
    >>> encode_many(one)[0].as_py().hex(" ")
    '01 0a 02 00 03 12 02 3d 07 18 05'
    """
    size = bundles.size.astype(np.int64)
    behind_ids = size if bundles.lasted_ms is None else 2 * size
    first = run_edges(size + behind_ids + _AROUND)  # of each bundle's varints
    begins, counts, ends = first[:-1], first[:-1] + 3 + size, first[1:]
    varints = np.empty(first[-1], np.uint64)
    of_ids, of_counts = run_places(begins + 3, size), run_places(counts + 2, size)
    varints[of_ids], varints[of_counts] = bundles.action_id, bundles.count
    if bundles.lasted_ms is not None:
        varints[run_places(counts + 2 + size, size)] = bundles.lasted_ms
        of_counts = run_places(counts + 2, behind_ids)
    varints[begins], varints[begins + 1] = bundles.version, _IDS_TAG
    varints[counts], varints[ends - 2] = COUNTS_TAG, UPDATED_TAG
    varints[ends - 1] = bundles.updated_at_ms.astype(np.int64).view(np.uint64)
    varints[begins + 2] = run_sums(varint_widths(varints[of_ids]), size)
    varints[counts + 1] = run_sums(varint_widths(varints[of_counts]), behind_ids)
    return varint_cells(varints, first)


def decode_many(values: Sequence[bytes]) -> Bundles:
    """Return many bundles as columns; any that :func:`decode` refuses is a FormatError."""
    data = np.frombuffer(b"".join(values), np.uint8)
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    last = np.flatnonzero(data < MORE_BIT)  # the last byte of each varint
    first = np.r_[0, np.searchsorted(last, ends)]
    width = np.diff(last, prepend=-1)
    is_whole = data.size and data[ends - 1].max() < MORE_BIT
    if not is_whole or width.max() > LONGEST_VARINT:
        return _one_by_one(values)
    varints = decode_varints(data, width, last + 1 - width)
    version = values[0][0] if values[0] else 0
    has_ends = _has_ends(version)
    size = (np.diff(first) - _AROUND) // (3 if has_ends else 2)
    if not _is_ours(varints, first, size, version):
        return _one_by_one(values)
    of_ids, of_counts = run_places(first[:-1] + 3, size), run_places(first[:-1] + 5 + size, size)
    updated = varints[first[1:] - 1].view(np.int64)
    lasted = varints[run_places(first[:-1] + 5 + 2 * size, size)] if has_ends else None
    ids, counts = varints[of_ids].astype(np.int32), varints[of_counts]
    return Bundles(size, ids, counts, updated, version, lasted)


def _is_ours(
    varints: NDArray[np.uint64], first: NDArray[np.intp], size: NDArray[np.intp], version: int
) -> bool:
    """Return whether all bundles have their fields as :func:`encode_many` writes them."""
    begins, ends = first[:-1], first[1:]
    behind_ids = 2 * size if _has_ends(version) else size
    if (size < 1).any() or (size + behind_ids + _AROUND != ends - begins).any():
        return False
    counts = begins + 3 + size
    ids = varints[run_places(begins + 3, size)]
    amounts = varints[run_places(counts + 2, behind_ids)]
    return bool(
        version in _VERSIONS
        and (varints[begins] == version).all()
        and (ids <= _LARGEST_ID).all()
        and (varints[begins + 1] == _IDS_TAG).all()
        and (varints[counts] == COUNTS_TAG).all()
        and (varints[ends - 2] == UPDATED_TAG).all()
        and (run_sums(varint_widths(ids), size) == varints[begins + 2]).all()
        and (run_sums(varint_widths(amounts), behind_ids) == varints[counts + 1]).all()
    )


def _one_by_one(values: Sequence[bytes]) -> Bundles:
    """Read bundles that another program wrote, which protobuf lets order fields as it likes."""
    read = [decode(value) for value in values]
    return Bundles(
        np.array([len(bundle.counts) for bundle in read], np.int64),
        np.array([each for bundle in read for each in bundle.action_ids], np.int32),
        np.array([each for bundle in read for each in bundle.counts], np.uint64),
        np.array([bundle.updated_at_ms for bundle in read], np.int64),
        max((value[0] for value in values), default=VERSION),
        lasted_of(read),
    )


def lasted_of(read: Sequence[Any]) -> NDArray[np.uint64] | None:
    """Return how long the sessions of single bundles lasted, in a row; ``None`` of windows."""
    told = [bundle.lasted_ms for bundle in read if bundle.lasted_ms is not None]
    return np.array([each for one in told for each in one], np.uint64) if told else None


def _damaged(value: bytes) -> FormatError:
    message = f"{len(value)} bytes that are no {NAME}: {value[:32].hex()}."
    return FormatError(message, hint="The store is damaged: restore it from its changelog.")
