"""Reading a partition's state out of a checkpoint's files: the steps from files to rows."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rocksdict import AccessType, Options, Rdict

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.spark.changelogfile import APPEND, PUT, REMOVE, read_changelog
from kstoolkit.formats.spark.commitlog import read_commit_log
from kstoolkit.formats.spark.offsetlog import read_offset_log
from kstoolkit.formats.spark.operatormetadata import read_operator_metadata
from kstoolkit.formats.spark.rowchecksum import CHECKSUM_BYTES, key_behind_checksum
from kstoolkit.formats.spark.schemafile import read_schema_file
from kstoolkit.formats.spark.snapshotfile import read_snapshot, with_delimiter
from kstoolkit.formats.spark.storelayout import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kstoolkit.formats.rowcolumns import RowColumns
    from kstoolkit.formats.spark.changelogfile import Changes
    from kstoolkit.formats.spark.layouts import Family, StoreLayout
    from kstoolkit.formats.spark.offsetlog import OffsetLogEntry
    from kstoolkit.formats.spark.operatormetadata import OperatorMetadata
    from kstoolkit.formats.spark.snapshotfile import Snapshot

Rows = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class StateRow:
    """One row of state: which family's, of which partition, and what it says."""

    family: Family
    partition: int
    key: dict[str, Any]
    value: dict[str, Any]
    value_bytes: bytes | None
    window_start_ms: int | None
    window_end_ms: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class StoreAt:
    """A store of an operator, as it was after a batch."""

    checkpoint: Path
    scratch: Path
    batch: int
    store: str = "default"
    operator_id: int = 0

    @property
    def folder(self) -> Path:
        return self.checkpoint / "state" / str(self.operator_id)

    def log(self) -> OffsetLogEntry:
        return read_offset_log((self.checkpoint / "offsets" / str(self.batch)).read_bytes())

    def operator(self) -> OperatorMetadata:
        v2 = self.folder / "_metadata" / "v2"
        names = [int(path.name) for path in v2.glob("*") if path.name.isdigit()]
        chosen = max((name for name in names if name <= self.batch), default=None)
        path = self.folder / "_metadata" / "metadata" if chosen is None else v2 / str(chosen)
        return read_operator_metadata(path.read_bytes())

    def layout(self, families: dict[str, int]) -> StoreLayout:
        operator = self.operator()
        [told] = [store for store in operator.stores if store.name == self.store]
        path = self.partition_folder(0) / "_metadata" / "schema"
        if told.schema_paths:
            name = told.schema_paths[-1].rsplit("/", 1)[-1]
            path = self.folder / "_stateSchema" / self.store / name
        schemas = read_schema_file(path.read_bytes())
        return layout_of(schemas, operator, self.store, self.log(), families)

    def partition_folder(self, partition: int) -> Path:
        folder = self.folder / str(partition)
        return folder if self.store == "default" else folder / self.store

    def partitions(self) -> list[int]:
        return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())

    def rows(self) -> list[StateRow]:
        """Return every row of every partition, decoded."""
        return [row for partition in self.partitions() for row in self.partition_rows(partition)]

    def partition_rows(self, partition: int) -> list[StateRow]:
        disk, families = self.on_disk(partition)
        layout = self.layout(families)
        keys, values = ByteColumn.of(list(disk)), ByteColumn.of(list(disk.values()))
        return [
            row
            for found in layout.split(keys, values)
            for row in _decoded(found.family, partition, found.rows)
        ]

    def on_disk(self, partition: int) -> tuple[Rows, dict[str, int]]:
        """Return keys and values as they lie on disk, and the numbers of the families."""
        log = self.log()
        folder, pending = self.partition_folder(partition), list[bytes]()
        families: dict[str, int] = {}
        rows: Rows = {}
        uids = self._uids(partition)
        for version in range(self.batch + 1, 0, -1):
            uid = uids.get(version)
            suffix = f"_{uid}" if uid else ""
            if (path := folder / f"{version}.snapshot").exists():
                _replay(rows, path.read_bytes(), log)
                break
            if (path := folder / f"{version}{suffix}.zip").exists():
                snapshot = read_snapshot(path.read_bytes())
                families = snapshot.families
                rows = _opened(snapshot, folder, self.scratch, log.merge_delimiter)
                break
            name = f"{version}{suffix}.changelog" if log.is_rocksdb else f"{version}.delta"
            raw = (folder / name).read_bytes()
            uids |= dict(read_changelog(raw).lineage)
            pending.append(raw)
        for raw in reversed(pending):
            _replay(rows, raw, log)
        return rows, families

    def _uids(self, partition: int) -> dict[int, str]:
        commit = read_commit_log((self.checkpoint / "commits" / str(self.batch)).read_bytes())
        names = [store.name for store in self.operator().stores]
        uid = commit.unique_id(self.operator_id, partition, names.index(self.store))
        return {self.batch + 1: uid} if uid else {}


