from __future__ import annotations

import struct
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.formats.spark.checksums import crc32c, crc32c_of_both, xxhash32
from kstoolkit.formats.spark.keys import KeyEncoder, key_serde
from kstoolkit.formats.spark.logs import (
    FamilySchema,
    OperatorMetadata,
    StoreMetadata,
    read_offset_log,
)
from kstoolkit.formats.spark.rows import (
    Family,
    StoreLayout,
    ValueWrapping,
    _elements_of,
    _without_checksums,
    key_behind_checksum,
    layout_of,
)
from kstoolkit.formats.spark.types import schema_of
from tests.formats.spark.sparkrows import column, row_schema, written_row

MOMENT = datetime(2025, 3, 1, 10, tzinfo=UTC)
MOMENT_MS = 1_740_823_200_000
KEY, VALUE = row_schema(user="string"), row_schema(count="long")
LONGS = st.integers(-(2**63), 2**63 - 1)


def family(key: Any = None, value: Any = None, **options: Any) -> Family:
    encoder = options.pop("encoder", KeyEncoder())
    key, value = key or KEY, value or VALUE
    return Family(
        options.pop("name", "default"), schema_of(key), schema_of(value), encoder, **options
    )


def split(
    layout: StoreLayout, rows: dict[bytes, bytes | None]
) -> list[tuple[Family | None, RowColumns]]:
    return layout.split(ByteColumn.of(list(rows)), ByteColumn.of(list(rows.values())))


def decoded(family: Family | None, rows: RowColumns) -> list[tuple[Any, Any]]:
    assert family is not None
    key = family.key_serde.decode(rows.key).to_list(rows.key)
    value = family.value_serde.decode(rows.value).to_list(rows.value)
    return list(zip(key, value, strict=True))


def user(name: str) -> bytes:
    return written_row(KEY, {"user": name})


def count(number: int | None) -> bytes:
    return written_row(VALUE, {"count": number})


def behind_length(raw: bytes) -> bytes:
    return struct.pack("<i", len(raw)) + raw


def checksum(*parts: bytes) -> bytes:
    return struct.pack("<I", int(crc32c(ByteColumn.of([b"".join(parts)]))[0]))


def test_a_row_of_rocksdb_loses_its_version_and_its_family() -> None:
    layout = StoreLayout((family(number=2, name="counts"),))
    key = b"\x02\x00\x00" + user("Anna")
    [(one, rows)] = split(layout, {key: b"\x00" + count(7)})
    assert rows.key.to_list() == [user("Anna")]
    assert rows.value.to_list() == [count(7)]
    assert decoded(one, rows) == [({"user": "Anna"}, {"count": 7})]


def test_a_row_of_the_hdfs_backed_provider_is_as_it_is() -> None:
    layout = StoreLayout((family(),), ValueWrapping(is_rocksdb=False))
    [found] = split(layout, {user("Anna"): count(7)})
    assert decoded(*found) == [({"user": "Anna"}, {"count": 7})]


def test_families_are_told_apart_and_an_unknown_one_is_said() -> None:
    layout = StoreLayout((family(number=1, name="a"), family(number=2, name="b")))
    keys = [bytes([n, 0, 0]) + user("Anna") for n in (2, 1, 9, 2)] + [b"x"]
    values = [b"\x00" + count(n) for n in range(5)]
    found = layout.split(ByteColumn.of(keys), ByteColumn.of(values))
    told = [(one and one.name, rows.row.tolist()) for one, rows in found]
    assert told == [(None, [4]), ("a", [1]), ("b", [0, 3]), (None, [2])]
    assert found[3][1].problems == {0: "a key of a column family that the store does not name"}
    assert found[3][1].key.to_list() == [keys[2]]


