"""What a store's files tell: deleted rows that are still there, and what a checkpoint keeps of it.

SST files of its RocksDBs tell of tombstones, and of room that is not live; a checkpoint of Spark's
which versions it keeps, and what takes rows away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby, product
from typing import TYPE_CHECKING

from kstoolkit.formats.streams.kinds import OFFSETS
from kstoolkit.records import Records
from kstoolkit.rocksdb.files.ssts import entries_in, known_total
from kstoolkit.stores.growth.records import CheckpointUse, Deletions, Eviction, LevelUse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.spark.checkpoint import StateFile
    from kstoolkit.stores.spark.sparkstore import SparkStore

_NOT_OPENED = "the store's RocksDB was not handed over"
_NO_FILES = "there are no SST files"
_FIGURES = (
    *("num_entries", "num_deletions", "num_range_deletions", "num_obsolete"),
    *("tombstone_density", "space_amplification"),
)


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """The SST files of a RocksDB that hold rows: not those of the family ``offsets``.

    ``live_bytes`` is RocksDB's estimate of what is live in them.
    """

    path: str
    ssts: tuple[Sst, ...]
    live_bytes: int | None

    @classmethod
    def of(cls, store: Store) -> StoreFiles:
        """Return those of an open store, which may be closed afterwards."""
        families = [each for each in store.column_families if each != OFFSETS]
        live_bytes = known_total(store.summary(each).estimated_live_bytes for each in families)
        ssts = tuple(each for each in store.ssts() if each.column_family != OFFSETS)
        return cls(str(store.path), ssts, live_bytes)


def deletions_of(files: Sequence[StoreFiles], num_on_disk: int) -> Deletions:
    """Return what files of RocksDBs tell of deletions, given how many rows these hold together."""
    if not files:
        return Deletions(unknown=dict.fromkeys(_FIGURES, _NOT_OPENED))
    ssts = sorted((each for one in files for each in one.ssts), key=lambda each: each.level)
    live_bytes = known_total(each.live_bytes for each in files)
    ranges = known_total(each.num_range_deletions for each in ssts)
    levels = [_level(each, list(of)) for each, of in groupby(ssts, lambda file: file.level)]
    whole = _level(0, ssts)
    unknown = dict(whole.unknown)
    if not live_bytes:
        unknown["space_amplification"] = "RocksDB estimates nothing to be live"
    if ranges is None:
        unknown["num_range_deletions"] = "a file does not say"
    # Rows of a memtable or a WAL are in no file: there may be more rows than entries.
    num_obsolete = max(whole.num_entries - whole.num_deletions - num_on_disk, 0)
    return Deletions(
        num_entries=whole.num_entries,
        num_deletions=whole.num_deletions,
        num_range_deletions=ranges,
        num_obsolete=num_obsolete,
        tombstone_density=whole.tombstone_density,
        space_amplification=whole.size_bytes / live_bytes if live_bytes else None,
        levels=Records(levels, "levels"),
        unknown=unknown,
    )


def _level(level: int, files: list[Sst]) -> LevelUse:
    entries = entries_in(files)
    size_bytes = sum(each.size_bytes for each in files)
    unknown = {} if entries["num_entries"] else {"tombstone_density": _NO_FILES}
    return LevelUse(level, len(files), size_bytes, **entries, unknown=unknown)


_TTL = "ttlExpirationMs"
_SNAPSHOT = re.compile(r"\d+(_[\w-]+)?\.(zip|snapshot)")
_CHANGELOG = re.compile(r"\d+(_[\w-]+)?\.(changelog|delta)")


def checkpoint_use(store: SparkStore) -> CheckpointUse:
    """Return what the checkpoint keeps of an open store, of all versions."""
    place, versions = store.place, store.versions
    parts = product(place.partitions, place.stores)
    files = [each for part in parts for each in place.operator.files(*part)]
    snapshots = [each for each in files if _is_whole(each)]
    changelogs = [each for each in files if _CHANGELOG.fullmatch(each.name)]
    size = sum(each.size_bytes for each in files)
    known = [sum(each.size_bytes for each in some) for some in (snapshots, changelogs)]
    log = place.operator.checkpoint.offset_log(store.batch)
    unknown = {} if log.watermark_ms else {"watermark_ms": "the query has none"}
    if not versions:
        why = "no committed version has all of its files"
        unknown |= dict.fromkeys(("oldest_version", "newest_version"), why)
    return CheckpointUse(
        _eviction(store),
        log.timestamp_ms,
        log.watermark_ms or None,
        len(versions),
        versions[0] if versions else None,
        versions[-1] if versions else None,
        len(snapshots),
        known[0],
        len(changelogs),
        known[1],
        len(files) - len(snapshots) - len(changelogs),
        size - sum(known),
        size,
        sum(each.disk_bytes for each in files),
        unknown,
    )


def _eviction(store: SparkStore) -> Eviction:
    name = store.operator.name
    if name == "globalLimit":
        return Eviction.NEVER
    if store.operator.variables or name.startswith("transformWithState"):
        has_ttl = any(_TTL in each.value.names for each in store.families.values())
        return Eviction.TTL if has_ttl else Eviction.CODE
    is_code = "roupsWith" in name or "InPandasWithState" in name
    return Eviction.CODE if is_code else Eviction.WATERMARK


def _is_whole(file: StateFile) -> bool:
    is_whole = file.place == "SSTs" or _SNAPSHOT.fullmatch(file.name)
    return bool(is_whole) and not file.name.endswith(".crc")
