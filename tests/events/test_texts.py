from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.events.texts import as_text, is_longer, is_missing, only_utf8


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array(["a", None, ""]), ["a", None, ""]),
        (pa.array(["a", None], pa.large_string()), ["a", None]),
        (pa.array(["a", None], pa.string_view()), ["a", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array(["b", "a", "b"]).dictionary_encode()[1:], ["a", "b"]),
        (pa.array([7, None, -1]), ["7", None, "-1"]),
        (pa.array([7, 7], pa.uint8()).dictionary_encode(), ["7", "7"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([1.5, None]), ["1.5", None]),
        (pa.array([b"a", "é".encode(), b"\xff", None]), ["a", "é", None, None]),
        (pa.array([b"a", b"\xff"], pa.large_binary()), ["a", None]),
        (pa.array([b"ab", b"\xff\xfe"], pa.binary(2)), ["ab", None]),
        (pa.array([b"a", b"\xff", b"a"]).view(pa.string()), ["a", None, "a"]),
        (pa.array([b"a", b"\xff", b"a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([[1], None]), [None, None]),
        (pa.array([{"a": 1}]), [None]),
        (pa.nulls(2), [None, None]),
        (pa.array([None, None], pa.string()), [None, None]),
        (pa.array([b"0" * 16], pa.uuid()), ["0" * 16]),
        (pa.DictionaryArray.from_arrays([0, 1, 2, None], ["a", None, "a"]), ["a", None, "a", None]),
        (pa.DictionaryArray.from_arrays(pa.array([1], pa.int8()), ["b", "a"]), ["a"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_users_of_any_type_become_text(values: pa.Array, texts: list[str | None]) -> None:
    found = as_text(values)
    assert found.to_pylist() == texts
    assert found.type == pa.dictionary(pa.int32(), pa.string())
    entries = found.dictionary.to_pylist()
    assert len(set(entries)) == len(entries), "a text stands twice in the dictionary"
    assert None not in entries


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.null(), pa.binary(), pa.bool_()])
def test_no_values_are_no_texts(kind: pa.DataType) -> None:
    assert as_text(pa.array([], kind)).to_pylist() == []


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)))
def test_lengths_are_those_of_utf8(texts: list[str | None]) -> None:
    column = as_text(pa.array(texts, pa.string()))
    lengths = [len((text or "").encode()) for text in texts]
    rows = len(texts)
    assert np.broadcast_to(is_missing(column), rows).tolist() == [each == 0 for each in lengths]
    for limit in (0, 3, 100):
        longer = [each > limit for each in lengths]
        assert np.broadcast_to(is_longer(column, limit), rows).tolist() == longer


def test_columns_where_all_is_well_cost_no_mask() -> None:
    column = as_text(pa.array(["a", "b"] * 10))
    assert is_missing(column).shape == is_longer(column, 1).shape == ()


@given(st.lists(st.none() | st.binary(max_size=6), max_size=10))
def test_bytes_that_are_no_utf8_are_no_text(values: list[bytes | None]) -> None:
    def text(value: bytes | None) -> str | None:
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None

    column = pa.array(values, pa.binary())
    assert only_utf8(column.view(pa.string())).to_pylist() == [text(value) for value in values]
    assert as_text(column).to_pylist() == [text(value) for value in values]
