"""Commands that look into a RocksDB store, whoever wrote it, and change nothing in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.flags import hints_in_flags
from kstoolkit.cli.options import AS_JSON, AS_JSON_OBJECT
from kstoolkit.cli.terminal import note, print_json, print_table
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from kstoolkit.records import Figure
    from kstoolkit.rocksdb.files.ssts import Level
    from kstoolkit.rocksdb.store import Store


STORE = typer.Argument(
    ..., metavar="PATH", help="A store's folder, the one with a CURRENT file.", show_default=False
)
FAMILY = typer.Option(
    None,
    "--column-family",
    metavar="NAME",
    help="Only this column family.  [default: all of them]",
    show_default=False,
)
OTHER_FOLDERS = typer.Option(
    None,
    "--other-folder",
    metavar="PATH",
    help="A folder outside PATH with files of the store (db_paths, cf_paths, wal_dir; SSTs of a "
    "snapshot of Spark's); may be given several times.  [default: those that the store names]",
    show_default=False,
)
WIDEST_KEY = 24


def inspect(
    path: str = STORE,
    family: str | None = FAMILY,
    other_folders: list[str] | None = OTHER_FOLDERS,
    as_json: bool = AS_JSON_OBJECT,
) -> None:
    """Print a store at a glance, without touching it.

    Each figure says whose it is. The store may be in use. The fields of --json: path,
    column_families, num_files, sst_bytes, estimated_rows, and more; unknown says why a null is one.
    """
    with _opened_partly(path, other_folders) as store:
        summary = store.summary(family)
    if as_json:
        print_json([summary.to_dict()])
        return
    rows = [[each.name, str(each.source), _shown(each)] for each in summary.figures()]
    print_table(["figure", "whose", "value"], rows)


def levels(
    path: str = STORE,
    family: str | None = FAMILY,
    other_folders: list[str] | None = OTHER_FOLDERS,
    as_json: bool = AS_JSON,
) -> None:
    """Print what stands on each level of a store's tree.

    The fields of --json: column_family, level, num_files, size_bytes, num_entries, num_deletions,
    compression, smallest_key and largest_key (hex), and more.
    """
    with _opened_partly(path, other_folders) as store:
        found = store.levels(family)
    if as_json:
        print_json(found.to_dicts())
    elif found:
        header = ["column family", "level", "files", "size", "entries", "tombstones", "compression"]
        print_table([*header, "keys (hex)"], [_cells(each) for each in found])
    else:
        note(f"No SST files in {path}: all its rows, if any, are in the WAL.")


def _opened_partly(path: str, other_folders: list[str] | None) -> Store:
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - loads RocksDB

    with hints_in_flags():
        store = open_store(path, other_folders=other_folders or None, partly=True)
    if store.damage is not None:
        note(f"The store {path} is read as far as it goes: {store.damage}.")
    return store


def _shown(figure: Figure) -> str:
    if isinstance(figure.value, tuple):
        return ", ".join(map(str, figure.value)) or "none"
    return figure.text


def _cells(level: Level) -> list[str]:
    density = "none" if not level.num_deletions else f"{level.tombstone_density:.1%}"
    return [
        level.column_family,
        str(level.level),
        format_count(level.num_files),
        format_bytes(level.size_bytes),
        format_count(level.num_entries),
        density,
        level.compression or "unknown",
        f"{_key(level.smallest_key)} to {_key(level.largest_key)}",
    ]


def _key(key: bytes) -> str:
    text = key.hex()
    return text if len(text) <= WIDEST_KEY else f"{text[:WIDEST_KEY]}…"
