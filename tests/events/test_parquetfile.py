from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.errors import ColumnError
from kstoolkit.events.parquetfile import parquet_names, read_parquet
from kstoolkit.events.pieces import Columns
from kstoolkit.events.texts import as_text
from kstoolkit.events.times import to_epoch_ms

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = Columns("time", "user", "action")
MOMENT_MS = 1_442_018_818_000
Row = tuple[int | None, str | None, str | None]


def written(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = folder / "events.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


def read(path: Path, columns: Columns = COLUMNS) -> list[Row]:
    rows: list[Row] = []
    for piece in read_parquet(path, columns):
        milliseconds, readable = to_epoch_ms(piece.times)
        times = (
            int(ms) if is_read else None for ms, is_read in zip(milliseconds, readable, strict=True)
        )
        texts = (as_text(column).to_pylist() for column in (piece.users, piece.actions))
        rows += zip(times, *texts, strict=True)
    return rows


TIMES = [
    pa.array([MOMENT_MS], pa.timestamp("ms")),
    pa.array([MOMENT_MS], pa.timestamp("ms", tz="Asia/Kathmandu")),
    pa.array([MOMENT_MS * 1_000], pa.timestamp("us", tz="UTC")),
    pa.array([MOMENT_MS * 10**6], pa.timestamp("ns")),
    pa.array([MOMENT_MS // 1_000], pa.int32()),
    pa.array([MOMENT_MS], pa.int64()),
    pa.array([MOMENT_MS], pa.uint64()),
    pa.array([MOMENT_MS / 1_000], pa.float64()),
    pa.array(["2015-09-12T00:46:58Z"]),
    pa.array(["2015-09-12 02:46:58+02:00"], pa.large_string()),
    pa.array(["2015-09-12T00:46:58"], pa.string_view()),
    pa.array([str(MOMENT_MS)]).dictionary_encode(),
]


@pytest.mark.parametrize("times", TIMES, ids=lambda times: str(times.type))
def test_times_of_every_type_are_read(tmp_path: Path, times: pa.Array) -> None:
    path = written(tmp_path, {"time": times, "user": ["a"], "action": ["x"]})
    assert read(path) == [(MOMENT_MS, "a", "x")]


def test_timestamps_as_spark_wrote_them_once_are_read(tmp_path: Path) -> None:
    times = pa.array([MOMENT_MS], pa.timestamp("ms"))
    columns = {"time": times, "user": ["a"], "action": ["x"]}
    path = written(tmp_path, columns, use_deprecated_int96_timestamps=True)
    assert read(path) == [(MOMENT_MS, "a", "x")]


@pytest.mark.parametrize(
    ("users", "texts"),
    [
        (pa.array(["a", None, "a"]), ["a", None, "a"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array(["a", None, "a"], pa.large_string()), ["a", None, "a"]),
        (pa.array(["a", None, "a"], pa.string_view()), ["a", None, "a"]),
        (pa.array([7, None, -1]), ["7", None, "-1"]),
        (pa.array([7, 8, 7], pa.uint8()), ["7", "8", "7"]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array([b"a", b"\xff", None]), ["a", None, None]),
        (pa.array([b"a", b"\xff", None]).view(pa.string()), ["a", None, None]),
        (pa.array([[1], [2], None]), [None] * 3),
        (pa.nulls(3), [None] * 3),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_users_of_every_type_are_read(
    tmp_path: Path, users: pa.Array, texts: list[str | None]
) -> None:
    path = written(tmp_path, {"time": [0, 0, 0], "user": users, "action": ["x"] * 3})
    assert [user for _, user, _ in read(path)] == texts


def test_texts_stay_in_the_dictionaries_that_the_file_has(tmp_path: Path) -> None:
    path = written(tmp_path, {"time": [0, 0], "user": ["a", "a"], "action": ["x", "x"]})
    (piece,) = read_parquet(path, COLUMNS)
    assert pa.types.is_dictionary(piece.users.type)
    assert piece.users.dictionary.to_pylist() == ["a"]


def test_row_groups_with_other_dictionaries_are_one_file(tmp_path: Path) -> None:
    users = [f"user {number}" for number in range(5_000)]
    columns = {"time": list(range(5_000)), "user": users, "action": ["x"] * 5_000}
    rows = read(written(tmp_path, columns, row_group_size=700))
    assert [user for _, user, _ in rows] == users


def test_other_columns_are_not_read(tmp_path: Path) -> None:
    columns = {"page": ["p"], "time": [0], "action": ["x"], "user": ["a"], "more": [[1]]}
    (piece,) = read_parquet(written(tmp_path, columns), COLUMNS)
    assert json.loads(piece.raw(np.array([0]))[0]) == {"time": 0, "action": "x", "user": "a"}


def test_one_column_may_be_all_three(tmp_path: Path) -> None:
    path = written(tmp_path, {"time": [5]})
    assert read(path, Columns("time", "time", "time")) == [(5_000, "5", "5")]


def test_raw_texts_show_also_what_python_can_not_hold(tmp_path: Path) -> None:
    columns = {
        "time": pa.array([2**61], pa.timestamp("us")),
        "user": pa.array([b"\xffa"]).view(pa.string()),
        "action": pa.array([b"\xff"]),
    }
    (piece,) = read_parquet(written(tmp_path, columns), COLUMNS)
    (raw,) = piece.raw(np.array([0]))
    assert json.loads(raw)["user"] == "\ufffda"


def test_a_file_without_rows_has_none(tmp_path: Path) -> None:
    columns = {name: pa.array([], pa.string()) for name in COLUMNS}
    assert read(written(tmp_path, columns)) == []


def test_a_missing_column_is_told_with_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path, {"time": [0], "usr": ["a"], "action": ["x"]})
    with pytest.raises(ColumnError, match=r"No column 'user'.*\n.*Did you mean 'usr'"):
        read(path)


def test_a_column_that_is_there_twice_is_told(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    names = ["time", "user", "action", "user"]
    pq.write_table(pa.table([[0], ["a"], ["x"], ["b"]], names=names), path)
    with pytest.raises(ColumnError, match="2 columns 'user'"):
        read(path)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 10, b"time,user\n1,a\n", b"\0" * 500])
def test_a_file_that_is_no_parquet_is_an_os_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "events.parquet"
    path.write_bytes(data)
    with pytest.raises(OSError, match=r"."):
        read(path)
    with pytest.raises(OSError, match=r"."):
        parquet_names(path)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none.parquet"):
        read(tmp_path / "none.parquet")


def damaged_files(whole: bytes, times: int) -> list[bytes]:
    chance = random.Random(5)
    files = [whole[: chance.randrange(len(whole))] for _ in range(times // 4)]
    for _ in range(times):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        files.append(bytes(damaged))
    return files


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_damaged_file_is_an_os_error_or_read_but_nothing_else(
    tmp_path: Path, compression: str
) -> None:
    columns = {
        "time": [MOMENT_MS + number for number in range(300)],
        "user": [f"user {number % 37}" for number in range(300)],
        "action": ["read", "write", "é"] * 100,
    }
    whole = written(tmp_path, columns, compression=compression).read_bytes()
    path = tmp_path / "damaged.parquet"
    refused = 0
    for data in damaged_files(whole, 400):
        path.write_bytes(data)
        try:
            read(path)
        except (OSError, ColumnError):
            refused += 1
    assert refused > 100


def test_a_page_whose_checksum_is_wrong_is_an_os_error(tmp_path: Path) -> None:
    columns = {"time": list(range(2_000)), "user": ["a"] * 2_000, "action": ["x"] * 2_000}
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    path = written(tmp_path, columns, **options)
    data = bytearray(path.read_bytes())
    place = data.index((1_000).to_bytes(8, "little"))
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match=r"(?i)crc|checksum"):
        read(path)
