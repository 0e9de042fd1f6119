from __future__ import annotations

import struct
import sys
import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn, Undecoded
from kstoolkit.formats.spark.types import schema_of
from kstoolkit.formats.spark.unsaferow import read_rows, row_serde
from tests.formats.spark.sparkrows import column, list_of, map_of, row_schema, written_row

MICROSECONDS = st.integers(-(2**40), 2**40)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-(2**7), 2**7 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "time(6)": st.times(),
    "string": st.text(),
    "binary": st.binary(),
    "interval": st.fixed_dictionaries(
        {
            "months": st.integers(-(2**31), 2**31 - 1),
            "days": st.integers(-(2**31), 2**31 - 1),
            "microseconds": st.integers(-(2**63), 2**63 - 1),
        }
    ),
    "interval year to month": st.integers(-(2**31), 2**31 - 1),
    "interval day to second": st.timedeltas(
        timedelta(microseconds=-(2**62)), timedelta(microseconds=2**62)
    ),
    "decimal(18,4)": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-4)),
    "decimal(38,2)": st.integers(-(10**27), 10**27).map(lambda n: Decimal(n).scaleb(-2)),
}
KINDS = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(
        inner.map(list_of),
        st.builds(map_of, st.sampled_from(sorted(LEAVES)), inner),
        st.lists(inner, max_size=4).map(
            lambda kinds: row_schema(**{f"c{n}": kind for n, kind in enumerate(kinds)})
        ),
        inner.map(lambda kind: {"type": "udt", "class": "x", "sqlType": kind}),
    ),
    max_leaves=6,
)
SCHEMAS = st.lists(KINDS, max_size=5).map(
    lambda kinds: row_schema(**{f"f{n}": kind for n, kind in enumerate(kinds)})
)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if not isinstance(kind, dict):
        return st.none() | LEAVES[kind]
    if kind["type"] == "udt":
        return values_of(kind["sqlType"])
    if kind["type"] == "array":
        return st.none() | st.lists(values_of(kind["elementType"]), max_size=70)
    if kind["type"] == "map":
        pairs = st.tuples(LEAVES[kind["keyType"]], values_of(kind["valueType"]))
        return st.none() | st.lists(pairs, max_size=5)
    return st.none() | rows_of(kind)


def rows_of(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {field["name"]: values_of(field["type"]) for field in schema["fields"]}
    )


def read(schema: dict[str, Any], cells: list[bytes | None]) -> list[Any]:
    cells_of = ByteColumn.of(cells)
    return row_serde(schema).decode(cells_of).to_list(cells_of)


