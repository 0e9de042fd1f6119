"""Schema files: what the keys and values of a store hold.

::

    v1:  "v1" · key · value                       texts as writeUTF writes them
    v2:  "v2" · key · value                       texts in parts
    v3:  "v3" · number of families (4) · of each: name · id of key schema (2) · key ·
         id of value schema (2) · value · encoder of keys · schema of user keys

v1 and v2 lie beside the first partition, ``state/<op>/0[/<store>]/_metadata/schema``; v3, which
operators with several column families write, in ``state/<op>/_stateSchema/<store>/``
(``org.apache.spark.sql.execution.streaming.state.SchemaHelper``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.formats.foreignversion import foreign_version
from kstoolkit.formats.spark.javadata import JavaData
from kstoolkit.formats.spark.jsontext import object_of
from kstoolkit.formats.spark.keys import KeyEncoder
from kstoolkit.formats.spark.schemajson import schema_of

if TYPE_CHECKING:
    from kstoolkit.formats.spark.sparktypes import Struct


DEFAULT_FAMILY = "default"
"""The column family of stores that have no others."""

_KNOWN = range(1, 4)


@dataclass(frozen=True, slots=True)
class FamilySchema:
    """What the rows of one column family hold.

    Parameters
    ----------
    name
        The family; :data:`DEFAULT_FAMILY` in stores without families.
    key, value
        The columns of its keys and values.
    encoder
        How its keys are written; None where the schema file does not say.
    user_key
        The columns of the keys that the user gives, if it is a map's.
    key_schema_id, value_schema_id
        Which of the schemas that the store has had this is; 0 was the first.
    """

    name: str
    key: Struct
    value: Struct
    encoder: KeyEncoder | None = None
    user_key: Struct | None = None
    key_schema_id: int = 0
    value_schema_id: int = 0


def read_schema_file(raw: bytes) -> list[FamilySchema]:
    """Return the schemas that a schema file holds, one a column family.

    Raises
    ------
    FormatError
        If it is no schema file, is cut off, or is of a version that is not known.

    Examples
    --------
    >>> import struct
    >>> parts = [b"v1", b'{"type":"struct","fields":[]}', b'{"type":"struct","fields":[]}']
    >>> [schema] = read_schema_file(b"".join(struct.pack(">H", len(p)) + p for p in parts))
    >>> schema.name, schema.key.names
    ('default', [])
    """
    data = JavaData(raw, "schema file")
    version = _version(data)
    if version == 1:
        return [FamilySchema(DEFAULT_FAMILY, schema_of(data.text()), schema_of(data.text()))]
    if version == 2:  # noqa: PLR2004 - the numbers of versions are their names
        return [FamilySchema(DEFAULT_FAMILY, schema_of(data.chunks()), schema_of(data.chunks()))]
    count = data.integer(4)
    if not 0 <= count <= len(raw):
        msg = f"{count:,} column families"
        raise data.fault(msg)
    return [_family(data) for _ in range(count)]


def _version(data: JavaData) -> int:
    text = data.text()
    if len(text) != 2 or text[0] != "v" or text[1] not in "0123456789":  # noqa: PLR2004
        msg = f"it begins with {text[:20]!r}, not with its version"
        raise data.fault(msg)
    if int(text[1]) not in _KNOWN:
        raise foreign_version(data.what, int(text[1]), _KNOWN[-1], "Spark")
    return int(text[1])


def _family(data: JavaData) -> FamilySchema:
    name = data.text()
    key_id, key = data.integer(2), schema_of(data.chunks())
    value_id, value = data.integer(2), schema_of(data.chunks())
    encoder = _object(data.chunks())
    user_key = _object(data.chunks())
    return FamilySchema(
        name,
        key,
        value,
        KeyEncoder.of(encoder, key) if encoder else None,
        schema_of(user_key) if user_key else None,
        key_id,
        value_id,
    )


def _object(text: str) -> dict[str, Any]:
    return object_of(text, "what a schema file says of keys") if text else {}
