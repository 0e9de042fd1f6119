"""What a path into a checkpoint of Spark's stands for, and which versions of its state can be read.

A checkpoint holds::

    offsets/<batch>                     the batch's settings and watermark
    commits/<batch>                     there once the batch is done
    state/<operator>/
        _metadata/metadata              its stores and partitions; or _metadata/v2/<batch>
        _stateSchema/<store>/<file>     columns; or <partition 0>/[<store>/]_metadata/schema
        <partition>/[<store>/]          the files of the state

and a path into it stands for::

    state/<operator>/<partition>/[<store>/]    a store of one partition
    state/<operator>/<store>/                  a store of all partitions: no folder has that name
    state/<operator>/[<partition>/]            all stores of the operator, each a column family
    the checkpoint, or state/                  the only operator, if it has no other

The state after batch 6 is version 7: a snapshot of it, or that of an older one and all changes
since. Names of files begin with the version. With unique ids, as in ``7_<id>.changelog``, a version
may have files of several attempts: the commit log tells the id of the newest, each changelog those
of the ones before it. No state is unpacked here; what is wrong with a file is told by its path.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kstoolkit.errors import CheckpointError, FormatError, InputError, KstoolkitError
from kstoolkit.formats.spark.logs import (
    read_commit_log,
    read_offset_log,
    read_operator_metadata,
    read_schema_file,
)
from kstoolkit.formats.spark.statefiles import read_changelog, read_snapshot
from kstoolkit.rocksdb.faults import MissingFileError, NoStoreError, translated
from kstoolkit.stores.discovery.found import FoundStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from kstoolkit.formats.spark.logs import (
        CommitLogEntry,
        FamilySchema,
        OffsetLogEntry,
        OperatorMetadata,
    )

_Read = TypeVar("_Read")
_GONE = "was it removed, or not copied with the rest?"


def read_with(path: Path, read: Callable[[bytes], _Read]) -> _Read:
    """Return what ``read`` makes of a file's bytes; the message of a FormatError gets its path."""
    try:
        with translated(path):
            return read(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        message = f"The checkpoint lacks the file {path}."
        raise MissingFileError(message, hint=_GONE.capitalize()) from error
    except FormatError as error:
        message = f"{path}: {error.message}"
        raise type(error)(message, hint=error.hint) from error


_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint, by its folder."""

    path: Path

    def batches(self) -> list[int]:
        """Return the micro-batches that are done and whose settings are there, oldest first."""
        started = set(_numbers_in(self.path / "offsets"))
        return [each for each in _numbers_in(self.path / "commits") if each in started]

    def latest_batch(self) -> int:
        """Return the latest micro-batch that is done; raise if none is."""
        batches = self.batches()
        if not batches:
            message = f"No micro-batch of the checkpoint {self.path} is committed."
            hint = "State is there to be read once a batch is done: a number in commits/."
            raise CheckpointError(message, hint=hint)
        return batches[-1]

    def operators(self) -> list[int]:
        """Return the numbers of the stateful operators."""
        return _numbers_in(self.path / "state")

    def offset_log(self, batch: int) -> OffsetLogEntry:
        """Return what was noted before a batch ran."""
        return read_with(self.path / "offsets" / str(batch), read_offset_log)

    def commit_log(self, batch: int) -> CommitLogEntry:
        """Return what was noted when a batch was done."""
        return read_with(self.path / "commits" / str(batch), read_commit_log)


def checkpoint_of(path: Path) -> Checkpoint | None:
    """Return the checkpoint that a path is, or lies in the state of; None if it is in none."""
    for each in (path, *path.parents[:4]):
        is_inside = path.relative_to(each).parts[:1] in {(), ("state",)}
        if is_inside and all((each / name).is_dir() for name in ("offsets", "state")):
            return Checkpoint(each)
    return None


def _numbers_in(folder: Path) -> list[int]:
    """Return the names in a folder that are numbers, in order; none if there is no folder."""
    try:
        names = [each.name for each in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


_DEFAULT_STORE = "default"  # the store of operators that have only one: it has no folder of its own

_BLOCK_BYTES = 512


class StateFile(NamedTuple):
    """A file of a store's partition, by the name of the folder in it."""

    place: str
    name: str
    size_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class OperatorFolder:
    """An operator of a checkpoint, by its number."""

    checkpoint: Checkpoint
    number: int

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.checkpoint.path / "state" / str(self.number)

    def partitions(self) -> list[int]:
        """Return its partitions: the folders, as its metadata keeps the number it began with."""
        return _numbers_in(self.path)

    def metadata(self, batch: int) -> OperatorMetadata:
        """Return what the operator said of itself up to a batch."""
        written = _numbers_in(self.path / "_metadata" / "v2")
        latest = max((each for each in written if each <= batch), default=None)
        folder = self.path / "_metadata"
        path = folder / "metadata" if latest is None else folder / "v2" / str(latest)
        try:
            return read_with(path, read_operator_metadata)
        except MissingFileError as error:
            hint = f"Spark before 4.0 wrote none, and its state is not read; or {_GONE}"
            raise MissingFileError(error.message, hint=hint) from error

    def folder(self, partition: int, store: str) -> Path:
        """Return where the state of a partition lies, for one store."""
        folder = self.path / str(partition)
        return folder if store == _DEFAULT_STORE else folder / store

    def files(self, partition: int, store: str) -> Iterator[StateFile]:
        """Yield the files of a store's partition, all versions; none that vanishes meanwhile."""
        for place in ("", "SSTs", "logs", "_metadata"):
            with suppress(FileNotFoundError, NotADirectoryError):
                for each in (self.folder(partition, store) / place).iterdir():
                    with suppress(FileNotFoundError):
                        told = each.lstat()
                        if not each.is_dir():
                            disk_bytes = told.st_blocks * _BLOCK_BYTES
                            yield StateFile(place, each.name, told.st_size, disk_bytes)

    def schemas(self, store: str, batch: int) -> list[FamilySchema]:
        """Return the schemas of a store as of a batch, one a column family."""
        known = {each.name: each for each in self.metadata(batch).stores}
        if store not in known:
            message = f"The operator {self.path} has no store {store!r}."
            raise InputError(message, hint=f"It has: {', '.join(known) or 'none'}.")
        paths = known[store].schema_paths
        path = self.folder(0, store) / "_metadata" / "schema"
        if paths:  # written where the query ran: of the path, only the name is still right
            path = self.path / "_stateSchema" / store / paths[-1].rpartition("/")[2]
        return read_with(path, read_schema_file)

    def unique_id(self, partition: int, store: str, batch: int) -> str | None:
        """Return the id in the names of a store's files after a batch; None if they have none."""
        names = [each.name for each in self.metadata(batch).stores]
        if store not in names:
            return None
        commit = self.checkpoint.commit_log(batch)
        return commit.unique_id(self.number, partition, names.index(store))


_NAME = re.compile(r"(\d{1,18})(?:_([\w-]+))?\.(zip|snapshot|changelog|delta)")
_CHANGES = {"changelog", "delta"}


@dataclass(frozen=True, slots=True)
class Chain:
    """What makes up a version: a snapshot, or nothing, and what changed since, the oldest first."""

    snapshot: Path | None
    changes: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The files of a store's partition: versions as a whole, and what versions changed."""

    folder: Path
    snapshots: dict[int, dict[str | None, Path]]
    changes: dict[int, dict[str | None, Path]]

    @classmethod
    def of(cls, folder: Path) -> StateFiles:
        """Return the files in a folder."""
        try:
            with translated(folder):
                names = [each.name for each in folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError) as error:
            message = f"The checkpoint lacks the folder {folder}."
            raise MissingFileError(message, hint="Was it not copied with the rest?") from error
        files = cls(folder, defaultdict(dict), defaultdict(dict))
        for name in names:
            if match := _NAME.fullmatch(name):
                versions = files.changes if match[3] in _CHANGES else files.snapshots
                versions[int(match[1])][match[2]] = folder / name
        return files

    def versions(self, committed: Iterable[int]) -> list[int]:
        """Return which committed versions the files hold, of any attempt, the oldest first."""
        held, wanted = {0}, set(committed)
        for version in sorted(self.snapshots.keys() | self.changes.keys()):
            if version in self.snapshots or version - 1 in held:
                held.add(version)
        return sorted(held & wanted)

    def chain(self, version: int, unique_id: str | None = None) -> Chain:
        """Return what makes up a version, of which 0 is the empty store.

        A file that is not there is a MissingFileError; a changelog that should tell of the files
        before it, and can't be read, a FormatError.
        """
        ids = {version: unique_id}
        changes: list[Path] = []
        for at in range(version, 0, -1):
            known = ids.get(at)
            if snapshot := self.snapshots.get(at, {}).get(known):
                return Chain(snapshot, tuple(reversed(changes)))
            path = self.changes.get(at, {}).get(known)
            if path is None:
                raise self._missing(version, at)
            if known is not None:
                ids |= read_with(path, lambda raw: dict(read_changelog(raw).lineage))
            changes.append(path)
        return Chain(None, tuple(reversed(changes)))

    def _missing(self, version: int, at: int) -> MissingFileError:
        what = f"Version {version} of the state in {self.folder}"
        lacks = f"it has neither a snapshot nor a changelog of version {at}"
        message = f"{what} can't be read: {lacks}."
        whole = sorted(self.snapshots)
        hint = f"There are snapshots of {', '.join(map(str, whole[-9:])) or 'no version'}."
        return MissingFileError(message, hint=f"{hint} Spark removes what is old; was this copied?")


_KINDS = {
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication within the watermark",
    "sessionWindowStateStoreSaveExec": "session window",
    "globalLimit": "limit",
}
_JOIN_STORES = {
    "keyToNumValues": "number of rows by key",
    "keyWithIndexToValue": "rows by key and index",
    "keyWithTsToValues": "rows by key and event time",
    "tsWithKey": "keys by event time",
}
_OURS = "blocks"


def kind_of(operator: OperatorMetadata, store: str, schemas: Sequence[FamilySchema]) -> str:
    """Return what kind of store it is, by its operator and its columns."""
    name = operator.name
    if name == "stateStoreSave":
        windowed = any("window" in each.key.names for each in schemas)
        return "windowed aggregation" if windowed else "aggregation"
    if name == "symmetricHashJoin":
        side, _, what = store.partition("-")
        told = f": {side}, {_JOIN_STORES[what]}" if what in _JOIN_STORES else ""
        return f"stream-stream join{told}"
    if operator.variables or name.startswith("transformWithState"):
        names = ", ".join(each for each in operator.variables if not each.startswith("$"))
        if any(
            each.name == _OURS and each.user_key is not None and each.value.names == ["block"]
            for each in schemas
        ):
            return f"transformWithState: {names} (binary blocks of counts)"
        return f"transformWithState: {names or 'no state variables'}"
    if "roupsWith" in name or "InPandasWithState" in name:
        return "state of any kind by group"
    return _KINDS.get(name, name)


_SINCE = "rows that were changed since the latest snapshot are not counted anywhere"
_UNKNOWN = {
    "closed": "a checkpoint holds only what was committed",
    "offset": "the offset log of the checkpoint tells those of the query's sources",
    "errors": "Spark writes no LOG: kstoolkit log reads those of its executors",
}


def spark_stores(checkpoint: Checkpoint, below: Path) -> Iterator[FoundStore]:
    """Yield the stores of each operator and partition whose folders lie at or below a path.

    An operator whose metadata can't be read is there all the same, with why.
    """
    batches = checkpoint.batches()
    committed = {each + 1 for each in batches}
    for number in checkpoint.operators():
        operator = OperatorFolder(checkpoint, number)
        kinds, why = _kinds(operator, batches)
        for partition in operator.partitions():
            for store, kind in kinds.items():
                folder = operator.folder(partition, store)
                if below in (folder, *folder.parents):
                    unknown = {} if kind is not None else {"kind": why}
                    yield _found(operator, partition, store, committed, kind=kind, unknown=unknown)


def _kinds(operator: OperatorFolder, batches: list[int]) -> tuple[dict[str, str | None], str]:
    """Return the kind of each store, or why the kinds are not known."""
    if not batches:
        return {_DEFAULT_STORE: None}, "no batch of the checkpoint is committed"
    latest = batches[-1]
    try:
        metadata = operator.metadata(latest)
        return {
            each.name: kind_of(metadata, each.name, operator.schemas(each.name, latest))
            for each in metadata.stores
        }, ""
    except KstoolkitError as error:
        return {_DEFAULT_STORE: None}, error.message


def _found(
    operator: OperatorFolder,
    partition: int,
    store: str,
    committed: set[int],
    *,
    kind: str | None,
    unknown: dict[str, str],
) -> FoundStore:
    folder = operator.folder(partition, store)
    held = list(operator.files(partition, store))
    versions: list[int] = []
    entries = None
    with suppress(NoStoreError, KstoolkitError):
        files = StateFiles.of(folder)
        versions = files.versions(committed)
        # How many keys the newest version has, if it is a snapshot that counted them.
        snapshots = files.snapshots.get(versions[-1], {}) if versions else {}
        counted = counted_keys(*snapshots.values()) if len(snapshots) == 1 else None
        entries = None if counted is None else sum(counted)
    unknown = unknown | _UNKNOWN | ({} if entries is not None else {"num_entries": _SINCE})
    if not versions:
        unknown |= {"versions": "no committed version has all of its files"}
    return FoundStore(
        str(folder),
        "spark",
        operator.checkpoint.path.name,
        store,
        operator=operator.number,
        partition=partition,
        kind=kind,
        confidence=None if kind is None else 1.0,
        reasons=() if kind is None else ("the operator's metadata and schema",),
        size_bytes=sum(each.size_bytes for each in held),
        disk_bytes=sum(each.disk_bytes for each in held),
        num_entries=entries,
        versions=(versions[0], versions[-1]) if versions else None,
        unknown=unknown,
    )


def counted_keys(snapshot: Path) -> tuple[int, int] | None:
    """Return how many keys a snapshot counts, and how many of the operator's own."""
    if snapshot.suffix != ".zip":
        return None
    found = read_with(snapshot, read_snapshot)
    return None if found.num_keys is None else (found.num_keys, found.num_internal_keys or 0)


_NAMED = 6


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """A store in a checkpoint, or all of an operator; of one partition, or of all."""

    operator: OperatorFolder
    store: str | None
    partition: int | None = None

    @property
    def path(self) -> Path:
        """The folder that it lies in."""
        if self.partition is None:
            return self.operator.path
        return self.operator.folder(self.partition, self.store or _DEFAULT_STORE)

    @property
    def partitions(self) -> list[int]:
        """The partitions that it holds."""
        return self.operator.partitions() if self.partition is None else [self.partition]

    @property
    def stores(self) -> list[str]:
        """The names of the stores that it holds."""
        return _stores(self.operator) if self.store is None else [self.store]

    def versions(self) -> list[int]:
        """Return the versions that can be read of all its partitions, the oldest first."""
        found = {batch + 1 for batch in self.operator.checkpoint.batches()}
        for partition in self.partitions:
            for store in self.stores:
                files = StateFiles.of(self.operator.folder(partition, store))
                found &= set(files.versions(found))
        return sorted(found)

    def chosen(self, version: int | None) -> int:
        """Return a version that somebody chose; None is that of the latest batch done.

        If it can't be read, or no batch is done, it is a CheckpointError.
        """
        if version is None:
            return self.operator.checkpoint.latest_batch() + 1
        versions = self.versions()
        if version not in versions:
            message = f"There is no version {version} of {self.path}."
            told = ", ".join(map(str, versions[-9:])) or "none"
            raise CheckpointError(message, hint=f"Versions that can be read: {told}.")
        return version


def spark_place(path: Path) -> SparkPlace | None:
    """Return what an absolute path stands for; None if it lies in no checkpoint.

    For no store, or for several operators, is a NoStoreError whose hint names some; if no batch is
    committed, it is a CheckpointError.
    """
    checkpoint = checkpoint_of(path)
    if checkpoint is None or (path / "CURRENT").exists():
        return None
    parts = path.relative_to(checkpoint.path).parts[1:]
    operators = checkpoint.operators()
    only = operators[0] if len(operators) == 1 else None
    number = _number(parts[0]) if parts else only
    found = None if number is None else _place(OperatorFolder(checkpoint, number), parts[1:])
    if found is None:
        raise _no_store(checkpoint, path)
    return found


def _place(operator: OperatorFolder, parts: tuple[str, ...]) -> SparkPlace | None:
    """Return what a path below an operator's folder stands for; None if nothing."""
    partition = _number(parts[0]) if parts else None
    names = parts if partition is None else parts[1:]
    folder = operator.path if partition is None else operator.path / str(partition)
    if len(names) > 1 or not folder.is_dir():
        return None
    stores = _stores(operator)
    if not stores:  # as damaged metadata may say
        return None
    if names:
        is_there = names[0] in stores and (partition is None or (folder / names[0]).is_dir())
        return SparkPlace(operator, names[0], partition) if is_there else None
    return SparkPlace(operator, stores[0] if len(stores) == 1 else None, partition)


def _stores(operator: OperatorFolder) -> list[str]:
    batch = operator.checkpoint.latest_batch()
    return [each.name for each in operator.metadata(batch).stores]


def _number(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdigit() else None


def _no_store(checkpoint: Checkpoint, path: Path) -> NoStoreError:
    operators = (OperatorFolder(checkpoint, number) for number in checkpoint.operators())
    known = [
        each.folder(partition, store)
        for each in operators
        for store in _stores(each)
        for partition in each.partitions()
    ]
    found = [each for each in known if path in (each, *each.parents)] or known
    what = "is a checkpoint of Spark's" if path == checkpoint.path else "lies in a checkpoint"
    message = f"{path} {what}, and not one store of it."
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    told = ", ".join(map(str, found[:_NAMED]))
    hint = f"Give one of its stores: {told}{more}." if found else "It has no stores."
    return NoStoreError(message, hint=hint)
