"""What a counter takes: in CountBlocks as they lie in state, and in a Python dict of dicts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from kstoolkit.counters.counters import Counters

BUCKETS = 8
SEGMENT_MS = {60_000: 3_600_000, 3_600_000: 86_400_000, 86_400_000: 86_400_000}
"""How much time one block of each window length spans."""


def block_bytes_each(counters: Counters, window_ms: int) -> float:
    """Return the size of the counters' blocks, divided by their number."""
    size = sum(
        len(block.encode())
        for _, of_bucket in counters.by_bucket(BUCKETS)
        for _, block in of_bucket.by_segment(SEGMENT_MS[window_ms])
    )
    return round(size / max(len(counters), 1), 2)


def dict_bytes_each(counters: Counters) -> float:
    """Return what a counter takes as ``{(user, window start): {action: count}}``.

    Texts, window starts and actions are shared among all counters; what grows is the two levels
    of dicts, the tuples, and counts beyond those that Python keeps at hand.
    """
    table = counters.to_table()
    users = [sys.intern(user) for user in table["user"].cast(pa.string()).to_pylist()]
    actions = [sys.intern(action) for action in table["action"].cast(pa.string()).to_pylist()]
    held: dict[tuple[str, int], dict[str, int]] = {}
    starts = table["window_start_ms"].to_pylist()
    for user, start, action, count in zip(
        users, starts, actions, table["count"].to_pylist(), strict=True
    ):
        held.setdefault((user, start), {})[action] = count
    size = sys.getsizeof(held) + sum(
        sys.getsizeof(key) + sys.getsizeof(inner) for key, inner in held.items()
    )
    return round(size / max(len(counters), 1), 2)
