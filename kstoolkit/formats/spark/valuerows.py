"""The value rows of Spark's state, out of the values that lie on disk.

::

    RocksDB       00 row                                one row
                  length (4) · 00 row · …               several, with a delimiter in between
                  checksum (4) · length (4) · one of the above · [delimiter] · checksum · …
    HDFS-backed   [checksum (4)] row
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.spark.keys import rows_behind_version
from kstoolkit.formats.spark.multivalue import elements_of
from kstoolkit.formats.spark.rowchecksum import value_behind_checksum, without_checksums

if TYPE_CHECKING:
    from numpy.typing import NDArray


_NOT_ONE = "a value that is not one row behind its checksum"


@dataclass(frozen=True, slots=True, eq=False)
class ValueRows:
    """The rows that values hold.

    Parameters
    ----------
    row
        Which value each is of.
    cell
        The row's bytes; null where there is no value.
    problems
        Why a value could not be taken apart, by its position.
    """

    row: NDArray[np.intp]
    cell: ByteColumn
    problems: dict[int, str]


@dataclass(frozen=True, slots=True)
class Wrapping:
    """What the values of a store are wrapped in.

    Parameters
    ----------
    is_rocksdb
        Whether they are RocksDB's, and those of its changelogs; else the HDFS-backed provider's.
    has_checksums
        Whether each carries a checksum.
    delimiter
        What RocksDB puts between values that are appended.

    Examples
    --------
    >>> row = bytes(8) + bytes([7]) + bytes(7)
    >>> found = Wrapping().rows(ByteColumn.of([b"k"]), ByteColumn.of([bytes(1) + row]))
    >>> found.cell.to_list() == [row]
    True
    """

    is_rocksdb: bool = True
    has_checksums: bool = False
    delimiter: bytes = b""

    def rows(self, keys: ByteColumn, values: ByteColumn, *, has_several: bool = False) -> ValueRows:
        """Return the rows of values.

        Parameters
        ----------
        keys, values
            As they lie on disk.
        has_several
            Whether a value is a list of rows.
        """
        found = ValueRows(np.arange(len(values)), values, {})
        if not self.is_rocksdb:
            return _behind_checksum(keys, found) if self.has_checksums else found
        if self.has_checksums:
            found = self._behind_checksums(keys, values, is_one=not has_several)
        if has_several:
            # Behind checksums each part is a value of its own, without a delimiter to come.
            parts = elements_of(found.cell, b"" if self.has_checksums else self.delimiter)
            wrong = _of_values(found, parts.problems)
            found = ValueRows(found.row[parts.row], parts.cell, wrong)
        bare, unversioned = rows_behind_version(found.cell)
        rows = ValueRows(found.row, bare, _of_values(found, unversioned))
        return _with_nulls(rows, values) if self.has_checksums or has_several else rows

    def _behind_checksums(self, keys: ByteColumn, values: ByteColumn, *, is_one: bool) -> ValueRows:
        parts = without_checksums(keys, values, self.delimiter)
        problems = parts.problems
        if is_one:
            count = np.bincount(parts.row, minlength=len(values))
            wrong = np.flatnonzero((count != 1) & ~values.is_null)
            problems = dict.fromkeys(wrong.tolist(), _NOT_ONE) | problems
        return ValueRows(parts.row, parts.cell, problems)


def joined(first: ByteColumn, second: ByteColumn) -> ByteColumn:
    """Return the rows of two columns, one behind the other.

    Examples
    --------
    >>> joined(ByteColumn.of([b"a"]), ByteColumn.of([b"b", None])).to_list()
    [b'a', b'b', None]
    """
    if not len(second):
        return first
    if not len(first):
        return second
    shift = np.where(second.is_null, 0, len(first.data))
    return ByteColumn(
        np.concatenate([first.data, second.data]),
        np.concatenate([first.starts, second.starts + shift]),
        np.concatenate([first.ends, second.ends + shift]),
        np.concatenate([first.is_null, second.is_null]),
    )


def _behind_checksum(keys: ByteColumn, found: ValueRows) -> ValueRows:
    bare, problems = value_behind_checksum(keys, found.cell)
    return ValueRows(found.row, bare, problems)


def _of_values(found: ValueRows, problems: dict[int, str]) -> dict[int, str]:
    """Return the problems of values, given those of the rows that they hold."""
    return {int(found.row[at]): why for at, why in problems.items()} | found.problems


def _with_nulls(found: ValueRows, values: ByteColumn) -> ValueRows:
    """Return the rows, and one without bytes for each value that there is none of."""
    nothing = np.flatnonzero(values.is_null)
    return ValueRows(
        np.concatenate([found.row, nothing]),
        joined(found.cell, values.take(nothing)),
        found.problems,
    )
