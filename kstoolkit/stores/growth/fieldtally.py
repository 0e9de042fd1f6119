"""Rows and bytes by fields of their keys: by those that make up a key, and by each alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.stores.growth.fieldbytes import as_bytes, from_bytes, joined_bytes
from kstoolkit.stores.growth.heavyhitters import MOST_KEY_BYTES, MOST_KEYS, HeavyHitters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.growth.keyfields import KeyFields


_TAG_BYTES = 2


class FieldTally:
    """What rows add up to by fields of their keys, in bounded memory however many fields there are.

    A field may have another type in another column family, so the bytes that are summed up by begin
    with the number of the types that they are of.

    Parameters
    ----------
    fields
        Which fields.

    Attributes
    ----------
    keys
        By those that make up a key.
    each
        By each field alone.
    num_without
        Rows whose keys have none of the fields that make up a key, or could not be read: they are
        in no key's sum.
    """

    def __init__(self, fields: KeyFields) -> None:
        self.fields = fields
        self.num_without = 0
        self._types: list[pa.StructType] = []
        self.keys = HeavyHitters()
        share = max(len(fields.each), 1)
        self.each = {
            name: HeavyHitters(
                most_keys=MOST_KEYS // share or 1, most_key_bytes=MOST_KEY_BYTES // share
            )
            for name in fields.each
        }

    def add(self, rows: RowColumns, sizes_bytes: NDArray[np.int64]) -> pa.Array | None:
        """Add rows of one family; return the texts that their keys are, None if they are no text.

        The rows of which there is no such field are null among the texts.
        """
        columns, is_read = self.fields.columns(rows)
        cells = {name: as_bytes(column) for name, column in columns.items()}
        chosen, sizes = pa.array(is_read), sizes_bytes[is_read]
        for name in self.each.keys() & columns.keys():
            self.each[name].add(self._tagged([name], columns, cells).filter(chosen), sizes)
        found = [name for name in self.fields.by if name in columns]
        if found:
            self.keys.add(self._tagged(found, columns, cells).filter(chosen), sizes)
        self.num_without += int((~is_read).sum()) if found else len(rows)
        if not self.fields.is_text:
            return None
        nothing = pa.nulls(len(rows), pa.large_binary())
        return columns[found[0]].cast(pa.large_binary()) if found else nothing

    def key(self, raw: bytes) -> dict[str, Any]:
        """Return the values of the fields that some bytes of the sums stand for, by name."""
        kind = self._types[int.from_bytes(raw[:_TAG_BYTES], "little")]
        found: dict[str, Any] = from_bytes(b"\x01" + raw[_TAG_BYTES:], kind)
        return found

    def _tagged(
        self, names: list[str], columns: dict[str, pa.Array], cells: dict[str, pa.Array]
    ) -> pa.Array:
        kind = pa.struct([(name, columns[name].type) for name in names])
        if kind not in self._types:
            self._types.append(kind)
        number = self._types.index(kind).to_bytes(_TAG_BYTES, "little")
        tag = pa.repeat(pa.scalar(number, pa.large_binary()), len(columns[names[0]]))
        return joined_bytes([tag, *(cells[name] for name in names)])
