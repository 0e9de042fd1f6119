"""How many keys a state has, as far as snapshots tell: Spark counts when it writes one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.formats.spark.statefiles import read_snapshot
from kstoolkit.records import Record, Source, of_source
from kstoolkit.stores.spark.readfile import read_with
from kstoolkit.stores.spark.statefiles import StateFiles
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.stores.spark.stateversion import StateVersion


_NO_SNAPSHOT = "version {} of {} is made of changes alone, which count nothing"
_NO_COUNT = "{} does not count its keys: only RocksDB's snapshots do, unless told not to"


@dataclass(frozen=True, slots=True, repr=False)
class KeyCount(Record):
    """How many keys a state had when its latest snapshots were written.

    Parameters
    ----------
    num_keys
        Keys of the user's; a list is one key, however many rows it has.
    num_internal_keys
        Keys that the operator keeps for itself.
    version
        The version that was counted, of the oldest of the snapshots.
    is_current
        Whether all of the snapshots are of the version that was asked for: then nothing has changed
        since.
    unknown
        Why a figure is unknown, by its name.

    Examples
    --------
    >>> KeyCount(1_234, 0, version=7, is_current=False)
    KeyCount(1,234 keys at version 7, and what changed since)
    """

    num_keys: int | None = of_source(Source.STORE)
    num_internal_keys: int | None = of_source(Source.STORE)
    version: int | None = of_source(Source.STORE)
    is_current: bool | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.num_keys is None:
            return f"KeyCount(unknown: {self.unknown.get('num_keys', 'not told')})"
        since = "" if self.is_current else ", and what changed since"
        return f"KeyCount({format_count(self.num_keys)} keys at version {self.version}{since})"


def key_count(state: StateVersion) -> KeyCount:
    """Return how many keys a state has, by the snapshots that its version is made of.

    Changelogs count nothing: what they changed since a snapshot is not in the figure.

    Raises
    ------
    FormatError
        If a file is missing or damaged.
    """
    keys = internal = 0
    versions = [state.number]
    for at in state.stores:
        for partition in state.place.partitions:
            files = StateFiles.of(at.folder.folder(partition, at.store))
            chain = files.chain(at.number, at.unique_id(partition))
            if chain.snapshot is None:
                return _unknown(_NO_SNAPSHOT.format(at.number, files.folder))
            counted = _counted(chain.snapshot)
            if counted is None:
                return _unknown(_NO_COUNT.format(chain.snapshot))
            keys, internal = keys + counted[0], internal + counted[1]
            versions.append(at.number - len(chain.changes))
    oldest = min(versions)
    return KeyCount(keys, internal, oldest, is_current=oldest == state.number)


def _counted(path: Path) -> tuple[int, int] | None:
    """Return how many keys a snapshot counts, and how many of the operator's own."""
    if path.suffix != ".zip":
        return None
    snapshot = read_with(path, read_snapshot)
    if snapshot.num_keys is None:
        return None
    return snapshot.num_keys, snapshot.num_internal_keys or 0


def _unknown(why: str) -> KeyCount:
    names = ("num_keys", "num_internal_keys", "version", "is_current")
    return KeyCount(None, None, None, None, dict.fromkeys(names, why))
