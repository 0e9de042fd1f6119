"""Rows and differences as files: what other tools read of them, and what stands in the way."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.formats.columns import HEADERS, ByteColumn, RowColumns
from kstoolkit.rocksdb.faults import StoreResourceError
from kstoolkit.stores.comparing.comparing import diff_stores
from kstoolkit.stores.comparing.folders import listed
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.exporting import export
from kstoolkit.stores.rows.readable import NamedRows, Readable
from tests.stores.spark.madecheckpoints import make_checkpoint
from tests.stores.streamsstores import write_store

if TYPE_CHECKING:
    from collections.abc import Iterator


MINUTE_MS = 60_000
LINES = (".jsonl", ".json", ".jsonl.gz", ".jsonl.zst")
TABLES = (".parquet", ".csv", ".csv.gz", ".csv.zst")


def part(numbers: range) -> RowColumns:
    start = pa.array([number * MINUTE_MS for number in numbers], pa.int64())
    return RowColumns(
        np.arange(len(numbers)),
        ByteColumn.of([f"user-{number}".encode() for number in numbers]),
        ByteColumn.of([number.to_bytes(8, "big") for number in numbers]),
        window_start_ms=start,
        window_end_ms=pa.array([None] * len(numbers), pa.int64()),
        headers=pa.array([[{"name": "h", "value": b"\x01"}]] * len(numbers), HEADERS),
    )


@pytest.fixture
def store() -> Readable:
    parts = [part(range(12)), part(range(12, 30))]
    return Readable(
        NamedRows("counts", lambda _: iter(parts)), key_serde="string", value_serde="long"
    )


def read(path: Path, question: str = "SELECT * FROM {} ORDER BY value") -> Any:
    reader = "read_parquet" if path.suffix == ".parquet" else "read_csv"
    options = "" if path.suffix == ".parquet" else ", header = true"
    asked = duckdb.sql(question.format(f"{reader}('{path}'{options})"))
    assert asked is not None
    return asked.fetchall()


@pytest.mark.parametrize("suffix", TABLES)
def test_duckdb_reads_what_was_exported(store: Readable, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    assert export(store.rows(), path) == 30
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208 - hidden ones, too
    assert read(path, "SELECT key, value FROM {} ORDER BY value") == [
        (f"user-{number}", number) for number in range(30)
    ]


def test_parquet_has_the_types_of_the_table(store: Readable, tmp_path: Path) -> None:
    export(store.rows(), tmp_path / "rows.parquet")
    found = pq.read_table(tmp_path / "rows.parquet")
    assert found.equals(store.rows().to_arrow())
    assert found.num_rows == 30


@pytest.mark.parametrize("suffix", LINES)
def test_json_lines_are_those_of_the_rows(store: Readable, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    assert export(store.rows(limit=20), path) == 20
    with pa.input_stream(path) as file:
        lines = file.read().decode().splitlines()
    assert lines == list(store.rows(limit=20).json_lines())


def test_a_text_in_gzip_is_read_by_gzip(store: Readable, tmp_path: Path) -> None:
    export(store.rows(), tmp_path / "rows.csv.gz")
    with gzip.open(tmp_path / "rows.csv.gz", "rt", encoding="utf-8") as file:
        first = next(csv.DictReader(file))
    assert first["key"] == "user-0"
    assert (first["key_bytes"], first["value_bytes"]) == (b"user-0".hex(), "00" * 8)
    assert json.loads(first["headers"]) == [["h", {"hex": "01"}]]
    assert first["window_start"] == "1970-01-01 00:00:00.000Z"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
hostile = st.sampled_from(['"', '","', "\r\n", "\n", "'", "=1+1", "\x00", "", ";", "\ufeff"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(texts | hostile, texts | hostile), max_size=9))
def test_hostile_texts_come_back_from_csv(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    path = tmp_path / "rows.csv"
    cells = [(key.encode(), value.encode()) for key, value in rows]
    told = listed("s", cells, key_serde="string", value_serde="string").rows()
    assert export(told, path, overwrite=True) == len(rows)
    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [(row["key"], row["value"]) for row in found] == rows
    assert [bytes.fromhex(row["key_bytes"]) for row in found] == [key for key, _ in cells]


def test_a_value_that_is_not_there_is_empty_and_unlike_an_empty_text(tmp_path: Path) -> None:
    rows = listed("s", [(b"a", None), (b"b", b"")], key_serde="string", value_serde="string").rows()
    export(rows, tmp_path / "rows.csv")
    first, second = (tmp_path / "rows.csv").read_text("utf-8").splitlines()[1:]
    assert first.startswith('"a",,,,,')
    assert second.startswith('"b",,,,""')


def test_times_that_are_no_date_are_written_as_they_are(tmp_path: Path) -> None:
    rows = {
        key: time_ms.to_bytes(8, "big", signed=True) + b"v"
        for key, time_ms in ((b"a", (1 << 63) - 1), (b"b", -2), (b"c", -62_135_596_800_001))
    }
    path = write_store(tmp_path / "kv", default={}, keyValueWithTimestamp=rows)
    with open_store(path, kind="timestamped-key-value") as store:
        export(store.rows(), tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
        told = [row["timestamp"] for row in csv.DictReader(file)]
    assert told == [str((1 << 63) - 1), "1969-12-31 23:59:59.998Z", "-62135596800001"]


def test_parts_are_put_together_into_row_groups(tmp_path: Path) -> None:
    keys = ByteColumn.of([b"%06d" % number for number in range(150_000)])
    whole = RowColumns.whole(keys, keys)
    places = np.arange(150_000) // 10_000
    parts = [whole.take(places == number) for number in range(15)]
    store = Readable(
        NamedRows("s", lambda _: iter(parts)), key_serde="string", value_serde="string"
    )
    assert export(store.rows(), tmp_path / "rows.parquet") == 150_000
    file = pq.ParquetFile(tmp_path / "rows.parquet")
    assert file.num_row_groups == 2
    assert file.read()["key"].to_pylist() == [f"{number:06d}" for number in range(150_000)]


def test_a_type_that_is_all_null_is_written(tmp_path: Path) -> None:
    rows = listed("s", [(b"a", None), (b"b", b"?")], key_serde="string", value_serde="void").rows()
    for suffix in (".csv", ".parquet"):
        assert export(rows, tmp_path / f"rows{suffix}") == 2
        told = read(tmp_path / f"rows{suffix}", "SELECT problem FROM {} ORDER BY key")
        assert told == [(None,), ("value: 1 byte, where none should be",)]


@pytest.mark.parametrize("suffix", [*TABLES, *LINES])
def test_no_rows_make_a_file_too(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    assert export(listed("s", [], key_serde="string", value_serde="long").rows(), path) == 0
    assert path.exists()
    if suffix in TABLES:
        assert read(path) == []


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_differences_are_exported_like_rows(tmp_path: Path, suffix: str) -> None:
    before = listed("a", [(b"anna", b"3"), (b"bo", b"1")], key_serde="string", value_serde="json")
    after = listed("b", [(b"anna", b"5"), (b"cy", b"1")], key_serde="string", value_serde="json")
    path = tmp_path / f"diff{suffix}"
    with diff_stores(before, after) as diff:
        assert export(diff, path) == 3
        lines = list(diff.json_lines())
    if suffix == ".jsonl":
        assert path.read_text("utf-8").splitlines() == lines
    else:
        asked = "SELECT change, key, value_a::INT, value_b::INT FROM {} ORDER BY key"
        assert read(path, asked) == [
            ("changed", "anna", 3, 5),
            ("removed", "bo", 1, None),
            ("added", "cy", None, 1),
        ]


def test_a_file_that_is_there_stays_unless_told_otherwise(store: Readable, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("precious")
    with pytest.raises(OutputError, match="There is a file") as error:
        export(store.rows(), path)
    assert error.value.hint == "Name another, or say overwrite=True."
    assert path.read_text() == "precious"
    assert export(store.rows(), path, overwrite=True) == 30


@pytest.mark.parametrize("name", ["rows", "rows.xlsx", "rows.parquet.gz", "rows.gz", ".csv"])
def test_a_name_that_does_not_say_what_to_write_is_refused(
    store: Readable, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigurationError, match="does not say what to write"):
        export(store.rows(), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".csv.zst"])
def test_a_folder_that_is_not_there_is_told(store: Readable, tmp_path: Path, suffix: str) -> None:
    with pytest.raises(OutputError, match=r"nowhere/rows\S+: No such file or directory\.\n"):
        export(store.rows(), tmp_path / "nowhere" / f"rows{suffix}")


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="the system has no full disk to write to"
)
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".jsonl.gz"])
def test_a_full_disk_is_told_and_leaves_nothing(
    store: Readable, tmp_path: Path, suffix: str
) -> None:
    hidden = tmp_path / f".rows{suffix}.{os.getpid()}.part"
    hidden.symlink_to("/dev/full")
    with pytest.raises(StoreResourceError, match=f": {os.strerror(errno.ENOSPC)}\\.\n"):
        export(store.rows(), tmp_path / f"rows{suffix}")
    assert not list(tmp_path.iterdir())


def test_a_store_is_written_as_its_rows_are(store: Readable, tmp_path: Path) -> None:
    assert export(store, tmp_path / "a.csv") == export(store.rows(), tmp_path / "b.csv") == 30
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_nothing_is_written_into_a_stores_own_folder(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"a": b"1"})
    before = sorted(path.iterdir())
    (tmp_path / "link").symlink_to(path)
    with open_store(path) as opened:
        for folder in (path, tmp_path / "link"):
            with pytest.raises(OutputError, match="lies in the store's own folder"):
                export(opened, folder / "rows.csv")
        assert export(opened, tmp_path / "rows.csv") == 1
    assert sorted(path.iterdir()) == before
    partition = make_checkpoint(tmp_path / "query")
    with open_store(partition) as opened, pytest.raises(OutputError, match="/query'"):
        export(opened, partition.parents[2] / "offsets" / "rows.csv")


def broken_off(part: RowColumns) -> Iterator[RowColumns]:
    yield part
    raise KeyboardInterrupt


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl.gz"])
def test_an_export_that_is_broken_off_leaves_what_was_there(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_text("precious")
    broken = Readable(
        NamedRows("s", lambda _: broken_off(part(range(3)))), key_serde="string", value_serde="long"
    )
    with pytest.raises(KeyboardInterrupt):
        export(broken.rows(), path, overwrite=True)
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208 - hidden ones, too
    assert path.read_text() == "precious"
