"""Feeds over files: which files a micro-batch takes, and what a task makes of them.

The file feed reads, judges and counts files itself, so their events never enter the JVM: only
CountBlocks do. One that is larger than a task's share is cut into parts, where its format allows.
The line feed hands over lines or rows, for columns that are SQL expressions; these are evaluated
by Spark, and counted by :mod:`kstoolkit.pipeline.counting`.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kstoolkit.errors import ColumnError, UnreadableFile
from kstoolkit.events.contents import Contents, ContentsFile, Fate
from kstoolkit.events.event import Columns, Limits
from kstoolkit.events.files import (
    BROKEN,
    FILE,
    NOW,
    RAW,
    Listing,
    gone_from,
    letter_of_file,
    parts_of,
    read_events,
    read_rows,
    row_of_file,
)
from kstoolkit.events.ledger import Ledger, names_file
from kstoolkit.events.opening import Part, fault_in_words, patiently
from kstoolkit.formats.countblock import to_ipc
from kstoolkit.pipeline.runfolder import files_taken, newest_commit
from kstoolkit.pipeline.shuffle import END, PART, READ, Grain, Tally, to_each

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.streaming.datasource import ReadLimit

_LEAST_BYTES, _OPENING_BYTES = 1 << 20, 1 << 14
"""From so many bytes on a second task is begun; a file counts for so many more, to be opened."""


@dataclass(frozen=True, slots=True)
class FileFeedPlan:
    """All that the file feed needs to know; travels as one JSON option.

    A micro-batch takes in ``max_files`` and ``max_bytes`` at most, and at least one file. Where
    expressions are evaluated over the files' columns, ``row_schema`` has these as Spark's JSON.
    What ``set_aside`` names is given up.
    """

    path: str
    file_format: str | None
    columns: Columns
    limits: Limits
    ledger: str
    grain: Grain
    tasks: int
    max_files: int
    max_bytes: int
    row_schema: str | None = None
    set_aside: str | None = None

    @property
    def out(self) -> str:
        """The run's own folder."""
        return str(Path(self.ledger).parent)

    @property
    def row_type(self) -> StructType:
        """The files' columns, as Spark sees them."""
        return StructType.fromJson(json.loads(self.row_schema or StructType().json()))

    @property
    def rows(self) -> StructType:
        """The files' own columns (JSON is parsed later), and ours."""
        kept = StructType() if self.file_format == "json" else self.row_type
        for name, kind in ((RAW, "string"), (FILE, "string"), (NOW, "long"), (BROKEN, "string")):
            kept = kept.add(name, kind)
        return kept

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FileFeedPlan:
        """Read what :meth:`to_json` wrote."""
        read = json.loads(text)
        read["columns"] = Columns.of(**read["columns"])
        read["limits"] = Limits(**read["limits"])
        read["grain"] = Grain(**read["grain"] | {"parts": read["columns"].parts})
        return cls(**read)


@dataclass(frozen=True, slots=True)
class _File:
    """A file for a task: its position in the ledger, its clock, why it is given up, if it is.

    Or a ``part`` of one, and what that was when it was cut.
    """

    position: int
    path: str
    admitted_ms: int
    given_up: str | None = None
    part: Part | None = None
    begun: Contents | None = None

    def cut(self, file_format: str | None, number: int) -> list[_File]:
        """Return up to so many parts of the file; itself if it stays whole, or can't be read."""
        with suppress(OSError):
            begun = Contents.begun(self.path)
            parts = parts_of(self.path, file_format, begun.size_bytes, number)
            if len(parts) > 1:
                return [replace(self, part=part, begun=begun) for part in parts]
        return [self]


