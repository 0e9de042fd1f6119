"""A store in a checkpoint at one version: what the checkpoint says of it, and its state, opened.

A partition's state is a snapshot of a RocksDB, and the changes since. The snapshot is unpacked into
a scratch folder, where links lead to its SST files, held open, and all else is small and written
anew: so nothing in the checkpoint changes, whatever RocksDB does with the folder. What it takes is
said and bounded as that of other copies is.

The changes are laid over the snapshot's rows in key order. They lie in a RocksDB of their own in a
scratch folder, the latest of each key: memory holds a memtable, and of each file in turn its
compressed bytes and some megabytes of what they hold. What is kept of a key is a mark and bytes::

    =  the value    +  what is appended to the value that the snapshot has    -  it is gone
"""

from __future__ import annotations

import re
import shutil
import weakref
from bisect import bisect_left, bisect_right
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from rocksdict import AccessType, Options, Rdict

from kstoolkit.errors import FormatError, InputError, Sentence, naming
from kstoolkit.formats.spark.rows import CHECKSUM_BYTES, key_behind_checksum, layout_of
from kstoolkit.formats.spark.statefiles import (
    APPEND,
    PUT,
    REMOVE,
    read_changelog,
    read_snapshot,
    with_delimiter,
)
from kstoolkit.rocksdb.faults import (
    DamagedStoreError,
    MissingFileError,
    StoreClosedError,
    translated,
)
from kstoolkit.rocksdb.files.damage import Losses, View, mended_families, readable_rows, rows_of
from kstoolkit.rocksdb.files.shadow import (
    LetsGo,
    TakenFiles,
    new_scratch_folder,
    new_scratch_rocksdb,
)
from kstoolkit.rocksdb.memory.planning import EngineUse
from kstoolkit.rocksdb.opening import opened_as
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.rows.readable import say_damage
from kstoolkit.stores.spark.checkpoint import StateFiles, read_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from os import PathLike
    from pathlib import Path

    from kstoolkit.formats.spark.logs import FamilySchema, OffsetLogEntry, OperatorMetadata
    from kstoolkit.formats.spark.rows import Family, StoreLayout, ValueWrapping
    from kstoolkit.formats.spark.statefiles import Snapshot, SnapshotFile
    from kstoolkit.moments import Moment
    from kstoolkit.rocksdb.log.storelog import StoreLog
    from kstoolkit.stores.spark.checkpoint import Chain, OperatorFolder

WHERE_IT_IS = (
    "Where its query runs, each executor has one, in StateStoreId(...)-.../workingDir-... below "
    "spark.local.dir, or below the executor's working folder in a cluster; RocksDB's lines go to "
    "the executor's own log, not to a LOG."
)
"""Of the RocksDB that a state is kept in."""

NO_LOG = (
    "RocksDB's lines are in the logs of the query's executors, [NativeRocksDB-...]: give one of "
    "those, or a folder of such, to kstoolkit log."
)

_TABLE, _LOG = re.compile(r"\d{1,20}\.sst"), re.compile(r"\d{1,20}\.log")
_HINT = naming(
    "Read another {version} of the state: its snapshot may need other files.",
    version=Sentence("version", "--version"),
)


def _unpack(
    path: Path, into: Path, files: TakenFiles, delimiter: bytes, *, partly: bool = False
) -> Snapshot:
    """Unpack a snapshot into an empty folder of ``files``, and return what it says of the store.

    The SST files lie in ``SSTs`` beside it. If ``partly``, those are left out that are missing, or
    shorter than they should be; else that is a MissingFileError, or a FormatError.
    """
    snapshot = read_with(path, read_snapshot)
    leaving_out = suppress(DamagedStoreError) if partly else nullcontext()
    with translated(path):
        files.make_room(sum(map(len, snapshot.members.values())))
        for name, raw in snapshot.members.items():
            bare = with_delimiter(raw, delimiter) if name.startswith("OPTIONS") else raw
            (into / name).write_bytes(bare)
        tables: dict[str, Path] = {}
        for file in snapshot.sst_files:
            if file.name in tables:
                message = f"{path}: two files of a snapshot have the name {file.name}."
                raise FormatError(message, hint="The snapshot is damaged.")
            with leaving_out:
                tables[file.name] = _found(path, "SSTs", file, _TABLE)
        logs: dict[str, Path] = {}
        for file in snapshot.log_files:
            (into / file.name).unlink(missing_ok=True)  # the zip holds an empty one
            with leaving_out:
                logs[file.name] = _found(path, "logs", file, _LOG)
        files.hold(tables)
        files.copy(logs)
    return snapshot


