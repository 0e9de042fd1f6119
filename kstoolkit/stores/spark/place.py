"""What a path into a checkpoint stands for.

::

    state/<operator>/<partition>/[<store>/]    a store of one partition
    state/<operator>/<store>/                  a store of all partitions: no folder has that name
    state/<operator>/[<partition>/]            all stores of the operator, each a column family
    the checkpoint, or state/                  the only operator, if it has no other
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import CheckpointError
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.stores.spark.checkpoint import checkpoint_of
from kstoolkit.stores.spark.operatorfolder import DEFAULT_STORE, OperatorFolder
from kstoolkit.stores.spark.statefiles import StateFiles

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.stores.spark.checkpoint import Checkpoint


_NAMED = 6


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """A store in a checkpoint, or all stores of an operator.

    Parameters
    ----------
    operator
        The operator that keeps it.
    store
        Its name; None: all that the operator has.
    partition
        Which partition; None: all.
    """

    operator: OperatorFolder
    store: str | None
    partition: int | None = None

    @property
    def path(self) -> Path:
        """The folder that it lies in."""
        if self.partition is None:
            return self.operator.path
        return self.operator.folder(self.partition, self.store or DEFAULT_STORE)

    @property
    def partitions(self) -> list[int]:
        """The partitions that it holds."""
        return self.operator.partitions() if self.partition is None else [self.partition]

    @property
    def stores(self) -> list[str]:
        """The names of the stores that it holds."""
        return _stores(self.operator) if self.store is None else [self.store]

    def versions(self) -> list[int]:
        """Return the versions that can be read of all its partitions, the oldest first.

        Raises
        ------
        MissingFileError
            If the folder of a partition is not there.
        """
        found = {batch + 1 for batch in self.operator.checkpoint.batches()}
        for partition in self.partitions:
            for store in self.stores:
                files = StateFiles.of(self.operator.folder(partition, store))
                found &= set(files.versions(found))
        return sorted(found)

    def chosen(self, version: int | None) -> int:
        """Return a version that somebody chose; None is that of the latest batch done.

        Raises
        ------
        CheckpointError
            If it can't be read, or no batch is done.
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

    Raises
    ------
    NoStoreError
        If it lies in one, but stands for no store, or for several operators; the hint names some.
    CheckpointError
        If no batch of the checkpoint is committed.
    """
    checkpoint = checkpoint_of(path)
    if checkpoint is None or (path / "CURRENT").exists():
        return None
    parts = path.relative_to(checkpoint.path).parts[1:]
    operators = checkpoint.operators()
    if not parts and len(operators) == 1:
        return _place(OperatorFolder(checkpoint, operators[0]), ())
    number = _number(parts[0]) if parts else None
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
    if names:
        is_there = names[0] in stores and (partition is None or (folder / names[0]).is_dir())
        return SparkPlace(operator, names[0], partition) if is_there else None
    return SparkPlace(operator, stores[0] if len(stores) == 1 else None, partition)


def _stores(operator: OperatorFolder) -> list[str]:
    batch = operator.checkpoint.latest_batch()
    return [each.name for each in operator.metadata(batch).stores]


def _number(name: str) -> int | None:
    """Return the number that is the name of a folder; None if it is none."""
    return int(name) if name.isascii() and name.isdigit() else None


def _no_store(checkpoint: Checkpoint, path: Path) -> NoStoreError:
    found = [str(each) for each in _stores_of(checkpoint) if path in (each, *each.parents)]
    what = "is a checkpoint of Spark's" if path == checkpoint.path else "lies in a checkpoint"
    if not found:
        found = [str(each) for each in _stores_of(checkpoint)]
    message = f"{path} {what}, and not one store of it."
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    told = ", ".join(found[:_NAMED])
    hint = f"Give one of its stores: {told}{more}." if found else "It has no stores."
    return NoStoreError(message, hint=hint)


def _stores_of(checkpoint: Checkpoint) -> list[Path]:
    operators = [OperatorFolder(checkpoint, number) for number in checkpoint.operators()]
    return [
        each.folder(partition, store)
        for each in operators
        for store in _stores(each)
        for partition in each.partitions()
    ]
