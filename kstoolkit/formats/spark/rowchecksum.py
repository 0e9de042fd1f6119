"""Row checksums: what Spark puts in front of values when ``rowChecksum.enabled`` is on.

::

    RocksDB, and its changelogs     checksum (4) · length (4) · value · [delimiter] · checksum · …
    HDFS-backed, delta, snapshot    checksum (4) · value
    a key that is removed           checksum (4) · key

The checksum is the CRC-32C of the key and the value, each as it would be without checksums, and of
the key alone where it is removed. Numbers are little-endian (``KeyValueChecksumEncoder``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.spark.crc32c import crc32c, crc32c_of_both
from kstoolkit.formats.spark.multivalue import Elements, elements_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn


CHECKSUM_BYTES = 4
"""How long a checksum is."""

_WRONG = "a checksum that is not that of the row"


def without_checksums(keys: ByteColumn, values: ByteColumn, delimiter: bytes = b"") -> Elements:
    """Return the values of RocksDB without their checksums, one element each that was appended.

    A value one of whose rows has another checksum than it should is a problem.

    Parameters
    ----------
    keys, values
        As they lie in RocksDB.
    delimiter
        What RocksDB puts between values that are appended.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> key, value = b"key", b"value"
    >>> total = int(crc32c(ByteColumn.of([key + value]))[0])
    >>> written = total.to_bytes(4, "little") + len(value).to_bytes(4, "little") + value
    >>> without_checksums(ByteColumn.of([key]), ByteColumn.of([written])).cell.to_list()
    [b'value']
    """
    found = elements_of(values, delimiter, head_bytes=CHECKSUM_BYTES)
    # A key has as many rows as its value holds: its bytes are gone through once, not for each.
    computed = crc32c_of_both(crc32c(keys)[found.row], crc32c(found.cell), found.cell.lengths)
    wrong = np.unique(found.row[computed != _numbers(found.head)])
    kept = ~np.isin(found.row, wrong)
    return Elements(
        found.row[kept],
        found.head.take(kept),
        found.cell.take(kept),
        found.problems | dict.fromkeys(wrong.tolist(), _WRONG),
    )


def value_behind_checksum(
    keys: ByteColumn, values: ByteColumn
) -> tuple[ByteColumn, dict[int, str]]:
    """Return the values of a delta or snapshot file without their checksums.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> total = int(crc32c(ByteColumn.of([b"kv"]))[0]).to_bytes(4, "little")
    >>> value_behind_checksum(ByteColumn.of([b"k"]), ByteColumn.of([total + b"v"]))[0].to_list()
    [b'v']
    """
    bare = values.part(CHECKSUM_BYTES)
    return bare, _problems(crc32c_of_both(crc32c(keys), crc32c(bare), bare.lengths), values)


def key_behind_checksum(keys: ByteColumn) -> tuple[ByteColumn, dict[int, str]]:
    """Return keys that a changelog removes, without their checksums.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> total = int(crc32c(ByteColumn.of([b"key"]))[0]).to_bytes(4, "little")
    >>> key_behind_checksum(ByteColumn.of([total + b"key", b"?"]))[1]
    {1: 'a checksum that is not that of the row'}
    """
    bare = keys.part(CHECKSUM_BYTES)
    return bare, _problems(crc32c(bare), keys)


def _problems(computed: NDArray[np.uint32], cells: ByteColumn) -> dict[int, str]:
    has = cells.lengths >= CHECKSUM_BYTES
    found = np.zeros(len(cells), dtype=np.uint32)
    found[has] = _numbers(cells.take(has).part(end=CHECKSUM_BYTES))
    wrong = np.flatnonzero((~has | (found != computed)) & ~cells.is_null)
    return dict.fromkeys(wrong.tolist(), _WRONG)


def _numbers(cells: ByteColumn) -> NDArray[np.uint32]:
    return cells.integers(4).astype(np.uint32).byteswap()