@given(st.lists(st.lists(LONGS, max_size=100), max_size=80), st.sampled_from([b"", b","]))
def test_a_list_is_one_row_an_element(lists: list[list[int]], delimiter: bytes) -> None:
    layout = StoreLayout((family(has_several=True),), ValueWrapping(delimiter=delimiter))
    keys = [b"\x00" + user(str(n)) for n in range(len(lists))]
    values = [
        delimiter.join(behind_length(b"\x00" + count(number)) for number in each) for each in lists
    ]
    [(one, rows)] = layout.split(ByteColumn.of(keys), ByteColumn.of(values))
    told = [(n, number) for n, each in enumerate(lists) for number in each]
    assert (
        list(zip(rows.row.tolist(), [v["count"] for _, v in decoded(one, rows)], strict=True))
        == told
    )


@given(
    st.lists(st.lists(LONGS, min_size=1, max_size=4), max_size=5),
    st.booleans(),
    st.sampled_from([b"", b","]),
)
def test_checksums_are_verified_and_taken_off(
    lists: list[list[int]],
    several: bool,  # noqa: FBT001 - drawn
    delimiter: bytes,
) -> None:
    wrapping = ValueWrapping(has_checksums=True, delimiter=delimiter)
    layout = StoreLayout((family(has_several=several),), wrapping)
    rows: dict[bytes, bytes | None] = {}
    for n, numbers in enumerate(lists):
        key = b"\x00" + user(str(n))
        bare = [b"\x00" + count(number) for number in (numbers if several else numbers[:1])]
        bare = [behind_length(each) for each in bare] if several else bare
        rows[key] = delimiter.join(checksum(key, each) + behind_length(each) for each in bare)
    [(one, found)] = split(layout, rows)
    assert not found.problems
    told = [number for numbers in lists for number in (numbers if several else numbers[:1])]
    assert [value["count"] for _, value in decoded(one, found)] == told


def test_a_row_with_another_checksum_is_said_and_shown_as_it_is() -> None:
    key, good = b"\x00" + user("Anna"), b"\x00" + count(7)
    bad = checksum(b"x") + behind_length(good)
    layout = StoreLayout((family(),), ValueWrapping(has_checksums=True))
    [(_, rows)] = split(layout, {key: bad, b"\x00" + user("Bo"): b"short"})
    assert rows.problems == {
        0: "a checksum that is not that of the row",
        1: "an element that is longer than what is left of the value",
    }
    assert rows.value.to_list() == [bad, b"short"]
    assert rows.key.to_list()[0] == key


def test_two_values_where_one_should_be_are_said() -> None:
    key = b"\x00" + user("Anna")
    one = checksum(key, b"\x00" + count(7)) + behind_length(b"\x00" + count(7))
    layout = StoreLayout((family(),), ValueWrapping(has_checksums=True))
    [(_, rows)] = split(layout, {key: one + one})
    assert rows.problems == {0: "a value that is not one row behind its checksum"}


def test_checksums_of_the_hdfs_backed_provider_have_no_length() -> None:
    layout = StoreLayout((family(),), ValueWrapping(is_rocksdb=False, has_checksums=True))
    key, value = user("Anna"), count(7)
    [(one, rows)] = split(layout, {key: checksum(key, value) + value, user("Bo"): bytes(4) + value})
    assert rows.problems == {1: "a checksum that is not that of the row"}
    assert decoded(one, rows)[0] == ({"user": "Anna"}, {"count": 7})


def test_a_removed_key_has_no_value() -> None:
    for several in (False, True):
        for checksums in (False, True):
            layout = StoreLayout(
                (family(has_several=several),), ValueWrapping(has_checksums=checksums)
            )
            [found] = split(layout, {b"\x00" + user("Anna"): None})
            assert decoded(*found) == [({"user": "Anna"}, None)], (several, checksums)


def test_one_bad_row_leaves_its_neighbours_alone() -> None:
    good, bad = b"\x00" + count(7), b"\x09" + count(8)
    keys = [b"\x00" + user(name) for name in ("a", "b", "c")]
    [(_, rows)] = split(StoreLayout((family(),)), dict(zip(keys, [good, bad, good], strict=True)))
    assert rows.row.tolist() == [0, 1, 2]
    assert rows.problems == {1: "a row of a version that is not known"}
    assert rows.value.to_list() == [count(7), bad, count(7)]