def _found(path: Path, folder: str, file: SnapshotFile, name: re.Pattern[str]) -> Path:
    if not name.fullmatch(file.name):
        message = f"{path}: A snapshot that wants a file {file.name!r} in {folder}."
        raise FormatError(message, hint="The file is damaged, or was not written by Spark.")
    there = path.parent / folder / file.stored_name
    needs = f"The snapshot {path} needs {folder}/{file.stored_name}"
    if not there.is_file():
        message = f"{needs}, which is missing."
        raise MissingFileError(message, hint=_HINT)
    size_bytes = there.stat().st_size
    if size_bytes != file.size_bytes:
        message = f"{needs} with {file.size_bytes:,} bytes, and it has {size_bytes:,}."
        raise DamagedStoreError(message, hint=_HINT)
    return there


@dataclass(slots=True)
class KeyRanges:
    """Ranges of keys; what overlaps or touches is one range."""

    _firsts: list[bytes] = field(default_factory=list)
    _lasts: list[bytes] = field(default_factory=list)

    def add(self, first: bytes, last: bytes) -> None:
        """Add the keys from ``first`` on, and before ``last``."""
        begin, end = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        if begin < end:
            first, last = min(first, self._firsts[begin]), max(last, self._lasts[end - 1])
        self._firsts[begin:end], self._lasts[begin:end] = [first], [last]

    def __contains__(self, key: bytes) -> bool:
        place = bisect_right(self._firsts, key) - 1
        return place >= 0 and key < self._lasts[place]


_VALUE, _APPENDED, _GONE = b"=", b"+", b"-"
_MEMTABLE_BYTES = 16 << 20


