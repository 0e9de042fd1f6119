from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError, LimitedResultWarning
from kstoolkit.formats.columns import HEADERS, ByteColumn, RowColumns, Undecoded
from kstoolkit.formats.serdes import serde_of
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.jsonlines import json_text
from kstoolkit.stores.rows.rowview import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Listed:
    """Rows that lie in memory, in parts."""

    parts: list[RowColumns]
    name: str = "counts"

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        del asked
        yield from self.parts


def part(numbers: range, **columns: Any) -> RowColumns:
    """Return rows of users that are called by their number, a minute each, counted so often."""
    keys = ByteColumn.of([f"user-{number}".encode() for number in numbers])
    values = ByteColumn.of([number.to_bytes(8, "big") for number in numbers])
    start = pa.array([number * MINUTE_MS for number in numbers], pa.int64())
    return RowColumns(np.arange(len(numbers)), keys, values, window_start_ms=start, **columns)


def rows_of(*parts: RowColumns, limit: int | None = None, **asked: Any) -> Rows:
    return Rows(
        Listed(list(parts)), Asked(**asked), serde_of("string"), serde_of("long"), limit=limit
    )


THIRTY = (part(range(12)), part(range(12, 30)))


@pytest.mark.parametrize("limit", [None, 0, 1, 11, 12, 13, 29, 30, 31])
def test_a_limit_is_the_number_of_rows_wherever_the_parts_end(limit: int | None) -> None:
    rows = rows_of(*THIRTY, limit=limit)
    expected = list(range(30))[:limit]
    assert [row.value for row in rows] == expected
    assert rows.count() == len(expected)
    assert rows.to_pandas()["value"].tolist() == expected
    assert len(list(rows.json_lines())) == len(expected)


@dataclass(frozen=True)
class Estimated(Listed):
    """Rows of which a store estimates that they are a hundred."""

    estimate: int | None = 100

    def estimated_rows(self) -> int | None:
        return self.estimate


def test_rows_are_counted_or_estimated() -> None:
    key, value = serde_of("string"), serde_of("long")
    estimated = Estimated(list(THIRTY))
    rows = Rows(estimated, Asked(), key, value)
    assert (rows.count(), rows.count(exact=True), rows.count(exact=False)) == (30, 30, 100)
    assert Rows(estimated, Asked(), key, value, limit=7).count(exact=False) == 7
    assert Rows(estimated, Asked(prefix=b"user-1"), key, value).count(exact=False) == 11
    nothing = Rows(Estimated(list(THIRTY), estimate=None), Asked(), key, value)
    assert nothing.count(exact=False) == 30
    assert rows_of(*THIRTY).count(exact=False) == 30


def test_rows_are_read_anew_each_time() -> None:
    rows = rows_of(*THIRTY)
    assert list(rows) == list(rows)


def test_no_more_is_decoded_than_is_shown() -> None:
    decoded: list[bytes] = []
    rows = Rows(Listed(list(THIRTY)), Asked(), serde_of("string"), serde_of(decoded.append))
    assert repr(rows).endswith("and more")
    assert len(decoded) == 11


def test_a_long_value_is_cut_in_the_representation_alone() -> None:
    keys, values = ByteColumn.of([b"k"]), ByteColumn.of([b"x" * 1_000_000])
    source = Listed([RowColumns.whole(keys, values)])
    rows = Rows(source, Asked(), serde_of("string"), serde_of("string"))
    assert len(repr(rows)) < 400
    assert repr(rows).endswith("xx …")
    assert len(next(iter(rows)).value) == 1_000_000


def test_a_result_that_is_cut_short_says_so() -> None:
    rows = rows_of(*THIRTY)
    with pytest.warns(LimitedResultWarning, match="7 rows are shown, and there are more"):
        assert len(rows.to_pandas(limit=7)) == 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(rows.to_arrow(limit=30)) == 30
        assert len(rows_of(*THIRTY, limit=7).to_arrow(limit=7)) == 7
        assert len(rows.to_pandas(limit=None)) == 30


def test_fewer_rows_than_none_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="limit is -1"):
        rows_of(limit=-1)


@given(
    st.none() | st.integers(-1, 31), st.none() | st.integers(-1, 31), st.none() | st.integers(0, 9)
)
def test_rows_are_chosen_by_time_and_prefix(
    since: int | None, until: int | None, digit: int | None
) -> None:
    times = [None if each is None else each * MINUTE_MS for each in (since, until)]
    prefix = None if digit is None else f"user-{digit}".encode()
    rows = rows_of(*THIRTY, since_ms=times[0], until_ms=times[1], prefix=prefix)
    expected = [
        number
        for number in range(30)
        if (since is None or number >= since)
        and (until is None or number < until)
        and (digit is None or str(number).startswith(str(digit)))
    ]
    assert [row.value for row in rows] == expected


