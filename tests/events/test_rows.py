"""Files as rows for SQL expressions: all of a file goes out, or that it is damaged."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.events.rows import BROKEN, FILE, NOW, RAW, first_lines, read_rows, row_types

if TYPE_CHECKING:
    from pathlib import Path


def rows(path: Path, types: pa.Schema | None = None) -> list[dict[str, object]]:
    chosen = row_types(str(path), None) if types is None else types
    return [row for batch in read_rows(str(path), 7, None, chosen) for row in batch.to_pylist()]


def test_json_goes_out_line_by_line_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n{"a": "\xc3\xa9"}')
    assert [(row[RAW], row[BROKEN]) for row in rows(path)] == [
        ('{"a": 1}', None),
        ('{"a": "é"}', None),
    ]
    assert {(row[FILE], row[NOW]) for row in rows(path)} == {(str(path), 7)}
    assert len(first_lines(str(path))) == 2


@pytest.mark.parametrize(
    "line",
    [
        b"rubbish",
        b'{"a": "\xff"}',
        b'{"a": 1}{"a": 2}',
        b'{"a": 1},',
        b'{"a": 1}\r{"a": 2}',
        b"{'a': 1}",
        b'{"a": "\\ud800"}',
        b'{"a": 1} // told',
        b"[1]",
    ],
)
def test_a_line_that_is_not_one_json_object_says_so(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 2}\n')
    told = {row[RAW]: row[BROKEN] for row in rows(path)}
    assert len(told) == 3
    assert told.pop('{"a": 1}') is told.pop('{"a": 2}') is None
    assert all(told.values())


def test_a_name_that_is_no_utf8_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"bad\xff.json")
    path.write_text('{"a": 1}\n')
    assert [row[FILE] for row in rows(path)] == [str(tmp_path / "bad?.json")]


@pytest.mark.parametrize(
    ("table", "types"),
    [
        ({"time": [1_772_532_005_000]}, [("time", pa.timestamp("us"))]),
        ({"time": [datetime(2026, 3, 3, tzinfo=UTC)]}, [("time", pa.int64())]),
        ({"user": [["a", "b"]]}, [("user", pa.binary())]),
        ({"user": ["a"]}, [("user", pa.list_(pa.string()))]),
        ({"user": ["no number"]}, [("user", pa.int64())]),
    ],
)
def test_a_column_that_would_mean_something_else_makes_its_file_broken(
    tmp_path: Path, table: dict[str, list[object]], types: list[tuple[str, pa.DataType]]
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(table), path)
    (row,) = rows(path, pa.schema(types))
    assert row[RAW] == ""
    assert row[BROKEN]


def test_a_column_that_is_there_twice_makes_its_file_broken(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,a\n1,2\n")
    (row,) = rows(path, pa.schema([("a", pa.string())]))
    assert row[BROKEN]


def test_a_file_of_another_encoding_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\n1,é\n".encode("utf-16"))
    (row,) = rows(path, pa.schema([("a", pa.string())]))
    assert row[BROKEN]


def test_csv_goes_out_as_texts_and_a_ragged_record_with_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"x\ny"\n2\n')
    whole, ragged = rows(path)
    assert (whole["a"], whole["b"], whole[BROKEN]) == ("1", "x\ny", None)
    assert (ragged["a"], ragged[RAW]) == (None, "2")
    assert ragged[BROKEN] == "1 values in place of 2"


def test_parquet_goes_out_in_the_types_that_the_run_fixed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array(["x", "y"]).dictionary_encode(), "n": [1, 2]}), path)
    assert row_types(str(path), None) == pa.schema([("a", pa.string()), ("n", pa.int64())])
    types = pa.schema([("a", pa.string()), ("other", pa.int64())])
    assert [(row["a"], row["other"]) for row in rows(path, types)] == [("x", None), ("y", None)]


def test_of_a_damaged_file_goes_out_only_that_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-10])
    (row,) = rows(path)
    assert row[RAW] == ""
    assert row[BROKEN]


def test_empty_files_have_no_rows(tmp_path: Path) -> None:
    for name in ("a.json", "a.csv"):
        (tmp_path / name).touch()
        assert rows(tmp_path / name, pa.schema([])) == []
