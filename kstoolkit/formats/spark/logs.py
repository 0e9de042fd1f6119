r"""What the logs and metadata of a checkpoint say: batches, settings, stores and schemas.

::

    commits/<batch>                          a micro-batch is done, and its files of state
        v1\n{nextBatchWatermarkMs}
        v2\n{nextBatchWatermarkMs, stateUniqueIds}
    offsets/<batch>                          what it was about to read, and its settings
        v1\n{batchWatermarkMs, batchTimestampMs, conf: {…}}\n<offset of a source>\n…
    state/<op>/_metadata/metadata            an operator and its stores
        v1\n{"operatorInfo": {operatorId, operatorName},
             "stateStoreInfo": [{storeName, numColsPrefixKey, numPartitions}]}
    state/<op>/_metadata/v2/<batch>          the same, of several column families
        v2\n{... of each store: stateSchemaId, stateSchemaFilePaths; operatorPropertiesJson}
    state/<op>/0[/<store>]/_metadata/schema  what keys and values of a store hold
        "v1" · key · value                       texts as writeUTF writes them
        "v2" · key · value                       texts in parts
    state/<op>/_stateSchema/<store>/         the same, of several column families
        "v3" · number of families (4) · of each: name · id of key schema (2) · key ·
             id of value schema (2) · value · encoder of keys · schema of user keys

The ``stateUniqueIds`` are, by operator, of each partition that of each store: with them, files of
state carry one in their name, ``7_<id>.zip``. A source that had nothing to say is ``-``; in v2 of
the offset log the sources have names. The number of partitions is that of the query's start: an
offline repartition leaves it as it was in v1
(``org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog``,
``org.apache.spark.sql.execution.streaming.state.SchemaHelper``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import foreign_version
from kstoolkit.formats.spark.keys import KeyEncoder
from kstoolkit.formats.spark.text import (
    JavaData,
    integer,
    items,
    member,
    object_of,
    shown,
    text,
    texts,
    versioned_lines,
)
from kstoolkit.formats.spark.types import schema_of

if TYPE_CHECKING:
    from kstoolkit.formats.spark.types import Struct

_COMMIT_LOG = "commit log"


@dataclass(frozen=True, slots=True)
class CommitLogEntry:
    """What the commit log says of one micro-batch: the ids in the names of its files of state.

    ``unique_ids`` are by operator: of each partition, the id of each store, in the order of the
    operator's metadata. They are empty where files of state have no ids.
    """

    unique_ids: dict[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)

    def unique_id(self, operator: int, partition: int, store: int = 0) -> str | None:
        """Return the id in the names of a store's files; None if they have none.

        ``store`` is its position in the operator's metadata.

        >>> CommitLogEntry({0: (("a1",), ("b2",))}).unique_id(0, 1)
        'b2'
        """
        partitions = self.unique_ids.get(operator, ())
        stores = partitions[partition] if partition < len(partitions) else ()
        return stores[store] if store < len(stores) else None


def read_commit_log(raw: bytes) -> CommitLogEntry:
    r"""Return what a commit log says; none, or one of another version, is a FormatError.

    >>> read_commit_log(b'v2\n{"stateUniqueIds":{"0":[["a1"],["b2"]]}}').unique_id(0, 1)
    'b2'
    """
    _, lines = versioned_lines(raw, _COMMIT_LOG, range(1, 3))
    found = object_of("\n".join(lines), f"a {_COMMIT_LOG}")
    ids = member(found, "stateUniqueIds", _COMMIT_LOG)
    return CommitLogEntry({_operator(name): _ids(partitions) for name, partitions in ids.items()})


def _operator(name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 10):  # noqa: PLR2004 - as int() takes
        message = f"A {_COMMIT_LOG} names an operator {name[:40]!r}, which is no number."
        raise FormatError(message, hint="The file is damaged.")
    return int(name)


def _ids(partitions: Any) -> tuple[tuple[str, ...], ...]:
    listed = partitions if isinstance(partitions, list) else [partitions]
    if not all(_is_texts(stores) for stores in listed):
        message = f"The stateUniqueIds of a {_COMMIT_LOG} are no lists of texts."
        raise FormatError(message, hint="The file is damaged.")
    return tuple(tuple(stores) for stores in listed)


def _is_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


_STATE_STORE = "spark.sql.streaming.stateStore"
_OFFSET_LOG = "offset log"


@dataclass(frozen=True, slots=True)
class OffsetLogEntry:
    """What the offset log says of one micro-batch, which ran with this watermark and clock.

    Both are epoch ms UTC. ``conf`` has settings that cannot change while the checkpoint lives.
    """

    watermark_ms: int
    timestamp_ms: int
    conf: dict[str, str]

    @property
    def is_rocksdb(self) -> bool:
        """Whether the state lies in RocksDB; by default it is the HDFS-backed provider's."""
        return "RocksDB" in self.conf.get(f"{_STATE_STORE}.providerClass", "")

    @property
    def merge_delimiter(self) -> bytes:
        r"""What RocksDB puts between values that are appended to each other.

        >>> read_offset_log(b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}').merge_delimiter
        b','
        """
        version = self.conf.get(f"{_STATE_STORE}.rocksdb.mergeOperatorVersion", "1")
        return b"," if version == "1" else b""

    @property
    def has_row_checksums(self) -> bool:
        """Whether each row carries a checksum."""
        return self.conf.get(f"{_STATE_STORE}.rowChecksum.enabled", "false").lower() == "true"

    @property
    def row_format(self) -> str:
        """How rows are written: ``"unsaferow"``, or ``"avro"``, which is not read here."""
        return self.conf.get(f"{_STATE_STORE}.encodingFormat", "unsaferow").lower()


