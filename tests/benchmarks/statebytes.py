"""What a checkpoint's newest state is made of: live rows, and the files that it is loaded from."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import CopyWarning
from kstoolkit.formats.spark.statefiles import read_snapshot
from kstoolkit.stores.spark.checkpoint import Checkpoint, OperatorFolder
from kstoolkit.stores.spark.state import StoreVersion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.stores.spark.checkpoint import Chain
    from kstoolkit.stores.spark.state import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """The newest version of the state, over all operators and partitions.

    Parameters
    ----------
    rows, live_bytes
        Rows that are there, and their keys and values as they are put into the store.
    on_disk_bytes
        What the version is loaded from: its snapshot's SST files and zip, and each changelog since.
    """

    rows: int
    live_bytes: int
    on_disk_bytes: int

    @classmethod
    def of(cls, checkpoint: Path) -> StateBytes:
        """Read it from a checkpoint that nobody writes to."""
        rows = live_bytes = on_disk_bytes = 0
        for version, partition in _partitions(Checkpoint(checkpoint)):
            on_disk_bytes += _chain_bytes(version.chain(partition))
            with _opened(version, partition) as state:
                for key, value in state.rows():
                    rows += 1
                    live_bytes += len(key) + len(value)
        return cls(rows=rows, live_bytes=live_bytes, on_disk_bytes=on_disk_bytes)


@contextmanager
def _opened(version: StoreVersion, partition: int) -> Iterator[PartitionState]:
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", CopyWarning)  # what is copied is gone by the end
        with closing(version.opened(partition, scratch)) as state:
            yield state


def _partitions(checkpoint: Checkpoint) -> Iterator[tuple[StoreVersion, int]]:
    batch = checkpoint.latest_batch()
    for number in checkpoint.operators():
        operator = OperatorFolder(checkpoint, number)
        for store in operator.metadata(batch).stores:
            for partition in operator.partitions():
                yield StoreVersion(operator, store.name, batch + 1), partition


def _chain_bytes(chain: Chain) -> int:
    paths = list(chain.changes)
    if chain.snapshot is not None:
        files = read_snapshot(chain.snapshot.read_bytes()).sst_files
        below = chain.snapshot.parent / "SSTs"
        paths += [chain.snapshot, *(below / each.stored_name for each in files)]
    return sum(path.stat().st_size for path in paths)
