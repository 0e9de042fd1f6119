"""State of Spark's in memory: rows as Spark writes them, by their description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.spark.keys import KeyEncoder
from kstoolkit.formats.spark.rows import Family, StoreLayout, ValueWrapping
from kstoolkit.formats.spark.types import schema_of
from kstoolkit.stores.growth.records import CheckpointUse, Eviction
from tests.formats.spark.sparkrows import row_schema, written_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kstoolkit.formats.columns import RowColumns

WINDOW = row_schema(start="timestamp", end="timestamp")
VALUE = row_schema(count="long")
VALUE_BYTES = 16


def family(name: str = "default", **columns: Any) -> Family:
    """Return a column family whose keys have these columns, each of a type."""
    return Family(name, schema_of(row_schema(**columns)), schema_of(VALUE), KeyEncoder())


def state(columns: dict[str, Any], keys: Sequence[dict[str, Any]], **told: str) -> RowColumns:
    """Return rows of such keys; ``told`` are columns that are the same in all of them."""
    schema = row_schema(**columns)
    cells = ByteColumn.of([b"\x00" + written_row(schema, key) for key in keys])
    values = ByteColumn.of([b"\x00" + written_row(VALUE, {"count": 1})] * len(keys))
    layout = StoreLayout((family(**columns),), ValueWrapping())
    [(_, rows)] = layout.split(cells, values)
    rows.details.update({name: pa.repeat(value, len(rows)) for name, value in told.items()})
    return rows


def window(start: datetime, end: datetime) -> dict[str, datetime]:
    return {"start": start, "end": end}


def by_watermark(watermark_ms: int | None) -> CheckpointUse:
    """Return what a checkpoint of a query says whose watermark takes rows away."""
    return CheckpointUse(Eviction.WATERMARK, batch_at_ms=0, watermark_ms=watermark_ms)
