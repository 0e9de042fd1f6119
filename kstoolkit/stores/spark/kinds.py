"""What a person calls a store of an operator of Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.formats.spark.logs import FamilySchema, OperatorMetadata


_KINDS = {
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication within the watermark",
    "sessionWindowStateStoreSaveExec": "session window",
    "globalLimit": "limit",
}
_JOIN_STORES = {
    "keyToNumValues": "number of rows by key",
    "keyWithIndexToValue": "rows by key and index",
    "keyWithTsToValues": "rows by key and event time",
    "tsWithKey": "keys by event time",
}
_OURS = "blocks"


def kind_of(operator: OperatorMetadata, store: str, schemas: Sequence[FamilySchema]) -> str:
    """Return what kind of store it is, by its operator and its columns.

    Examples
    --------
    >>> from kstoolkit.formats.spark.logs import OperatorMetadata
    >>> kind_of(OperatorMetadata(1, 0, "dedupe", ()), "default", [])
    'deduplication'
    >>> kind_of(OperatorMetadata(1, 0, "symmetricHashJoin", ()), "left-keyToNumValues", [])
    'stream-stream join: left, number of rows by key'
    """
    name = operator.name
    if name == "stateStoreSave":
        windowed = any("window" in each.key.names for each in schemas)
        return "windowed aggregation" if windowed else "aggregation"
    if name == "symmetricHashJoin":
        side, _, what = store.partition("-")
        return (
            f"stream-stream join: {side}, {_JOIN_STORES[what]}"
            if what in _JOIN_STORES
            else ("stream-stream join")
        )
    if operator.variables or name.startswith("transformWithState"):
        return _of_variables(operator, schemas)
    if "roupsWith" in name or "InPandasWithState" in name:
        return "state of any kind by group"
    return _KINDS.get(name, name)


def _of_variables(operator: OperatorMetadata, schemas: Sequence[FamilySchema]) -> str:
    names = ", ".join(each.name for each in operator.variables if not each.name.startswith("$"))
    if _holds_count_blocks(schemas):
        return f"transformWithState: {names} (binary blocks of counts)"
    return f"transformWithState: {names or 'no state variables'}"


def _holds_count_blocks(schemas: Sequence[FamilySchema]) -> bool:
    return any(
        each.name == _OURS and each.user_key is not None and each.value.names == ["block"]
        for each in schemas
    )