@pytest.mark.parametrize("encoder", ["PrefixKeyScan", "RangeKeyScan"])
@given(user_name=st.none() | st.text(), number=LONGS, small=st.none() | st.integers(-99, 99))
def test_keys_in_two_parts_come_back_in_the_order_of_the_schema(
    encoder: str, user_name: str | None, number: int, small: int | None
) -> None:
    schema = row_schema(user="string", number="long", small="short")
    cells = {"user": user_name, "number": number, "small": small}
    first = (0,) if encoder == "PrefixKeyScan" else (2, 1)
    if encoder == "PrefixKeyScan":
        head = written_row(row_schema(user="string"), {"user": user_name})
    else:
        ordered = {"small": ordering(small, ">h"), "number": ordering(number, ">q")}
        head = written_row(row_schema(small="binary", number="binary"), ordered)
    rest = {
        field["name"]: field["type"] for n, field in enumerate(schema["fields"]) if n not in first
    }
    tail = written_row(row_schema(**rest), {name: cells[name] for name in rest})
    key = behind_length(b"\x00" + head) + b"\x00" + tail
    assert read_key(schema, KeyEncoder(encoder, first), key) == cells


def ordering(value: float | None, form: str) -> bytes:
    if value is None:
        return b"\x02" + bytes(struct.calcsize(form))
    raw = struct.pack(form, value)
    if form in {">f", ">d"} and raw[0] & 0x80:
        return b"\x00" + bytes(octet ^ 0xFF for octet in raw)
    return (b"\x00" if value < 0 else b"\x01") + raw


def read_key(schema: Any, encoder: KeyEncoder, *keys: bytes) -> Any:
    column_of = ByteColumn.of(keys)
    found = key_serde(schema_of(schema), encoder).decode(column_of).to_list(column_of)
    return found[0] if len(keys) == 1 else found


@pytest.mark.parametrize(
    ("kind", "form", "values"),
    [
        ("byte", ">b", [-128, 0, 127, None]),
        ("integer", ">i", [-(2**31), 5, None]),
        ("float", ">f", [-1.5, -0.0, 0.0, 2.25, float("inf"), None]),
        ("double", ">d", [float("-inf"), -1e300, 0.1, None]),
    ],
)
def test_ordering_columns_sort_as_their_values_do_and_come_back(
    kind: str, form: str, values: list[float | None]
) -> None:
    schema = row_schema(n=kind)
    bare = [ordering(value, form) for value in values]
    assert bare == sorted(bare)
    keys = [behind_length(b"\x00" + written_row(row_schema(n="binary"), {"n": b})) for b in bare]
    found = read_key(schema, KeyEncoder("RangeKeyScan", (0,)), *keys)
    assert [row["n"] for row in found] == values


def test_an_ordering_column_of_another_length_is_said() -> None:
    cell = written_row(row_schema(n="binary"), {"n": b"\x01\x00"})
    found = read_key(
        row_schema(n="long"), KeyEncoder("RangeKeyScan", (0,)), behind_length(b"\x00" + cell)
    )
    assert found.why == "an ordering column of another length"
    text = KeyEncoder("RangeKeyScan", (0,))
    found = read_key(row_schema(n="string"), text, behind_length(b"\x00" + cell))
    assert found.why == "a key that is ordered by a column of no number"


@pytest.mark.parametrize("kind", ["TimestampAsPrefix", "TimestampAsPostfix"])
@given(micros=LONGS)
def test_a_timestamp_beside_the_row_is_the_last_column(kind: str, micros: int) -> None:
    schema = row_schema(user="string", __event_time="long")
    moment = struct.pack(">Q", micros + 2**63)
    row = b"\x00" + user("Anna")
    key = moment + row if kind == "TimestampAsPrefix" else row + moment
    found = read_key(schema, KeyEncoder(kind), key)
    assert found == {"user": "Anna", "__event_time": micros}


