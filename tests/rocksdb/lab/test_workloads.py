from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.rocksdb.lab.workloads import (
    KINDS,
    AskedKeys,
    Workload,
    generated,
    keep_rows,
    kept_rows,
)

if TYPE_CHECKING:
    from pathlib import Path

Rows = list[tuple[bytes, bytes | None]]


def rows_of(kind: str, **options: Any) -> Rows:
    workload = Workload(kind, **({"writes": 5_000, "keys": 1_000, "value_bytes": 10} | options))
    batches = generated(workload)
    return [row for batch in batches for row in zip(batch.keys, batch.values, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_every_row(kind: str) -> None:
    assert rows_of(kind) == rows_of(kind)
    assert rows_of(kind) != rows_of(kind, seed=8)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_as_many_and_as_large_as_asked_for(kind: str) -> None:
    rows = rows_of(kind, writes=1_234)
    assert len(rows) == 1_234
    assert {len(key) for key, _ in rows} == {16}
    assert {len(value) for _, value in rows if value is not None} == {10}


def times_each_key_is_written(kind: str) -> list[int]:
    counted = Counter(key for key, _ in rows_of(kind))
    return [times for _, times in counted.most_common()]


def test_uniform_writes_all_keys_about_equally_often() -> None:
    times = times_each_key_is_written("uniform")
    assert 950 < len(times) <= 1_000
    assert times[0] < 20


def test_skewed_writes_the_first_key_about_twice_as_often_as_the_second() -> None:
    times = times_each_key_is_written("skewed")
    # P(n) = log((n + 1) / n) / log(keys): log 2 / log 1000 of 5,000 for the first, 502
    assert times[0] == pytest.approx(502, rel=0.15)
    assert times[0] / times[1] == pytest.approx(1.71, rel=0.25)
    assert len(times) <= 1_000


def test_overwrite_heavy_writes_two_per_cent_of_the_keys() -> None:
    assert len(times_each_key_is_written("overwrite_heavy")) == 20


def test_delete_heavy_deletes_about_45_per_cent() -> None:
    deleted = sum(value is None for _, value in rows_of("delete_heavy"))
    assert deleted / 5_000 == pytest.approx(0.45, abs=0.03)


def test_time_ordered_goes_from_window_to_window_with_some_late_rows() -> None:
    windows = [int.from_bytes(key[:8]) for key, _ in rows_of("time_ordered")]
    assert sorted(set(windows)) == [60_000 * window for window in range(60)]
    newest = [max(windows[: place + 1]) for place in range(len(windows))]
    late = sum(window < new for window, new in zip(windows, newest, strict=True))
    assert late / len(windows) == pytest.approx(0.02, abs=0.01)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "zipf"}, "No workload is called 'zipf'"),
        ({"kind": "replayed"}, "without rows"),
        ({"kind": "uniform", "rows": [(b"a", b"b")]}, "with rows"),
        ({"writes": 0}, "writes is 0"),
        ({"writes": 1.5}, r"writes is 1\.5"),
        ({"keys": True}, "keys is True"),
        ({"seed": "7"}, "seed is '7'"),
        ({"reads_per_write": -1}, "reads_per_write is -1"),
        ({"reads_per_write": float("inf")}, "reads_per_write is inf"),
        ({"reads_per_write": None}, "reads_per_write is None"),
        ({"absent_share": 1.5}, "absent_share is 1.5"),
        ({"writes_per_second": 0}, "writes_per_second is 0"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Workload(**options)


def test_one_of_a_thing_is_told_as_one() -> None:
    told = repr(Workload(writes=1, keys=1, value_bytes=1, reads_per_write=1))
    assert told == "Workload(uniform, 1 write, 1 key, values of 1 byte, 1 read a write, seed 7)"


@given(rows=st.lists(st.tuples(st.binary(), st.none() | st.binary()), min_size=1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rows_to_replay_come_back_as_they_were(rows: Rows, tmp_path: Path) -> None:
    assert keep_rows(iter(rows), tmp_path / "rows", disk_bytes=1 << 20) == len(rows)
    found = [row for batch in kept_rows(tmp_path / "rows") for row in zip(*batch, strict=True)]
    assert found == rows


def test_many_rows_to_replay_come_back_in_their_order(tmp_path: Path) -> None:
    rows: Rows = [(b"%d" % number, None) for number in range(2_500)]
    keep_rows(rows, tmp_path / "rows", disk_bytes=1 << 20)
    assert [key for batch in kept_rows(tmp_path / "rows") for key in batch.keys] == [
        key for key, _ in rows
    ]


def test_large_values_make_small_batches(tmp_path: Path) -> None:
    rows: Rows = [(b"%d" % number, bytes(3 << 20)) for number in range(4)]
    keep_rows(rows, tmp_path / "rows", disk_bytes=1 << 30)
    assert [len(batch.keys) for batch in kept_rows(tmp_path / "rows")] == [2, 2]


def test_rows_that_take_more_than_the_disk_allows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"more than 1\.0 KiB"):
        keep_rows([(b"key", bytes(10_000))], tmp_path / "rows", disk_bytes=1 << 10)


def test_no_rows_to_replay_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows to replay"):
        keep_rows([], tmp_path / "rows", disk_bytes=1 << 20)


@pytest.mark.parametrize(
    "row", [("text", b"bytes"), (b"key", "text"), (None, b"value"), (b"key",), 7, (b"a", b"b", 1)]
)
def test_what_is_no_row_is_refused(row: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Row 2 to replay is "):
        keep_rows([(b"key", b"value"), row], tmp_path / "rows", disk_bytes=1 << 20)


def test_keys_are_asked_for_evenly_among_all_that_were_written() -> None:
    asked = AskedKeys(seed=7, absent_share=0)
    for first in range(0, 200_000, 50_000):
        asked.take_in([b"%06d" % number for number in range(first, first + 50_000)])
    drawn = [int(key) for key in asked.draw(10_000)]
    for first in range(0, 200_000, 50_000):
        share = sum(first <= key < first + 50_000 for key in drawn) / len(drawn)
        assert share == pytest.approx(0.25, abs=0.03)


def test_some_of_the_keys_asked_for_were_never_written() -> None:
    written = {b"%03d" % number for number in range(100)}
    asked = AskedKeys(seed=7, absent_share=0.2)
    asked.take_in(sorted(written))
    absent = [key for key in asked.draw(5_000) if key not in written]
    assert len(absent) / 5_000 == pytest.approx(0.2, abs=0.03)


def test_nothing_is_asked_for_before_something_is_written() -> None:
    assert AskedKeys(seed=7, absent_share=0).draw(3) == []
