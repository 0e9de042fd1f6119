"""Keys, written: bytes that Spark writes and what reads them back agree on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.spark.keys import KeyEncoder, key_serde, written_key, written_row
from kstoolkit.formats.spark.types import schema_of
from kstoolkit.formats.spark.unsaferow import row_serde
from tests.formats.spark import sparkrows
from tests.formats.spark.sparkrows import list_of, row_schema
from tests.formats.spark.test_unsaferow import LEAVES, rows_of

LEFT_OUT = {"interval"}  # no key has one
KINDS = st.recursive(
    st.sampled_from(sorted(LEAVES.keys() - LEFT_OUT)),
    lambda inner: st.one_of(
        inner.map(list_of),
        st.lists(inner, max_size=3).map(
            lambda kinds: row_schema(**{f"c{n}": kind for n, kind in enumerate(kinds)})
        ),
    ),
    max_leaves=5,
)
SCHEMAS = st.lists(KINDS, max_size=5).map(
    lambda kinds: row_schema(**{f"f{n}": kind for n, kind in enumerate(kinds)})
)
WINDOW = row_schema(start="timestamp", end="timestamp")


def cells_of(schema: dict[str, Any], row: dict[str, Any]) -> list[Any]:
    return [row[field["name"]] for field in schema["fields"]]


@given(SCHEMAS.flatmap(lambda schema: st.tuples(st.just(schema), rows_of(schema))))
@settings(max_examples=150)
def test_what_is_written_is_read_back(given_row: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, row = given_row
    columns = schema_of(schema)
    raw = written_row(columns, cells_of(schema, row))
    cells = ByteColumn.of([raw])
    assert row_serde(columns).decode(cells).to_list(cells) == [row]
    # The tests' own writer keeps -0.0, and gives a large decimal no more room than it needs.
    if not any(each in str(schema) for each in ("decimal(38,2)", "float", "double")):
        assert raw == sparkrows.written_row(schema, row)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("long", "-5", -5),
        ("integer", 5.0, 5),
        ("double", "2.5", 2.5),
        ("boolean", "true", True),
        ("timestamp", "2026-03-03 12:12:00", datetime(2026, 3, 3, 12, 12, tzinfo=UTC)),
        ("timestamp", "2026-03-03T13:12+01:00", datetime(2026, 3, 3, 12, 12, tzinfo=UTC)),
        ("timestamp", 1_772_539_920_000, datetime(2026, 3, 3, 12, 12, tzinfo=UTC)),
        ("timestamp_ntz", "2026-03-03T12:12", datetime(2026, 3, 3, 12, 12, tzinfo=UTC)),
        ("binary", "0x00ff", b"\x00\xff"),
        ("string", "Zoë", "Zoë"),
    ],
)
def test_a_value_may_be_as_json_has_it(kind: str, text: Any, value: Any) -> None:
    columns = schema_of(row_schema(k=kind))
    assert written_row(columns, [text]) == written_row(columns, [value])
    assert written_key(columns, KeyEncoder(), {"k": text}) == written_row(columns, [value])


@pytest.mark.parametrize(
    ("encoder", "key"),
    [
        (KeyEncoder("PrefixKeyScan", (0,)), {"user": "Anna", "n": -4}),
        (KeyEncoder("PrefixKeyScan", (0, 1)), {"user": None, "n": 4}),
        (KeyEncoder("TimestampAsPrefix"), {"user": "Zoë", "n": -5}),
        (KeyEncoder("TimestampAsPostfix"), {"user": "Zoë", "n": 1 << 60}),
    ],
)
def test_keys_of_two_parts_are_read_back(encoder: KeyEncoder, key: dict[str, Any]) -> None:
    columns = schema_of(row_schema(user="string", n="long"))
    cells = ByteColumn.of([written_key(columns, encoder, key)])
    assert key_serde(columns, encoder).decode(cells).to_list(cells) == [key]


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (row_schema(user="string"), 5, "5 can't be written as the type string"),
        (row_schema(user="string"), "\ud800", "as the type string"),
        (row_schema(n="byte"), 300, "300 can't be written as the type byte"),
        (row_schema(n="long"), "five", "'five' can't be"),
        (row_schema(n="long"), 1.5, "1.5 can't be"),
        (row_schema(n="long"), True, "True can't be"),
        (row_schema(n="float"), 1e300, "1e\\+300 can't be"),
        (row_schema(n="decimal(5,2)"), "1.234", "as the type decimal"),
        (row_schema(n="decimal(38,2)"), "NaN", "as the type decimal"),
        (row_schema(n="decimal(5,2)"), 10_000, "as the type decimal"),
        (row_schema(ts="timestamp"), "soon", "'soon' can't be"),
        (row_schema(ts="date"), 7, "7 can't be"),
        (row_schema(raw="binary"), "xyz", "'xyz' can't be"),
        (row_schema(a=list_of("long")), 7, "as the type array"),
        (row_schema(m=sparkrows.map_of("long", "long")), {"m": {}}, "as the type map"),
        (row_schema(window=WINDOW, user="string"), "u1", "'u1' is no key of the columns window"),
        (row_schema(window=WINDOW, user="string"), {"user": "u"}, "'window' is missing"),
        (row_schema(user="string"), {"usr": "u"}, "'user' is missing, 'usr' is none of them"),
    ],
)
def test_what_no_key_can_be_is_said(schema: dict[str, Any], value: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        written_key(schema_of(schema), KeyEncoder(), value)


def test_keys_ordered_by_columns_are_asked_for_by_their_bytes() -> None:
    columns = schema_of(row_schema(n="long"))
    with pytest.raises(ConfigurationError, match=r"RangeKeyScan.*\nHint: Give the key's bytes"):
        written_key(columns, KeyEncoder("RangeKeyScan", (0,)), {"n": 5})
