"""Whether a MANIFEST is whole.

RocksDB takes a torn end of its MANIFEST for the end: it opens the store as it was before, and says
nothing, so that rows are missing. The file is a log: blocks of 32 KiB, in which records of
``checksum 4 · length 2 · type 1 · payload`` stand; the rest of a block that is too short for a
record is padding (RocksDB's ``db/log_format.h``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.rocksdb.faults import DamagedStoreError, translated
from kstoolkit.rocksdb.files.explaining import explained

if TYPE_CHECKING:
    from pathlib import Path


_BLOCK_BYTES = 32 << 10
_HEADER_BYTES = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_HINT = "Restore the folder from a backup, or rebuild the store from its changelog."


def check_manifest(scratch: Path, folder: Path) -> None:
    """Refuse a MANIFEST that lost its end: RocksDB would open an older store, and say nothing.

    Parameters
    ----------
    scratch
        The scratch folder, with the MANIFEST and the CURRENT file that names it.
    folder
        The store as the user knows it.

    Raises
    ------
    DamagedStoreError
        If the MANIFEST is missing, or not whole.
    EncryptedStoreError
        If no SST file is one either.
    """
    name = (scratch / "CURRENT").read_text(encoding="utf-8").strip()
    with translated(folder):
        if not (scratch / name).is_file():
            message = f"The store {folder} is damaged: {name}, which CURRENT names, is missing."
            raise DamagedStoreError(message, hint=_HINT)
        torn = torn_at(scratch / name)
    if torn is not None:
        message = (
            f"The store {folder} is damaged: {name} ends in the middle of a record, which begins "
            f"at byte {torn}; newer rows would be missing without a sign."
        )
        raise explained(DamagedStoreError(message, hint=_HINT), scratch, folder)


def torn_at(path: Path) -> int | None:
    """Return the byte at which the last, unfinished record of a MANIFEST begins; None if whole.

    Raises
    ------
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "MANIFEST-000001")
    >>> _ = path.write_bytes(b"cccc" + bytes([3, 0, 1]) + b"abc")
    >>> torn_at(path)
    >>> _ = path.write_bytes(path.read_bytes()[:-1])
    >>> torn_at(path)
    0
    """
    begun: int | None = None
    with path.open("rb") as file:
        at = 0
        while block := file.read(_BLOCK_BYTES):
            begun, torn = _walk(block, at, begun)
            if torn:
                return begun
            at += len(block)
    return begun


def _walk(block: bytes, base: int, begun: int | None) -> tuple[int | None, bool]:
    """Go through one block; return where the open record began, and whether the file ends in it."""
    at = 0
    while at + _HEADER_BYTES <= len(block):
        length, kind = int.from_bytes(block[at + 4 : at + 6], "little"), block[at + 6]
        if kind == 0 and length == 0:
            break  # room that was set aside, never written
        if kind in {_FULL, _FIRST}:
            begun = base + at
        at += _HEADER_BYTES + length
        if at > len(block):
            return base if begun is None else begun, True
        if kind in {_FULL, _LAST}:
            begun = None
    else:
        if at < len(block) < _BLOCK_BYTES:
            return base + at if begun is None else begun, True
    return begun, False
