"""What Spark's planners load of a feed: its name, its columns, and who reads it.

Spark asks each feed in processes that live once: one to make it, one to plan what tasks read of it,
one that tells offsets. Each loads this module anew while the query waits for it, so nothing heavy
is imported before it is needed. Nodes may lack our code: what runs there imports none of it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

SHUFFLE_DDL = "bucket int, kind string, payload binary"
"""The columns of what a feed hands to the operator, as Spark writes them."""

TICK, FLUSH = "tick", "flush"


def ship_by_value() -> None:
    """Have our code travel with each task, so that a cluster's nodes need nothing of ours."""
    cloudpickle.register_pickle_by_value(sys.modules["kstoolkit"])  # type: ignore[no-untyped-call]


class Feed(DataSource):
    """Spark's view of a feed that brings the shuffle's records; ``called`` is the format's name."""

    called: str

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return cls.called

    def schema(self) -> StructType | str:
        """Return the columns of the shuffle."""
        return SHUFFLE_DDL

    def ship_as_it_came(self) -> None:
        """Have what it loads travel on by value, if it came so itself: as no module's own class."""
        if getattr(sys.modules.get(self.__module__), type(self).__name__, None) is not type(self):
            ship_by_value()


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What reads for one query: Spark sets no limit, and there is no end to fix."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass


class FileFeed(Feed):
    """Spark's view of the file feed."""

    called = "kstoolkit_files"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - called by keyword
        """Return the reader of one query."""
        from kstoolkit.pipeline.feeds import CountingReader, FileFeedPlan  # noqa: PLC0415

        self.ship_as_it_came()
        return CountingReader(FileFeedPlan.from_json(self.options["plan"]))


class LineFeed(Feed):
    """Spark's view of the line feed."""

    called = "kstoolkit_lines"

    def schema(self) -> StructType:
        """Return the files' own columns (JSON is parsed later), and ours."""
        from kstoolkit.pipeline.feeds import FileFeedPlan  # noqa: PLC0415

        return FileFeedPlan.from_json(self.options["plan"]).rows

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - called by keyword
        """Return the reader of one query."""
        from kstoolkit.pipeline.feeds import FileFeedPlan, LineReader  # noqa: PLC0415

        self.ship_as_it_came()
        return LineReader(FileFeedPlan.from_json(self.options["plan"]))


@dataclass(frozen=True, slots=True)
class Due:
    """When the next tick is due, as the sink tells the tick feed, which is a process of its own.

    >>> import tempfile
    >>> due = Due(Path(tempfile.mkdtemp()) / "due.json")
    >>> due.has_come(now_ms=1_000)  # nobody knows
    True
    >>> due.tell(60_000, now_ms=1_000)
    >>> due.has_come(now_ms=30_000), due.has_come(now_ms=60_000)
    (False, True)
    """

    path: Path

    def tell(self, due_ms: int | None, *, now_ms: int) -> None:
        """Say when something is due, ``None`` for never, by the clock of a batch."""
        hidden = self.path.with_name(f".{self.path.name}")
        hidden.write_text(json.dumps({"due_ms": due_ms, "now_ms": now_ms}), encoding="utf-8")
        hidden.replace(self.path)

    def has_come(self, *, now_ms: int) -> bool:
        """Whether something is due, or may be: a clock that went back puts nothing off."""
        try:
            told = json.loads(self.path.read_text(encoding="utf-8"))
            due_ms, told_ms = told["due_ms"], told["now_ms"]
        except (OSError, ValueError, KeyError, TypeError):
            return True
        return now_ms < told_ms or (due_ms is not None and due_ms <= now_ms)


class TickFeed(Feed):
    """One row for every bucket, as often as a flush is due."""

    called = "kstoolkit_ticks"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - called by keyword
        """Return the reader of one query."""
        kind, due = self.options["kind"], Due(Path(self.options["due"]))
        at_once = self.options["at_once"] == str(True)
        return _TickReader(int(self.options["buckets"]), due, kind, at_once=at_once)


class _TickReader(_Reader):
    """Offsets are the clock's milliseconds, later ones where it goes back, and a number of flushes.

    The first tick may be ``at_once``. One that flushes is the only one.
    """

    def __init__(self, buckets: int, due: Due, kind: str, *, at_once: bool) -> None:
        self.buckets, self.due, self.kind, self.at_once = buckets, due, kind, at_once
        self._target: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"tick_ms": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        now_ms = time.time_ns() // 1_000_000
        is_first = self._target is None and self.at_once
        if is_first or (self.kind == TICK and self.due.has_come(now_ms=now_ms)):
            flushes = start.get(FLUSH, 0) + (self.kind == FLUSH)
            self._target = {"tick_ms": max(now_ms, start["tick_ms"] + 1), FLUSH: flushes}
        return self._target or start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(FLUSH if end.get(FLUSH, 0) > start.get(FLUSH, 0) else TICK)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, bytes]]:
        return ((bucket, partition.value, b"") for bucket in range(self.buckets))


class StillFeed(Feed):
    """A feed that brings nothing, in the place of one that stays where it is."""

    called = "kstoolkit_still"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - called by keyword
        """Return the reader of one query."""
        return _StillReader()


class _StillReader(_Reader):
    """Offsets are those of the feed whose place it takes."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start != end:
            message = f"What lies from {start} to {end} is not counted yet."
            raise ValueError(message)
        return [InputPartition(None)]  # Spark compares texts, and had its own

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, bytes]]:  # noqa: ARG002
        return iter(())
