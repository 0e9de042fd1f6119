from __future__ import annotations

import json
import struct
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.keys import KeyEncoder
from kstoolkit.formats.spark.logs import (
    read_commit_log,
    read_offset_log,
    read_operator_metadata,
    read_schema_file,
)
from kstoolkit.formats.spark.statefiles import SnapshotFile, read_snapshot, with_delimiter
from tests.formats.spark.sparkfiles import chunks, schema_v3, snapshot, utf
from tests.formats.spark.sparkrows import row_schema

if TYPE_CHECKING:
    from collections.abc import Callable

KEY, VALUE = row_schema(user="string"), row_schema(count="long")
CONF = "spark.sql.streaming.stateStore."

READERS: dict[str, Callable[[bytes], Any]] = {
    "schema": read_schema_file,
    "operator": read_operator_metadata,
    "offsets": read_offset_log,
    "commits": read_commit_log,
    "snapshot": read_snapshot,
}
WHOLE = {
    "schema": schema_v3(
        [
            {
                "name": "v",
                "key": KEY,
                "value": VALUE,
                "encoder": {
                    "keyStateEncoderType": "PrefixKeyScanStateEncoderSpec",
                    "numColsPrefixKey": 1,
                },
                "user_key": row_schema(k="string"),
            }
        ]
    ),
    "operator": b'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"dedupe"},"stateStoreInfo":'
    b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}',
    "offsets": b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"b"}}\n{"logOffset":0}',
    "commits": b'v2\n{"nextBatchWatermarkMs":3,"stateUniqueIds":{"0":[["a"],["b"]]}}',
    "snapshot": snapshot(
        {"sstFiles": [{"localFileName": "8.sst", "dfsSstFileName": "8-u.sst", "sizeBytes": 9}]},
        {"CURRENT": b"MANIFEST-000005\n"},
    ),
}


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_of_damaged_files_nothing_but_our_own_error_is_raised(
    name: str, data: st.DataObject
) -> None:
    raw = bytearray(WHOLE[name])
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    with suppress(FormatError):
        READERS[name](cut)


@pytest.mark.parametrize("name", READERS)
@given(raw=st.binary(max_size=200))
def test_of_rubbish_nothing_but_our_own_error_is_raised(name: str, raw: bytes) -> None:
    # Not always: an offset log with nothing after its version has no settings, as Spark reads it.
    with suppress(FormatError):
        READERS[name](raw)


@pytest.mark.parametrize("name", ["operator", "offsets", "commits"])
@pytest.mark.parametrize("text", [b"[]", b"7", b"{", b"[" * 100_000, b'{"conf": 7}', b'{"a": "b"}'])
def test_what_is_not_as_it_should_be_is_told_or_taken_for_absent(name: str, text: bytes) -> None:
    with suppress(FormatError):
        READERS[name](b"v1\n" + text)


@pytest.mark.parametrize("name", ["operator", "offsets", "commits"])
def test_a_newer_version_is_met_with_both_versions(name: str) -> None:
    with pytest.raises(FormatError, match="version 9: this kstoolkit reads up to version"):
        READERS[name](b"v9\n{}")


def test_schemas_of_the_first_version_are_two_texts() -> None:
    raw = utf("v1") + utf(json.dumps(KEY)) + utf(json.dumps(VALUE))
    [found] = read_schema_file(raw)
    assert (found.name, found.key.names, found.value.names) == ("default", ["user"], ["count"])
    assert found.encoder is None


def test_schemas_of_the_second_version_may_be_long() -> None:
    wide = row_schema(**{f"column {n} {'x' * 40}": "long" for n in range(1000)})
    raw = utf("v2") + chunks(json.dumps(KEY)) + chunks(json.dumps(wide))
    [found] = read_schema_file(raw)
    assert len(raw) > 65_535
    assert found.value.count == 1000


