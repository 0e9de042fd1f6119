"""What changelogs change, laid over a snapshot's rows in the order of their keys.

The changes are kept in a RocksDB of their own in a scratch folder, the latest of each key: memory
holds a memtable, and of each file in turn its compressed bytes and some megabytes of what they
hold. What is kept of a key is a mark and bytes::

    =  the value    +  what is appended to the value that the snapshot has    -  it is gone

"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rocksdict import Options, Rdict, WriteOptions

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.rows import CHECKSUM_BYTES, key_behind_checksum
from kstoolkit.formats.spark.statefiles import APPEND, PUT, REMOVE, read_changelog
from kstoolkit.rocksdb.files.damage import rows_of
from kstoolkit.stores.spark.keyranges import KeyRanges
from kstoolkit.stores.spark.readfile import read_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.formats.columns import ByteColumn
    from kstoolkit.formats.spark.rows import Wrapping
    from kstoolkit.formats.spark.statefiles import Changes


_VALUE, _APPENDED, _GONE = b"=", b"+", b"-"
_MEMTABLE_BYTES = 16 << 20


class Overlay:
    """Changes of some versions, to be laid over the rows of the version before them.

    Parameters
    ----------
    folder
        An empty folder; made and removed by others.
    wrapping
        How values are written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from kstoolkit.formats.spark.rows import Wrapping
    >>> changes = Overlay(pathlib.Path(tempfile.mkdtemp()), Wrapping())
    >>> for kind, key, value in [(PUT, b"a", b"1"), (REMOVE, b"b", b""), (APPEND, b"c", b"+")]:
    ...     changes.change(kind, key, value)
    >>> list(changes.over(iter([(b"b", b"2"), (b"c", b"3"), (b"d", b"4")])))
    [(b'a', b'1'), (b'c', b'3+'), (b'd', b'4')]
    >>> changes.close()
    """

    def __init__(self, folder: Path, wrapping: Wrapping) -> None:
        options = Options(raw_mode=True)
        options.set_write_buffer_size(_MEMTABLE_BYTES)
        self._kept = Rdict(str(folder), options)
        without_log = WriteOptions()
        without_log.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute, whatever its stub says
        self._kept.set_write_options(without_log)
        self._wrapping = wrapping
        self._removed = KeyRanges()

    def replay(self, path: Path) -> None:
        """Add what a changelog, delta or snapshot file changes.

        Raises
        ------
        FormatError
            If it is damaged: some of its changes may be kept by then.
        """
        read_with(path, self._replay)

    def change(self, kind: int, key: bytes, value: bytes) -> None:
        """Add one change; of a range, the key is its first, and the value what ends it."""
        if kind == PUT:
            self._kept.put(key, _VALUE + value)
        elif kind == REMOVE:
            self._kept.put(key, _GONE)
        elif kind == APPEND:
            self._append(key, value)
        elif key < value:
            self._kept.delete_range(key, value)
            self._removed.add(key, value)

    def over(
        self, rows: Iterator[tuple[bytes, bytes]], prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows as they are after the changes, in the order of keys, in which they come."""
        changes = rows_of(self._kept, prefix=prefix)
        change = next(changes, None)
        for key, value in rows:
            while change is not None and change[0] < key:
                yield from _changed(change)
                change = next(changes, None)
            if change is not None and change[0] == key:
                yield from _changed(change, value + self._wrapping.delimiter)
                change = next(changes, None)
            elif key not in self._removed:
                yield key, value
        while change is not None:
            yield from _changed(change)
            change = next(changes, None)

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._kept.close()

    def _replay(self, raw: bytes) -> None:
        for changes in read_changelog(raw).changes:
            keys = changes.key
            if self._wrapping.has_checksums:
                keys = _bare_where_removed(changes)
            cells = zip(changes.kind.tolist(), keys.to_list(), changes.value.to_list(), strict=True)
            for kind, key, value in cells:
                self.change(kind, key or b"", value or b"")

    def _append(self, key: bytes, value: bytes) -> None:
        before: bytes | None = self._kept.get(key)
        if before is None:
            mark = _VALUE if key in self._removed else _APPENDED
            self._kept.put(key, mark + value)
        elif before == _GONE:
            self._kept.put(key, _VALUE + value)
        else:
            self._kept.put(key, before + self._wrapping.delimiter + value)


def _changed(change: tuple[bytes, bytes], before: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    key, (mark, rest) = change[0], (change[1][:1], change[1][1:])
    if mark == _VALUE:
        yield key, rest
    elif mark == _APPENDED:
        yield key, before + rest


def _bare_where_removed(changes: Changes) -> ByteColumn:
    """Return the keys; those that are removed carry the checksum that a value would."""
    removed = changes.kind == REMOVE
    _, problems = key_behind_checksum(changes.key.take(removed))
    if problems:
        message = f"A changelog that removes {len(problems):,} keys whose checksum is another."
        raise FormatError(message, hint="The file is damaged.")
    return changes.key.part(np.where(removed, CHECKSUM_BYTES, 0))
