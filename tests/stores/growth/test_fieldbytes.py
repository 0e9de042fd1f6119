from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.stores.growth.fieldbytes import as_bytes, from_bytes

maybe = st.none()
longs = maybe | st.integers(-(2**63), 2**63 - 1)
texts = maybe | st.text(max_size=5)
flags = maybe | st.booleans()
CASES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), longs),
    (pa.large_string(), texts),
    (pa.large_binary(), maybe | st.binary(max_size=5)),
    (pa.bool_(), flags),
    (pa.decimal128(38, 3), maybe | st.decimals(-(10**9), 10**9, places=3)),
    (pa.timestamp("us", "UTC"), maybe | st.datetimes(timezones=st.timezones())),
    (pa.large_list(pa.large_string()), maybe | st.lists(texts, max_size=4)),
    (
        pa.struct([("user", pa.large_string()), ("tags", pa.large_list(pa.bool_()))]),
        maybe | st.fixed_dictionaries({"user": texts, "tags": maybe | st.lists(flags, max_size=3)}),
    ),
    (pa.map_(pa.large_string(), pa.int64()), maybe | st.just([("a", 1), ("b", None)])),
]


@pytest.mark.parametrize(("kind", "values"), CASES, ids=lambda each: str(each)[:30])
@given(data=st.data())
def test_values_come_back_and_equal_bytes_are_equal_values(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    column = pa.array(data.draw(st.lists(values, max_size=6)), kind)
    plain = column.to_pylist()
    for first in (0, 1):  # of a part of a column, too
        part = column[first:]
        cells = as_bytes(part)
        assert cells.null_count == 0
        raw = cells.to_pylist()
        assert [from_bytes(each, kind) for each in raw] == part.to_pylist() == plain[first:]
        for one in range(len(raw)):
            for other in range(one):
                assert (raw[one] == raw[other]) == (plain[first + one] == plain[first + other])


def test_no_value_of_several_columns_runs_into_the_next() -> None:
    pair = pa.struct([("a", pa.large_string()), ("b", pa.large_string())])
    told = [{"a": "x", "b": "yz"}, {"a": "xy", "b": "z"}, {"a": "xyz", "b": None}]
    cells = as_bytes(pa.array(told, pair)).to_pylist()
    assert len(set(cells)) == 3
    assert [from_bytes(each, pair) for each in cells] == told


def test_a_column_of_nothing_but_nulls_has_bytes_too() -> None:
    assert [from_bytes(each, pa.null()) for each in as_bytes(pa.nulls(2)).to_pylist()] == [None] * 2