def test_schemas_of_the_third_version_are_those_of_families() -> None:
    [found] = read_schema_file(WHOLE["schema"])
    assert found.name == "v"
    assert found.encoder == KeyEncoder("PrefixKeyScan", (0,))
    assert found.user_key is not None
    assert found.user_key.names == ["k"]


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}, "NoPrefix"),
        (
            {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [0]},
            "RangeKeyScan",
        ),
        ({"keyStateEncoderType": "TimestampAsPrefixKeyStateEncoderSpec"}, "TimestampAsPrefix"),
        ({"keyStateEncoderType": "TimestampAsPostfixKeyStateEncoderSpec"}, "TimestampAsPostfix"),
    ],
)
def test_encoders_of_keys_are_known_by_their_names(spec: dict[str, Any], kind: str) -> None:
    family = {"name": "f", "key": KEY, "value": VALUE, "encoder": spec}
    [found] = read_schema_file(schema_v3([family]))
    assert found.encoder is not None
    assert found.encoder.kind == kind


@pytest.mark.parametrize(
    "spec",
    [
        {"keyStateEncoderType": "NewKeyStateEncoderSpec"},
        {"keyStateEncoderType": "PrefixKeyScanStateEncoderSpec", "numColsPrefixKey": 2},
        {"keyStateEncoderType": "PrefixKeyScanStateEncoderSpec", "numColsPrefixKey": 2**40},
        {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [1]},
        {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [0, 0]},
        {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": ["a"]},
        {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": []},
        {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec"},
        {"orderingOrdinals": [0]},
    ],
)
def test_an_encoder_that_makes_no_sense_is_said(spec: dict[str, Any]) -> None:
    family = {"name": "f", "key": KEY, "value": VALUE, "encoder": spec}
    with pytest.raises(FormatError):
        read_schema_file(schema_v3([family]))


def test_a_schema_file_of_many_families_that_is_short_is_said() -> None:
    with pytest.raises(FormatError):
        read_schema_file(utf("v3") + struct.pack(">i", 2**31 - 1))
    with pytest.raises(FormatError, match="version 4"):
        read_schema_file(utf("v4"))


def test_java_texts_may_hold_what_lies_beyond_16_bits() -> None:
    halves = "😀\x00".encode("utf-16-be")
    pair = [int.from_bytes(halves[at : at + 2], "big") for at in (0, 2)]
    text = b"".join(chr(half).encode("utf-8", "surrogatepass") for half in pair) + b"\xc0\x80"
    name = struct.pack(">H", len(text)) + text
    family = schema_v3([{"name": "x", "key": KEY, "value": VALUE, "encoder": {}}])
    [found] = read_schema_file(family.replace(utf("x"), name))
    assert found.name == "😀\x00"


def test_an_operator_of_the_second_version_says_its_variables_and_schemas() -> None:
    variables = [{"stateName": "l", "stateVariableType": "ListState", "ttlEnabled": True}]
    told = {
        "operatorInfo": {"operatorId": 3, "operatorName": "transformWithStateExec"},
        "stateStoreInfo": [
            {
                "storeName": "default",
                "numColsPrefixKey": 0,
                "numPartitions": 2,
                "stateSchemaFilePaths": ["file:/x/0_a"],
            }
        ],
        "operatorPropertiesJson": json.dumps({"stateVariables": variables}),
    }
    found = read_operator_metadata(b"v2\n" + json.dumps(told).encode())
    assert found.variables == {"l": "ListState"}
    assert found.stores[0].schema_paths == ("file:/x/0_a",)
    assert found.name == "transformWithStateExec"


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "../../x", "a\\b", "a\0", "x" * 256, "\ud800"]
)
def test_a_store_whose_name_can_be_no_folder_is_refused(name: str) -> None:
    raw = WHOLE["operator"].replace(b'"default"', json.dumps(name).encode())
    with pytest.raises(FormatError):
        read_operator_metadata(raw)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**4000])
def test_numbers_of_more_than_64_bits_are_refused(number: int) -> None:
    with pytest.raises(FormatError, match="is a number of"):
        read_offset_log(f'v1\n{{"batchWatermarkMs":{number}}}'.encode())


def test_an_offset_log_says_how_state_is_kept() -> None:
    conf = {
        f"{CONF}providerClass": "org.x.RocksDBStateStoreProvider",
        f"{CONF}rocksdb.mergeOperatorVersion": "2",
        f"{CONF}rowChecksum.enabled": "true",
    }
    line = json.dumps({"batchWatermarkMs": 1, "batchTimestampMs": 2, "conf": conf})
    found = read_offset_log(f"v1\n{line}\n-\n{{}}".encode())
    assert found.is_rocksdb
    assert found.has_row_checksums
    assert found.merge_delimiter == b""
    assert found.row_format == "unsaferow"


