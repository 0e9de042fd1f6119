"""CountBundle, version 2: one user's counts of one window, in a record of a changelog topic.

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

Version 1 in a topic is no bundle but a block of many users' counts (:data:`BLOCK_VERSION`,
:mod:`kstoolkit.formats.countblock`); the bundles of that version
(:mod:`kstoolkit.formats.countbundle`) lie in stores.

Records are read and written as columns. One that another program wrote in another order, or with
fields of its own, is read by protobuf's runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.runs import run_edges, run_places, run_sums
from kstoolkit.formats.topicbundlelayout import ACTION, COUNTS, UPDATED, BundleLayout
from kstoolkit.formats.topicmessage import VERSION, ActionBundle, decode
from kstoolkit.formats.varints import widths_of, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_AROUND = 5  # varints of a bundle in front of its actions, beside its counts


@dataclass(frozen=True, slots=True, eq=False)
class ActionBundles:
    """Many bundles, as columns.

    Parameters
    ----------
    size
        How many actions each bundle has.
    action, count
        Those of all bundles, in a row; actions are places in ``actions``.
    updated_at_ms
        One a bundle, epoch ms UTC.
    actions
        The texts of actions, each once.
    """

    size: NDArray[np.int64]
    action: NDArray[np.int32]
    count: NDArray[np.uint64]
    updated_at_ms: NDArray[np.int64]
    actions: pa.Array

    @classmethod
    def of(cls, bundles: Sequence[ActionBundle]) -> ActionBundles:
        """Return single bundles as columns.

        Examples
        --------
        >>> ActionBundles.of([ActionBundle(["read", "edit"], [61, 7], 5)]).count.tolist()
        [61, 7]
        """
        texts = pa.array([each for one in bundles for each in one.actions], pa.string())
        action = texts.dictionary_encode()
        return cls(
            np.array([len(one.actions) for one in bundles], np.int64),
            np.asarray(action.indices, dtype=np.int32),
            np.array([each for one in bundles for each in one.counts], np.uint64),
            np.array([one.updated_at_ms for one in bundles], np.int64),
            action.dictionary,
        )

    def __len__(self) -> int:
        return len(self.size)


def encode_many(bundles: ActionBundles) -> pa.Array:
    """Return the bytes of each bundle, as Arrow large binary.

    Examples
    --------
    >>> one = ActionBundles.of([ActionBundle(["read", "edit"], [61, 7], 5)])
    >>> encode_many(one)[0].as_py().hex(" ")
    '02 12 02 3d 07 18 05 22 04 72 65 61 64 22 04 65 64 69 74'
    """
    nothing = pa.scalar(b"", pa.large_binary())
    return pc.binary_join_element_wise(_in_front(bundles), _texts(bundles), nothing)


def decode_many(values: Sequence[bytes | None] | pa.Array) -> ActionBundles:
    """Return many bundles as columns.

    Raises
    ------
    FormatError
        If one of them is of another version, or no bundle; or there is none: leave tombstones out.

    Examples
    --------
    >>> value = bytes.fromhex("02 12 02 3d 07 18 05 22 04 72656164 22 04 65646974")
    >>> read = decode_many([value, value])
    >>> read.size.tolist(), read.count.tolist(), read.action.tolist(), read.actions.to_pylist()
    ([2, 2], [61, 7, 61, 7], [0, 1, 0, 1], ['read', 'edit'])
    """
    column = (
        ByteColumn.from_arrow(values) if isinstance(values, pa.Array) else ByteColumn.of(values)
    )
    layout = BundleLayout.of(column)
    if not layout.is_ours.all():
        column = _as_ours(column, ~layout.is_ours)
        layout = BundleLayout.of(column)
    action = layout.actions().to_arrow().dictionary_encode()
    try:
        texts = action.dictionary.cast(pa.string())
    except pa.ArrowInvalid:  # no UTF-8; which record it is in, protobuf tells
        return ActionBundles.of([decode(value) for value in column.to_list()])
    codes = np.asarray(action.indices, dtype=np.int32)
    return ActionBundles(layout.size, codes, layout.counts(), layout.updated_at_ms, texts)


def _in_front(bundles: ActionBundles) -> pa.Array:
    """Return what each bundle has in front of its actions: nothing but varints."""
    size = bundles.size
    first = run_edges(size + _AROUND)
    begins, ends = first[:-1], first[1:]
    varints = np.empty(first[-1], np.uint64)
    varints[begins], varints[begins + 1], varints[ends - 2] = VERSION, COUNTS, UPDATED
    varints[begins + 2] = run_sums(widths_of(bundles.count), size)
    varints[run_places(begins + 3, size)] = bundles.count
    varints[ends - 1] = bundles.updated_at_ms.astype(np.int64).view(np.uint64)
    return _cells(varints, first)


def _texts(bundles: ActionBundles) -> pa.Array:
    """Return the actions of each bundle: tag, length and text, one behind the other."""
    texts = bundles.actions.cast(pa.large_binary())
    lengths = np.asarray(pc.binary_length(texts)).astype(np.uint64)
    varints = np.full(2 * len(lengths), ACTION, np.uint64)
    varints[1::2] = lengths
    tags = _cells(varints, np.arange(0, len(varints) + 1, 2))
    fields = pc.binary_join_element_wise(tags, texts, pa.scalar(b"", pa.large_binary()))
    _, offsets, data = fields.take(pa.array(bundles.action)).buffers()
    ends = np.frombuffer(offsets, np.int64)[run_edges(bundles.size)]
    return pa.Array.from_buffers(pa.large_binary(), len(bundles), [None, pa.py_buffer(ends), data])


def _cells(varints: NDArray[np.uint64], first: NDArray[np.int64]) -> pa.Array:
    """Return byte strings of varints, from each of these on up to the next."""
    width = widths_of(varints)
    ends = run_edges(width)
    buffers = [None, pa.py_buffer(ends[first]), pa.py_buffer(written(varints, width, ends[:-1]))]
    return pa.Array.from_buffers(pa.large_binary(), len(first) - 1, buffers)


def _as_ours(column: ByteColumn, others: NDArray[np.bool_]) -> ByteColumn:
    """Return the column with the bundles that others wrote written as ours are."""
    read = ActionBundles.of([decode(value) for value in column.take(others).to_list()])
    both = pa.concat_arrays([column.to_arrow(), encode_many(read)])
    place = np.arange(len(column))
    place[others] = len(column) + np.arange(len(read))
    return ByteColumn.from_arrow(both.take(pa.array(place)))
