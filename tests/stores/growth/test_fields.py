"""Which fields keys of Spark's operators have, and what rows add up to by them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.spark.keys import KeyEncoder
from kstoolkit.formats.spark.rows import Family
from kstoolkit.formats.spark.types import schema_of
from kstoolkit.stores.growth.fields import FieldTally, _as_bytes, _paths_in, _read, key_fields
from kstoolkit.stores.growth.growth import _measured_growth
from tests.formats.spark.sparkrows import row_schema
from tests.stores.growth.listedrows import Listed
from tests.stores.growth.sparkstate import VALUE_BYTES, WINDOW, family, state

if TYPE_CHECKING:
    from kstoolkit.stores.growth.verdict import Growth


USER, PAIR = row_schema(user="string"), row_schema(n="integer")
MAP = {"key": USER, "userKey": PAIR}


def totals(found: Growth) -> list[tuple[Any, int]]:
    return [(each.key, each.num_rows) for each in found.keys]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"window": WINDOW, "user": "string", "page": "string"}, ["user", "page"]),
        ({"who": row_schema(user="string", at=PAIR)}, ["user", "n"]),
        (MAP, ["user", "n"]),
        ({"key": USER, "userKey": USER}, ["user", "userKey.user"]),
        ({"a": USER, "b": USER}, ["a.user", "b.user"]),
        ({"a": USER, "user": "string"}, ["a.user", "user"]),
        ({"key": USER}, ["user"]),
        ({"key": "string", "window": "string"}, ["key", "window"]),
        ({"window": WINDOW}, []),
        ({}, []),
    ],
)
def test_fields_are_what_a_key_has_beside_its_window(
    columns: dict[str, Any], names: list[str]
) -> None:
    assert list(_paths_in(family(**columns))) == names


def test_what_operators_add_to_keys_is_no_field() -> None:
    assert list(_paths_in(family("left-keyWithIndexToValue", field0="string", index="long"))) == [
        "field0"
    ]
    assert list(_paths_in(family("default", field0="string", index="long"))) == ["field0", "index"]
    timer = family("$eventTimers_keyToTimestamp", key=USER, expiryTimestampMs="long")
    assert list(_paths_in(timer)) == ["user"]
    assert list(_paths_in(timer, times=True)) == ["user", "expiryTimestampMs"]
    expiry = row_schema(**MAP)
    of_map = family("$ttl_by_n", expirationMs="long", elementKey=expiry)
    assert list(_paths_in(of_map)) == ["user", "n"]
    session = schema_of(row_schema(user="string", sessionStartTime="timestamp"))
    value = schema_of(row_schema(session_window=WINDOW, count="long"))
    assert list(_paths_in(Family("default", session, value, KeyEncoder()))) == ["user"]
    stamped = schema_of(row_schema(field0="string", at="long"))
    encoder = KeyEncoder("TimestampAsPostfix")
    assert list(_paths_in(Family("left", stamped, value, encoder))) == ["field0"]


def test_by_default_a_key_is_all_that_every_family_has() -> None:
    total, by_n = family("total", user="string"), family("by_n", **MAP)
    found = key_fields([total, by_n])
    assert found is not None
    assert (found.by, found.each) == (("user",), ("n",))
    alone = key_fields([by_n])
    assert alone is not None
    assert (alone.by, alone.each) == (("user", "n"), ("user", "n"))
    assert key_fields([family(window=WINDOW)]) is None
    assert key_fields([family("a", user="string"), family("b", page="string")]) is None


@pytest.mark.parametrize("by", ["page", "window", ["user", "page"], [], 3, [["user"]], None])
def test_a_field_that_no_key_has_is_refused(by: Any) -> None:
    families = [family(window=WINDOW, user="string")]
    if by is None:
        assert key_fields(families) is not None
        return
    with pytest.raises(ConfigurationError, match=r"have no field .* to sum up by") as error:
        key_fields(families, by)
    assert error.value.hint == "Give one of user. Windows are summed up beside keys."


def test_rows_add_up_by_one_field_by_several_and_by_each() -> None:
    columns = {"user": "string", "page": "integer"}
    keys: list[dict[str, Any]] = [
        {"user": user, "page": page} for user in ("Anna", "Bo") for page in (1, 2, 2)
    ]
    keys.append({"user": None, "page": 2})
    rows = state(columns, keys)
    fields = key_fields([family(**columns)])
    found = _measured_growth(Listed([rows.take(np.arange(7) < 3), rows]), fields=fields)
    assert found.by == ("user", "page")
    told = {(each.key["user"], each.key["page"]): each.num_rows for each in found.keys}
    assert told == {("Anna", 2): 4, ("Anna", 1): 2, ("Bo", 2): 2, ("Bo", 1): 1, (None, 2): 1}
    of_user = {each.key: each.num_rows for each in found.fields["user"]}
    assert of_user == {"Anna": 6, "Bo": 3, None: 1}
    assert [(each.key, each.num_rows) for each in found.fields["page"]] == [(2, 7), (1, 3)]
    assert found.num_keys == 5
    only = _measured_growth(Listed([rows]), fields=key_fields([family(**columns)], "page"))
    assert totals(only) == [(2, 5), (1, 2)]
    assert only.fields == {}
    assert sum(each.data_bytes for each in only.keys) == only.data_bytes
    assert only.data_bytes == int(rows.key.lengths.sum()) + 7 * VALUE_BYTES


def test_families_add_up_by_the_fields_that_they_share() -> None:
    total, by_n = family("total", user="string"), family("by_n", **MAP)
    parts = [
        state({"user": "string"}, [{"user": "Anna"}, {"user": "Bo"}], family="total"),
        state(
            MAP, [{"key": {"user": "Bo"}, "userKey": {"n": n}} for n in (7, 8, 9)], family="by_n"
        ),
    ]
    found = _measured_growth(Listed(parts), fields=key_fields([total, by_n]))
    assert totals(found) == [("Bo", 4), ("Anna", 1)]
    assert [each.key for each in found.fields["n"]] == [7, 8, 9]
    assert found.num_without_fields == 0
    by_number = _measured_growth(Listed(parts), fields=key_fields([total, by_n], "n"))
    assert totals(by_number) == [(7, 1), (8, 1), (9, 1)]
    assert by_number.num_without_fields == 2


def test_a_field_of_two_types_is_two_fields_of_one_name() -> None:
    one, other = family("one", id="string"), family("other", id="long")
    parts = [
        state({"id": "string"}, [{"id": "7"}, {"id": "7"}], family="one"),
        state({"id": "long"}, [{"id": 7}], family="other"),
    ]
    found = _measured_growth(Listed(parts), fields=key_fields([one, other]))
    assert totals(found) == [("7", 2), (7, 1)]


def test_keys_of_any_type_can_be_said_in_json() -> None:
    columns = {"price": "decimal(9,2)", "ratio": "double", "at": "time(6)", "raw": "binary"}
    key = {"price": Decimal("1.25"), "ratio": math.nan, "at": time(1, 2), "raw": b"\x01"}
    found = _measured_growth(
        Listed([state(columns, [key])]), fields=key_fields([family(**columns)])
    )
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    plain = {"price": "1.25", "ratio": "NaN", "at": "01:02:00", "raw": "01"}
    assert told["keys"][0]["key"] == plain
    assert [told["fields"][name][0]["key"] for name in columns] == list(plain.values())


def test_beginnings_are_those_of_the_text_that_a_key_is() -> None:
    columns = {"user": "string", "n": "integer"}
    keys = [{"user": f"{kind}-{n}", "n": n} for kind in ("anna", "bo") for n in range(300)]
    rows = state(columns, [*keys, {"user": None, "n": 0}])
    found = _measured_growth(
        Listed([rows]), fields=key_fields([family(**columns)], "user"), prefix_bytes=3
    )
    assert {each.prefix: each.num_rows for each in found.prefixes} == {"ann": 300, "bo-": 300}


def test_a_key_that_can_not_be_read_is_in_no_sum() -> None:
    rows = state({"user": "string"}, [{"user": "Anna"}, {"user": "Bo"}])
    torn = replace(rows, key=ByteColumn.of([rows.key.to_list()[0], b"?"]))
    found = _measured_growth(Listed([torn]), fields=key_fields([family(user="string")]))
    assert totals(found) == [("Anna", 1)]
    assert found.num_without_fields == 1


def test_memory_is_shared_by_all_fields_and_what_is_lost_is_bounded() -> None:
    columns = {f"f{n}": "long" for n in range(40)}
    fields = key_fields([family(**columns)])
    assert fields is not None
    tally = FieldTally(fields)
    every = 0
    for part in range(4):
        numbers = [dict.fromkeys(columns, part * 1000 + n) for n in range(1000)]
        rows = state(columns, [*numbers, *([dict.fromkeys(columns, -1)] * 500)])
        sizes = np.full(len(rows), 9, dtype=np.int64)
        tally.add(rows, sizes)
        every += len(rows)
    for name in columns:
        hitters = tally.each[name]
        top = hitters.top(1)
        assert tally.key(top.keys[0].as_py()) == {name: -1}
        assert top.num_rows[0] <= 2000 <= top.num_rows[0] + hitters.error_rows
        assert len(hitters.top(every)) <= (1 << 16) // 40
        assert hitters.num_keys is None


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
        cells = _as_bytes(part)
        assert cells.null_count == 0
        raw = cells.to_pylist()
        assert [_read(each, 0, kind)[0] for each in raw] == part.to_pylist() == plain[first:]
        for one in range(len(raw)):
            for other in range(one):
                assert (raw[one] == raw[other]) == (plain[first + one] == plain[first + other])


def test_no_value_of_several_columns_runs_into_the_next() -> None:
    pair = pa.struct([("a", pa.large_string()), ("b", pa.large_string())])
    told = [{"a": "x", "b": "yz"}, {"a": "xy", "b": "z"}, {"a": "xyz", "b": None}]
    cells = _as_bytes(pa.array(told, pair)).to_pylist()
    assert len(set(cells)) == 3
    assert [_read(each, 0, pair)[0] for each in cells] == told


def test_a_column_of_nothing_but_nulls_has_bytes_too() -> None:
    assert [_read(each, 0, pa.null())[0] for each in _as_bytes(pa.nulls(2)).to_pylist()] == [
        None
    ] * 2
