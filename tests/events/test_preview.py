from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.errors import ColumnError
from kstoolkit.events.pieces import Columns
from kstoolkit.events.preview import check_columns, column_names

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = Columns("time", "user", "action")


def written(folder: Path, name: str, data: str | bytes) -> str:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def record(**fields: object) -> str:
    return json.dumps(fields)


def test_json_names_are_those_of_all_first_records(tmp_path: Path) -> None:
    lines = [record(time=1), "oops", "[1]", record(user=2, time=1), "", record(action=3)]
    path = written(tmp_path, "a.json", "\ufeff" + "\n".join(lines))
    assert column_names(path) == ["time", "user", "action"]


def test_names_of_compressed_files_are_found(tmp_path: Path) -> None:
    assert column_names(written(tmp_path, "a.json.gz", gzip.compress(b'{"a": 1}'))) == ["a"]
    assert column_names(written(tmp_path, "a.csv.gz", gzip.compress(b"a,b\n"))) == ["a", "b"]


def test_names_of_csv_and_parquet_are_their_headers(tmp_path: Path) -> None:
    assert column_names(written(tmp_path, "a.csv", '\ufeffa,"b c"\n1,2')) == ["a", "b c"]
    pq.write_table(pa.table({"a": [1], "é": [2]}), tmp_path / "a.parquet")
    assert column_names(str(tmp_path / "a.parquet")) == ["a", "é"]


@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.parquet", "a.json.gz", "a.csv.gz"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 200_000,
        b"\x1f\x8b\x08",
        gzip.compress(b"x" * 999)[:-9],
        b"\xff\xfe",
        b"[" * 10**5,
    ],
    ids=["empty", "zeros", "torn gzip", "cut gzip", "two bytes", "brackets"],
)
def test_a_file_that_can_not_be_read_is_judged_later(
    tmp_path: Path, name: str, data: bytes
) -> None:
    path = written(tmp_path, name, data)
    if column_names(path):  # of CSV, nearly everything is a header
        assert name.startswith("a.csv")
    else:
        check_columns([path], COLUMNS, None)


def test_a_file_that_is_gone_is_judged_later(tmp_path: Path) -> None:
    check_columns([str(tmp_path / "none.json")], COLUMNS, None)
    check_columns([os.fsdecode(b"caf\xe9.parquet")], COLUMNS, None)


def test_a_missing_column_is_told_with_the_nearest_and_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", record(time=1, usr="a", action="x"))
    with pytest.raises(ColumnError) as told:
        check_columns([path], COLUMNS, None)
    assert told.value.message == f"No column 'user' in {path}."
    assert told.value.hint == "Did you mean 'usr'? It has: action, time, usr."


def test_a_missing_column_that_resembles_nothing_is_told_with_all(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "a,b\n1,2\n")
    with pytest.raises(ColumnError) as told:
        check_columns([path], COLUMNS, None)
    assert told.value.hint == "It has: a, b."


def test_a_column_that_a_header_has_twice_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "time,user,user,action\n")
    with pytest.raises(ColumnError, match="2 columns 'user'"):
        check_columns([path], COLUMNS, None)


def test_a_later_file_is_looked_at_too(tmp_path: Path) -> None:
    good = written(tmp_path, "a.json", record(time=1, user="a", action="x"))
    bad = written(tmp_path, "b.json", record(time=1, user="a"))
    check_columns([good], COLUMNS, None)
    with pytest.raises(ColumnError, match=r"'action' in .*b\.json"):
        check_columns([good, bad], COLUMNS, None)


def test_expressions_are_left_to_spark(tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", record(time=1))
    check_columns([path], Columns("time", "lower(user)", "action"), None)
