"""A damaged store, mended in its scratch folder so far that what is left of it can be opened.

SST files that are missing or can't be opened are taken off the MANIFEST's list: all others keep
their levels, so that of a key's values the newest that is left is shown. If the MANIFEST itself is
missing or damaged, RocksDB makes a new one of all SST files that lie there; which of them it had
dropped nobody knows then. The store's own folder is not touched: files are linked, and RocksDB
writes into none of them again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocksdict import Options, Rdict

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import DamagedStoreError, translated
from kstoolkit.rocksdb.files.handles import families_past_bad_wal
from kstoolkit.rocksdb.files.losses import Losses
from kstoolkit.rocksdb.files.manifest import torn_at
from kstoolkit.rocksdb.files.tableproperties import read_footer
from kstoolkit.rocksdb.files.versionedits import drop_tables, listed_tables

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.rocksdb.faults import NoStoreError
    from kstoolkit.rocksdb.files.versionedits import ListedTable


_TABLE = re.compile(r"/(\d+)\.sst")
_DROPPED = re.compile(rb"Log #\d+: (?:ignoring|dropping)")
_MANIFEST = re.compile(r"MANIFEST-\d+")


def mended_families(
    scratch: Path, folder: Path, fault: FormatError | NoStoreError
) -> tuple[dict[str, Rdict], Losses]:
    """Return the column families of what is left of a store, and what was lost.

    Parameters
    ----------
    scratch
        The scratch folder with its files, which is changed.
    folder
        The store as the user knows it.
    fault
        Why it can't be opened as it is.

    Raises
    ------
    FormatError
        ``fault``, if no SST file is left.
    KstoolkitError
        If what is left can't be opened.
    """
    losses = Losses()
    with translated(folder):
        manifest = _whole_manifest(scratch, losses)
    if manifest is not None:
        try:
            return _of_listed(manifest, folder, losses, fault), losses
        except DamagedStoreError as error:
            if error is fault:
                raise
            losses = Losses()  # of the MANIFEST more is damaged than its end
    with translated(folder):
        manifest = _made_anew(scratch, losses, fault)
    return _of_listed(manifest, folder, losses, fault), losses


def _whole_manifest(scratch: Path, losses: Losses) -> Path | None:
    """Return the MANIFEST that CURRENT names, or else the newest; None if it is not whole."""
    current = scratch / "CURRENT"
    name = current.read_text(encoding="utf-8", errors="replace").strip() if current.exists() else ""
    if not _MANIFEST.fullmatch(name):
        found = [each.name for each in scratch.iterdir() if _MANIFEST.fullmatch(each.name)]
        there = {int(each.partition("-")[2]): each for each in found}
        if not there:
            return None
        name = there[max(there)]
        state = "names no MANIFEST" if current.exists() else "is missing"
        losses.beside.append(f"CURRENT {state}: {name}, the newest that is there, is read")
    current.write_text(f"{name}\n", encoding="utf-8")
    manifest = scratch / name
    is_whole = manifest.is_file() and manifest.stat().st_size and torn_at(manifest) is None
    return manifest if is_whole else None


def _of_listed(
    manifest: Path, folder: Path, losses: Losses, fault: FormatError | NoStoreError
) -> dict[str, Rdict]:
    """Return the column families without the SST files that can't be opened."""
    scratch = manifest.parent
    try:
        listed = listed_tables(manifest)
    except FormatError as error:
        raise DamagedStoreError(error.message, hint=error.hint) from error
    if not losses.sizes_bytes:
        losses.sizes_bytes = {each.name: each.size_bytes for each in listed.values()}
    left = dict(listed)
    bad = {number: why for number, each in listed.items() if (why := _wrong(scratch, each))}
    while True:
        _drop(manifest, [left.pop(number) for number in bad], list(bad.values()), losses)
        if losses.tables and not left:
            raise fault  # of all files it is likelier that they lie elsewhere
        try:
            return families_past_bad_wal(scratch, folder, losses)
        except DamagedStoreError as error:
            number = _named_table(error)
            if number not in left:
                raise
            bad = {number: "can't be opened"}


def _drop(manifest: Path, tables: list[ListedTable], whys: list[str], losses: Losses) -> None:
    drop_tables(manifest, tables)
    losses.tables |= {each.name: why for each, why in zip(tables, whys, strict=True)}


def _wrong(scratch: Path, table: ListedTable) -> str | None:
    """Return what is wrong with an SST file as a whole; None if nothing shows from outside."""
    file = scratch / table.name
    if not file.is_file():
        return "is missing"
    size_bytes = file.stat().st_size
    if size_bytes != table.size_bytes:
        return f"has {size_bytes:,} of its {table.size_bytes:,} bytes"
    return None if read_footer(file) else "ends as no SST file does"


def _named_table(error: DamagedStoreError) -> int | None:
    found = _TABLE.findall(str(error.__cause__))
    return int(found[-1]) if found else None


def _made_anew(scratch: Path, losses: Losses, fault: FormatError | NoStoreError) -> Path:
    """Return a new MANIFEST of all SST files there are; rows of the WAL are in one of them."""
    sizes_bytes = {each.name: each.stat().st_size for each in scratch.glob("*.sst")}
    current = scratch / "CURRENT"
    manifests = list(scratch.glob("MANIFEST-*"))
    for each in (current, *manifests):
        each.unlink(missing_ok=True)
    options = Options(raw_mode=True)
    options.create_if_missing(False)  # noqa: FBT003 - rocksdict takes no name
    Rdict.repair(str(scratch), options)
    manifest = scratch / current.read_text(encoding="utf-8").strip()
    listed = {each.name for each in listed_tables(manifest).values()}
    if not listed:
        raise fault
    # The WAL's rows are in a new SST file, but for those of column families that have none.
    if _DROPPED.search((scratch / "LOG").read_bytes()):
        losses.beside.append("some rows of its WAL can't be told apart, and are absent")
    losses.is_without_levels, losses.sizes_bytes = True, sizes_bytes
    losses.tables |= dict.fromkeys(sorted(sizes_bytes.keys() - listed), "can't be opened")
    state = "damaged" if manifests else "missing"
    losses.beside.append(
        f"its MANIFEST is {state}, which told which SST files count: all {len(sizes_bytes):,} that "
        "lie there are read, so that deleted keys and older values may be back"
    )
    return manifest
