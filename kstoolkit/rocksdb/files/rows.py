"""A store's rows, one after the other, in the order of their keys.

RocksDB ends an iteration at a block that it can't read, without an error; only the iterator's
status tells. Whoever reads rows reads them through here, where the end is always checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocksdict import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocksdict import Rdict, RdictIter


def rows_of(
    handle: Rdict, *, prefix: bytes = b"", start: bytes | None = None, reverse: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of one column family; memory is that of a row and some blocks.

    Parameters
    ----------
    handle
        A column family, opened raw.
    prefix
        Only keys that begin so.
    start
        Begin at this key, or at the next one there is: after it, or before it if ``reverse``.
    reverse
        From the last key to the first.

    Raises
    ------
    Exception
        What rocksdict raises, at a block that can't be read; rows before it have been yielded.
    """
    rows = handle.iter(every_row())
    _seek(rows, prefix, start, reverse=reverse)
    step = rows.prev if reverse else rows.next
    while rows.valid():
        key = rows.key()
        if not key.startswith(prefix):
            return
        yield key, rows.value()
        step()
    rows.status()


def every_row() -> ReadOptions:
    """Return options under which a store with a prefix extractor shows all its rows, in order."""
    options = ReadOptions()
    options.set_total_order_seek(v=True)
    return options


def _seek(rows: RdictIter, prefix: bytes, start: bytes | None, *, reverse: bool) -> None:
    if not reverse:
        rows.seek(max(prefix, start or b""))
        return
    after = key_after(prefix)
    if start is not None and (after is None or start < after):
        rows.seek_for_prev(start)
    elif after is None:
        rows.seek_to_last()
    else:
        rows.seek_for_prev(after)
        if rows.valid() and rows.key() == after:
            rows.prev()


def key_after(prefix: bytes) -> bytes | None:
    r"""Return the first key after all those with a prefix; None if there can't be one.

    Examples
    --------
    >>> key_after(b"ab"), key_after(bytes([1, 255])), key_after(b"")
    (b'ac', b'\x02', None)
    """
    shorter = prefix.rstrip(b"\xff")
    return shorter[:-1] + bytes([shorter[-1] + 1]) if shorter else None
