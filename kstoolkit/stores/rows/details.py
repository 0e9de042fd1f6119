"""What some kinds of store hold beside key and value, column by column: their details."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.columns import ByteColumn, Decoded
from kstoolkit.stores.rows.hexcolumn import in_hex
from kstoolkit.stores.rows.jsonlines import json_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.serdes import Serde


TIME = pa.timestamp("ms", "UTC")
"""The type of moments in a table."""

_PLAIN = ("version", "primary_partition", "side", "segment_id", "topic")
# Spark's rows have a partition too, which is not of a topic: they tell it themselves.
_OF_TOPICS = ("partition", "offset")
_NOTHING = ByteColumn.of([])


@dataclass(frozen=True, slots=True, eq=False)
class Detail:
    """One detail of some rows.

    Parameters
    ----------
    cells
        The application's bytes; without any, if the store's format says what it is.
    decoded
        What it is, one a row.
    is_time
        Whether it is a moment, in epoch ms UTC.
    """

    cells: ByteColumn
    decoded: Decoded
    is_time: bool = False

    def to_list(self) -> list[Any]:
        """Return one Python value a row; moments are epoch ms."""
        return self.decoded.to_list(self.cells)

    def to_arrow(self) -> pa.Array:
        """Return the column of a table; moments are such."""
        values = typed(self.decoded)
        return values.cast(TIME) if self.is_time else values

    def take(self, chosen: NDArray[Any]) -> Detail:
        """Return the detail of the rows that a mask chooses."""
        cells = self.cells.take(chosen) if len(self.cells) else self.cells
        return Detail(cells, self.decoded.take(chosen), self.is_time)


def details_of(rows: RowColumns, value: Serde, foreign_key: Serde) -> dict[str, Detail]:
    """Return what rows tell beside key and value, by name; null in those that are torn.

    ``foreign_key``, ``instruction``, ``hash`` (in hex), ``version`` and ``primary_partition`` of
    subscriptions; ``side`` of what waits in a join, ``right`` or ``left``; ``valid_to_ms``, None if
    it still is, and ``segment_id`` of versions; ``topic``, ``partition``, ``offset``, ``prior`` and
    ``old`` of a grace buffer; ``sequence`` where rows of one key and window are numbered. The
    primary key that a subscription repeats in its value is left out.

    Parameters
    ----------
    rows
        The rows.
    value
        How values are read: those before the one that waits are such, too.
    foreign_key
        How foreign keys are read.

    Examples
    --------
    >>> from kstoolkit.formats.serdes import serde_of
    >>> from kstoolkit.formats.streams.kinds import Kind
    >>> from kstoolkit.formats.streams.rows import split
    >>> key = ByteColumn.of([bytes.fromhex("0000018bcfe568000141")])
    >>> value = ByteColumn.of([bytes.fromhex("0100000001000000020178")])
    >>> found = details_of(split(Kind.LIST_VALUE, key, value), serde_of("string"), serde_of("long"))
    >>> {name: each.to_list() for name, each in found.items()}
    {'side': ['left']}
    """
    held = rows.details
    found: dict[str, Detail] = {}
    if "foreign_key" in held:
        found["foreign_key"] = _read_detail(held["foreign_key"], foreign_key)
        found["instruction"] = _plain_detail(held["instruction"])
        found["hash"] = _plain_detail(in_hex(held["hash"]))
    if rows.valid_to_ms is not None:
        found["valid_to_ms"] = Detail(_NOTHING, Decoded(rows.valid_to_ms), is_time=True)
    names = (*_PLAIN, *(_OF_TOPICS if "topic" in held else ()))
    found |= {name: _plain_detail(held[name]) for name in names if name in held}
    found |= {name: _read_detail(held[name], value) for name in ("prior", "old") if name in held}
    if "sequence" in held and pc.any(pc.not_equal(held["sequence"], 0)).as_py():
        found["sequence"] = _plain_detail(held["sequence"])
    return found


def typed(decoded: Decoded) -> pa.Array:
    """Return values as an Arrow column; those of a serde without a type as JSON text.

    Examples
    --------
    >>> typed(Decoded([{"a": 1}, None])).to_pylist()
    ['{"a": 1}', None]
    """
    values = decoded.values
    if not isinstance(values, list):
        return values
    texts = [None if value is None else json_text(value) for value in values]
    return pa.array(texts, pa.large_string())


def _plain_detail(column: pa.Array) -> Detail:
    return Detail(_NOTHING, Decoded(column))


def _read_detail(column: pa.Array, serde: Serde) -> Detail:
    cells = ByteColumn.from_arrow(column)
    return Detail(cells, serde.decode(cells))
