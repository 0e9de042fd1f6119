"""The stores of a checkpoint of Spark's, found by its files; no state is unpacked."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kstoolkit.errors import KstoolkitError
from kstoolkit.formats.spark.statefiles import read_snapshot
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.stores.discovery.foundstore import FoundStore
from kstoolkit.stores.spark.kinds import kind_of
from kstoolkit.stores.spark.operatorfolder import DEFAULT_STORE, OperatorFolder
from kstoolkit.stores.spark.readfile import read_with
from kstoolkit.stores.spark.statefiles import StateFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.stores.spark.checkpoint import Checkpoint


_BLOCK_BYTES = 512
_SINCE = "rows that were changed since the latest snapshot are not counted anywhere"
_UNKNOWN = {
    "closed": "a checkpoint holds only what was committed",
    "offset": "the offset log of the checkpoint tells those of the query's sources",
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
                    yield _found(
                        operator,
                        partition,
                        store,
                        kind=kind,
                        committed=committed,
                        unknown=unknown,
                    )


def _kinds(operator: OperatorFolder, batches: list[int]) -> tuple[dict[str, str | None], str]:
    """Return the kind of each store, or why the kinds are not known."""
    if not batches:
        return {DEFAULT_STORE: None}, "no batch of the checkpoint is committed"
    latest = batches[-1]
    try:
        metadata = operator.metadata(latest)
        return {
            each.name: kind_of(metadata, each.name, operator.schemas(each.name, latest))
            for each in metadata.stores
        }, ""
    except KstoolkitError as error:
        return {DEFAULT_STORE: None}, error.message


def _found(
    operator: OperatorFolder,
    partition: int,
    store: str,
    *,
    kind: str | None,
    committed: set[int],
    unknown: dict[str, str],
) -> FoundStore:
    folder = operator.folder(partition, store)
    size_bytes, disk_bytes = _sizes(folder)
    versions: list[int] = []
    entries = None
    with suppress(NoStoreError, KstoolkitError):
        files = StateFiles.of(folder)
        versions = files.versions(committed)
        entries = _entries(files, versions)
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
        size_bytes=size_bytes,
        disk_bytes=disk_bytes,
        num_entries=entries,
        versions=(versions[0], versions[-1]) if versions else None,
        unknown=unknown,
    )


def _entries(files: StateFiles, versions: list[int]) -> int | None:
    """Return how many keys the newest version has, if it is a snapshot that counted them."""
    snapshots = files.snapshots.get(versions[-1], {}) if versions else {}
    path = next(iter(snapshots.values()), None)
    if path is None or path.suffix != ".zip" or len(snapshots) > 1:
        return None
    snapshot = read_with(path, read_snapshot)
    if snapshot.num_keys is None:
        return None
    return snapshot.num_keys + (snapshot.num_internal_keys or 0)


def _sizes(folder: Path) -> tuple[int, int]:
    """Return how long the files of a store are, all versions of it, and what they take."""
    size = disk = 0
    for place in (folder, folder / "SSTs", folder / "logs", folder / "_metadata"):
        with suppress(FileNotFoundError, NotADirectoryError):
            for each in place.iterdir():
                with suppress(FileNotFoundError):
                    told = each.lstat()
                    is_counted = not each.is_dir()
                    size += told.st_size * is_counted
                    disk += told.st_blocks * _BLOCK_BYTES * is_counted
    return size, disk
