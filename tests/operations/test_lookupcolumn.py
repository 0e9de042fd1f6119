"""Columns of keys: each row gets the answer of its key, whatever the key is made of."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.lookupcache import Answer
from kstoolkit.operations.lookupcolumn import answer_column

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

KEYS: dict[pa.DataType, list[Any]] = {
    pa.string(): ["", "ann", "a\nb", "\x00", "名前", "😀", "' OR 1=1 --", "x" * 5_000, "ann "],
    pa.large_string(): ["ann", "bob"],
    pa.int64(): [0, -1, 2**63 - 1],
    pa.bool_(): [True, False],
    pa.float64(): [0.5, float("inf")],
    pa.binary(): [b"", b"\xff\x00"],
    pa.date32(): [date(2026, 1, 1), date(1969, 1, 1)],
    pa.timestamp("us", tz="UTC"): [datetime(2026, 1, 1, tzinfo=UTC)],
    pa.decimal128(10, 2): [Decimal("1.50"), Decimal("-2.00")],
}


def by_repr(keys: Sequence[Hashable]) -> Mapping[Any, Answer]:
    assert len(set(keys)) == len(keys)
    assert None not in keys
    return {key: Answer(repr(key)) for key in keys}


def answered(value: Any) -> Any:
    return lambda keys: dict.fromkeys(keys, Answer(value))


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_keys_of_any_flat_type_are_looked_up(kind: pa.DataType) -> None:
    keys = pa.array([*KEYS[kind], None, *reversed(KEYS[kind])], kind)
    column = answer_column(keys, by_repr, kind=pa.string())
    expected = [None if key is None else repr(key) for key in keys.to_pylist()]
    assert column.field("value").to_pylist() == expected


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)))
def test_each_row_gets_the_answer_of_its_own_key(keys: list[str | None]) -> None:
    column = pa.array(keys, pa.string())
    expected = [None if key is None else repr(key) for key in keys]
    for given_keys in (column, column.dictionary_encode(), pa.concat_arrays([column, column])):
        found = answer_column(given_keys, by_repr, kind=pa.string()).field("value").to_pylist()
        assert found == expected * (len(given_keys) // max(1, len(keys)))


def test_a_slice_of_a_column_is_looked_up_as_what_it_shows() -> None:
    keys = pa.array(["a", "b", "c", "b"]).slice(1, 2)
    asked: list[Hashable] = []

    def ask(keys: Sequence[Hashable]) -> Mapping[Any, Answer]:
        asked.extend(keys)
        return by_repr(keys)

    assert answer_column(keys, ask, kind=None).field("value").to_pylist() == ["'b'", "'c'"]
    assert asked == ["b", "c"]


def test_nan_is_nobodys_key() -> None:
    keys = pa.array([float("nan"), 1.0, None])
    found = answer_column(keys, by_repr, kind=pa.string()).field("value")
    assert found.to_pylist() == [None, "1.0", None]


def test_a_column_in_several_pieces_is_looked_up_as_one() -> None:
    several: list[list[list[str]]] = [[["a", "b"], ["b"], []], [[]]]
    for chunks in several:
        keys = pa.chunked_array(chunks, pa.string())
        found = answer_column(keys, by_repr, kind=pa.string()).field("value")
        assert found.to_pylist() == [repr(key) for chunk in chunks for key in chunk]


@pytest.mark.parametrize("keys", [pa.nulls(3), pa.array([], pa.string()), pa.nulls(2, pa.int32())])
def test_a_column_without_keys_has_no_values(keys: pa.Array) -> None:
    found = answer_column(keys, by_repr, kind=pa.string())
    assert found.field("value").to_pylist() == [None] * len(keys)
    assert found.field("failure").null_count == len(keys)


def test_a_key_that_is_no_utf8_fails_alone_and_is_not_asked_for() -> None:
    raw = pa.array([b"ann", b"\xff\xfe", b"bob", b"\xc3"], pa.binary())
    keys = pa.StringArray.from_buffers(4, *raw.buffers()[1:])
    found = answer_column(keys, by_repr, kind=pa.string())
    assert found.field("value").to_pylist() == ["'ann'", None, "'bob'", None]
    assert found.field("failure").to_pylist() == [
        None,
        "the key is not valid UTF-8",
        None,
        "the key is not valid UTF-8",
    ]


def test_a_value_of_another_type_fails_alone() -> None:
    def ask(keys: Sequence[Hashable]) -> Mapping[Any, Answer]:
        return {key: Answer("many" if key == "b" else 7) for key in keys}

    found = answer_column(pa.array(["a", "b", "c"]), ask, kind=pa.int64())
    assert found.field("value").to_pylist() == [7, None, 7]
    assert found.field("failure").to_pylist() == [None, "the answer 'many' is no int64", None]


def test_values_of_several_fields_are_structs() -> None:
    kind = pa.struct([("city", pa.string()), ("people", pa.int64())])
    city = {"city": "Uppsala", "people": 7}
    found = answer_column(pa.array(["a", None]), answered(city), kind=kind)
    assert found.field("value").to_pylist() == [city, None]


def test_without_a_type_it_is_told_from_the_values() -> None:
    assert answer_column(pa.array(["a"]), answered(1.5), kind=None).field("value").type == "double"
    mixed = {"a": Answer(1), "b": Answer("x")}
    with pytest.raises(ConfigurationError, match="no type in common"):
        answer_column(pa.array(["a", "b"]), lambda _: mixed, kind=None)


def test_the_default_fills_rows_without_a_value_and_the_reason_stays() -> None:
    told = {"a": Answer("x"), "b": Answer(), "c": Answer(failure="refused")}
    keys = pa.array(["a", "b", "c", None])
    found = answer_column(keys, lambda _: told, kind=pa.string(), default="?")
    assert found.field("value").to_pylist() == ["x", "?", "?", "?"]
    assert found.field("failure").to_pylist() == [None, None, "refused", None]


def test_a_default_of_another_type_and_nested_keys_are_sentences() -> None:
    with pytest.raises(ConfigurationError, match="The default is '\\?', which is no int64"):
        answer_column(pa.array(["a"]), by_repr, kind=pa.int64(), default="?")
    with pytest.raises(ConfigurationError, match="can't be looked up"):
        answer_column(pa.array([["a"]]), by_repr, kind=pa.string())
