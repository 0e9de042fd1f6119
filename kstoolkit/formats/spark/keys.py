"""How Spark writes keys into RocksDB, so that they can be found by what they begin with.

::

    NoPrefix            [family] 00 row
    PrefixKeyScan       [family] length (4) · 00 row of the first columns · 00 row of the others
    RangeKeyScan        [family] length (4) · 00 row of the ordering columns · 00 row of the others
    TimestampAsPrefix   [family] timestamp (8) · 00 row
    TimestampAsPostfix  [family] 00 row · timestamp (8)

The family is 2 bytes, there only in stores that have families; it and lengths are little-endian.
``00`` is the version of a row's format. An ordering column is bytes that sort as its values do: 00
for negative, 01 for others, 02 for null, then the number, big-endian, a negative fraction with all
bits flipped. A timestamp is big-endian with its sign flipped, and is the key's last column
(``org.apache.spark.sql.execution.streaming.state.RocksDBStateEncoder``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.jsontext import integer, shown, text
from kstoolkit.formats.spark.unsafeleaves import Reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn
    from kstoolkit.formats.spark.sparktypes import Struct


ROW_VERSION = 0
"""The byte in front of every row in RocksDB."""

FAMILY_BYTES = 2
"""How long the number of a column family is."""

_NO_VERSION = "a row of a version that is not known"
_SPEC = "an encoder of keys"
_KINDS = {
    "NoPrefixKeyStateEncoderSpec": "NoPrefix",
    "PrefixKeyScanStateEncoderSpec": "PrefixKeyScan",
    "RangeKeyScanStateEncoderSpec": "RangeKeyScan",
    "TimestampAsPrefixKeyStateEncoderSpec": "TimestampAsPrefix",
    "TimestampAsPostfixKeyStateEncoderSpec": "TimestampAsPostfix",
}


@dataclass(frozen=True, slots=True)
class KeyEncoder:
    """How the keys of a column family are written.

    Parameters
    ----------
    kind
        ``"NoPrefix"``, ``"PrefixKeyScan"``, ``"RangeKeyScan"``, ``"TimestampAsPrefix"`` or
        ``"TimestampAsPostfix"``.
    first
        The positions of the columns that come first, in a kind that has such.
    """

    kind: str = "NoPrefix"
    first: tuple[int, ...] = ()

    @classmethod
    def prefix(cls, columns: int, key: Struct) -> KeyEncoder:
        """Return the encoder that puts so many columns first; the plain one for none.

        Raises
        ------
        FormatError
            If the key has not so many columns.

        Examples
        --------
        >>> from kstoolkit.formats.spark.sparktypes import Struct
        >>> KeyEncoder.prefix(0, Struct((), 0)).kind
        'NoPrefix'
        """
        return cls("PrefixKeyScan", _positions(range(columns), key)) if columns else cls()

    @classmethod
    def of(cls, spec: dict[str, Any], key: Struct) -> KeyEncoder:
        """Return the encoder that a schema file describes.

        Raises
        ------
        FormatError
            If it describes none that is known, or names columns that the key does not have.

        Examples
        --------
        >>> from kstoolkit.formats.spark.sparktypes import Struct
        >>> KeyEncoder.of({"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}, Struct((), 0))
        KeyEncoder(kind='NoPrefix', first=())
        """
        name = text(spec, "keyStateEncoderType", _SPEC)
        kind = _KINDS.get(name, "")
        if kind == "PrefixKeyScan":
            return cls(kind, _positions(range(integer(spec, "numColsPrefixKey", _SPEC)), key))
        if kind == "RangeKeyScan":
            ordinals = spec.get("orderingOrdinals")
            return cls(kind, _positions(ordinals if isinstance(ordinals, list) else [None], key))
        if not kind:
            message = f"Keys written by {name[:80]!r}, which is not known."
            raise FormatError(message, hint="They were written by a newer Spark.")
        if kind != "NoPrefix" and not key.fields:
            message = "Keys with a timestamp, of which the schema has no column."
            raise FormatError(message, hint="The schema file is damaged.")
        return cls(kind)

    @property
    def has_timestamp(self) -> bool:
        """Whether the key's last column is a timestamp beside the row."""
        return self.kind.startswith("Timestamp")


def family_ids(keys: ByteColumn) -> NDArray[np.int64]:
    """Return the column family of each key; -1 of a key that is too short to have one.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> family_ids(ByteColumn.of([bytes([2, 0, 0]), b"x"])).tolist()
    [2, -1]
    """
    has = keys.lengths >= FAMILY_BYTES
    found = Reading(keys.data).numbers(keys.starts, "<i2", has).astype(np.int64)
    return np.where(has, found, -1)


def rows_behind_version(cells: ByteColumn) -> tuple[ByteColumn, dict[int, str]]:
    r"""Return rows without the byte in front of them, and which of them lack it.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> rows, problems = rows_behind_version(ByteColumn.of([bytes([0, 7]), bytes([9]), None]))
    >>> rows.to_list(), problems
    ([b'\x07', b'', None], {1: 'a row of a version that is not known'})
    """
    wrong = (cells.first_bytes() != ROW_VERSION) & ~cells.is_null
    return cells.part(1), dict.fromkeys(np.flatnonzero(wrong).tolist(), _NO_VERSION)


def _positions(found: Any, key: Struct) -> tuple[int, ...]:
    listed = list(found[: key.count + 1])
    fine = all(type(n) is int and 0 <= n < key.count for n in listed)
    if not fine or not listed or len(set(listed)) < len(listed):
        told = ", ".join(map(shown, listed[:9])) or "none"
        message = f"Keys of {key.count} columns that begin with the columns {told}."
        raise FormatError(message, hint="The schema file is damaged.")
    return tuple(listed)
