from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.faults import StoreClosedError
from kstoolkit.rocksdb.files.shadow import _SHADOWS
from kstoolkit.stores.rows.folded import FoldedRecords
from kstoolkit.stores.rows.readable import ReadAs

if TYPE_CHECKING:
    from pathlib import Path

RAW = ReadAs(key_serde="bytes", value_serde="bytes")
START_MS = 1_700_000_000_000

record = st.tuples(st.sampled_from([b"", b"a", b"ab", b"b"]), st.none() | st.binary(max_size=3))
parts_of_records = st.lists(st.lists(record, max_size=6), max_size=4)


def taken_in(folded: FoldedRecords, records: list[tuple[bytes, bytes | None]], at: int) -> None:
    keys, values = [key for key, _ in records], [value for _, value in records]
    times = list(range(START_MS + at, START_MS + at + len(records)))
    folded.take_in(keys, values, times, [None] * len(records))


@settings(max_examples=30)
@given(parts_of_records)
def test_the_last_record_of_each_key_is_what_is_left(
    parts: list[list[tuple[bytes, bytes | None]]],
) -> None:
    expected: dict[bytes, bytes | None] = {}
    with FoldedRecords("counts", replace(RAW, kind="key-value")) as folded:
        for number, part in enumerate(parts):
            taken_in(folded, part, 10 * number)
            expected |= dict(part)
        found = {row.key_bytes: row.value_bytes for row in folded.rows()}
    assert found == {key: value for key, value in expected.items() if value is not None}


@settings(max_examples=30)
@given(parts_of_records)
def test_of_a_versioned_store_every_version_with_a_value_is_left(
    parts: list[list[tuple[bytes, bytes | None]]],
) -> None:
    expected: dict[bytes, list[tuple[int, bytes | None]]] = {}
    with FoldedRecords("counts", replace(RAW, kind="versioned")) as folded:
        for number, part in enumerate(parts):
            taken_in(folded, part, 10 * number)
            for at, (key, value) in enumerate(part):
                expected.setdefault(key, []).append((START_MS + 10 * number + at, value))
        found = [
            (row.key_bytes, row.timestamp_ms, row.value_bytes, row.details["valid_to_ms"])
            for row in folded.rows()
        ]
    wanted = []
    for key, versions in expected.items():
        ends = [at for at, _ in versions[1:]]
        for (at, value), end in zip(versions, [*ends, None], strict=True):
            wanted += [] if value is None else [(key, at, value, end)]
    assert sorted(found) == sorted(wanted)


def test_a_key_is_found_without_the_others() -> None:
    with FoldedRecords("counts", RAW) as folded:
        taken_in(folded, [(b"a", b"1"), (b"ab", b"2"), (b"b", b"3")], 0)
        assert [row.key for row in folded.rows(key=b"a")] == [b"a"]
        assert [row.key for row in folded.rows(prefix=b"a")] == [b"a", b"ab"]
        assert folded.count(exact=True) == folded.estimated_rows() == 3


def test_a_kind_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no kind of store 'widow'"):
        FoldedRecords("counts", ReadAs("widow"))


def test_closed_it_leaves_nothing_behind_and_says_so(tmp_path: Path) -> None:
    folded = FoldedRecords("counts", RAW, scratch=tmp_path)
    taken_in(folded, [(b"a", b"1"), (b"b", b"1")], 0)
    rows = iter(folded.rows())
    assert list(tmp_path.glob(f"{_SHADOWS}*"))
    folded.close()
    folded.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreClosedError, match="counts is closed"):
        next(rows)
    with pytest.raises(StoreClosedError, match="counts is closed"):
        taken_in(folded, [(b"a", b"1")], 0)
