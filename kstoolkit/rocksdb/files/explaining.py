"""Why a store can't be opened: what its own files tell beyond RocksDB's words."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError, KstoolkitError
from kstoolkit.rocksdb.faults import (
    EncryptedStoreError,
    MissingFileError,
    NewerFormatError,
)
from kstoolkit.rocksdb.files.optionsections import option_in, read_options
from kstoolkit.rocksdb.files.otherfolders import MissingFolderError
from kstoolkit.rocksdb.files.sparksnapshot import shared_names
from kstoolkit.rocksdb.files.tableproperties import NEWEST_READABLE, read_footer

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.rocksdb.files.otherfolders import OtherFolders


def explained(error: FormatError, scratch: Path, folder: Path) -> FormatError:
    """Return an error with what the files themselves tell of their format, where it tells more."""
    footers = [read_footer(each) for each in scratch.glob("*.sst")]  # None: not a table's end
    unreadable = "magic number" in error.message or "MANIFEST" in error.message
    if unreadable and footers and not any(footers):
        message = f"The store {folder} is encrypted, or damaged: no SST file ends as one should."
        return EncryptedStoreError(message, hint="Only the application that has its key reads it.")
    if any(each and each.format_version is None for each in footers):
        message = f"The store {folder} has SST files that are not block-based tables."
        return FormatError(message, hint="Stores of plain or cuckoo tables can't be read here.")
    newest = max((each.format_version or 0 for each in footers if each), default=0)
    if not isinstance(error, NewerFormatError) or newest <= NEWEST_READABLE:
        return error
    message = (
        f"The store {folder} has SST files of format_version {newest}, written by RocksDB "
        f"{_writer(scratch)}; rocksdict {version_of('rocksdict')} reads up to {NEWEST_READABLE}."
    )
    return NewerFormatError(message, hint=error.hint)


def _writer(scratch: Path) -> str:
    try:
        return option_in(read_options(scratch), "Version", "rocksdb_version") or "unknown"
    except KstoolkitError:
        return "unknown (no OPTIONS file)"


def elsewhere_perhaps(
    error: MissingFileError, folder: Path, others: OtherFolders
) -> MissingFileError | MissingFolderError:
    """Return an error that says where a missing file may lie, if anything tells."""
    if shared_names(folder):
        message = f"{folder} is a snapshot of Spark's: it has no SST files of its own."
        hint = (
            "They lie in the checkpoint, in the folder SSTs beside the snapshot's .zip: give "
            "other_folders=['<checkpoint>/state/<operator>/<partition>/SSTs']."
        )
        return MissingFolderError(message, hint=hint)
    if others.gone:
        message = f"The store {folder} has files in {', '.join(others.gone)}, which is not there."
        hint = "Mount it, or name the folder that they are in now with other_folders=[...]."
        return MissingFolderError(message, hint=hint)
    more = "If it has more folders (cf_paths, db_paths), give them as other_folders=[...]."
    return MissingFileError(error.message, hint=f"{error.hint} {more}")
