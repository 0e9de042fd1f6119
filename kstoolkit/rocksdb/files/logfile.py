"""The records of a file that RocksDB appends to: a MANIFEST.

Blocks of 32 KiB, in which records of ``checksum 4 · length 2 · type 1 · payload`` stand; a record
that does not fit into what is left of a block goes on in the next. The rest of a block that is too
short for a record is padding (RocksDB's ``db/log_format.h``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.rocksdb.files.checksum import masked_crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_BLOCK_BYTES = 32 << 10
_HEADER_BYTES = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records_in(path: Path) -> Iterator[bytes]:
    """Yield the records of a file, each put together; checksums are not looked at.

    Raises
    ------
    OSError
        If the file can't be read.
    """
    with path.open("rb") as file:
        begun = b""
        while block := file.read(_BLOCK_BYTES):
            for kind, payload in _pieces(block):
                begun = payload if kind in {_FULL, _FIRST} else begun + payload
                if kind in {_FULL, _LAST}:
                    yield begun


def append_record(path: Path, payload: bytes) -> None:
    """Write one more record behind the last one of a whole file that nobody else writes to.

    Raises
    ------
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "MANIFEST-000001")
    >>> path.touch()
    >>> for record in (b"a", b"b" * 40_000):
    ...     append_record(path, record)
    >>> [len(record) for record in records_in(path)]
    [1, 40000]
    """
    end = _end_of(path)
    with path.open("r+b") as file:
        file.truncate(end)  # what was set aside behind it
        file.seek(end)
        first = True
        while first or payload:
            left = _BLOCK_BYTES - file.tell() % _BLOCK_BYTES
            if left <= _HEADER_BYTES:
                file.write(bytes(left))
                continue
            piece, payload = payload[: left - _HEADER_BYTES], payload[left - _HEADER_BYTES :]
            file.write(_framed(piece, _kind(is_first=first, is_last=not payload)))
            first = False


def _pieces(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and payload of each whole piece of a record in a block."""
    at = 0
    while at + _HEADER_BYTES <= len(block):
        length, kind = int.from_bytes(block[at + 4 : at + 6], "little"), block[at + 6]
        begin = at + _HEADER_BYTES
        at = begin + length
        if at > len(block) or (kind == 0 and length == 0):
            return  # torn, or room that was set aside
        yield kind, block[begin:at]


def _end_of(path: Path) -> int:
    end = base = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            at = base
            for _, payload in _pieces(block):
                end = at = at + _HEADER_BYTES + len(payload)
            base += len(block)
    return end


def _kind(*, is_first: bool, is_last: bool) -> int:
    if is_first:
        return _FULL if is_last else _FIRST
    return _LAST if is_last else _MIDDLE


def _framed(piece: bytes, kind: int) -> bytes:
    typed = bytes([kind]) + piece
    checksum = masked_crc32c(typed).to_bytes(4, "little")
    return checksum + len(piece).to_bytes(2, "little") + typed