ENCODERS = [
    KeyEncoder(),
    KeyEncoder("PrefixKeyScan", (0,)),
    KeyEncoder("RangeKeyScan", (1,)),
    KeyEncoder("TimestampAsPrefix"),
    KeyEncoder("TimestampAsPostfix"),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda encoder: encoder.kind)
@given(st.lists(st.tuples(st.binary(max_size=60), st.none() | st.binary(max_size=60))), st.data())
def test_of_rubbish_every_row_is_there_and_nothing_is_raised(
    encoder: KeyEncoder, rows: list[tuple[bytes, bytes | None]], data: st.DataObject
) -> None:
    key = row_schema(user="string", n="long")
    number = data.draw(st.none() | st.just(0))
    one = family(key, encoder=encoder, number=number, has_several=data.draw(st.booleans()))
    wrapping = ValueWrapping(
        is_rocksdb=data.draw(st.booleans()),
        has_checksums=data.draw(st.booleans()),
        delimiter=data.draw(st.sampled_from([b"", b","])),
    )
    keys, values = [row[0] for row in rows], [row[1] for row in rows]
    found = StoreLayout((one,), wrapping).split(ByteColumn.of(keys), ByteColumn.of(values))
    seen = {int(row) for _, its_rows in found for row in its_rows.row}
    empty = {n for n, value in enumerate(values) if value == b"" and one.has_several}
    assert set(range(len(rows))) - seen <= empty
    for its_family, its_rows in found:
        assert its_family is None or len(decoded(its_family, its_rows)) == len(its_rows)


def window(start: datetime, end: datetime) -> dict[str, datetime]:
    return {"start": start, "end": end}


WINDOW = row_schema(start="timestamp", end="timestamp")


def times(one: Family, key: bytes, value: bytes) -> tuple[Any, Any, Any]:
    [(_, rows)] = split(StoreLayout((one,)), {key: value})
    columns = rows.window_start_ms, rows.window_end_ms, rows.timestamp_ms
    start, end, time = (each if each is None else each.to_pylist()[0] for each in columns)
    return start, end, time


def test_a_window_in_the_key_is_the_rows_window() -> None:
    key = row_schema(window=WINDOW, user="string")
    cell = written_row(key, {"window": window(MOMENT, MOMENT), "user": "Anna"})
    found = times(family(key), b"\x00" + cell, b"\x00" + count(1))
    assert found == (MOMENT_MS, MOMENT_MS, None)


def test_a_session_is_in_the_value() -> None:
    key = row_schema(user="string", sessionStartTime="timestamp")
    value = row_schema(session_window=WINDOW, user="string")
    cell = written_row(value, {"session_window": window(MOMENT, MOMENT), "user": "Anna"})
    session = family(key, value, encoder=KeyEncoder("PrefixKeyScan", (0,)))
    head = behind_length(b"\x00" + user("Anna"))
    tail = written_row(row_schema(sessionStartTime="timestamp"), {"sessionStartTime": MOMENT})
    assert times(session, head + b"\x00" + tail, b"\x00" + cell) == (MOMENT_MS, MOMENT_MS, None)


def test_the_column_of_the_watermark_is_the_rows_time() -> None:
    marked = column("ts", "timestamp") | {"metadata": {"spark.watermarkDelayMs": 1000}}
    value = {"type": "struct", "fields": [marked]}
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)
    for moment, expected in ((MOMENT, MOMENT_MS), (before_1970, -1), (None, None)):
        cell = written_row(value, {"ts": moment})
        key = b"\x00" + user("Anna")
        assert times(family(value=value), key, b"\x00" + cell) == (None, None, expected)


