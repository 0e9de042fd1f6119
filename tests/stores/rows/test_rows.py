from __future__ import annotations

import json
import math
import tracemalloc
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, LimitedResultWarning, OutputError
from kstoolkit.formats.columns import HEADERS, ByteColumn, RowColumns, Undecoded
from kstoolkit.formats.serdes import serde_of
from kstoolkit.stores.growth.growth import growth
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.readable import Rows
from kstoolkit.stores.rows.rows import bounded, json_text
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.rows.statestore import StateStore
from tests.stores.kafkastreams.archives import RELEASES, unpacked
from tests.stores.streamsstores import int64, write_minutes, write_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SUBSCRIPTIONS = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000029"
WAITING = "click-imp-left-left-shared-join-store"
NINE = [
    "store",
    "key",
    "window_start_ms",
    "window_end_ms",
    "timestamp_ms",
    "value",
    "headers",
    "key_hex",
    "value_hex",
]
TABLE = [
    "key",
    "window_start",
    "window_end",
    "timestamp",
    "value",
    "headers",
    "key_bytes",
    "value_bytes",
    "problem",
]
OLD, NEW = RELEASES[0], RELEASES[-1]


@pytest.fixture
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return where a real store lies, by release and name."""

    def place(release: str, store: str) -> Path:
        clean = unpacked(tmp_path_factory, release) / "clean"
        (path,) = [*clean.glob(f"*/0_0/rocksdb/{store}"), *clean.glob(f"*/0_0/{store}")]
        return path

    return place


@pytest.mark.parametrize("release", RELEASES)
def test_a_subscription_tells_its_foreign_key(found: Any, release: str) -> None:
    with kst.open_store(found(release, SUBSCRIPTIONS)) as store:
        rows = list(store.rows())
        table = store.rows().to_arrow()
    assert rows
    for row in rows:
        own = row.key_bytes
        assert own == b"\x00\x00\x00\x02" + row.details["foreign_key"].encode() + row.key.encode()
        assert row.details["instruction"] == "PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE"
        assert (row.value_bytes or b"")[2:18].hex() == row.details["hash"]
        is_old = release == OLD
        assert row.details["version"] == (0 if is_old else 1)
        assert row.details["primary_partition"] == (None if is_old else 0)
    first = rows[0]
    asked = "PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE"
    assert str(first).startswith(f"'o0' for 'c0', {asked} at 2023-11-14 22:13")
    names = ["foreign_key", "instruction", "hash", "version", "primary_partition"]
    assert table.column_names == TABLE + names
    assert [dict(zip(names, cells, strict=True)) for cells in _rows_of(table.select(names))] == [
        row.details for row in rows
    ]


def _rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def test_one_subscription_that_is_asked_for_reads_as_among_all(found: Any) -> None:
    with kst.open_store(found(NEW, SUBSCRIPTIONS)) as store:
        every = {row.key: row for row in store.rows()}
        (one,) = store.rows(key="o34") if "o34" in every else store.rows(key="o0")
        assert one == every[one.key]
        assert store.rows(key="nobody").to_arrow().column_names[-1] == "primary_partition"


@pytest.mark.parametrize("release", RELEASES[1:])
def test_what_waits_in_a_join_tells_its_side(found: Any, release: str) -> None:
    with kst.open_store(found(release, WAITING)) as store:
        rows = list(store.rows())
        frame = store.rows().to_pandas()
    assert {row.details["side"] for row in rows} == {"left"}
    assert all(row.details["side"] == ("left" if row.key_bytes[8] else "right") for row in rows)
    assert str(rows[0]) == "'u-12' left at 2023-11-14 23:13:19.177: 'click118'"
    assert frame["side"].tolist() == ["left"] * len(rows)


@pytest.mark.parametrize("release", RELEASES[1:])
def test_a_version_tells_until_when_it_was_valid(found: Any, release: str) -> None:
    with kst.open_store(found(release, "price-history")) as store:
        rows = list(store.rows())
        table = store.rows().to_arrow()
    latest = [row for row in rows if row.details["valid_to_ms"] is None]
    past = [row for row in rows if row.details["valid_to_ms"] is not None]
    # The segment of the latest ones is -1, and a key has one at most.
    assert {row.details["segment_id"] for row in latest} == {-1}
    assert len({row.key for row in latest}) == len(latest) < len(rows)
    begun = {(row.key, row.timestamp_ms) for row in rows}
    ends = [(row.key, row.details["valid_to_ms"]) for row in past]
    # Where its application deleted a key, a version ends and none begins.
    assert [end for end in ends if end not in begun] == [("alice", 1_700_002_180_000)]
    assert str(past[0]).startswith("'' at 2023-11-14 22:13:20.000 until 2023-11-14 22:20:20.000: ")
    assert ", still valid: 'costs " in str(latest[0])
    assert table.schema.field("valid_to").type == pa.timestamp("ms", "UTC")
    assert table["valid_to"].cast(pa.int64()).to_pylist() == [
        row.details["valid_to_ms"] for row in rows
    ]


def test_a_record_that_waits_in_a_buffer_tells_where_it_is_from(found: Any) -> None:
    with kst.open_store(found(NEW, "price-join-Buffer")) as store:
        row = next(iter(store.rows()))
    told = {"topic": "events", "partition": 0, "offset": 111, "prior": None, "old": None}
    assert row.details == told | {"sequence": 112}
    assert str(row).startswith("'u-2' from events-0 at offset 111 at 2023-11-14 23:09:23.084: ")


def test_rows_of_one_key_and_window_tell_their_number(found: Any) -> None:
    with kst.open_store(found(NEW, "win-dups")) as store:
        assert next(iter(store.rows())).details == {"sequence": 1}
    with kst.open_store(found(NEW, "win-plain")) as store:
        assert "sequence" not in store.rows().to_arrow().column_names


@pytest.mark.parametrize("name", ["kv-ts", "actions-1m", "user-sessions", "sensor-max", "emit-1m"])
def test_rows_without_details_have_the_nine_fields_and_no_columns_more(
    found: Any, name: str
) -> None:
    with kst.open_store(found(NEW, name)) as store:
        lines = [json.loads(line) for line in store.rows().json_lines()]
        assert lines
        assert all(list(line) == NINE for line in lines)
        assert store.rows().to_arrow().column_names == TABLE
        assert all(row.details == {} for row in store.rows())


@pytest.mark.parametrize("name", [SUBSCRIPTIONS, WAITING, "price-history", "price-join-Buffer"])
def test_details_are_the_tenth_field_and_columns_of_a_file(
    found: Any, tmp_path: Path, name: str
) -> None:
    with kst.open_store(found(NEW, name)) as store:
        lines = [json.loads(line) for line in store.rows().json_lines()]
        assert all(list(line) == [*NINE, "details"] for line in lines)
        columns = [each.removesuffix("_ms") for each in lines[0]["details"]]
        for path in (tmp_path / "rows.parquet", tmp_path / "rows.csv"):
            assert kst.export(store, path) == len(lines)
    assert pq.read_table(tmp_path / "rows.parquet").column_names == TABLE + columns
    assert pa_csv.read_csv(tmp_path / "rows.csv").column_names == TABLE + columns


def test_a_torn_row_has_no_details(tmp_path: Path) -> None:
    value = int64(1_700_000_000_000) + bytes.fromhex("8101") + b"o1" + bytes(4)
    rows = {b"\x00\x00\x00\x02c1o1": value, b"\x00\x00\x00\x09c1o1": value}
    path = write_store(tmp_path / SUBSCRIPTIONS, keyValueWithTimestamp=rows)
    with kst.open_store(path, kind="foreign-key-subscription") as store:
        whole, torn = store.rows()
        columns = store.rows().to_arrow()
    assert (whole.details["foreign_key"], whole.details["hash"], torn.details) == ("c1", None, {})
    assert "details" not in torn.to_dict("s")
    assert columns["foreign_key"].to_pylist() == ["c1", None]


def test_a_foreign_key_that_is_a_number_is_read_as_one(tmp_path: Path) -> None:
    value = int64(1_700_000_000_000) + bytes.fromhex("8101") + b"o1" + bytes(4)
    key = bytes.fromhex("00000008") + int64(7) + b"o1"
    path = write_store(tmp_path / SUBSCRIPTIONS, keyValueWithTimestamp={key: value})
    with kst.open_store(path) as store:
        (row,) = store.rows()
    assert (row.key, row.details["foreign_key"]) == ("o1", 7)
    assert str(row).startswith("'o1' for 7, DELETE_KEY_AND_PROPAGATE at ")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (SUBSCRIPTIONS, "foreign-key-subscription"),
        ("KTABLE-AGGREGATE-STATE-STORE-0000000004", "timestamped-key-value"),
        ("counts", "timestamped-key-value"),
    ],
)
def test_an_empty_store_is_recognised_by_its_name(tmp_path: Path, name: str, kind: str) -> None:
    path = write_store(tmp_path / "app" / "0_0" / "rocksdb" / name, keyValueWithTimestamp={})
    with kst.open_store(path) as store:
        assert isinstance(store, StateStore)
        assert store.kind == kind
        by_name = any(name in each for each in store.recognised.reasons)
        assert by_name == (name != "counts")
    for look in (False, True):
        (listed,) = kst.discover(tmp_path / "app", look=look)
        assert (listed.kind, any(name in why for why in listed.reasons)) == (kind, by_name)


def test_the_segments_of_a_store_are_recognised_by_the_name_of_the_store(tmp_path: Path) -> None:
    name = "KSTREAM-JOINTHIS-0000000004-store"
    path = write_minutes(tmp_path / "0_0" / name, ["Anna"])
    for place in (path, next(path.iterdir())):
        with kst.open_store(place) as store:
            assert isinstance(store, StateStore | SegmentedStore)
            assert any(name in each for each in store.recognised.reasons)


def list_of(number: int, key: bytes) -> tuple[bytes, bytes]:
    """Return a row of a join whose list has so many elements."""
    element = bytes.fromhex("00000002") + b"\x01x"
    value = b"\x01" + number.to_bytes(4, "big") + element * number
    return int64(1_700_000_000_000) + b"\x01" + key, value


def test_a_key_that_a_list_repeats_is_in_memory_a_few_times(tmp_path: Path) -> None:
    number, size = 5_000, 1 << 20
    key, value = list_of(number, b"k" * size)
    small = list_of(3, b"a")
    path = write_store(tmp_path / "store", default=dict([(key, value), small]))
    with kst.open_store(path, kind="list-value", key_serde="bytes", value_serde="string") as store:
        assert store.rows().count() == number + 3
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        for part, rows in enumerate(store.rows().batches()):
            assert rows.raw.key.lengths.sum() <= (16 << 20) + 2 * size
            if part < 3:
                rows.to_arrow()
                list(rows)
        peak = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
        tracemalloc.stop()
    assert peak < 100 * size  # of 5,000


def test_rows_on_disk_are_counted_once_in_however_many_parts(tmp_path: Path) -> None:
    rows = dict([list_of(100, b"k" * (1 << 20)), list_of(2, b"b")])
    path = write_store(tmp_path / "store", default=rows)
    with kst.open_store(path, kind="list-value") as store:
        parts = list(store.source.read(Asked()))
        assert len(parts) > 3
        counted = [len(np.unique(part.row)) + part.num_left_out for part in parts]
        assert sum(counted) == 2
        assert growth(store).num_rows == 102


def test_parts_hold_the_rows_in_their_order() -> None:
    cells = ByteColumn.of([bytes([number]) * (5 << 20) for number in range(9)])
    rows = RowColumns(np.arange(9), cells, ByteColumn.of([b""] * 9), num_left_out=4)
    parts = list(bounded(rows))
    assert [cell[:1] for part in parts for cell in part.key.to_list() if cell] == [
        bytes([number]) for number in range(9)
    ]
    assert sum(part.num_left_out for part in parts) == 4
    small = rows.take(np.arange(9) < 2)
    assert next(bounded(small)) is small


class Numbered:
    """Rows of which those of the later parts are numbered."""

    name = "numbered"

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        del asked
        for number in self.numbers:
            cells = ByteColumn.of([b"a"])
            sequence = {"sequence": pa.array([number])}
            yield RowColumns(np.arange(1), cells, cells, details=sequence)


def test_a_file_has_null_where_later_rows_lack_a_column(tmp_path: Path) -> None:
    serdes = serde_of("string"), serde_of("string")
    path = tmp_path / "rows.parquet"
    kst.export(Rows(Numbered(1, 0, 2), Asked(), *serdes), path)
    assert pq.read_table(path)["sequence"].to_pylist() == [1, None, 2]
    late = Rows(Numbered(0, 1), Asked(), *serdes)
    with pytest.raises(OutputError, match="Later rows tell their 'sequence'"):
        kst.export(late, tmp_path / "late.parquet")
    assert not (tmp_path / "late.parquet").exists()
    assert kst.export(late, tmp_path / "late.jsonl") == 2


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