def read_offset_log(raw: bytes) -> OffsetLogEntry:
    r"""Return what an offset log says; none, or one of another version, is a FormatError.

    >>> found = read_offset_log(b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{}}\n-')
    >>> found.watermark_ms, found.timestamp_ms
    (5, 9)
    """
    _, lines = versioned_lines(raw, _OFFSET_LOG, range(1, 3))
    if not lines:
        message = "An offset log that ends after its version."
        raise FormatError(message, hint="It was not written to its end.")
    found = object_of(lines[0] or "{}", "the metadata of an offset log")
    return OffsetLogEntry(
        integer(found, "batchWatermarkMs", _OFFSET_LOG, 0),
        integer(found, "batchTimestampMs", _OFFSET_LOG, 0),
        texts(found, "conf", _OFFSET_LOG),
    )


_DEFAULT_FAMILY = "default"  # the column family of stores that have no others
_KNOWN = range(1, 4)


@dataclass(frozen=True, slots=True)
class FamilySchema:
    """What the rows of one column family hold: the columns of its keys and values.

    In stores without families its name is :data:`_DEFAULT_FAMILY`. ``encoder`` is how keys are
    written, None where the schema file does not say; ``user_key`` the columns of the keys that the
    user gives, if it is a map's.
    """

    name: str
    key: Struct
    value: Struct
    encoder: KeyEncoder | None = None
    user_key: Struct | None = None


def read_schema_file(raw: bytes) -> list[FamilySchema]:
    """Return the schemas that a schema file holds, one a column family.

    One that is none, is cut off, or is of another version is a FormatError.

    >>> import struct
    >>> parts = [b"v1", b'{"type":"struct","fields":[]}', b'{"type":"struct","fields":[]}']
    >>> [schema] = read_schema_file(b"".join(struct.pack(">H", len(p)) + p for p in parts))
    >>> schema.name, schema.key.names
    ('default', [])
    """
    data = JavaData(raw, "schema file")
    version = _version(data)
    read = {1: data.text, 2: data.chunks}.get(version)
    if read is not None:
        return [FamilySchema(_DEFAULT_FAMILY, schema_of(read()), schema_of(read()))]
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
    data.integer(2)
    key = schema_of(data.chunks())
    data.integer(2)
    value = schema_of(data.chunks())
    spec, user_key = _object(data.chunks()), _object(data.chunks())
    encoder = KeyEncoder.of(spec, key) if spec else None
    return FamilySchema(name, key, value, encoder, schema_of(user_key) if user_key else None)


def _object(text: str) -> dict[str, Any]:
    return object_of(text, "what a schema file says of keys") if text else {}


_METADATA_FILE = "metadata file of an operator"
_FOLDER = re.compile(r"(?!\.{1,2}$)[^/\\\x00]{1,255}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreMetadata:
    """One store of an operator; ``"default"`` has no folder of its own.

    By the ``num_key_prefix_columns`` that come first, keys can be found; 0: none. ``schema_paths``
    are where Spark wrote its schemas, as it names them; empty in v1.
    """

    name: str
    num_key_prefix_columns: int
    schema_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorMetadata:
    """What an operator says of itself: Spark's name for its kind, and its stores.

    The unique ids in the commit log stand in the order of the stores. ``variables`` are those of
    transformWithState, with the kind of each.
    """

    name: str
    stores: tuple[StoreMetadata, ...]
    variables: dict[str, str] = field(default_factory=dict)


def read_operator_metadata(raw: bytes) -> OperatorMetadata:
    r"""Return what a metadata file of an operator says; none, or of another version: a FormatError.

    >>> found = read_operator_metadata(
    ...     b'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"dedupe"},"stateStoreInfo":'
    ...     b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
    ... )
    >>> found.name, [store.name for store in found.stores]
    ('dedupe', ['default'])
    """
    _, lines = versioned_lines(raw, _METADATA_FILE, range(1, 3))
    found = object_of("\n".join(lines), f"a {_METADATA_FILE}")
    operator = member(found, "operatorInfo", _METADATA_FILE)
    variables = items(_properties(found), "stateVariables", _METADATA_FILE)
    return OperatorMetadata(
        text(operator, "operatorName", _METADATA_FILE),
        tuple(_store(each) for each in items(found, "stateStoreInfo", _METADATA_FILE)),
        {
            text(each, "stateName", _METADATA_FILE): str(each.get("stateVariableType"))
            for each in variables
        },
    )


def _store(found: dict[str, Any]) -> StoreMetadata:
    paths = found.get("stateSchemaFilePaths", [])
    if not _is_texts(paths):
        message = f"The stateSchemaFilePaths of a {_METADATA_FILE} are no list of paths."
        raise FormatError(message, hint="The file is damaged.")
    name = text(found, "storeName", _METADATA_FILE)
    if not _FOLDER.fullmatch(name):  # it becomes a part of paths
        message = f"A {_METADATA_FILE} names a store {shown(name)}, which can be no folder."
        raise FormatError(message, hint="The file is damaged.")
    return StoreMetadata(name, integer(found, "numColsPrefixKey", _METADATA_FILE, 0), tuple(paths))


def _properties(found: dict[str, Any]) -> dict[str, Any]:
    """Return the properties, which are JSON within a text of the JSON."""
    if not found.get("operatorPropertiesJson"):
        return {}
    inner = text(found, "operatorPropertiesJson", _METADATA_FILE)
    return object_of(inner, "the properties of an operator")