@pytest.mark.parametrize(
    ("name", "value", "cell", "expected"),
    [
        ("default", row_schema(expiresAtMicros="long"), {"expiresAtMicros": 5_999}, 5),
        (
            "v",
            row_schema(value=VALUE, ttlExpirationMs="long"),
            {"value": {"count": 1}, "ttlExpirationMs": 7},
            7,
        ),
        ("$min_l", row_schema(expirationMs="long"), {"expirationMs": 9}, 9),
        ("mine", row_schema(expirationMs="long"), {"expirationMs": 9}, None),
        ("default", row_schema(expiresAtMicros="string"), {"expiresAtMicros": "never"}, None),
        (
            "v",
            row_schema(value=VALUE, ttlExpirationMs="string"),
            {"value": {"count": 1}, "ttlExpirationMs": "never"},
            None,
        ),
        ("$min_l", row_schema(expirationMs="binary"), {"expirationMs": b"never"}, None),
    ],
)
def test_what_expires_says_when(name: str, value: Any, cell: Any, expected: int | None) -> None:
    one = family(value=value, name=name)
    found = times(one, b"\x00" + user("Anna"), b"\x00" + written_row(value, cell))
    assert found == (None, None, expected)


def test_a_bad_row_has_no_times() -> None:
    key = row_schema(window=WINDOW)
    cell = written_row(key, {"window": window(MOMENT, MOMENT)})
    layout = StoreLayout((family(key),))
    rows: dict[bytes, bytes | None] = {b"\x00" + cell: b"\x07"}
    [(_, found)] = split(layout, rows | {b"\x00" + cell + b"more": b"\x00" + count(1)})
    assert found.problems.keys() == {0}
    assert found.window_start_ms is not None
    assert found.window_start_ms.to_pylist() == [None, MOMENT_MS]


def log(**conf: str) -> Any:
    settings = {f"spark.sql.streaming.stateStore.{key}": value for key, value in conf.items()}
    text = str({"conf": settings}).replace("'", '"')
    return read_offset_log(f"v1\n{text}".encode())


def test_a_layout_follows_from_the_files_of_a_checkpoint() -> None:
    schema = FamilySchema("default", schema_of(KEY), schema_of(VALUE))
    operator = OperatorMetadata("x", (StoreMetadata("default", 1),))
    found = layout_of([schema], operator, "default", log(providerClass="RocksDB"))
    assert found.families[0].encoder == KeyEncoder("PrefixKeyScan", (0,))
    assert found.wrapping == ValueWrapping(is_rocksdb=True, has_checksums=False, delimiter=b",")
    on_hdfs = layout_of([schema], operator, "default", log(providerClass="HDFSBacked"))
    assert on_hdfs.families[0].encoder == KeyEncoder()
    assert not on_hdfs.wrapping.is_rocksdb


def test_list_states_and_the_sides_of_a_join_hold_several_rows() -> None:
    names = ["l", "v", "left-keyWithTsToValues", "left-tsWithKey", "$rowCounter_l"]
    schemas = [FamilySchema(name, schema_of(KEY), schema_of(VALUE), KeyEncoder()) for name in names]
    operator = OperatorMetadata("x", (), {"l": "ListState"})
    numbers = {name: n for n, name in enumerate(names)}
    found = layout_of(schemas, operator, "default", log(), numbers)
    assert [each.has_several for each in found.families] == [True, False, True, True, False]
    assert [each.number for each in found.families] == list(range(5))
    assert [each.is_internal for each in found.families] == [False] * 3 + [True] * 2


def test_families_without_a_number_are_not_looked_for() -> None:
    schema = FamilySchema("v", schema_of(KEY), schema_of(VALUE), KeyEncoder())
    assert layout_of([schema], OperatorMetadata("x", ()), "default", log()).families == ()


def test_rows_in_avro_are_said_not_to_be_read() -> None:
    with pytest.raises(FormatError, match="'avro'"):
        layout_of([], OperatorMetadata("x", ()), "default", log(encodingFormat="avro"))


@given(st.lists(st.binary(max_size=1500), max_size=20))
def test_the_checksum_of_many_rows_is_that_of_each(rows: list[bytes]) -> None:
    assert crc32c(ByteColumn.of(rows)).tolist() == [bit_by_bit(row) for row in rows]


