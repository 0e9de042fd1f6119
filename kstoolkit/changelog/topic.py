"""Counts as the records of a changelog topic, and back; and where they wait to be sent.

There are two forms, and a record's key says which it is of:

- one record for each user and window, with all of the user's actions in it
  (:mod:`kstoolkit.formats.keys`, :mod:`kstoolkit.formats.topicbundle`): compaction keeps the
  last of each, and a tombstone says that the window is gone, or that no session begins there;
- many counts as one block, far fewer and smaller records, which compaction can't fold: the key says
  which micro-batch wrote it, the value is a CountBlock (:mod:`kstoolkit.formats.countblock`), and
  the record's timestamp is when the counts changed. Only what changed is in it: the newest
  (epoch, batch) of each count is its value.

Tasks write the records into Parquet files of keys and values, then Spark sends them; a repeated
batch writes and sends the same again, which changes nothing, as the last record of each key counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstoolkit.counters.counters import Counters, PackedKeys
from kstoolkit.errors import FormatError
from kstoolkit.formats.countblock import BlockKey
from kstoolkit.formats.keys import decode_topic_keys, encode_topic_keys
from kstoolkit.formats.topicbundle import ActionBundles, decode_many, encode_many

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.formats.keys import WindowKeys


@dataclass(frozen=True, slots=True, eq=False)
class TopicCounts:
    """What records tell of the windows of one size.

    A user's window with any ``counters`` has no others: what was known of it is void. Of those that
    are ``gone``, the last record is a tombstone. ``changed_ms``: when each window last changed.
    """

    counters: Counters
    changed_ms: NDArray[np.int64]
    gone: WindowKeys


def _records_of(
    counters: Counters, *, size_ms: int, changed_ms: NDArray[np.int64] | int
) -> tuple[pa.Array, pa.Array]:
    """Return keys and values, one record for each user and window, as Arrow large binary."""
    counters = counters.pruned()
    differs = (np.diff(counters.user) != 0) | (np.diff(counters.start_ms) != 0)
    first = np.flatnonzero(np.r_[len(counters) > 0, differs])
    size = np.diff(first, append=len(counters))
    changed = np.broadcast_to(np.asarray(changed_ms, np.int64), (len(counters),))
    updated_ms = np.maximum.reduceat(changed, first) if first.size else changed
    user, start_ms = counters.user[first], counters.start_ms[first]
    keys = encode_topic_keys(counters.users, user, start_ms, size_ms)
    told = size, counters.action, counters.count, updated_ms, counters.actions, counters.parts
    if counters.end_ms is None:
        return keys, encode_many(ActionBundles(*told))
    lasted_ms = (counters.end_ms - counters.start_ms).astype(np.uint64)
    values = encode_many(ActionBundles(*told, lasted_ms))
    is_gone = np.add.reduceat(counters.count, first) == 0  # others swallowed all of them
    return keys, pc.if_else(pa.array(is_gone), pa.nulls(len(keys), values.type), values)


def counters_of(
    keys: Sequence[bytes] | pa.Array, values: Sequence[bytes | None] | pa.Array
) -> dict[int, TopicCounts]:
    """Return what records tell, by window size in ms; they come in the order of their offsets.

    Of one key, the last record counts alone; a value that is null is a tombstone. Records of blocks
    are to be left out, by :func:`kstoolkit.formats.keys.is_block_key`: they, and whatever else is
    no key of a user's window with a bundle, are a FormatError.

    >>> counted = Counters.of(np.array([0, 0]), pa.array(["a", "b"]), pa.array(["x", "x"]))
    >>> keys, values = _records_of(counted, size_ms=60_000, changed_ms=5)
    >>> told = counters_of([*keys.to_pylist(), keys[0].as_py()], [*values.to_pylist(), None])
    >>> told[60_000].counters.to_batch().to_pydict()["user"], told[60_000].gone.names.to_pylist()
    (['b'], ['a'])
    """
    every = decode_topic_keys(keys)
    if not len(every):
        return {}
    # Where each window is the last time, ordered by user and start.
    _, size = np.unique(every.size_ms, return_inverse=True)
    packed = PackedKeys.of(every.user, every.start_ms, size.astype(np.int32)).packed
    order = np.argsort(packed, kind="stable")
    last = np.asarray(order[np.append(np.diff(packed[order]) != 0, True)])
    windows = every.take(last)
    found = values if isinstance(values, pa.Array) else pa.array(values, pa.large_binary())
    found = found.take(pa.array(last))
    told: dict[int, TopicCounts] = {}
    for chosen in (windows.size_ms > 0, windows.size_ms < 0):
        if chosen.any():
            told |= _told(windows.take(chosen), found.filter(pa.array(chosen)))
    return told


def _told(windows: WindowKeys, found: pa.Array) -> dict[int, TopicCounts]:
    """Return what the last records of some windows, or sessions, tell."""
    is_gone = np.asarray(found.is_null())
    bundles = decode_many(found.drop_null())
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


def _counters(
    windows: WindowKeys, window: NDArray[np.intp], bundles: ActionBundles, rows: NDArray[np.intp]
) -> tuple[Counters, NDArray[np.intp]]:
    """Return some counts, which belong to these windows, and the order that they are in now."""
    if not rows.size:
        return Counters.empty(bundles.parts), rows
    user, start_ms, action = windows.user[window], windows.start_ms[window], bundles.action[rows]
    packed = PackedKeys.of(user, start_ms, action).packed
    order = np.argsort(packed, kind="stable")
    again = np.flatnonzero(np.diff(packed[order]) == 0)
    if again.size:
        raise _twice(windows, window[order[again[0]]], bundles.actions[action[order[again[0]]]])
    texts, codes = (windows.users, bundles.actions), (user[order], action[order])
    counts, end_ms = (start_ms[order], bundles.count[rows][order]), None
    if bundles.lasted_ms is not None:
        end_ms = counts[0] + bundles.lasted_ms[rows][order].astype(np.int64)
    return Counters(*texts, *codes, *counts, bundles.parts, end_ms), order


def _twice(windows: WindowKeys, window: np.intp, action: pa.Scalar) -> FormatError:
    who = windows.users[windows.user[window]].as_py()
    record = f"The record of {who!r} from {windows.start_ms[window]} ms on"
    message = f"{record} names the action {action.as_py()!r} twice."
    return FormatError(message, hint="Give a topic that only kstoolkit writes to.")


_MOST_BYTES = 900_000
"""How long a block is at most: a broker takes a record of 1 MiB, if it is not told otherwise."""


def _blocks_of(
    counters: Counters, first: BlockKey, *, most_bytes: int = _MOST_BYTES
) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values: one record if it is small enough, else more; none of no counts.

    The same counts are cut in the same way: a batch that is written twice has the same keys.
    """
    blocks = _cut(counters, most_bytes) if len(counters) else ()
    for number, block in enumerate(blocks):
        yield first._replace(part=first.part + number).encode(), block