def test_an_old_offset_log_says_nothing_and_spark_did_as_it_did_then() -> None:
    found = read_offset_log(b"v1\n{}")
    assert not found.is_rocksdb
    assert not found.has_row_checksums
    assert found.merge_delimiter == b","


def test_a_commit_log_names_the_files_of_a_store() -> None:
    found = read_commit_log(WHOLE["commits"])
    assert [found.unique_id(0, partition) for partition in (0, 1, 2)] == ["a", "b", None]
    assert found.unique_id(1, 0) is None
    assert found.unique_id(0, 0, 1) is None


def test_a_snapshot_says_which_files_belong_to_it() -> None:
    found = read_snapshot(WHOLE["snapshot"])
    assert found.sst_files == (SnapshotFile("8.sst", "8-u.sst", 9),)
    assert found.members["CURRENT"] == b"MANIFEST-000005\n"
    assert (found.num_keys, found.families) == (None, {})


def test_a_snapshot_says_its_families() -> None:
    found = read_snapshot(snapshot({"numKeys": 3, "columnFamilyMapping": {"a": 1, "$b": 2}}))
    assert found.families == {"a": 1, "$b": 2}
    assert found.num_keys == 3


@pytest.mark.parametrize("name", ["../CURRENT", "/etc/passwd", "a/b", "X", "CURRENT\\..", "8.sst"])
def test_names_that_no_snapshot_has_are_refused(name: str) -> None:
    with pytest.raises(FormatError, match="as none of Spark's has"):
        read_snapshot(snapshot({}, {name: b"x"}))


@pytest.mark.parametrize("name", ["../8.sst", "/8.sst", "a/8.sst", "", ".sst", "x" * 200, "a\\b"])
def test_files_beside_it_that_leave_the_folder_are_refused(name: str) -> None:
    for names in ((name, "8.sst"), ("8.sst", name)):
        file = {"localFileName": names[0], "dfsSstFileName": names[1], "sizeBytes": 1}
        with pytest.raises(FormatError, match="wants a file"):
            read_snapshot(snapshot({"sstFiles": [file]}))


def test_a_snapshot_that_unpacks_to_too_much_is_refused() -> None:
    raw = snapshot({}, {"MANIFEST-1": b"x" * 50_000})
    told = raw.replace(struct.pack("<I", 50_000), struct.pack("<I", 300 << 20))
    with pytest.raises(FormatError, match="2 files of 314,"):
        read_snapshot(told)


def test_a_snapshot_that_understates_its_size_is_read_no_further() -> None:
    raw = bytearray(snapshot({"numKeys": 7}, {"CURRENT": b"x" * 50_000}))
    size = struct.pack("<I", 50_000)
    for _ in range(2):
        at = raw.find(size)
        raw[at : at + 4] = struct.pack("<I", 5)
    with pytest.raises(FormatError):
        read_snapshot(bytes(raw))


@pytest.mark.parametrize("packing", [ZIP_BZIP2, ZIP_LZMA])
def test_a_snapshot_packed_as_java_packs_none_is_refused(packing: int) -> None:
    """What is wrong with such a member would be another error, one that is not ours."""
    packed = BytesIO()
    with ZipFile(packed, "w", packing) as archive:
        archive.writestr("metadata", "v1\n{}")
    with pytest.raises(FormatError, match="as none of Spark's has"):
        read_snapshot(packed.getvalue())


def test_a_snapshot_of_too_many_files_is_refused() -> None:
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for number in range(1001):
            archive.writestr(f"{number}.log", b"")
    with pytest.raises(FormatError, match="1,001 files"):
        read_snapshot(packed.getvalue())


def test_options_are_told_what_stands_between_appended_values() -> None:
    options = b"[CFOptions]\n  merge_operator=StringAppendOperator\n  x=y\n"
    assert b"{id=StringAppendOperator;delimiter=;}\n  x=y" in with_delimiter(options, b"")
    assert with_delimiter(options, b",") == options
    assert with_delimiter(b"merge_operator=nullptr\n", b"") == b"merge_operator=nullptr\n"
