"""How much state a run held after each batch, by what Spark reported.

Spark tells it of a batch once that has ended, too late for the sink to write it. So it is kept as
the next batch ends, and as the query ends, in the folder of the batch that it is about.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.pipeline.failure import JAVA_IS_GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.pipeline.statistics import BatchStatistics


NOT_KEPT = "Spark's figure was not kept"
"""Why a batch's is unknown: its process ended before it was told, or kept none of them yet."""

_NAME = "part-state.json"


@dataclass(frozen=True, slots=True)
class StateSize:
    """What the state stores of a run held after a batch: sums over operators and partitions.

    Parameters
    ----------
    rows
        Rows in the state stores (``numRowsTotal``); each of ours is a block of many counters.
    memory_bytes
        RocksDB's native memory, by Spark's estimate (``memoryUsedBytes``).
    """

    rows: int
    memory_bytes: int

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> StateSize:
        """Read one of a query's ``recentProgress``.

        Examples
        --------
        >>> StateSize.of({"stateOperators": [{"numRowsTotal": 448, "memoryUsedBytes": 2048}]})
        StateSize(rows=448, memory_bytes=2048)
        """
        operators = progress["stateOperators"]
        return cls(
            rows=sum(each["numRowsTotal"] for each in operators),
            memory_bytes=sum(each["memoryUsedBytes"] for each in operators),
        )

    def save(self, folder: Path) -> None:
        """Write the size into a batch's folder, which others may be reading."""
        hidden = folder / f".{os.getpid()}-{_NAME}"
        hidden.write_text(json.dumps(asdict(self)), encoding="utf-8")
        hidden.replace(folder / _NAME)

    @classmethod
    def load(cls, folder: Path) -> StateSize | None:
        """Read what :meth:`save` wrote; None if it did not, or not all of it reached the disk."""
        try:
            return cls(**json.loads((folder / _NAME).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None


@dataclass(slots=True)
class StateSizes:
    """Keeps what a query tells of its state in the folder of its run.

    Parameters
    ----------
    out, epoch
        The run's folder, and the number that its batches are filed under.
    query
        Who tells; None before it has been started.
    """

    out: Path
    epoch: int
    query: StreamingQuery | None = None

    def keep(self) -> None:
        """Keep what was told last; nothing if nothing was, or if its batch has no folder."""
        try:
            last = None if self.query is None else self.query.lastProgress
        except JAVA_IS_GONE:
            return
        if last is None:
            return
        folder = BatchFolders(self.out / "statistics").folder(self.epoch, last["batchId"])
        with suppress(OSError):  # a figure that can't be kept is unknown: counting goes on
            StateSize.of(last).save(folder)

    def kept_before(
        self, on_batch: Callable[[BatchStatistics], None]
    ) -> Callable[[BatchStatistics], None]:
        """Return a function that keeps what was told, then calls ``on_batch``."""

        def batch(done: BatchStatistics) -> None:
            self.keep()
            on_batch(done)

        return batch


def told_sizes(query: StreamingQuery | None) -> dict[int, StateSize]:
    """Return what a query of this process still knows, by the number of the batch."""
    try:
        return (
            {} if query is None else {p["batchId"]: StateSize.of(p) for p in query.recentProgress}
        )
    except JAVA_IS_GONE:
        return {}