def test_the_checksum_of_a_long_row_is_that_of_all_its_pieces() -> None:
    long = bytes(n * n % 251 for n in range(70_001))
    rows = [b"x", long, long[:256], long[1:]]
    assert crc32c(ByteColumn.of(rows)).tolist() == [bit_by_bit(row) for row in rows]


@given(st.lists(st.tuples(st.binary(max_size=30), st.none() | st.binary(max_size=60))))
def test_of_rubbish_behind_checksums_each_row_is_read_or_said_to_be_wrong(
    rows: list[tuple[bytes, bytes | None]],
) -> None:
    keys, values = (ByteColumn.of([row[n] for row in rows]) for n in (0, 1))
    for delimiter in (b"", b","):
        found = _without_checksums(keys, values, delimiter)
        seen = {*found.row.tolist(), *found.problems}
        assert seen == {n for n, (_, value) in enumerate(rows) if value}
        assert not set(found.row.tolist()) & found.problems.keys()
    of_file = ValueWrapping(is_rocksdb=False, has_checksums=True).rows(keys, values)
    for bare, problems in ((of_file.cell, of_file.problems), key_behind_checksum(keys)):
        assert len(bare) == len(rows)
        assert problems.keys() <= set(range(len(rows)))


@given(st.lists(st.tuples(st.binary(max_size=600), st.binary(max_size=600)), max_size=20))
def test_the_checksum_of_two_rows_follows_from_that_of_each(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    first, second = (ByteColumn.of([pair[n] for pair in pairs]) for n in (0, 1))
    both = crc32c_of_both(crc32c(first), crc32c(second), second.lengths)
    assert both.tolist() == [bit_by_bit(one + other) for one, other in pairs]


def test_a_long_key_with_many_elements_is_not_gone_through_for_each_of_them() -> None:
    key, count_of = bytes(100_000), 20_000
    column, total = ByteColumn.of([key]), checksum(key)
    element = total + struct.pack("<i", 0)
    values = ByteColumn.of([element * count_of])
    tracemalloc.start()
    found = _without_checksums(column, values)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.row) == count_of
    assert most < 100 * (len(key) + 8 * count_of)


def bit_by_bit(raw: bytes) -> int:
    found = 0xFFFFFFFF
    for octet in raw:
        found ^= octet
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("text", "seed", "expected"),
    [
        (b"", 0, 0x02CC5D05),
        (b"a", 0, 0x550D7456),
        (b"abc", 0, 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0, 0xE2293B2F),
        (b"I want an unsigned 32-bit seed!", 0, 0xF7A35AF8),
        (b"I want an unsigned 32-bit seed!", 1, 0xD8D4B4BA),
    ],
)
def test_xxhash_is_that_of_its_other_implementations(text: bytes, seed: int, expected: int) -> None:
    blocks = np.frombuffer(text * 2, np.uint8).reshape(2, len(text))
    assert xxhash32(blocks, seed).tolist() == [expected, expected]


@pytest.mark.parametrize("count_of", [1, 200])
def test_an_element_with_a_length_it_cannot_have_spoils_its_value_alone(count_of: int) -> None:
    good = behind_length(b"one") + behind_length(b"two")
    for bad in (good + b"\x01", good + struct.pack("<i", -5), good + struct.pack("<i", 2**31 - 1)):
        found = _elements_of(ByteColumn.of([good] * count_of + [bad]))
        assert found.problems.keys() == {count_of}
        assert found.cell.to_list() == [b"one", b"two"] * count_of


def test_a_column_that_is_part_of_another_is_split_the_same() -> None:
    array = pa.array([b"\x00" + count(n) for n in range(5)], pa.large_binary()).slice(2, 2)
    keys = ByteColumn.from_arrow(pa.array([b"\x00" + user("a")] * 5, pa.large_binary()).slice(1, 2))
    [found] = StoreLayout((family(),)).split(keys, ByteColumn.from_arrow(array))
    assert [value["count"] for _, value in decoded(*found)] == [2, 3]
