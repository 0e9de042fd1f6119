"""Two sets of rows, compared: by identity, by bytes or by meaning, in any order, within bounds."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError, LimitedResultWarning
from kstoolkit.formats.columns import HEADERS, ByteColumn, RowColumns
from kstoolkit.rocksdb.faults import StoreClosedError, StoreResourceError, translated
from kstoolkit.stores.comparing import sides as spool
from kstoolkit.stores.comparing.comparing import diff_stores
from kstoolkit.stores.comparing.folders import _together, listed
from kstoolkit.stores.rows.readable import NamedRows, Readable
from tests.stores.comparing.dictionaries import Row, expected, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.stores.comparing.storediff import StoreDiff

MINUTE_MS = 60_000
ALLOWED = spool.Allowance(1 << 30)

keys = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"a\x00\x00", b"\xff", "zoë".encode()])
times = st.none() | st.sampled_from([-(2**63), -1, 0, MINUTE_MS, 2**63 - 1])
values = st.none() | st.sampled_from([b"", b"1", b"22"])
rows_of_a_store = st.lists(
    st.tuples(keys | st.binary(max_size=4), times, times, values), max_size=40
)


def store(name: str, rows: list[Row], part_rows: int = 7) -> Readable:
    parts = [part(rows[first : first + part_rows]) for first in range(0, len(rows), part_rows)]
    return Readable(NamedRows(name, lambda _: iter(parts)), key_serde="bytes", value_serde="bytes")


def part(rows: list[Row], **columns: Any) -> RowColumns:
    key, start, end, value = zip(*rows, strict=True)
    return RowColumns(
        np.arange(len(rows)),
        ByteColumn.of(key),
        ByteColumn.of(value),
        window_start_ms=pa.array(start, pa.int64()),
        window_end_ms=pa.array(end, pa.int64()),
        **columns,
    )


def applied(diff: StoreDiff, rows: list[Row]) -> Counter[Row]:
    found = Counter(rows)
    for each in diff:
        found.subtract([] if each.a is None else [plain(each.a)])
        found.update([] if each.b is None else [plain(each.b)])
    return +found


@pytest.fixture(params=["one run", "many runs of many blocks"])
def run_sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "one run":
            patch.setattr(spool, "_RUN_BYTES", 1)
            patch.setattr(spool, "_MOST_RUNS", 2)
            patch.setattr(spool, "_BLOCK_BYTES", 100)
        yield


@pytest.mark.usefixtures("run_sizes")
@settings(deadline=None, max_examples=60)
@given(rows_of_a_store, rows_of_a_store)
def test_the_counts_are_those_of_dictionaries(a: list[Row], b: list[Row]) -> None:
    with diff_stores(store("a", a), store("b", b)) as diff:
        assert (diff.added, diff.removed, diff.changed, diff.equal) == expected(a, b)
        told = Counter(each.change for each in diff)
        assert (told["added"], told["removed"], told["changed"]) == expected(a, b)[:3]
        assert diff.is_empty == (not told)


@pytest.mark.usefixtures("run_sizes")
@settings(deadline=None, max_examples=60)
@given(rows_of_a_store, rows_of_a_store)
def test_the_differences_applied_to_one_store_make_the_other(a: list[Row], b: list[Row]) -> None:
    if some_ends(a) != some_ends(b):  # then ends are not compared
        a, b = without_ends(a), without_ends(b)
    with diff_stores(store("a", a), store("b", b)) as diff:
        assert applied(diff, a) == Counter(b)


def without_ends(rows: list[Row]) -> list[Row]:
    return [(key, start, None, value) for key, start, _, value in rows]


def some_ends(rows: list[Row]) -> bool:
    return any(row[2] is not None for row in rows)


@pytest.mark.usefixtures("run_sizes")
@settings(deadline=None, max_examples=30)
@given(rows_of_a_store, st.randoms(use_true_random=False), st.integers(1, 9))
def test_the_order_on_disk_makes_no_difference(
    rows: list[Row], random: Any, part_rows: int
) -> None:
    other = random.sample(rows, len(rows))
    with diff_stores(store("a", rows), store("b", other, part_rows)) as diff:
        assert diff.is_empty
        assert diff.equal == len(rows)


def test_differences_come_by_key_then_window() -> None:
    rows: list[Row] = [
        (key, start, None, b"1") for start in (MINUTE_MS, 0, -1) for key in (b"b", b"a\x00", b"a")
    ]
    with diff_stores(store("a", []), store("b", rows)) as diff:
        found = [plain(each.b)[:2] for each in diff]
    assert found == sorted(found, key=lambda each: (each[0], each[1] or 0))


def test_many_rows_of_one_identity_are_matched_by_value_across_blocks() -> None:
    rows: list[Row] = [(b"k", 0, None, b"%d" % (n % 50)) for n in range(20_000)]
    with diff_stores(store("a", rows, 999), store("b", rows[7:], 500)) as diff:
        assert (diff.added, diff.removed, diff.changed, diff.equal) == (0, 7, 0, 19_993)


def test_versions_of_a_key_are_rows_of_their_own() -> None:
    def versions(*valid_from: int) -> Readable:
        rows = part(
            [(b"k", None, None, b"v")] * len(valid_from),
            timestamp_ms=pa.array(valid_from, pa.int64()),
            valid_to_ms=pa.array([None] * len(valid_from), pa.int64()),
        )
        return Readable(
            NamedRows("prices", lambda _: iter([rows])), key_serde="string", value_serde="string"
        )

    with diff_stores(versions(1, 2, 3), versions(2, 3, 4, 5)) as diff:
        assert (diff.added, diff.removed, diff.changed, diff.equal) == (2, 1, 0, 2)
        assert [each.row.timestamp_ms for each in diff] == [1, 4, 5]


def test_timestamps_and_headers_of_equal_values_are_not_compared_but_kept() -> None:
    def stamped(value: bytes, at: int, header: bytes) -> Readable:
        rows = part(
            [(b"k", 0, None, value), (b"l", 0, None, b"same")],
            timestamp_ms=pa.array([at, at]),
            headers=pa.array([[{"name": "h", "value": header}], []], HEADERS),
        )
        return Readable(
            NamedRows("s", lambda _: iter([rows])), key_serde="string", value_serde="string"
        )

    with diff_stores(stamped(b"1", 5, b"x"), stamped(b"2", 6, b"y")) as diff:
        [only] = diff
    assert (diff.changed, diff.equal) == (1, 1)
    assert only.a is not None
    assert only.b is not None
    assert (only.a.timestamp_ms, only.a.headers) == (5, (("h", b"x"),))
    assert (only.b.timestamp_ms, only.b.headers) == (6, (("h", b"y"),))


def test_torn_rows_are_compared_whole_and_stand_last() -> None:
    def torn(value: bytes) -> Readable:
        rows = part(
            [(b"z", None, None, value), (b"a", 0, None, value)], problems={0: "the key has 1 byte"}
        )
        return Readable(
            NamedRows("s", lambda _: iter([rows])), key_serde="string", value_serde="long"
        )

    long = (3).to_bytes(8, "big")
    with diff_stores(torn(b"?" * 8), torn(long)) as diff:
        last = list(diff)[-1]
        assert diff.changed == 2
        assert last.row.problem == "the key has 1 byte"
        assert "the key has 1 byte" in str(last)
        assert diff.to_pandas()["problem"].tolist() == [None, "the key has 1 byte"]
    with diff_stores(torn(long), torn(long), by_value=True) as diff:
        assert diff.is_empty


def test_across_serdes_rows_are_compared_by_what_they_stand_for() -> None:
    longs = [(b"anna", (3).to_bytes(8, "big")), (b"bo", (4).to_bytes(8, "big"))]
    texts = [(b'"bo"', b"4.0"), (b'"anna"', b" 3"), (b'"cy"', b'{"a": [1, null]}')]
    streams = listed("streams", longs, key_serde="string", value_serde="long")
    ours = listed("ours", texts, key_serde="json", value_serde="json")
    with diff_stores(streams, ours, by_value=True) as diff:
        assert (diff.added, diff.removed, diff.changed, diff.equal) == (1, 0, 0, 2)
        assert diff.to_pandas()["key"].tolist() == ['"cy"']
    with diff_stores(streams, ours) as diff:
        assert (diff.added, diff.removed) == (3, 2)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("json", b'{"a": 1, "b": 2}'), ("json", b'{"b":2,"a":1}'), True),
        (("string", b"3"), ("json", b"3"), False),
        (("string", b"3"), ("json", b'"3"'), True),
        (("long", b"?"), ("integer", b"?"), True),
        (("long", b"?"), ("integer", b"!"), False),
        (("bytes", b"3"), ("string", b"3"), False),
        (("double", b"\x7f\xf8" + b"\x00" * 6), ("float", b"\x7f\xc0\x00\x00"), True),
        (("boolean", b"\x01"), ("json", b"true"), True),
        (("short", b"\x00\x01"), ("json", b"true"), False),
        (("json", b"0.1"), ("double", bytes.fromhex("3fb999999999999a")), True),
    ],
)
def test_meanings_are_those_of_the_serdes(one: Any, other: Any, same: bool) -> None:  # noqa: FBT001
    a, b = (listed("s", [(b"k", raw)], value_serde=serde) for serde, raw in (one, other))
    with diff_stores(a, b, key_serde="string", by_value=True) as diff:
        assert diff.is_empty == same


def test_only_rows_that_are_asked_for_are_compared() -> None:
    rows: list[Row] = [(b"k", minute * MINUTE_MS, None, b"1") for minute in range(9)]
    a, b = store("a", rows), store("b", rows[3:])
    with diff_stores(a.rows(since=5 * MINUTE_MS), b.rows(since=5 * MINUTE_MS)) as diff:
        assert diff.is_empty
        assert diff.equal == 4
    with pytest.raises(ConfigurationError, match="only the first 3 are given"):
        diff_stores(a.rows(limit=3), b)


def test_several_partitions_are_one_side() -> None:
    rows: list[Row] = [(b"%d" % n, None, None, b"1") for n in range(9)]
    with diff_stores(
        _together([store("s", rows[:4]), store("s", rows[4:])]), store("b", rows)
    ) as diff:
        assert diff.is_empty
        assert diff.names == ("s", "b")
    with pytest.raises(ConfigurationError, match="no store"):
        _together([])


def test_a_diff_tells_itself_in_every_way() -> None:
    a: list[Row] = [(b"<b>", 0, MINUTE_MS, b"1"), (b"gone", 0, MINUTE_MS, b"2")]
    b: list[Row] = [(b"<b>", 0, MINUTE_MS, b"3"), (b"new", 0, MINUTE_MS, None)]
    serdes: Any = {"key_serde": "string", "value_serde": "json"}
    with diff_stores(store("<a>", a), store("b", b), **serdes) as diff:
        assert repr(diff) == "StoreDiff('<a>' to 'b': 1 added, 1 removed, 1 changed, 0 equal)"
        html = diff._repr_html_()
        assert "<b>" not in html
        assert "&lt;b&gt;" in html
        lines = [json.loads(line) for line in diff.json_lines()]
        frame = diff.to_pandas()
    assert lines[0] == {
        "change": "changed",
        "key": "<b>",
        "window_start_ms": 0,
        "window_end_ms": MINUTE_MS,
        "timestamp_ms_a": None,
        "timestamp_ms_b": None,
        "value_a": 1,
        "value_b": 3,
        "key_hex": b"<b>".hex(),
        "value_hex_a": "31",
        "value_hex_b": "33",
    }
    assert [(line["change"], line["key"]) for line in lines[1:]] == [
        ("removed", "gone"),
        ("added", "new"),
    ]
    assert frame["change"].tolist() == ["changed", "removed", "added"]
    assert frame["key"].tolist() == ["<b>", "gone", "new"]
    assert frame["value_a"].tolist() == ["1", "2", None]
    assert frame["window_end"].notna().all()


def test_a_diff_of_nothing_has_columns_and_no_rows() -> None:
    with diff_stores(listed("a", []), listed("b", [])) as diff:
        assert diff.is_empty
        assert len(diff.to_arrow()) == 0
        assert "change" in diff.to_pandas()
        assert list(diff.json_lines()) == []


def test_a_limit_bounds_what_is_kept_and_not_what_is_counted() -> None:
    rows: list[Row] = [(b"%04d" % n, None, None, b"1") for n in range(500)]
    with diff_stores(store("a", []), store("b", rows), limit=3) as diff:
        assert diff.added == 500
        assert [each.row.key_bytes for each in diff] == [b"0000", b"0001", b"0002"]
    with pytest.raises(ConfigurationError, match="limit is -1"):
        diff_stores(store("a", []), store("b", []), limit=-1)


def test_a_table_that_is_cut_short_says_so() -> None:
    rows: list[Row] = [(b"%04d" % n, None, None, b"1") for n in range(30)]
    with diff_stores(store("a", []), store("b", rows)) as diff:
        with pytest.warns(LimitedResultWarning, match="7 differences are shown"):
            assert len(diff.to_pandas(limit=7)) == 7
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(diff.to_arrow(limit=30)) == 30
            assert len(diff.to_arrow(limit=None)) == 30


def broken_off(part: RowColumns) -> Iterator[RowColumns]:
    yield part
    raise KeyboardInterrupt


def test_the_scratch_folder_goes_when_reading_is_broken_off(tmp_path: Path) -> None:
    one = part([(b"k", 0, None, b"1")])
    broken = Readable(NamedRows("a", lambda _: broken_off(one)), key_serde="string")
    with pytest.raises(KeyboardInterrupt):
        diff_stores(store("a", []), broken, value_serde="string", scratch=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_scratch_folder_goes_with_the_diff(tmp_path: Path) -> None:
    diff = diff_stores(store("a", [(b"k", 0, None, b"1")]), store("b", []), scratch=tmp_path)
    [folder] = tmp_path.iterdir()
    assert {each.suffix for each in folder.iterdir()} == {".lock", ".arrows"}
    assert len([each for each in folder.iterdir() if each.suffix == ".arrows"]) == 1
    diff.close()
    diff.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreClosedError, match="is closed"):
        diff.to_pandas()
    assert "1 removed" in repr(diff)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk to write to")
def test_a_full_scratch_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "a-1.arrows").symlink_to("/dev/full")
    spooled = spool.Spool(tmp_path, "a", pa.schema({"identity": pa.large_binary()}), ALLOWED)
    spooled.add(pa.table({"identity": pa.array([b"k"], pa.large_binary())}))
    with pytest.raises(StoreResourceError, match="The machine gave out"), translated(tmp_path):
        spooled.finish()


def test_more_scratch_disk_than_allowed_is_refused_and_given_back(tmp_path: Path) -> None:
    rows: list[Row] = [(bytes(str(n), "ascii") * 9, 0, None, b"1") for n in range(3_000)]
    with pytest.raises(ConfigurationError, match=r"more than 4\.0 KiB of scratch disk"):
        diff_stores(store("a", rows), store("b", rows), disk_bytes=4096, scratch=tmp_path)
    assert not list(tmp_path.iterdir())


def in_families(name: str, *rows: tuple[str | None, bytes, bytes]) -> Readable:
    family, key, value = zip(*rows, strict=True)
    part = RowColumns.whole(ByteColumn.of(key), ByteColumn.of(value))
    part.details["family"] = pa.array(family, pa.string())
    return Readable(NamedRows(name, lambda _: iter([part])), key_serde="string", value_serde="json")


@pytest.mark.parametrize("by_value", [False, True])
def test_rows_of_two_families_are_two_rows_whatever_their_keys(by_value: bool) -> None:  # noqa: FBT001
    a = in_families("a", ("total", b"anna", b"3"), ("seen", b"anna", b"7"))
    b = in_families("b", ("seen", b"anna", b"7"), ("total", b"anna", b"4"))
    with diff_stores(a, b, by_value=by_value) as diff:
        assert str(diff.counts) == "0 added, 0 removed, 1 changed, 1 equal"
        [only] = diff
        assert str(only) == "~ total 'anna': 4, was 3"
        assert only.to_dict()["family"] == "total"
        assert diff.to_arrow()["family"].to_pylist() == ["total"]


def test_families_are_told_of_either_side_and_count_if_both_have_some() -> None:
    named = in_families("named", ("total", b"anna", b"3"), ("total", b"bo", b"1"))
    plain = listed("plain", [(b"anna", b"3"), (b"cy", b"2")], value_serde="json")
    with diff_stores(named, plain) as diff:
        assert str(diff.counts) == "1 added, 1 removed, 0 changed, 1 equal"
        assert [str(each) for each in diff] == ["- total 'bo': 1", "+ 'cy': 2"]
        told = [json.loads(line) for line in diff.json_lines()]
        assert [each.get("family") for each in told] == ["total", None]
        assert diff.to_pandas()["family"].tolist() == ["total", None]
    with diff_stores(plain, listed("nothing", [])) as diff:
        assert "family" not in diff.to_pandas()
        assert all("family" not in json.loads(line) for line in diff.json_lines())
    nothing = Readable(
        NamedRows("nothing", lambda _: iter([])), key_serde="string", value_serde="json"
    )
    with diff_stores(named, nothing) as diff:
        assert diff.to_pandas()["family"].tolist() == ["total", "total"]