class Overlay:
    """Changes of some versions, in an empty folder, to be laid over rows of the version before."""

    def __init__(self, folder: Path, wrapping: ValueWrapping) -> None:
        self._kept = new_scratch_rocksdb(folder, _MEMTABLE_BYTES)
        self._wrapping = wrapping
        self._removed = KeyRanges()

    def replay(self, path: Path) -> None:
        """Add what a changelog, delta or snapshot file changes."""
        read_with(path, self._replay)

    def change(self, kind: int, key: bytes, value: bytes) -> None:
        """Add one change; of a range, the key is its first, and the value what ends it."""
        if kind == PUT:
            self._kept.put(key, _VALUE + value)
        elif kind == REMOVE:
            self._kept.put(key, _GONE)
        elif kind == APPEND:
            self._append(key, value)
        elif key < value:
            self._kept.delete_range(key, value)
            self._removed.add(key, value)

    def over(
        self, rows: Iterator[tuple[bytes, bytes]], prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows as they are after the changes, in the order of keys, in which they come."""
        changes = rows_of(self._kept, prefix=prefix)
        change = next(changes, None)
        for key, value in rows:
            while change is not None and change[0] < key:
                yield from _changed(change)
                change = next(changes, None)
            if change is not None and change[0] == key:
                yield from _changed(change, value + self._wrapping.delimiter)
                change = next(changes, None)
            elif key not in self._removed:
                yield key, value
        while change is not None:
            yield from _changed(change)
            change = next(changes, None)

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._kept.close()

    def _replay(self, raw: bytes) -> None:
        for changes in read_changelog(raw).changes:
            keys = changes.key
            if self._wrapping.has_checksums:
                # Keys that are removed carry the checksum that a value would.
                removed = changes.kind == REMOVE
                _, problems = key_behind_checksum(changes.key.take(removed))
                if problems:
                    wrong = f"{len(problems):,} keys whose checksum is another"
                    message = f"A changelog that removes {wrong}."
                    raise FormatError(message, hint="The file is damaged.")
                keys = changes.key.part(np.where(removed, CHECKSUM_BYTES, 0))
            cells = zip(changes.kind.tolist(), keys.to_list(), changes.value.to_list(), strict=True)
            for kind, key, value in cells:
                self.change(kind, key or b"", value or b"")

    def _append(self, key: bytes, value: bytes) -> None:
        before: bytes | None = self._kept.get(key)
        if before is None:
            mark = _VALUE if key in self._removed else _APPENDED
            self._kept.put(key, mark + value)
        elif before == _GONE:
            self._kept.put(key, _VALUE + value)
        else:
            self._kept.put(key, before + self._wrapping.delimiter + value)


def _changed(change: tuple[bytes, bytes], before: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    key, (mark, rest) = change[0], (change[1][:1], change[1][1:])
    if mark == _VALUE:
        yield key, rest
    elif mark == _APPENDED:
        yield key, before + rest


class PartitionState(LetsGo):
    """The rows of one partition as they lie on disk, at the version that a chain makes up.

    A file that is missing or damaged is a FormatError: also later, at a row that can't be read.
    """

    def __init__(
        self,
        folder: Path,
        chain: Chain,
        wrapping: ValueWrapping,
        *,
        scratch: str | PathLike[str] | None = None,
    ) -> None:
        LetsGo.__init__(self)
        self.folder = folder
        self.families: dict[str, int] = {}
        self._base: View | None = None
        self._losses = Losses()
        self._said = ""
        self._overlay: Overlay | None = None
        with ExitStack() as opening:
            place = new_scratch_folder(scratch)
            opening.callback(place.remove)
            with translated(folder):
                self._open(chain, place.path, wrapping, opening)
            self._close = weakref.finalize(self, opening.pop_all().close)

    def rows(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in the order of keys, those that begin with ``prefix``.

        If this is closed, also before the last row, it is a StoreClosedError.
        """
        with translated(self.folder), self._asking():
            found: Iterator[tuple[bytes, bytes]] = iter(())
            if self._base is not None:
                found = readable_rows(self._base, "default", self._losses, prefix=prefix)
            for row in found if self._overlay is None else self._overlay.over(found, prefix):
                self._check_open()
                yield row
        self._say_damage()

    def close(self) -> None:
        """Close it, and remove the scratch folder; a second time does nothing."""
        self._close()

    def _open(self, chain: Chain, place: Path, wrapping: ValueWrapping, opening: ExitStack) -> None:
        replayed, home = chain.changes, place / "snapshot"
        home.mkdir()
        self._files = TakenFiles(home, self.folder)
        opening.callback(self._files.close)
        if chain.snapshot is not None and chain.snapshot.suffix == ".zip":
            self._base = self._snapshot(chain.snapshot, home, wrapping.delimiter)
            opening.callback(self._base.families["default"].close)
            opening.callback(self._base.close)
            self._say_damage()
        elif chain.snapshot is not None:
            replayed = (chain.snapshot, *replayed)
        if replayed:
            self._files.make_room(sum(each.stat().st_size for each in replayed))
            self._overlay = Overlay(place / "changes", wrapping)
            opening.callback(self._overlay.close)
            for each in replayed:
                self._overlay.replay(each)

    def _snapshot(self, path: Path, home: Path, delimiter: bytes) -> View:
        """Return a snapshot, unpacked into an empty folder; of a damaged one, what is left."""
        try:
            self.families = _unpack(path, home, self._files, delimiter).families
            return View({"default": _opened(home, self.folder)}, home, self.folder)
        except DamagedStoreError as error:
            shutil.rmtree(home)
            home.mkdir()
            self.families = _unpack(path, home, self._files, delimiter, partly=True).families
            families, self._losses = mended_families(home, self.folder, error)
            return View(families, home, self.folder)

    @property
    def _taken(self) -> TakenFiles:
        return self._files

    def _let_go(self) -> None:
        self._close()

    def _take_anew(self) -> None:
        self._check_open()

    def _say_damage(self) -> None:
        """Warn of what is lost of the snapshot; once, unless more has come to light."""
        self._said = say_damage(self.folder, self._losses.text, self._said)

    def _check_open(self) -> None:
        if not self._close.alive:
            message = f"The state in {self.folder} is closed."
            raise StoreClosedError(message, hint="Open it again.")


class SnapshotStore(Store):
    """A snapshot, unpacked; :attr:`path` is that of its zip."""

    def log(self, *, zone: tzinfo | None = None, since: Moment | None = None) -> StoreLog:
        """Raise why there is no log: it is the executors'."""
        del zone, since
        message = "A snapshot of Spark's holds no LOG."
        raise InputError(message, hint=NO_LOG)


@contextmanager
def opened_snapshot(
    path: Path, delimiter: bytes, scratch: str | PathLike[str] | None
) -> Iterator[SnapshotStore]:
    """Yield the RocksDB of a snapshot; of a damaged one, what is left."""
    place = new_scratch_folder(scratch)
    try:
        home = place.path / path.stem
        home.mkdir()
        files = TakenFiles(home, path)
        _unpack(path, home, files, delimiter, partly=True)
        (home / "metadata").unlink(missing_ok=True)  # by which it would want SST files elsewhere
        with opened_as(SnapshotStore, home, scratch=scratch) as store:
            store.path, store.engine_use = path, EngineUse("spark")
            say_damage(path, store.damage)
            yield store
    finally:
        place.remove()


def _opened(home: Path, folder: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(False)  # noqa: FBT003 - rocksdict takes no name
    with translated(folder):
        return Rdict(str(home), options, access_type=AccessType.read_only(False))  # noqa: FBT003 - as above


_SETTING = "spark.sql.streaming.stateStore.encodingFormat"


class StoreVersion:
    """A store after a batch: that of batch 6 is version 7."""

    def __init__(self, operator_folder: OperatorFolder, store: str, number: int) -> None:
        self.folder, self.store, self.number = operator_folder, store, number
        self.batch = number - 1

    @cached_property
    def log(self) -> OffsetLogEntry:
        """What was noted before the batch ran."""
        return self.folder.checkpoint.offset_log(self.batch)

    @cached_property
    def operator(self) -> OperatorMetadata:
        """What the operator says of itself."""
        return self.folder.metadata(self.batch)

    @cached_property
    def schema(self) -> list[FamilySchema]:
        """The columns of keys and values, of each column family."""
        return self.folder.schemas(self.store, self.batch)

    @cached_property
    def families(self) -> dict[str, Family]:
        """The column families by name, numbered by their places in the schema, if there are such.

        On disk each partition has numbers of its own.
        """
        numbers = {each.name: n for n, each in enumerate(self.schema) if each.encoder is not None}
        return {each.name: each for each in self.layout(numbers).families}

    def layout(self, numbers: dict[str, int]) -> StoreLayout:
        """Return how rows are taken apart, given the numbers of the families on disk."""
        if (written_as := self.log.row_format) != "unsaferow":
            message = (
                f"The rows of state in {self.folder.checkpoint.path} are written as "
                f"{written_as!r}: its query ran with {_SETTING}={written_as}, which kstoolkit does "
                "not read."
            )
            hint = f"New queries: leave {_SETTING} at unsaferow, its default."
            raise FormatError(message, hint=hint)
        return layout_of(self.schema, self.operator, self.store, self.log, numbers)

    def opened(self, partition: int, scratch: str | PathLike[str] | None) -> PartitionState:
        """Return the state of a partition, to be closed."""
        folder, wrapping = self.folder.folder(partition, self.store), self.layout({}).wrapping
        return PartitionState(folder, self.chain(partition), wrapping, scratch=scratch)

    def chain(self, partition: int) -> Chain:
        """Return what makes up a partition's state."""
        files = StateFiles.of(self.folder.folder(partition, self.store))
        return files.chain(self.number, self.folder.unique_id(partition, self.store, self.batch))