class _LedgerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
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

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"files": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._admit()
        self._target = len(self.ledger)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        if self._target is None and start["files"] == len(self.ledger):
            self._admit()
        end = len(self.ledger) if self._target is None else self._target
        return {"files": self._up_to(start["files"], end)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Spread files or parts over the tasks, the largest first, each to the task with least.

        What little comes is one task's: to begin another takes as long as to count it.
        """
        given_up = self._given_up(start["files"], end["files"])
        self._check_same(start["files"], end["files"], given_up)
        chosen = self.ledger.entries(start["files"], end["files"])
        weight = sum(each.size_bytes + _OPENING_BYTES for each in chosen)
        tasks = min(self.plan.tasks, weight // _LEAST_BYTES + 1)
        slices: list[list[_File]] = [[] for _ in range(tasks)]
        loads = [0.0] * tasks
        share = sum(each.size_bytes for each in chosen) / tasks
        pieces: list[tuple[float, _File]] = []
        for place, entry in enumerate(chosen, start["files"]):
            parts = [_File(place, entry.path, entry.admitted_ms, given_up.get(place))]
            if entry.size_bytes > share and place not in given_up and self.plan.row_schema is None:
                parts = parts[0].cut(self.plan.file_format, math.ceil(entry.size_bytes / share))
            pieces += ((entry.size_bytes / len(parts), part) for part in parts)
        for size_bytes, file in sorted(pieces, key=lambda each: -each[0]):
            least = loads.index(min(loads))
            loads[least] += size_bytes + 1
            slices[least].append(file)
        return [InputPartition(files) for files in slices if files]

    def _given_up(self, start: int, end: int) -> dict[int, str]:
        """Return why files are left out, by position, once that is written down."""
        known, plan = self.ledger.given_up(start, end), self.plan
        entries = enumerate(self.ledger.entries(start, end), start)
        paths = {place: entry.path for place, entry in entries if place not in known}
        fresh = {
            place: "set_aside"
            for place, path in paths.items()
            if plan.set_aside is not None and names_file(plan.set_aside, path)
        }
        wanted = {place: path for place, path in paths.items() if place not in fresh}
        gone = set(gone_from(plan.path, plan.file_format, wanted.values(), without=plan.out))
        fresh |= {place: "missing_file" for place, path in wanted.items() if path in gone}
        if fresh:
            self.ledger.give_up(fresh)
        return known | fresh

    def _check_same(self, start: int, end: int, given_up: Mapping[int, str]) -> None:
        """Raise if a batch that is repeated would count something else than it did before."""
        if self.ledger.replaced(start, end, without=given_up):
            self._admit()  # where they were moved to is where they are read
        for path in self.ledger.replaced(start, end, without=given_up):
            why = "it holds something else than when its batch, now repeated, was first read"
            raise UnreadableFile(path, why)

    def _admit(self) -> None:
        plan, checkpoint = self.plan, Path(self.plan.out, "checkpoint")
        found = Listing(plan.path, plan.file_format, plan.out)
        batch = newest_commit(checkpoint)
        done = 0 if batch is None else files_taken(checkpoint, batch)
        self.ledger.admit(found, set_aside=plan.set_aside, done=done)

    def _keep(self, file: _File, held: Contents) -> None:
        """Note in a task what a file held, that it is known again."""
        ContentsFile(Path(self.plan.out, "contents")).write(file.position, held)

    def _up_to(self, start: int, end: int) -> int:
        taken_bytes = 0
        entries = self.ledger.entries(start, min(end, start + self.plan.max_files))
        for number, entry in enumerate(entries):
            taken_bytes += entry.size_bytes
            if number and taken_bytes > self.plan.max_bytes:
                return start + number
        return start + len(entries)


class CountingReader(_LedgerReader):
    """Reads files as records of the shuffle."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the tasks of some files, and one more where a run ends with them."""
        is_last = end["files"] == self._target
        return super().partitions(start, end) + [InputPartition(END)] * is_last

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task's files, counted."""
        if partition.value == END:
            yield from to_each(self.plan.grain.buckets, END)
            return
        tally = Tally(self.plan.grain)
        for each in partition.value:
            if each.given_up is not None:
                tally.set_aside(letter_of_file(each.path, each.given_up))
                continue
            counted, held, letter = patiently(each.path, lambda: _counted(each, self.plan))  # noqa: B023 - called at once
            if each.part is not None:
                yield from counted.records() if letter is None else ()
                damage = None if letter is None else to_ipc(letter).hex()
                place = str(Path(self.plan.out, "contents"))
                told = json.dumps([each.part[0], damage, place, asdict(held)]).encode()
                yield from to_each(self.plan.grain.buckets, counted.label + READ, told)
                continue
            self._keep(each, held)
            if letter is None:
                tally.absorb(counted)
            else:
                tally.set_aside(letter)
        yield from tally.records()


class LineReader(_LedgerReader):
    """Reads files as rows that Spark evaluates expressions over."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task's files; of a damaged file, just that it is."""
        parsed_later = self.plan.file_format == "json"
        types = pa.schema([]) if parsed_later else to_arrow_schema(self.plan.row_type)
        for each in partition.value:
            path, now_ms = each.path, each.admitted_ms
            if each.given_up is not None:
                yield row_of_file(path, now_ms, types, each.given_up)
                continue
            begun = patiently(path, lambda: Contents.begun(path))  # noqa: B023 - called at once
            is_damaged = yield from read_rows(path, now_ms, self.plan.file_format, types)
            self._keep(each, patiently(path, lambda: begun.ended(path, is_damaged=is_damaged)))  # noqa: B023


def _counted(file: _File, plan: FileFeedPlan) -> tuple[Tally, Contents, pa.RecordBatch | None]:
    """Count a file, or a part; return what the file held, and the dead letter of a damaged one."""
    path, part, letter = file.path, file.part, None
    tally = Tally(plan.grain, "" if part is None else f"{PART}{file.position} ")
    held = file.begun or Contents.begun(path)
    try:
        pieces = read_events(
            path,
            plan.columns,
            part,
            now_ms=file.admitted_ms,
            limits=plan.limits,
            file_format=plan.file_format,
        )
        for judged, letters in pieces:
            tally.count(judged.time_ms, judged.users, judged.actions, judged.items)
            for each in letters:
                tally.set_aside(each)
    except OSError as error:
        if fault_in_words(error) is not None:
            raise
        letter = letter_of_file(path, "broken_file", str(error))
    except ColumnError as error:
        letter = letter_of_file(path, "broken_file", error.message)
    if part is not None and held.fate(path, Path(path).stat()) is Fate.REPLACED:
        raise UnreadableFile(path, "it is another one than when its first parts were read")
    if part is None or part[0] == 0:
        held = held.ended(path, is_damaged=letter is not None)
    return tally, held, letter