def counters_of_blocks(
    keys: Sequence[bytes], values: Sequence[bytes | None], changed_ms: Sequence[int]
) -> dict[int, TopicCounts]:
    """Return what blocks tell, by window size in ms: of each count, what the newest batch says.

    Records come in any order; of one key, the last counts alone. A value that is None is a
    tombstone: of what that block told, nothing is known from it any more. What is no key of a
    block, or no CountBlock, is a FormatError.
    """
    last = {key: number for number, key in enumerate(keys)}
    named = sorted((BlockKey.decode(key), number) for key, number in last.items())
    named.sort(key=lambda each: (each[0].epoch, each[0].batch))
    told: dict[int, list[tuple[Counters, int]]] = {}
    for key, number in named:
        block = values[number]
        if block is not None:
            told.setdefault(key.size_ms, []).append((Counters.decode(block), changed_ms[number]))
    return {size_ms: _newest(parts) for size_ms, parts in told.items()}


def _cut(counters: Counters, most_bytes: int) -> Iterator[bytes]:
    block = counters.encode()
    if len(block) <= most_bytes or len(counters) <= 1:
        yield block
        return
    rows, half = np.arange(len(counters)), len(counters) // 2
    yield from _cut(counters.take(rows[:half]), most_bytes)
    yield from _cut(counters.take(rows[half:]), most_bytes)


def _newest(parts: list[tuple[Counters, int]]) -> TopicCounts:
    counters, rows = Counters.newest_rows([counters for counters, _ in parts])
    lengths = [len(counters) for counters, _ in parts]
    changed_ms = np.repeat(np.array([when for _, when in parts], np.int64), lengths)
    return TopicCounts(counters, changed_ms[rows], decode_topic_keys([]))


_SCHEMA = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class Outbox:
    """Which micro-batch the records are of; whether many counts share a record, in ``blocks``."""

    epoch: int
    batch: int
    blocks: bool


class OutboxWriter:
    """Writes one file of records, with the clock of the micro-batch that reports the counts."""

    def __init__(self, path: Path, outbox: Outbox, *, changed_ms: int) -> None:
        self.outbox, self.changed_ms = outbox, changed_ms
        self.rows = self.size_bytes = 0
        self._file = pq.ParquetWriter(path, _SCHEMA, compression="zstd")

    def write(self, bucket: int, window_ms: int, counters: Counters) -> None:
        """Write counts of one level of one bucket: whole users' windows, or what changed."""
        if self.outbox.blocks:
            first = BlockKey(bucket, self.outbox.epoch, self.outbox.batch, 0, size_ms=window_ms)
            blocks = list(_blocks_of(counters, first))
            self._write(pa.array([k for k, _ in blocks]), pa.array([v for _, v in blocks]))
        else:
            self._write(*_records_of(counters, size_ms=window_ms, changed_ms=self.changed_ms))

    def forget(self, window_ms: int, counters: Counters) -> None:
        """Write tombstones of the users' windows that some counts are of."""
        if not self.outbox.blocks:
            keys, _ = _records_of(counters, size_ms=window_ms, changed_ms=self.changed_ms)
            self._write(keys, pa.nulls(len(keys), pa.binary()))

    def close(self) -> None:
        """Write the file's end."""
        self._file.close()

    def _write(self, keys: pa.Array, values: pa.Array) -> None:
        batch = pa.record_batch([keys.cast(pa.binary()), values.cast(pa.binary())], schema=_SCHEMA)
        self._file.write_batch(batch)
        self.rows += batch.num_rows
        for column in batch.columns:
            self.size_bytes += pc.sum(pc.binary_length(column)).as_py() or 0
