from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ColumnError
from kstoolkit.events.csvfile import csv_header, read_csv
from kstoolkit.events.pieces import Columns

COLUMNS = Columns("time", "user", "action")
HEADER = "time,user,action,page"
Row = tuple[str, str, str]

VALUES = st.one_of(
    st.sampled_from(
        ["", "a", "Čeněk", "😀", 'say "hi"', "a,b", "two\nlines", "\r\n", " ", "null", "NaN"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\x1a"), max_size=8),
)
TABLES = st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES), max_size=15)


def written(folder: Path, data: str | bytes) -> Path:
    path = folder / "events.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(path: Path, columns: Columns = COLUMNS, **options: int) -> tuple[list[Row], list[str]]:
    """Return the rows, and the raw texts of what is unparseable."""
    rows: list[Row] = []
    bad: list[str] = []
    for piece in read_csv(path, columns, **options):
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
        path = written(Path(folder), ("\ufeff" if marked else "") + text.getvalue())
        rows, bad = read(path, chunk_bytes=chunk_bytes)
    assert rows == [row[:3] for row in table]
    assert bad == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_end_in_quotes_stays_wherever_a_chunk_ends(tmp_path: Path, end: str) -> None:
    lines = [HEADER, *(f'{number:03},"{"x" * (number % 9)}\r\n",read,p' for number in range(99))]
    path = written(tmp_path, end.join(lines) + end)
    for chunk_bytes in range(120, 160):
        rows, bad = read(path, chunk_bytes=chunk_bytes)
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
        rows, bad = read(written(Path(folder), data), chunk_bytes=chunk_bytes)
    assert len(rows) == sum(good is True for _, good in records)
    assert len(bad) == sum(good is False for _, good in records)


def test_what_is_wrong_with_a_record_is_told_with_its_text(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER.encode() + b"\n1,a\n1,\xff,x,y\n1,a,x,y\n")
    told = [each for piece in read_csv(path, COLUMNS) for each in piece.unparseable]
    assert sorted(told) == [("1,a", "2 values in place of 4"), ("1,\ufffd,x,y", "not UTF-8")]


def test_raw_texts_are_csv_again(tmp_path: Path) -> None:
    path = written(tmp_path, f'{HEADER}\n1,a,x,y\n2,"b,c",x,"say ""hi"""\n')
    (piece,) = read_csv(path, COLUMNS)
    assert piece.raw(np.array([1])) == ['2,"b,c",x,"say ""hi"""']


@pytest.mark.parametrize(
    "data", ["", "\n\n", "\ufeff", f"{HEADER}", f"{HEADER}\n", f"\n\n{HEADER}\r\n\n"]
)
def test_a_file_without_records_has_none(tmp_path: Path, data: str) -> None:
    assert read(written(tmp_path, data)) == ([], [])


@pytest.mark.parametrize("before", ["", "\n", "\r\n\r\n", "\ufeff\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_header_is_the_first_line_that_is_not_blank(
    tmp_path: Path, before: str, end: str
) -> None:
    path = written(tmp_path, f'{before}time,"the\nuser",user,action{end}1,2,a,x{end}')
    assert csv_header(path) == ["time", "the\nuser", "user", "action"]
    assert read(path) == ([("1", "a", "x")], [])


def test_a_header_may_have_other_columns_twice_or_garbled(tmp_path: Path) -> None:
    path = written(tmp_path, b"time,x,x,user,\xff,action\n1,2,3,a,4,b\n")
    assert read(path) == ([("1", "a", "b")], [])


def test_one_column_may_be_all_three(tmp_path: Path) -> None:
    path = written(tmp_path, "time,user\n1,a\n")
    assert read(path, Columns("time", "user", "user"))[0] == [("1", "a", "a")]


def test_a_missing_column_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match=r"No column 'user'.*\n.*Did you mean 'usr'"):
        read(written(tmp_path, "time,usr,action\n1,a,x\n"))


def test_a_column_that_is_there_twice_is_told(tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match="2 columns 'user'"):
        read(written(tmp_path, "time,user,action,user\n1,a,x,b\n"))


def test_a_record_longer_than_a_chunk_is_an_os_error_that_names_the_likely_cause(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, f'{HEADER}\n1,"never closed,x,y\n' + "1,a,x,y\n" * 500)
    with pytest.raises(OSError, match=r"longer than 1\.0 KiB; is a quote never closed"):
        read(path, chunk_bytes=1_024)


def test_a_file_that_is_no_csv_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no CSV header"):
        read(written(tmp_path, b"\x01" * 300_000))


def test_no_quote_hides_in_the_middle_of_a_value(tmp_path: Path) -> None:
    path = written(tmp_path, f'{HEADER}\n1,6" pipe,x,y\n2,a,x,y\n')
    assert read(path)[0] == [("1", '6" pipe', "x"), ("2", "a", "x")]
