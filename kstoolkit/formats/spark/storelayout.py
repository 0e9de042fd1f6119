"""Which layout a store of Spark's has, by the files of its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.keys import KeyEncoder
from kstoolkit.formats.spark.layouts import Family, StoreLayout
from kstoolkit.formats.spark.valuerows import Wrapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kstoolkit.formats.spark.offsetlog import OffsetLogEntry
    from kstoolkit.formats.spark.operatormetadata import OperatorMetadata
    from kstoolkit.formats.spark.schemafile import FamilySchema


_JOIN_INDEX = "tsWithKey"
_JOIN_LISTS = ("keyWithTsToValues", _JOIN_INDEX)
_LIST_STATE = "ListState"


def layout_of(
    schemas: Sequence[FamilySchema],
    operator: OperatorMetadata,
    store: str,
    log: OffsetLogEntry,
    families: Mapping[str, int] | None = None,
) -> StoreLayout:
    r"""Return the layout of a store.

    Parameters
    ----------
    schemas
        What its schema file says.
    operator
        The metadata of the operator whose store it is.
    store
        Its name.
    log
        The offset log of the batch whose state is read: the settings are there.
    families
        The number of each column family, as a snapshot says.

    Raises
    ------
    FormatError
        If its rows are of a format that is not read here.

    Examples
    --------
    >>> from kstoolkit.formats.spark.offsetlog import read_offset_log
    >>> from kstoolkit.formats.spark.operatormetadata import OperatorMetadata
    >>> log = read_offset_log(b"v1\n{}")
    >>> layout_of([], OperatorMetadata(1, 0, "dedupe", ()), "default", log).families
    ()
    """
    if log.row_format != "unsaferow":
        message = f"State whose rows are {log.row_format!r}, which kstoolkit does not read."
        raise FormatError(message, hint="It reads what Spark writes by default, UnsafeRow.")
    numbers = families or {}
    has_families = any(schema.encoder is not None for schema in schemas)
    chosen = [
        _family(schema, operator, store, log, numbers.get(schema.name))
        for schema in schemas
        if not has_families or schema.name in numbers
    ]
    wrapping = Wrapping(log.is_rocksdb, log.has_row_checksums, log.merge_delimiter)
    return StoreLayout(tuple(chosen), wrapping)


def _family(
    schema: FamilySchema,
    operator: OperatorMetadata,
    store: str,
    log: OffsetLogEntry,
    number: int | None,
) -> Family:
    lists = {each.name for each in operator.variables if each.kind == _LIST_STATE}
    return Family(
        schema.name,
        schema.key,
        schema.value,
        _encoder(schema, operator, store) if log.is_rocksdb else KeyEncoder(),
        number,
        has_several=schema.name in lists or schema.name.endswith(_JOIN_LISTS),
        is_internal=schema.name.startswith("$") or schema.name.endswith(_JOIN_INDEX),
    )


def _encoder(schema: FamilySchema, operator: OperatorMetadata, store: str) -> KeyEncoder:
    columns = next((s.num_key_prefix_columns for s in operator.stores if s.name == store), 0)
    return schema.encoder or KeyEncoder.prefix(columns, schema.key)