def test_one_key_and_one_window_are_found() -> None:
    assert [row.value for row in rows_of(*THIRTY, key=b"user-1")] == [1]
    assert [row.value for row in rows_of(*THIRTY, window_start_ms=17 * MINUTE_MS)] == [17]
    assert rows_of(*THIRTY, key=b"user-1", window_start_ms=0).count() == 0


def test_without_windows_the_time_is_the_rows_own() -> None:
    keys = ByteColumn.of([b"a", b"b", b"c"])
    time = pa.array([5, None, 7], pa.int64())
    rows = RowColumns(np.arange(3), keys, keys, timestamp_ms=time)
    found = Rows(Listed([rows]), Asked(since_ms=0, until_ms=7), *[serde_of("string")] * 2)
    assert [row.key for row in found] == ["a"]


def test_a_row_that_is_torn_is_shown_raw_and_is_nobodys() -> None:
    torn = part(range(3), problems={1: "the key has 6 bytes, not 12 or more"})
    row = list(rows_of(torn))[1]
    assert row.key == Undecoded(b"user-1", "the key has 6 bytes, not 12 or more")
    assert row.problem == "the key has 6 bytes, not 12 or more"
    assert (row.key_bytes, row.value_bytes) == (b"user-1", (1).to_bytes(8, "big"))
    assert rows_of(torn).to_pandas()["problem"].tolist()[1] == row.problem
    assert rows_of(torn).to_pandas()["value"].isna().tolist() == [False, True, False]
    assert rows_of(torn, key=b"user-1").count() == 0
    [only] = rows_of(torn).batches()
    assert only.num_undecoded == 1


def test_a_value_that_its_serde_cannot_read_keeps_its_key() -> None:
    keys = ByteColumn.of([b"a", b"b"])
    rows = RowColumns.whole(keys, ByteColumn.of([b"12345678", b"x"]))
    found = Rows(Listed([rows]), Asked(), serde_of("string"), serde_of("long"))
    table = found.to_arrow()
    assert table["problem"].to_pylist() == [None, "value: 1 byte, not 8"]
    assert table["value"].type == pa.int64()
    line = json.loads(list(found.json_lines())[1])
    assert line["value"] == {"hex": "78", "problem": "1 byte, not 8"}
    assert (line["key"], line["value_hex"]) == ("b", "78")


def test_headers_come_as_pairs_and_as_hex() -> None:
    told = pa.array([[{"name": "h", "value": b"\x01"}, {"name": "h", "value": None}]], HEADERS)
    rows = rows_of(part(range(1), headers=told))
    assert next(iter(rows)).headers == (("h", b"\x01"), ("h", None))
    assert json.loads(next(rows.json_lines()))["headers"] == [["h", "01"], ["h", None]]


def test_no_rows_still_have_columns_and_types() -> None:
    table = rows_of().to_arrow()
    assert table.num_rows == 0
    assert table.schema.equals(rows_of(*THIRTY).to_arrow().schema)
    assert list(rows_of()) == []


def test_values_without_a_type_of_their_own_are_json_text_in_a_table() -> None:
    keys = ByteColumn.of([b"a"])
    rows = RowColumns.whole(keys, ByteColumn.of([b'{"n": 1}']))
    found = Rows(Listed([rows]), Asked(), serde_of("string"), serde_of("json"))
    assert next(iter(found)).value == {"n": 1}
    assert found.to_arrow()["value"].to_pylist() == ['{"n": 1}']


def test_a_look_shows_the_first_rows_and_that_there_are_more() -> None:
    text = repr(rows_of(*THIRTY))
    assert text.splitlines()[0] == "Rows of 'counts'"
    assert text.splitlines()[1] == "  'user-0' [1970-01-01 00:00:00.000]: 0"
    assert text.splitlines()[-1] == "  ... and more"
    assert repr(rows_of()) == "Rows of 'counts': none"


def test_what_lies_in_a_store_is_escaped_in_html() -> None:
    keys = ByteColumn.of([b"<script>alert(1)</script>"])
    rows = RowColumns.whole(keys, ByteColumn.of([(1).to_bytes(8, "big")]))
    html = Rows(Listed([rows], "<b>"), Asked(), serde_of("string"), serde_of("long"))._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;" in html


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.inf, "Infinity"),
        ([math.nan, {"a": -math.inf}], ["NaN", {"a": "-Infinity"}]),
        ({(1, 2): b"\x00"}, {"(1, 2)": {"hex": "00"}}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        (Decimal("1.10"), "1.10"),
        ((1, {2}), [1, [2]]),
    ],
)
def test_whatever_a_serde_returns_becomes_valid_json(value: Any, expected: Any) -> None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    assert json.loads(json_text(value), parse_constant=refuse) == expected


def test_endless_nesting_becomes_json_too() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (circle, nested(100_000)):
        assert "nested too deep" in json_text(value)
