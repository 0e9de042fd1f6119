"""What a path into a checkpoint stands for: a store of one partition, or of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import CheckpointError
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.stores.spark.checkpoint import checkpoint_of
from kstoolkit.stores.spark.operatorfolder import OperatorFolder
from kstoolkit.stores.spark.statefiles import StateFiles

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.stores.spark.checkpoint import Checkpoint

__all__ = ["SparkPlace", "spark_place"]

_NAMED = 6


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """A store in a checkpoint.

    Parameters
    ----------
    operator
        The operator that keeps it.
    store
        Its name.
    partition
        Which partition; None: all.
    """

    operator: OperatorFolder
    store: str
    partition: int | None = None

    @property
    def path(self) -> Path:
        """The folder that stands for it."""
        if self.partition is None:
            return self.operator.path
        return self.operator.folder(self.partition, self.store)

    @property
    def partitions(self) -> list[int]:
        """The partitions that it holds."""
        return self.operator.partitions() if self.partition is None else [self.partition]

    def versions(self) -> list[int]:
        """Return the versions that can be read of all its partitions, the oldest first.

        Raises
        ------
        MissingFileError
            If the folder of a partition is not there.
        """
        found = {batch + 1 for batch in self.operator.checkpoint.batches()}
        for partition in self.partitions:
            files = StateFiles.of(self.operator.folder(partition, self.store))
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
    """Return the store that an absolute path stands for; None if it lies in no checkpoint.

    Raises
    ------
    NoStoreError
        If it lies in one, but stands for none, or for several; the hint names some.
    CheckpointError
        If no batch of the checkpoint is committed.
    """
    checkpoint = checkpoint_of(path)
    if checkpoint is None or (path / "CURRENT").exists():
        return None
    parts = path.relative_to(checkpoint.path).parts[1:]
    numbers = [int(each) for each in parts[:2] if each.isascii() and each.isdigit()]
    if not parts or len(numbers) < len(parts[:2]) or not path.is_dir():
        raise _no_store(checkpoint, path)
    operator = OperatorFolder(checkpoint, numbers[0])
    stores = [each.name for each in operator.metadata(checkpoint.latest_batch()).stores]
    chosen = parts[2:] or tuple(stores)
    if len(chosen) != 1 or chosen[0] not in stores:
        raise _no_store(checkpoint, path)
    return SparkPlace(operator, chosen[0], numbers[1] if len(parts) > 1 else None)


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
    batch = checkpoint.latest_batch()
    operators = [OperatorFolder(checkpoint, number) for number in checkpoint.operators()]
    return [
        each.folder(partition, store.name)
        for each in operators
        for store in each.metadata(batch).stores
        for partition in each.partitions()
    ]