@settings(max_examples=150)
@given(st.data())
def test_rows_of_any_schema_come_back(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    rows = data.draw(st.lists(st.none() | rows_of(schema), max_size=5))
    cells = [None if row is None else written_row(schema, row) for row in rows]
    assert read(schema, cells) == rows


@settings(max_examples=300)
@given(st.data())
def test_of_damaged_rows_each_is_read_or_said_to_be_wrong(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS.filter(lambda schema: schema["fields"]))
    rows = data.draw(st.lists(rows_of(schema), min_size=1, max_size=3))
    cells = [written_row(schema, row) for row in rows]
    hurt = bytearray(cells[0])
    for _ in range(data.draw(st.integers(1, 4))):
        hurt[data.draw(st.integers(0, len(hurt) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(hurt[: data.draw(st.integers(0, len(hurt)))]) if data.draw(st.booleans()) else hurt
    first, *others = read(schema, [bytes(cut), *cells[1:]])
    assert others == rows[1:]
    assert isinstance(first, dict) or (isinstance(first, Undecoded) and first.why)


@given(SCHEMAS, st.lists(st.none() | st.binary(max_size=200), max_size=10))
def test_of_rubbish_nothing_else_is_raised(schema: dict[str, Any], cells: list[Any]) -> None:
    for cell, value in zip(cells, read(schema, cells), strict=True):
        if cell is None:
            assert value is None
        elif isinstance(value, Undecoded):
            assert value.raw == cell


def test_a_row_has_64_null_bits_for_every_64_columns() -> None:
    schema = row_schema(**{f"c{n}": "integer" for n in range(65)})
    row = {f"c{n}": None if n in {0, 63, 64} else n for n in range(65)}
    assert read(schema, [written_row(schema, row)]) == [row]


def test_values_are_columns_of_one_type() -> None:
    schema = row_schema(user="string", at="timestamp")
    row = {"user": "Zoë", "at": datetime(2025, 1, 1, tzinfo=UTC)}
    values = row_serde(schema).decode(ByteColumn.of([written_row(schema, row)])).values
    assert isinstance(values, pa.StructArray)
    assert values.type == pa.struct(
        [("user", pa.large_string()), ("at", pa.timestamp("us", tz="UTC"))]
    )


def test_a_time_that_python_has_no_calendar_for_is_said() -> None:
    schema = row_schema(at="timestamp")
    [value] = read(schema, [bytes(8) + struct.pack("<q", 2**62)])
    assert value.why == "a timestamp that no calendar of Python's has"


@pytest.mark.parametrize(("digits", "scale"), [(1, 0), (10, 2), (18, 18), (19, 2), (38, 0)])
def test_a_decimal_of_more_digits_than_its_type_has_is_said(digits: int, scale: int) -> None:
    kind = f"decimal({digits},{scale})"
    schema = row_schema(n=kind)
    for sign in (1, -1):
        most, more = (
            Decimal(sign * number).scaleb(-scale, Context(40))
            for number in (10**digits - 1, 10**digits)
        )
        cells = [written_row(schema, {"n": number}) for number in (most, more)]
        good, bad = read(schema, [*cells])
        assert good == {"n": most}
        assert bad.why == "a decimal of more digits than its type has"


def test_a_map_without_types_is_shown_as_bytes() -> None:
    """Spark makes one of map() alone: its keys are of no type, and Arrow has no such map."""
    cell = written_row(row_schema(m="binary"), {"m": bytes(24)})
    assert read(row_schema(m=map_of("void", "void")), [cell]) == [{"m": bytes(24)}]


def test_text_that_is_none_is_said_and_its_neighbours_are_read() -> None:
    schema = row_schema(user="string")
    good, bad = written_row(schema, {"user": "é"}), written_row(schema, {"user": "é"})
    bad = bad.replace("é".encode(), b"\xff\xff")
    found = read(schema, [good, bad, good])
    assert found[1].why == "a string that is no UTF-8"
    assert found[0] == found[2] == {"user": "é"}


def test_only_the_wanted_columns_are_read() -> None:
    schema = row_schema(bad="string", n="long")
    broken = bytes(8) + struct.pack("<qq", 2**62, 7)
    struct_of = schema_of(schema)
    assert read_rows(ByteColumn.of([broken]), struct_of).problems
    kept = read_rows(ByteColumn.of([broken]), struct_of.keep(["n"]))
    assert kept.values.to_pylist() == [{"n": 7}]  # type: ignore[union-attr]


def test_names_that_come_twice_are_told_apart() -> None:
    schema = {"type": "struct", "fields": [column("n", "long"), column("n", "long")]}
    assert read(schema, [bytes(8) + struct.pack("<qq", 1, 2)]) == [{"n": 1, "n#1": 2}]


def test_values_of_types_that_are_not_known_are_shown_as_bytes() -> None:
    schema = row_schema(odd="geometry(4326)", n="integer", many=list_of("point"))
    odd = struct.pack("<q", 5)
    many = written_row(
        row_schema(odd="long", n="integer", many="binary"), {"odd": 5, "n": 7, "many": b"xy"}
    )
    assert read(schema, [many]) == [{"odd": odd, "n": 7, "many": b"xy"}]


def test_a_variant_is_shown_as_bytes() -> None:
    schema = row_schema(v="variant")
    cell = written_row(row_schema(v="binary"), {"v": b"\x01\x02"})
    assert read(schema, [cell]) == [{"v": b"\x01\x02"}]


@pytest.mark.parametrize("kind", ["char(5)", "varchar(5)", "string collate UNICODE_CI"])
def test_texts_of_any_kind_are_texts(kind: str) -> None:
    assert read(row_schema(t=kind), [written_row(row_schema(t="string"), {"t": "ab"})]) == [
        {"t": "ab"}
    ]


def test_values_that_share_their_bytes_are_refused() -> None:
    """Spark writes no such row; to read it would take as much again for each of the columns."""
    count, big = 1000, 100_000
    schema = row_schema(**{f"c{n}": "binary" for n in range(count)})
    fixed = -(-count // 64) * 8 + 8 * count
    cell = bytes(fixed - 8 * count) + struct.pack("<q", fixed << 32 | big) * count + bytes(big)
    tracemalloc.start()
    [value] = read(schema, [cell])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value.why == "values that lie in each other"
    assert most < 60 * len(cell)


def test_elements_that_share_their_bytes_are_refused() -> None:
    count, big = 1000, 100_000
    fixed = 8 + -(-count // 64) * 8 + 8 * count
    head = struct.pack("<q", count) + bytes(-(-count // 64) * 8)
    inner = head + struct.pack("<q", fixed << 32 | big) * count + bytes(big)
    cell = bytes(8) + struct.pack("<q", 16 << 32 | len(inner)) + inner
    [value] = read(row_schema(a=list_of("binary")), [cell])
    assert value.why == "values that lie in each other"


@pytest.mark.parametrize("count", [-1, 2**62, 2**63 - 1, 1000])
def test_an_array_of_more_elements_than_it_has_room_for_is_refused(count: int) -> None:
    inner = struct.pack("<q", count) + bytes(16)
    cell = bytes(8) + struct.pack("<q", 16 << 32 | len(inner)) + inner
    [value] = read(row_schema(a=list_of("byte")), [cell])
    assert value.why == "a value that lies outside of its row"


def test_a_map_with_a_null_key_is_refused() -> None:
    schema = row_schema(m=map_of("string", "long"))
    [value] = read(schema, [written_row(schema, {"m": [(None, 1)]})])
    assert value.why == "a map with a key that is null"


def test_a_map_with_more_keys_than_values_is_refused() -> None:
    schema = row_schema(m=map_of("long", "long"))
    cell = bytearray(written_row(schema, {"m": [(1, 2)]}))
    values = len(cell) - 24
    assert cell[values] == 1
    cell[values] = 0
    [value] = read(schema, [bytes(cell)])
    assert value.why == "a map with more or fewer values than keys"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        '{"type": "struct", "fields": 5}',
        '{"type": "struct", "fields": [5]}',
        '{"type": "struct", "fields": [{"name": "n"}]}',
        '{"type": "struct", "fields": [{"type": "long"}]}',
        '{"type": "map", "fields": []}',
        {"type": "struct", "fields": [column("x", {"type": "odd"})]},
        '{"type": "struct", "fields": [{"name": "\\ud800", "type": "long"}]}',
        row_schema(**{f"c{n}": "long" for n in range(4097)}),
    ],
)
def test_what_is_no_schema_is_said(text: Any) -> None:
    with pytest.raises(FormatError):
        schema_of(text)


def test_a_schema_that_is_nested_too_deep_is_said() -> None:
    kind: Any = "long"
    for _ in range(sys.getrecursionlimit() // 4):
        kind = list_of(kind)
    with pytest.raises(FormatError, match="deeper than 50"):
        schema_of(row_schema(a=kind))
