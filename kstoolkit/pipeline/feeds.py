"""Two feeds, one kind of parcel: events go in, CountBlocks come out.

The file feed is a Python streaming source that reads, judges and counts the files itself, so raw
events never cross into the JVM. The frame feed does the same over any DataFrame with
``mapInArrow``. The tick feed gives every bucket one row a micro-batch, so that a bucket nobody
writes to still gets to flush what it holds.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from kstoolkit.counters.counters import Counters
from kstoolkit.errors import ColumnError
from kstoolkit.events.judging import Limits
from kstoolkit.events.ledger import Ledger, list_files
from kstoolkit.events.pieces import Columns, Piece
from kstoolkit.events.reading import broken_file, read_events, sift
from kstoolkit.pipeline.parcels import TICK, Tally, parcel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

__all__ = ["PARCEL_DDL", "FileFeed", "FileFeedPlan", "TickFeed", "counting"]

PARCEL_DDL = "bucket int, kind string, payload binary"


@dataclass(frozen=True, slots=True)
class FileFeedPlan:
    """All that the file feed needs to know; travels as one JSON option.

    Parameters
    ----------
    path, file_format, columns, limits
        As in :class:`kstoolkit.events.sources.Files`.
    ledger
        Where the ledger of admitted files lies.
    pane_ms, buckets
        The grain of counting, and among how many buckets users are spread.
    tasks
        How many tasks a micro-batch may have.
    max_files, max_bytes
        What a micro-batch may take in; at least one file.
    processing_time
        Whether windows go by the batch's clock instead of the event's time.
    """

    path: str
    file_format: str | None
    columns: Columns
    limits: Limits
    ledger: str
    pane_ms: int
    buckets: int
    tasks: int
    max_files: int
    max_bytes: int
    processing_time: bool = False

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FileFeedPlan:
        """Read what :meth:`to_json` wrote."""
        read = json.loads(text)
        read["columns"] = Columns(**read["columns"])
        read["limits"] = Limits(**read["limits"])
        return cls(**read)


class FileFeed(DataSource):
    """Spark's view of the file feed."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kstoolkit_files"

    def schema(self) -> str:
        """Return the columns of a parcel."""
        return PARCEL_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - called by keyword
        """Return the reader of one query."""
        return _FileReader(FileFeedPlan.from_json(self.options["plan"]))


class _Slice(InputPartition):
    """The files of one task."""

    def __init__(self, files: list[tuple[str, int]]) -> None:
        self.files = files


class _FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Positions in the ledger are offsets: ``{"files": how many have been taken}``."""

    def __init__(self, plan: FileFeedPlan) -> None:
        self.plan = plan
        self._ledger: Ledger | None = None
        self._target: int | None = None

    @property
    def ledger(self) -> Ledger:
        # Opened where it is asked for, in the driver's process only: tasks never see it.
        if self._ledger is None:
            self._ledger = Ledger(self.plan.ledger)
        return self._ledger

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"files": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._admit()
        self._target = len(self.ledger)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()  # the plan's own limits hold, in latestOffset

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        if self._target is None and start["files"] == len(self.ledger):
            self._admit()
        end = len(self.ledger) if self._target is None else self._target
        return {"files": self._up_to(start["files"], end)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[_Slice]:
        """Spread the files over the tasks, the largest first, each to the task with least."""
        slices: list[list[tuple[str, int]]] = [[] for _ in range(self.plan.tasks)]
        loads = [0] * self.plan.tasks
        chosen = self.ledger.entries(start["files"], end["files"])
        for entry in sorted(chosen, key=lambda each: -each.size_bytes):
            least = loads.index(min(loads))
            loads[least] += entry.size_bytes + 1
            slices[least].append((entry.path, entry.admitted_ms))
        return [_Slice(files) for files in slices if files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Count the files of one task."""
        if not isinstance(partition, _Slice):
            return
        tally = Tally(self.plan.buckets)
        for path, admitted_ms in partition.files:
            _count_file(path, admitted_ms, self.plan, tally)
        yield from tally.parcels()

    def _admit(self) -> None:
        self.ledger.admit(list_files(self.plan.path, self.plan.file_format))

    def _up_to(self, start: int, end: int) -> int:
        taken_bytes = 0
        entries = self.ledger.entries(start, min(end, start + self.plan.max_files))
        for number, entry in enumerate(entries):
            taken_bytes += entry.size_bytes
            if number and taken_bytes > self.plan.max_bytes:
                return start + number
        return start + len(entries)


def _count_file(path: str, admitted_ms: int, plan: FileFeedPlan, tally: Tally) -> None:
    """Count a file into the tally; nothing of it if it is damaged."""
    whole = Tally(plan.buckets)
    try:
        pieces = read_events(
            path, plan.columns, now_ms=admitted_ms, limits=plan.limits, file_format=plan.file_format
        )
        for good in pieces:
            panes = _panes(good.time_ms, plan.pane_ms, processing_time=plan.processing_time)
            whole.add(Counters.of(panes, good.users, good.actions), good.letters)
    except OSError as error:
        tally.add(Counters.empty(), [broken_file(path, str(error))])
    except ColumnError as error:
        tally.add(Counters.empty(), [broken_file(path, error.message)])
    else:
        tally.absorb(whole)


def _panes(
    time_ms: NDArray[np.int64], pane_ms: int, *, processing_time: bool
) -> NDArray[np.int64]:
    # By processing time, the operator knows the batch's clock; here all is one pane.
    return time_ms * 0 if processing_time else time_ms - time_ms % pane_ms


def counting(
    pane_ms: int, buckets: int, limits: Limits, *, processing_time: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the frame feed's function: columns time, user, action and now_ms in, parcels out."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally = Tally(buckets)
        for batch in batches:
            if not batch.num_rows:
                continue
            times, users, actions, now_ms = batch.columns
            piece = Piece(times, users, actions, _raw_of(batch))
            good = sift(piece, now_ms=now_ms[0].as_py(), limits=limits, file=None)
            panes = _panes(good.time_ms, pane_ms, processing_time=processing_time)
            tally.add(Counters.of(panes, good.users, good.actions), good.letters)
        yield from tally.parcels()

    return count


def _raw_of(batch: pa.RecordBatch) -> Callable[[NDArray[np.intp]], list[str]]:
    def raw(chosen: NDArray[np.intp]) -> list[str]:
        rows = batch.select(["time", "user", "action"]).take(pa.array(chosen)).to_pylist()
        return [json.dumps(row, default=str, ensure_ascii=False) for row in rows]

    return raw


class TickFeed(DataSource):
    """One row for every bucket, each time that a micro-batch is asked for."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kstoolkit_ticks"

    def schema(self) -> str:
        """Return the columns of a parcel."""
        return PARCEL_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - called by keyword
        """Return the reader of one query."""
        return _TickReader(int(self.options["buckets"]), live=self.options["live"] == "True")


class _TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are the clock's milliseconds; they stand still unless the run is live.

    Under availableNow there is one tick and no more.
    """

    def __init__(self, buckets: int, *, live: bool) -> None:
        self.buckets, self.live = buckets, live
        self._target_ms: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"tick_ms": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target_ms = time.time_ns() // 1_000_000

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        if not self.live:
            return start
        now_ms = self._target_ms or time.time_ns() // 1_000_000
        return {"tick_ms": max(now_ms, start["tick_ms"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        for bucket in range(self.buckets):
            yield parcel(bucket, TICK, b"")
