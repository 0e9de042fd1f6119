"""One micro-batch: when, how long, and how much."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """One micro-batch: when, how long, and how much.

    Parameters
    ----------
    number
        Its number.
    clock_ms
        Its clock, epoch ms UTC.
    seconds
        How long it took: all of it if the query tells, else what the sink took.
    events
        Events that came in.
    parts_seconds
        What of it went where; empty where only the query could tell.
    state_rows, memory_bytes
        What Spark reported of the state after it: rows, and RocksDB's native memory.
    """

    number: int
    clock_ms: int
    seconds: float
    events: int
    parts_seconds: dict[str, float] = field(default_factory=dict)
    state_rows: int | None = None
    memory_bytes: int | None = None

    @property
    def events_per_second(self) -> float | None:
        """Events by how long it took."""
        return self.events / self.seconds if self.seconds else None
