r"""Metadata of a stateful operator: its name, its stores, and what it says of its state.

::

    v1\n{"operatorInfo": {operatorId, operatorName},
         "stateStoreInfo": [{storeName, numColsPrefixKey, numPartitions}]}
    v2\n{... of each store: stateSchemaId, stateSchemaFilePaths; operatorPropertiesJson}

v1 is ``state/<op>/_metadata/metadata``; v2 is ``state/<op>/_metadata/v2/<batch>``, which operators
with several column families write. The number of partitions is that of the query's start: an
offline repartition leaves it as it was in v1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.jsontext import (
    integer,
    items,
    member,
    object_of,
    shown,
    text,
    versioned_lines,
)

_METADATA_FILE = "metadata file of an operator"
_FOLDER = re.compile(r"(?!\.{1,2}$)[^/\\\x00]{1,255}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreMetadata:
    """One store of an operator.

    Parameters
    ----------
    name
        The store; ``"default"`` has no folder of its own.
    num_key_prefix_columns
        How many columns of a key come first, so that keys can be found by them; 0: none.
    num_partitions
        How many partitions the operator had.
    schema_paths
        Where Spark wrote its schemas, as it names them; empty in v1.
    """

    name: str
    num_key_prefix_columns: int
    num_partitions: int
    schema_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StateVariable:
    """A state variable of a transformWithState operator."""

    name: str
    kind: str
    has_ttl: bool


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """What an operator says of itself.

    Parameters
    ----------
    version
        Of the file: 1 or 2.
    operator_id
        Its number in the query.
    name
        Spark's name for this kind of operator: ``"stateStoreSave"``.
    stores
        Its stores; unique ids in the commit log stand in this order.
    properties
        What else it says; {} in v1.
    variables
        Its state variables, if it is transformWithState.
    """

    version: int
    operator_id: int
    name: str
    stores: tuple[StoreMetadata, ...]
    properties: dict[str, Any] = field(default_factory=dict)
    variables: tuple[StateVariable, ...] = ()


def read_operator_metadata(raw: bytes) -> OperatorMetadata:
    r"""Return what a metadata file of an operator says.

    Raises
    ------
    FormatError
        If it is no such file, or is of a version that is not known.

    Examples
    --------
    >>> found = read_operator_metadata(
    ...     b'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"dedupe"},"stateStoreInfo":'
    ...     b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
    ... )
    >>> found.name, found.stores[0].num_partitions
    ('dedupe', 2)
    """
    version, lines = versioned_lines(raw, _METADATA_FILE, range(1, 3))
    found = object_of("\n".join(lines), f"a {_METADATA_FILE}")
    operator = member(found, "operatorInfo", _METADATA_FILE)
    stores = tuple(_store(each) for each in items(found, "stateStoreInfo", _METADATA_FILE))
    properties = _properties(found)
    return OperatorMetadata(
        version,
        integer(operator, "operatorId", _METADATA_FILE),
        text(operator, "operatorName", _METADATA_FILE),
        stores,
        properties,
        tuple(_variable(each) for each in items(properties, "stateVariables", _METADATA_FILE)),
    )


def _store(found: dict[str, Any]) -> StoreMetadata:
    paths = found.get("stateSchemaFilePaths", [])
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        message = f"The stateSchemaFilePaths of a {_METADATA_FILE} are no list of paths."
        raise FormatError(message, hint="The file is damaged.")
    name = text(found, "storeName", _METADATA_FILE)
    if not _FOLDER.fullmatch(name):  # it becomes a part of paths
        message = f"A {_METADATA_FILE} names a store {shown(name)}, which can be no folder."
        raise FormatError(message, hint="The file is damaged.")
    return StoreMetadata(
        name,
        integer(found, "numColsPrefixKey", _METADATA_FILE, 0),
        integer(found, "numPartitions", _METADATA_FILE),
        tuple(paths),
    )


def _properties(found: dict[str, Any]) -> dict[str, Any]:
    """Return the properties, which are JSON within a text of the JSON."""
    if not found.get("operatorPropertiesJson"):
        return {}
    inner = text(found, "operatorPropertiesJson", _METADATA_FILE)
    return object_of(inner, "the properties of an operator")


def _variable(found: dict[str, Any]) -> StateVariable:
    return StateVariable(
        text(found, "stateName", _METADATA_FILE),
        str(found.get("stateVariableType")),
        found.get("ttlEnabled") is True,
    )
