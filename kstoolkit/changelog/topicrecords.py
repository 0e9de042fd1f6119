"""Counts as the records of a changelog topic, and back.

There are two forms, and a record's key says which it is of:

- one record for each user and window, with all of the user's actions in it
  (:mod:`kstoolkit.formats.keys`, :mod:`kstoolkit.formats.topicbundle`): compaction keeps the
  last of each, and a tombstone says that the window is gone;
- many counts as one block (:mod:`kstoolkit.changelog.topicblocks`): far fewer and smaller records,
  which compaction can't fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.counters.counters import Counters, PackedKeys
from kstoolkit.errors import FormatError
from kstoolkit.formats import topicbundle
from kstoolkit.formats.keys import decode_topic_keys, encode_topic_keys
from kstoolkit.formats.topicbundle import ActionBundles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kstoolkit.formats.keys import WindowKeys


@dataclass(frozen=True, slots=True, eq=False)
class TopicCounts:
    """What records tell of the windows of one size.

    Parameters
    ----------
    counters
        The counts. A user's window that has any has no others: what was known of it before is void.
    changed_ms
        When each count's window last changed, epoch ms UTC.
    gone
        Users' windows of which the last record is a tombstone.
    """

    counters: Counters
    changed_ms: NDArray[np.int64]
    gone: WindowKeys


def records_of(
    counters: Counters, *, size_ms: int, changed_ms: NDArray[np.int64] | int
) -> tuple[pa.Array, pa.Array]:
    """Return keys and values, one record for each user and window, as Arrow large binary.

    Parameters
    ----------
    counters
        All counts of every user's window that is among them, those that did not change too.
    size_ms
        How long the windows are.
    changed_ms
        When the counts changed, epoch ms UTC: one number for all, or one a count, of which a
        record takes the latest.

    Examples
    --------
    >>> who, what = pa.array(["Anna", "Anna", "Bo"]), pa.array(["read", "edit", "read"])
    >>> counted = Counters.of(np.array([0, 0, 0]), who, what)
    >>> keys, values = records_of(counted, size_ms=60_000, changed_ms=5)
    >>> len(keys), values[1].as_py().hex(" ")
    (2, '02 12 01 01 18 05 22 04 72 65 61 64')
    """
    counters = counters.pruned()
    differs = (np.diff(counters.user) != 0) | (np.diff(counters.start_ms) != 0)
    first = np.flatnonzero(np.r_[len(counters) > 0, differs])
    size = np.diff(first, append=len(counters))
    changed = np.broadcast_to(np.asarray(changed_ms, np.int64), (len(counters),))
    updated_ms = np.maximum.reduceat(changed, first) if first.size else changed
    user, start_ms = counters.user[first], counters.start_ms[first]
    keys = encode_topic_keys(counters.users, user, start_ms, size_ms)
    bundles = ActionBundles(size, counters.action, counters.count, updated_ms, counters.actions)
    return keys, topicbundle.encode_many(bundles)


def counters_of(
    keys: Sequence[bytes] | pa.Array, values: Sequence[bytes | None] | pa.Array
) -> dict[int, TopicCounts]:
    """Return what records tell, by window size in ms.

    Parameters
    ----------
    keys, values
        One of each a record, in the order of their offsets: of one key, the last record counts
        alone. A value that is null is a tombstone. Records of blocks are to be left out: see
        :func:`kstoolkit.formats.keys.is_block_key`.

    Raises
    ------
    FormatError
        If a key is not of a user's window, or a value that counts no bundle.

    Examples
    --------
    >>> counted = Counters.of(np.array([0, 0]), pa.array(["a", "b"]), pa.array(["x", "x"]))
    >>> keys, values = records_of(counted, size_ms=60_000, changed_ms=5)
    >>> told = counters_of([*keys.to_pylist(), keys[0].as_py()], [*values.to_pylist(), None])
    >>> told[60_000].counters.to_batch().to_pydict()["user"], told[60_000].gone.names.to_pylist()
    (['b'], ['a'])
    """
    every = decode_topic_keys(keys)
    if not len(every):
        return {}
    last = _last_of_each(every)
    windows = every.take(last)
    found = values if isinstance(values, pa.Array) else pa.array(values, pa.large_binary())
    found = found.take(pa.array(last))
    is_gone = np.asarray(found.is_null())
    bundles = topicbundle.decode_many(found.drop_null())
    window = np.repeat(np.flatnonzero(~is_gone), bundles.size)
    changed_ms = np.repeat(bundles.updated_at_ms, bundles.size)
    size_ms = windows.size_ms[window]
    told = {}
    for one in np.unique(windows.size_ms).tolist():
        here = np.flatnonzero(size_ms == one)
        counters, order = _counters(windows, window[here], bundles, here)
        gone = windows.take(is_gone & (windows.size_ms == one))
        told[one] = TopicCounts(counters, changed_ms[here][order], gone)
    return told


def _last_of_each(windows: WindowKeys) -> NDArray[np.intp]:
    """Return where each window is the last time, ordered by user and start."""
    _, size = np.unique(windows.size_ms, return_inverse=True)
    packed = PackedKeys.of(windows.user, windows.start_ms, size.astype(np.int32)).packed
    order = np.argsort(packed, kind="stable")
    last: NDArray[np.intp] = order[np.append(np.diff(packed[order]) != 0, True)]
    return last


def _counters(
    windows: WindowKeys,
    window: NDArray[np.intp],
    bundles: ActionBundles,
    rows: NDArray[np.intp],
) -> tuple[Counters, NDArray[np.intp]]:
    """Return some counts, which belong to these windows, and the order that they are in now."""
    if not rows.size:
        return Counters.empty(), rows
    user, start_ms, action = windows.user[window], windows.start_ms[window], bundles.action[rows]
    packed = PackedKeys.of(user, start_ms, action).packed
    order = np.argsort(packed, kind="stable")
    again = np.flatnonzero(np.diff(packed[order]) == 0)
    if again.size:
        raise _twice(windows, window[order[again[0]]], bundles.actions[action[order[again[0]]]])
    counters = Counters(
        windows.users,
        bundles.actions,
        user[order],
        action[order],
        start_ms[order],
        bundles.count[rows][order],
    )
    return counters, order


def _twice(windows: WindowKeys, window: np.intp, action: pa.Scalar) -> FormatError:
    who = windows.users[windows.user[window]].as_py()
    message = (
        f"The record of {who!r} from {windows.start_ms[window]} ms on names the action "
        f"{action.as_py()!r} twice."
    )
    return FormatError(message, hint="Give a topic that only kstoolkit writes to.")
