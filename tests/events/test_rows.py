"""Files as rows for SQL expressions: all of a file goes out, or that it is damaged."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.events.rows import BROKEN, FILE, NOW, RAW, first_lines, read_rows, row_types

if TYPE_CHECKING:
    from pathlib import Path


def rows(path: Path, types: pa.Schema | None = None) -> list[dict[str, object]]:
    chosen = row_types(str(path), None) if types is None else types
    return [row for batch in read_rows(str(path), 7, None, chosen) for row in batch.to_pylist()]


def test_json_goes_out_line_by_line_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\nrubbish\n{"a": "\xff"}')
    assert [row[RAW] for row in rows(path)] == ['{"a": 1}', "rubbish", '{"a": "\ufffd"}']
    assert {row[BROKEN] for row in rows(path)} == {None}
    assert {(row[FILE], row[NOW]) for row in rows(path)} == {(str(path), 7)}
    assert len(first_lines(str(path))) == 3


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
