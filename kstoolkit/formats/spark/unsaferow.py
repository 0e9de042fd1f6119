"""Spark's UnsafeRow: the rows of its state, read by their schema into columns.

::

    row:    null bits, 8 bytes a 64 columns · a word of 8 bytes a column · what does not fit in one
    array:  number of elements (8) · null bits, 8 bytes a 64 · elements, padded to 8 · what …
    map:    bytes of the keys' array (8) · array of keys · array of values

Everything is little-endian. A value that does not fit in its word lies behind the words, and the
word is ``where << 32 | length``, counted from the start of the row or array. A struct within a row
is a row at such a place. In an array, a value that fits in a word takes only its own width
(``org.apache.spark.sql.catalyst.expressions.UnsafeRow``, ``UnsafeArrayData``, ``UnsafeMapData``).

Spark writes no byte twice, so the values of a row or array may together be no longer than it is.
That is checked, so that what is read is never larger than a small multiple of what was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.formats.decoded import Decoded
from kstoolkit.formats.serdes import Serde
from kstoolkit.formats.spark.schemajson import schema_of
from kstoolkit.formats.spark.sparktypes import Struct
from kstoolkit.formats.spark.unsafeleaves import Cells, Reading
from kstoolkit.formats.spark.unsafeparts import read_structs, struct_array

if TYPE_CHECKING:
    from kstoolkit.formats.bytecolumn import ByteColumn


def row_serde(schema: str | bytes | dict[str, Any] | Struct) -> Serde:
    """Return what reads rows of a schema: a struct a row, null where it could not be read.

    Parameters
    ----------
    schema
        Spark's JSON of a StructType, as its schema files hold it, or the columns that
        :func:`~kstoolkit.formats.spark.schemajson.schema_of` made of it.

    Raises
    ------
    FormatError
        If the schema is none; what is wrong with a row is a problem of that row.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> serde = row_serde({"type": "struct", "fields": [{"name": "n", "type": "integer"}]})
    >>> column = ByteColumn.of([bytes(8) + (7).to_bytes(8, "little"), b"?"])
    >>> serde.decode(column).to_list(column)
    [{'n': 7}, Undecoded(3f: a row shorter than its columns)]
    """
    struct = schema if isinstance(schema, Struct) else schema_of(schema)
    return Serde("spark row", lambda column: read_rows(column, struct))


def read_rows(column: ByteColumn, struct: Struct) -> Decoded:
    """Return the rows of a column as Arrow structs.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> one = schema_of({"type": "struct", "fields": [{"name": "n", "type": "long"}]})
    >>> read_rows(ByteColumn.of([bytes([1]) + bytes(15), None]), one).values.to_pylist()
    [{'n': None}, None]
    """
    reading = Reading(np.ascontiguousarray(column.data))
    cells = Cells(column.starts, column.ends, ~column.is_null, np.arange(len(column)))
    rows = read_structs(reading, struct, cells)
    if reading.problems:
        wrong = np.zeros(len(column), dtype=bool)
        wrong[list(reading.problems)] = True
        rows = struct_array(rows.type, ~column.is_null & ~wrong, rows.flatten())
    return Decoded(rows, reading.problems)
