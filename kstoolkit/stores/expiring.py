"""Which segments have been kept long enough: they are dropped whole, without a tombstone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kstoolkit.stores.levels import remove_leftovers, segment_span_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kstoolkit.stores.levels import MemoryLevel
    from kstoolkit.stores.replicafile import LevelState, ReplicaState


_BEFORE_EVERYTHING = -(2**63)


def newest_start_ms(levels: Iterable[LevelState]) -> int:
    """Return the start of the newest segment: event time has come as far as that, or further."""
    starts = (start for level in levels for start in level.segments)
    return max(starts, default=_BEFORE_EVERYTHING)


def expire_disk(folder: Path, state: ReplicaState, now_ms: int) -> tuple[ReplicaState, int]:
    """Drop segments on disk, and return what the replica's file says then, and how many it were."""
    dropped = 0
    for window_ms, level in state.levels.items():
        starts = _expired(window_ms, level.segments, state.retention_ms, now_ms)
        state = state.with_level(_without(level, starts))
        dropped += len(starts)
    if dropped:
        state.save(folder)  # from now on nobody counts on them
        remove_leftovers(folder, state)
    return state, dropped


def expire_memory(
    memory: Mapping[int, MemoryLevel], retention_ms: Mapping[int, int], now_ms: int
) -> int:
    """Drop segments in memory, and return how many it were."""
    dropped = 0
    for window_ms, level in memory.items():
        starts = _expired(window_ms, level.segments, retention_ms, now_ms)
        level.state = _without(level.state, starts)
        for start_ms in starts:
            del level.segments[start_ms]
        dropped += len(starts)
    return dropped


def _expired(
    window_ms: int, starts: Iterable[int], retention_ms: Mapping[int, int], now_ms: int
) -> set[int]:
    kept_ms = retention_ms.get(window_ms)
    if kept_ms is None:
        return set()
    return {start for start in starts if segment_span_ms(window_ms, start).stop + kept_ms <= now_ms}


def _without(level: LevelState, starts: set[int]) -> LevelState:
    if not starts:
        return level
    floor_ms = segment_span_ms(level.window_ms, max(starts)).stop
    return replace(
        level.without_segments(starts),
        expired_before_ms=max(floor_ms, level.expired_before_ms or floor_ms),
    )
