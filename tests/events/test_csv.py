from __future__ import annotations

import csv
import io
import json
import random
import tempfile
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ColumnError
from kstoolkit.events.csv import csv_header, parquet_names, parquet_parts, read_csv, read_parquet
from kstoolkit.events.event import Columns, as_text
from kstoolkit.events.opening import Part, text_parts
from kstoolkit.events.times import to_epoch_ms

COLUMNS = Columns("time", "user", "action")
MOMENT_MS = 1_442_018_818_000
Row = tuple[int | None, str | None, str | None]


def written(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = folder / "events.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


def read(path: Path, columns: Columns = COLUMNS, part: Part | None = None) -> list[Row]:
    rows: list[Row] = []
    for piece in read_parquet(path, columns, part):
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


HEADER = "time,user,action,page"
CsvRow = tuple[str, str, str]

VALUES = st.one_of(
    st.sampled_from(
        ["", "a", "Čeněk", "😀", 'say "hi"', "a,b", "two\nlines", "\r\n", " ", "null", "NaN"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1a"), max_size=8),
)
TABLES = st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES), max_size=15)


def csv_written(folder: Path, data: str | bytes) -> Path:
    path = folder / "events.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def csv_read(
    path: Path, columns: Columns = COLUMNS, **options: Any
) -> tuple[list[CsvRow], list[str]]:
    """Return the rows, and the raw texts of what is unparseable."""
    rows: list[CsvRow] = []
    bad: list[str] = []
    for piece in read_csv(path, columns, **options):
        assert not isinstance(piece.actions, tuple)
        columns_read = (piece.times, piece.users, piece.actions)
        rows += zip(*(column.to_pylist() for column in columns_read), strict=True)
        bad += [raw for raw, _ in piece.unparseable]
        assert len(piece.raw(np.arange(len(piece.times)))) == len(piece.times)
    return rows, bad


@given(
    TABLES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.integers(300, 2_000)
)
def test_what_python_writes_is_read_back(
    table: list[tuple[str, str, str, str]],
    end: str,
    marked: bool,  # noqa: FBT001 - drawn
    quoted: bool,  # noqa: FBT001 - drawn
    chunk_bytes: int,
) -> None:
    text = io.StringIO(newline="")
    quoted = quoted or any(
        "\r" in value for row in table for value in row
    )  # Python may leave it bare, where it ends a line
    quoting: Literal[0, 1] = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    csv.writer(text, lineterminator=end, quoting=quoting).writerows([HEADER.split(","), *table])
    with tempfile.TemporaryDirectory() as folder:
        path = csv_written(Path(folder), ("\ufeff" if marked else "") + text.getvalue())
        rows, bad = csv_read(path, chunk_bytes=chunk_bytes)
    assert rows == [row[:3] for row in table]
    assert bad == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_end_in_quotes_stays_wherever_a_chunk_ends(tmp_path: Path, end: str) -> None:
    lines = [HEADER, *(f'{number:03},"{"x" * (number % 9)}\r\n",read,p' for number in range(99))]
    path = csv_written(tmp_path, end.join(lines) + end)
    for chunk_bytes in range(120, 160):
        rows, bad = csv_read(path, chunk_bytes=chunk_bytes)
        assert [user for _, user, _ in rows] == ["x" * (n % 9) + "\r\n" for n in range(99)]
        assert bad == []


RAGGED = st.lists(
    st.sampled_from(
        [
            (b"1,Anna,read,p", True),
            (b'1,"B,\n""o",read,p', True),
            ("1,Čeněk,read,p".encode(), True),
            (b"1,a,b,\xff", True),
            (b"1,a", False),
            (b"1,a,b,c,d", False),
            (b"1,\xff,b,c", False),
            (b"\xff,a,b", False),
            ("é,é".encode()[:-1], False),
            (b"", None),
        ]
    ),
    max_size=25,
)


@given(RAGGED, st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.integers(120, 700))
def test_every_record_is_a_row_or_unparseable_and_blank_lines_are_neither(
    records: list[tuple[bytes, bool | None]],
    end: bytes,
    finished: bool,  # noqa: FBT001 - drawn
    chunk_bytes: int,
) -> None:
    lines = [HEADER.encode(), *(record for record, _ in records)]
    data = end.join(lines) + (end if finished else b"")
    with tempfile.TemporaryDirectory() as folder:
        rows, bad = csv_read(csv_written(Path(folder), data), chunk_bytes=chunk_bytes)
    assert len(rows) == sum(good is True for _, good in records)
    assert len(bad) == sum(good is False for _, good in records)


def test_what_is_wrong_with_a_record_is_told_with_its_text(tmp_path: Path) -> None:
    path = csv_written(tmp_path, HEADER.encode() + b"\n1,a\n1,\xff,x,y\n1,a,x,y\n")
    told = [each for piece in read_csv(path, COLUMNS) for each in piece.unparseable]
    assert sorted(told) == [("1,a", "2 values in place of 4"), ("1,\ufffd,x,y", "not UTF-8")]


def test_raw_texts_are_csv_again(tmp_path: Path) -> None:
    path = csv_written(tmp_path, f'{HEADER}\n1,a,x,y\n2,"b,c",x,"say ""hi"""\n')
    (piece,) = read_csv(path, COLUMNS)
    assert piece.raw(np.array([1])) == ['2,"b,c",x,"say ""hi"""']


