"""In which ways a comparison of the lab can be shown: their names, and the steps of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.lab.results import Moment


COSTS = {
    name.capitalize(): name for name in ("amplification", "stalls", "memory", "latency", "disk")
}
OVER_TIME = {
    "Disk over time": "disk_bytes",
    "L0 files over time": "level0_files",
    "Write amplification over time": "write_amplification",
    "Waiting to be compacted over time": "pending_compaction_bytes",
    "Stalls over time": "stall_ms",
    "Memtables over time": "memtable_bytes",
    "Block cache over time": "block_cache_bytes",
}
STEPS = "Levels, step by step"
WORK = "Written to each level"
TABLE = "Table"
VIEWS = (*COSTS, STEPS, WORK, *OVER_TIME, TABLE)

_MOST_STEPS = 240
_STEP_MS = 250


def view_by_now(view: str) -> str:
    """Return a view, or the levels instead as long as no trial has ended and it needs some."""
    return view if view in OVER_TIME else STEPS


def step_times(moments: Sequence[Moment]) -> list[int]:
    """Return the times (ms) of the steps of a replay: at most some 240, equally far apart."""
    last = max((each.at_ms for each in moments), default=0)
    apart = _STEP_MS * max(1, -(-last // (_STEP_MS * _MOST_STEPS)))
    return [*range(0, last, apart), last]


def moments_at(moments: Sequence[Moment], at_ms: float) -> list[Moment]:
    """Return the last moment of each trial by a time, or its first if there is none so early."""
    found: dict[str, Moment] = {}
    for each in moments:
        if each.profile not in found or each.at_ms <= at_ms:
            found[each.profile] = each
    return list(found.values())
