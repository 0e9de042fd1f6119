"""Counts as blocks in a changelog topic, many in one record, and back.

A block's key says which micro-batch wrote it (:mod:`kstoolkit.formats.countblock`), its value is a
CountBlock (:mod:`kstoolkit.formats.countblock`), and its record's timestamp is when the counts
changed. Only what changed is in it: the newest (epoch, batch) of each count is its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.changelog.topicrecords import TopicCounts
from kstoolkit.counters.counters import Counters
from kstoolkit.formats.countblock import BlockKey
from kstoolkit.formats.keys import decode_topic_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


MOST_BYTES = 900_000
"""How long a block is at most: a broker takes a record of 1 MiB, if it is not told otherwise."""


def blocks_of(
    counters: Counters, first: BlockKey, *, most_bytes: int = MOST_BYTES
) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values: one record if it is small enough, else more; none of no counts.

    The same counts are cut in the same way, so that a batch which is written twice has the same
    keys both times.

    Parameters
    ----------
    counters
        What changed in one bucket's windows of one size.
    first
        The key of the first record; the parts of the others count on from there.
    most_bytes
        How long a value is at most, unless a single count is longer.

    Examples
    --------
    >>> import pyarrow as pa
    >>> counted = Counters.of(np.array([0, 0]), pa.array(["a", "b"]), pa.array(["x", "x"]))
    >>> key = BlockKey(bucket=5, epoch=0, batch=7, part=0, size_ms=60_000)
    >>> [BlockKey.decode(key).part for key, _ in blocks_of(counted, key, most_bytes=1)]
    [0, 1]
    """
    blocks = _cut(counters, most_bytes) if len(counters) else ()
    for number, block in enumerate(blocks):
        yield first._replace(part=first.part + number).encode(), block


def counters_of_blocks(
    keys: Sequence[bytes], values: Sequence[bytes | None], changed_ms: Sequence[int]
) -> dict[int, TopicCounts]:
    """Return what blocks tell, by window size in ms: of each count, what the newest batch says.

    Parameters
    ----------
    keys, values
        One of each a record, in any order; of one key, the last record counts alone. A value that
        is None is a tombstone: of what that block told, nothing is known from it any more.
    changed_ms
        The timestamp of each record, epoch ms UTC.

    Raises
    ------
    FormatError
        If a key is not of a block, or a value that counts no CountBlock.

    Examples
    --------
    >>> import pyarrow as pa
    >>> key = BlockKey(bucket=5, epoch=0, batch=7, part=0, size_ms=60_000)
    >>> counted = Counters.of(np.array([0, 0]), pa.array(["a", "b"]), pa.array(["x", "x"]))
    >>> [(key, block)] = blocks_of(counted, key)
    >>> counters_of_blocks([key], [block], [9])[60_000].changed_ms.tolist()
    [9, 9]
    """
    last = {key: number for number, key in enumerate(keys)}
    named = sorted((BlockKey.decode(key), number) for key, number in last.items())
    named.sort(key=_written)
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


def _written(named: tuple[BlockKey, int]) -> tuple[int, int]:
    return named[0].epoch, named[0].batch


def _newest(parts: list[tuple[Counters, int]]) -> TopicCounts:
    parts = [part for part in parts if len(part[0])]
    if not parts:
        return TopicCounts(Counters.empty(), np.zeros(0, np.int64), decode_topic_keys([]))
    joined, order = Counters.join([counters for counters, _ in parts])
    lengths = [len(counters) for counters, _ in parts]
    changed_ms = np.repeat(np.array([when for _, when in parts], np.int64), lengths)[order]
    differs = np.diff(joined.user) != 0
    differs |= np.diff(joined.start_ms) != 0
    differs |= np.diff(joined.action) != 0
    last = np.append(differs, True)
    return TopicCounts(joined.take(last), changed_ms[last], decode_topic_keys([]))