@pytest.mark.parametrize(
    "data", ["", "\n\n", "\ufeff", f"{HEADER}", f"{HEADER}\n", f"\n\n{HEADER}\r\n\n"]
)
def test_a_file_without_records_has_none(tmp_path: Path, data: str) -> None:
    assert csv_read(csv_written(tmp_path, data)) == ([], [])


@pytest.mark.parametrize("before", ["", "\n", "\r\n\r\n", "\ufeff\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_header_is_the_first_line_that_is_not_blank(
    tmp_path: Path, before: str, end: str
) -> None:
    path = csv_written(tmp_path, f'{before}time,"the\nuser",user,action{end}1,2,a,x{end}')
    assert csv_header(path) == ["time", "the\nuser", "user", "action"]
    assert csv_read(path) == ([("1", "a", "x")], [])


def test_a_header_may_have_other_columns_twice_or_garbled(tmp_path: Path) -> None:
    path = csv_written(tmp_path, b"time,x,x,user,\xff,action\n1,2,3,a,4,b\n")
    assert csv_read(path) == ([("1", "a", "b")], [])


def test_one_column_may_be_all_three_of_csv(tmp_path: Path) -> None:
    path = csv_written(tmp_path, "time,user\n1,a\n")
    assert csv_read(path, Columns("time", "user", "user"))[0] == [("1", "a", "a")]


def test_a_missing_column_is_told_with_the_nearest_of_csv(tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match=r"No column 'user'.*\n.*Did you mean 'usr'"):
        csv_read(csv_written(tmp_path, "time,usr,action\n1,a,x\n"))


def test_a_column_that_is_there_twice_is_told_of_csv(tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match="2 columns 'user'"):
        csv_read(csv_written(tmp_path, "time,user,action,user\n1,a,x,b\n"))


def test_a_record_longer_than_a_chunk_is_an_os_error_that_names_the_likely_cause(
    tmp_path: Path,
) -> None:
    path = csv_written(tmp_path, f'{HEADER}\n1,"never closed,x,y\n' + "1,a,x,y\n" * 500)
    with pytest.raises(OSError, match=r"longer than 1\.0 KiB; is a quote never closed"):
        csv_read(path, chunk_bytes=1_024)


def test_a_file_that_is_no_csv_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no CSV header"):
        csv_read(csv_written(tmp_path, b"\x01" * 300_000))


def test_no_quote_hides_in_the_middle_of_a_value(tmp_path: Path) -> None:
    path = csv_written(tmp_path, f'{HEADER}\n1,6" pipe,x,y\n2,a,x,y\n')
    assert csv_read(path)[0] == [("1", '6" pipe', "x"), ("2", "a", "x")]


RECORDS = st.lists(
    st.sampled_from(
        [
            "1,a,x",
            "",
            "\r",
            "2,b",
            "3,c,y,z",
            "4,\udcff,x",
            "5,d,\udcff",
            "6,ž,x\r",
            "\ufeff7,e,x",
            "8,'f,x",
        ]
    ),
    max_size=40,
)


@given(RECORDS, st.integers(1, 7), st.integers(0, 3))
def test_parts_of_a_csv_file_have_the_records_of_the_whole(
    records: list[str], number: int, torn: int
) -> None:
    text = "\n".join(["", "time,user,action", *records])
    data = text.encode("utf-8", "surrogateescape")
    data = data[: max(len(data) - torn, 18)]
    with tempfile.TemporaryDirectory() as folder:
        path = csv_written(Path(folder), data)
        parts = text_parts(str(path), len(data), number, quotes=True)
        read_apart = [csv_read(path, part=part) for part in parts if part[0] or part[1] > 17]
        whole = csv_read(path)
    if parts[0][1] > 17:  # the header is in the first one, as it is in parts of megabytes
        rows, bad = (list(chain(*each)) for each in zip(*read_apart, strict=True))
        assert (rows, sorted(bad)) == (whole[0], sorted(whole[1]))


def test_a_csv_file_with_a_quote_is_not_cut(tmp_path: Path) -> None:
    path = csv_written(tmp_path, "time,user,action\n" + "1,a,x\n" * 9 + '2,"b\nc",y\n')
    size = path.stat().st_size
    assert text_parts(str(path), size, 3, quotes=True) == [(0, size)]
    assert len(text_parts(str(path), size, 3, quotes=False)) == 3


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 5))
def test_parts_of_a_parquet_file_are_row_groups_in_a_row(sizes: list[int], number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        rows = pa.table(
            {"time": range(sum(sizes)), "user": ["a"] * sum(sizes), "action": ["x"] * sum(sizes)}
        )
        with pq.ParquetWriter(path, rows.schema) as writer:
            for end, size in zip(np.cumsum(sizes).tolist(), sizes, strict=True):
                writer.write_table(rows.slice(end - size, size))
        parts = parquet_parts(str(path), number)
        read_apart = [read(path, part=part) for part in parts]
        assert list(chain(*read_apart)) == read(path)
    assert len(parts) <= number
    assert max(map(len, read_apart)) <= sum(sizes) / number + max(sizes)
