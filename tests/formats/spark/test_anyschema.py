"""Whatever schema a checkpoint names, and whatever lies in its rows: columns that hold together."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.spark.keys import KeyEncoder
from kstoolkit.formats.spark.logs import read_commit_log, read_offset_log, read_operator_metadata
from kstoolkit.formats.spark.rows import Family, StoreLayout, ValueWrapping
from kstoolkit.formats.spark.statefiles import read_snapshot
from kstoolkit.formats.spark.types import schema_of
from tests.formats.spark.sparkfiles import snapshot
from tests.formats.spark.sparkrows import list_of, map_of

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = st.sampled_from(
    [
        "window",
        "start",
        "end",
        "user",
        "session_window",
        "sessionStartTime",
        "expiresAtMicros",
        "value",
        "ttlExpirationMs",
        "expirationMs",
        "expiryTimestampMs",
        "__event_time",
    ]
)
LEAVES = st.sampled_from(
    [
        "void",
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
        "binary",
        "time(6)",
        "variant",
        "interval",
        "decimal(10,2)",
        "decimal(38,38)",
        "decimal(40,2)",
        "geometry",
    ]
)
MARKED = st.just({"spark.watermarkDelayMs": 1})


def columns(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    column = st.fixed_dictionaries({"name": NAMES, "type": kinds}, optional={"metadata": MARKED})
    return st.fixed_dictionaries(
        {"type": st.just("struct"), "fields": st.lists(column, max_size=4)}
    )


KINDS = st.recursive(
    LEAVES,
    lambda inner: columns(inner) | inner.map(list_of) | st.builds(map_of, inner, inner),
    max_leaves=8,
)
ENCODERS = st.builds(
    lambda kind, count, ordinals: {
        "keyStateEncoderType": f"{kind}StateEncoderSpec",
        "numColsPrefixKey": count,
        "orderingOrdinals": ordinals,
    },
    st.sampled_from(
        [
            "NoPrefixKey",
            "PrefixKeyScan",
            "RangeKeyScan",
            "TimestampAsPrefixKey",
            "TimestampAsPostfixKey",
        ]
    ),
    st.sampled_from([1, 2]),
    st.sampled_from([[0], [1], [1, 0]]),
)
WORDS = [bytes(8), b"\xff" * 8] + [
    (where << 32 | length).to_bytes(8, "little")
    for where, length in [(16, 8), (24, 8), (16, 0), (24, 16)]
]
ROW = st.builds(
    lambda nulls, words, rest: b"\x00" + bytes([nulls]) + bytes(7) + b"".join(words) + rest,
    st.sampled_from([0, 1, 3]),
    st.lists(st.sampled_from(WORDS), max_size=6),
    st.binary(max_size=30),
)
CELLS = ROW | st.binary(max_size=40)


def family(
    name: str, key: dict[str, Any], value: dict[str, Any], spec: dict[str, Any], **options: bool
) -> Family | None:
    """Return a family of these schemas; None where the key has no such columns."""
    columns_of_key = schema_of(json.dumps(key))
    try:
        encoder = KeyEncoder.of(spec, columns_of_key)
    except FormatError:
        return None
    return Family(name, columns_of_key, schema_of(value), encoder, **options)


@settings(max_examples=300)
@given(
    st.builds(
        family,
        st.sampled_from(["default", "$timers"]),
        columns(KINDS),
        columns(KINDS),
        ENCODERS,
        has_several=st.booleans(),
    ).filter(bool),
    st.lists(st.tuples(CELLS, st.none() | CELLS), max_size=6),
    st.booleans(),
)
def test_rows_of_any_schema_are_read_or_said_to_be_wrong(
    one: Family,
    rows: list[tuple[bytes, bytes | None]],
    is_rocksdb: bool,  # noqa: FBT001 - drawn
) -> None:
    layout = StoreLayout((one,), ValueWrapping(is_rocksdb=is_rocksdb))
    disk = (ByteColumn.of([row[n] for row in rows]) for n in (0, 1))
    [(_, found)] = layout.split(*disk)
    for times in (found.window_start_ms, found.window_end_ms, found.timestamp_ms):
        assert times is None or times.type == pa.int64()
    sides = ((one.key_serde, found.key), (one.value_serde, found.value))
    for serde, cells in sides:
        decoded = serde.decode(cells)
        decoded.values.validate(full=True)  # type: ignore[union-attr]
        assert len(decoded.to_list(cells)) == len(found)


MEMBERS = st.sampled_from(
    [
        "batchWatermarkMs",
        "batchTimestampMs",
        "conf",
        "nextBatchWatermarkMs",
        "stateUniqueIds",
        "0",
        "operatorInfo",
        "operatorId",
        "operatorName",
        "stateStoreInfo",
        "storeName",
        "numColsPrefixKey",
        "numPartitions",
        "stateSchemaFilePaths",
        "operatorPropertiesJson",
        "stateVariables",
        "stateName",
        "sstFiles",
        "logFiles",
        "localFileName",
        "dfsSstFileName",
        "sizeBytes",
        "numKeys",
        "numInternalKeys",
        "columnFamilyMapping",
        "columnFamilyTypeMap",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=6),
    max_leaves=20,
)
READERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "operator": lambda told: read_operator_metadata(b"v2\n" + json.dumps(told).encode()),
    "offsets": lambda told: read_offset_log(b"v1\n" + json.dumps(told).encode()),
    "commits": lambda told: read_commit_log(b"v2\n" + json.dumps(told).encode()),
    "snapshot": lambda told: read_snapshot(snapshot(told)),
}


@pytest.mark.parametrize("name", READERS)
@given(told=st.dictionaries(MEMBERS, JSON, max_size=9))
def test_members_of_any_type_are_taken_or_said_to_be_wrong(name: str, told: dict[str, Any]) -> None:
    with suppress(FormatError):
        assert READERS[name](told)