def _decoded(family: Family | None, partition: int, rows: RowColumns) -> list[StateRow]:
    assert family is not None, "a family that no snapshot names"
    assert not rows.problems, rows.problems
    keys = family.key_serde.decode(rows.key)
    values = family.value_serde.decode(rows.value)
    assert not keys.problems | values.problems, keys.problems | values.problems
    nulls = [None] * len(rows)
    times = [
        nulls if column is None else column.to_pylist()
        for column in (rows.window_start_ms, rows.window_end_ms, rows.timestamp_ms)
    ]
    bare = rows.value.to_list()
    cells = zip(keys.to_list(rows.key), values.to_list(rows.value), bare, *times, strict=True)
    return [StateRow(family, partition, *each) for each in cells]


def _opened(snapshot: Snapshot, folder: Path, scratch: Path, delimiter: bytes) -> Rows:
    """Return what a snapshot holds, opened in a folder of its own."""
    home = scratch / "opened"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    for name, raw in snapshot.members.items():
        bare = with_delimiter(raw, delimiter) if name.startswith("OPTIONS") else raw
        (home / name).write_bytes(bare)
    for file in snapshot.sst_files:
        shutil.copy(folder / "SSTs" / file.stored_name, home / file.name)
    options = Options(raw_mode=True)
    options.create_if_missing(False)
    store = Rdict(str(home), options, access_type=AccessType.read_only())
    try:
        rows = dict(cast("Iterable[tuple[bytes, bytes]]", store.items()))
    finally:
        store.close()
    if snapshot.num_keys is not None and snapshot.num_internal_keys is not None:
        assert len(rows) == snapshot.num_keys + snapshot.num_internal_keys
    return rows


def _replay(rows: Rows, raw: bytes, log: OffsetLogEntry) -> None:
    """Apply the changes of a changelog to rows."""
    for changes in read_changelog(raw).changes:
        keys = changes.key
        if log.has_row_checksums:
            keys = _bare_where_removed(changes)
        for kind, key, value in zip(
            changes.kind.tolist(), keys.to_list(), changes.value.to_list(), strict=True
        ):
            _apply(rows, kind, key or b"", value or b"", log.merge_delimiter)


def _apply(rows: Rows, kind: int, key: bytes, value: bytes, delimiter: bytes) -> None:
    if kind == PUT:
        rows[key] = value
    elif kind == APPEND:
        rows[key] = rows[key] + delimiter + value if key in rows else value
    elif kind == REMOVE:
        rows.pop(key, None)
    else:
        for gone in [each for each in rows if key <= each < value]:
            del rows[gone]


def _bare_where_removed(changes: Changes) -> ByteColumn:
    """Return the keys; those that are removed carry the checksum that a value would."""
    removed = changes.kind == REMOVE
    _, problems = key_behind_checksum(changes.key.take(removed))
    assert not problems, problems
    return changes.key.part(np.where(removed, CHECKSUM_BYTES, 0))
