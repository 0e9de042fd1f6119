"""A damaged store's rows, without those in blocks that can't be read.

RocksDB ends an iteration at such a block. The keys behind it can be sought, but which they are only
the file's index knows, and nobody shows that. So the first key that can be sought again is found by
trying: a seek fails up to the block's last key, and nowhere behind it. In between stand rows of
other files: they are read from a view without the block's file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.files.rows import every_row, key_after, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rocksdict import Rdict

    from kstoolkit.rocksdb.files.losses import Losses
    from kstoolkit.rocksdb.files.views import View


_BLOCK = re.compile(r"/(?P<name>\d+\.\w+)(?: offset (?P<at>\d+) size (?P<size>\d+))?")
_MOST_BLOCKS = 10_000  # that are passed over, before the damage is raised after all
_LONGEST_KEY_BYTES = 1 << 14
_LAST_BYTE = 0xFF

Place = tuple[str, int | None]


def readable_rows(
    view: View,
    family: str,
    losses: Losses,
    *,
    prefix: bytes = b"",
    start: bytes | None = None,
    end: bytes | None = None,
) -> Iterator[tuple[bytes, bytes]]:
    """Yield rows as :func:`~kstoolkit.rocksdb.files.rows.rows_of` does, past what can't be read.

    Parameters
    ----------
    view, family
        The store, and its column family.
    losses
        What could not be read is put in here.
    prefix, start
        As there.
    end
        Only keys before this one; None: all.

    Raises
    ------
    DamagedStoreError
        If it isn't told where the damage is, or there is too much of it.
    """
    handle = view.families[family]
    begin: bytes | None = max(prefix, start or b"")
    while begin is not None and (end is None or begin < end):
        row = None
        try:
            with translated(view.folder):
                for row in rows_of(handle, prefix=prefix, start=begin):
                    if end is not None and row[0] >= end:
                        return
                    yield row
        except FormatError as error:
            place = pass_over(error, losses)
            if place is None:
                raise
        else:
            return
        low = begin if row is None else row[0] + b"\0"
        begin = _after(handle, view.folder, place, low)
        with translated(view.folder):
            beside = view.without(place[0])
        if beside is not None:
            last = begin if end is None or (begin is not None and begin < end) else end
            yield from readable_rows(beside, family, losses, prefix=prefix, start=low, end=last)


def value_of(handle: Rdict, key: bytes, losses: Losses | None) -> bytes | None:
    """Return the value of a key, or None if it has none.

    A store that lost its levels may have an older value in the file that is looked into first: only
    an iteration compares all of them.

    Raises
    ------
    Exception
        What rocksdict raises.
    """
    if losses is None or not losses.is_without_levels:
        value: bytes | None = handle.get(key)
        return value
    rows = rows_of(handle, prefix=key, start=key)
    return next((value for found, value in rows if found == key), None)


def pass_over(error: FormatError, losses: Losses) -> Place | None:
    """Keep in mind what can't be read, and return where it is; None if that can't be passed over.

    Parameters
    ----------
    error
        What was raised of it.
    losses
        What could not be read is put in here.
    """
    found = _place(str(error.__cause__))
    if found is None:
        return None
    place, size_bytes = found
    losses.blocks[place] = size_bytes
    return place if len(losses.blocks) <= _MOST_BLOCKS else None


def _place(text: str) -> tuple[Place, int] | None:
    # The scratch folder's own path may look like a file's: the last one counts.
    found = list(_BLOCK.finditer(text))
    if not found:
        return None
    name, at, size = found[-1]["name"], found[-1]["at"], found[-1]["size"]
    return (name, None if at is None else int(at)), int(size or 0)


def _after(handle: Rdict, path: Path, place: Place, low: bytes) -> bytes | None:
    """Return a key behind all of a block's, before all that come after; None if there is none.

    The last key whose seek fails is found byte by byte, and what follows it is returned. Keys up to
    ``low`` count as such that fail.
    """

    def fails(key: bytes) -> bool:
        rows = handle.iter(every_row())  # one that failed goes on to fail
        try:
            with translated(path):
                rows.seek(key)
                if not rows.valid():
                    rows.status()
        except FormatError as error:
            found = _place(str(error.__cause__))
            return found is not None and found[0] == place
        return False

    failing = b""
    while len(failing) < _LONGEST_KEY_BYTES:
        known = failing + low[len(failing) : len(failing) + 1]
        if known > failing and low.startswith(known):
            floor = known[-1]
        elif fails(failing + b"\0"):
            floor = 0
        else:
            return failing + b"\0"
        failing += bytes([_last_failing(fails, failing, floor)])
    return key_after(failing)


def _last_failing(fails: Callable[[bytes], bool], before: bytes, floor: int) -> int:
    """Return the last byte that keys which fail go on with; ``floor`` is one of them."""
    if floor == _LAST_BYTE or not fails(before + bytes([floor + 1])):
        return floor  # mostly so, as long as the keys are like those before the block
    low, high = floor + 1, _LAST_BYTE + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(before + bytes([middle])) else (low, middle)
    return low
