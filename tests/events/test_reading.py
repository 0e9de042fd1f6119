from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.errors import ColumnError, InputError
from kstoolkit.events.judging import Limits
from kstoolkit.events.pieces import Columns
from kstoolkit.events.reading import Good, broken_file, read_events

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = Columns("time", "user", "action")
NOW_MS = 1_500_000_000_000
RECORDS = [
    {"time": "2015-09-12T00:00:00Z", "user": "Anna", "action": "read"},
    {"time": "2015-09-12T00:00:01Z", "user": "Čeněk", "action": "read"},
    {"time": "2015-09-12T00:00:02Z", "user": "", "action": "read"},
    {"time": "2099-01-01T00:00:00Z", "user": "Bo", "action": "read"},
    {"time": "soon", "user": "Bo", "action": "read"},
]


def read(path: Path | str, **options: str) -> list[Good]:
    return list(read_events(str(path), COLUMNS, now_ms=NOW_MS, limits=Limits(), **options))


def events(goods: list[Good]) -> list[tuple[int, str, str]]:
    return [
        (int(time_ms), user, action)
        for good in goods
        for time_ms, user, action in zip(
            good.time_ms, good.users.to_pylist(), good.actions.to_pylist(), strict=True
        )
    ]


def letters(goods: list[Good]) -> list[dict[str, str | None]]:
    return [letter for good in goods for batch in good.letters for letter in batch.to_pylist()]


def written(folder: Path, file_format: str) -> Path:
    path = folder / f"events.{file_format}"
    if file_format == "json":
        path.write_text("\n".join(json.dumps(record) for record in RECORDS))
    elif file_format == "csv":
        rows = [",".join(COLUMNS), *(",".join(record.values()) for record in RECORDS)]
        path.write_text("\n".join(rows))
    else:
        pq.write_table(pa.Table.from_pylist(RECORDS), path)
    return path


@pytest.mark.parametrize("file_format", ["json", "csv", "parquet"])
def test_a_file_of_any_format_gives_the_same_events_and_dead_letters(
    tmp_path: Path, file_format: str
) -> None:
    path = written(tmp_path, file_format)
    goods = read(path)
    start_ms = 1_442_016_000_000
    assert events(goods) == [(start_ms, "Anna", "read"), (start_ms + 1_000, "Čeněk", "read")]
    dead = letters(goods)
    assert [letter["reason"] for letter in dead] == ["no_user", "future_time", "bad_time"]
    assert {letter["file"] for letter in dead} == {str(path)}
    assert "2099-01-01" in str(dead[1]["raw"])


def test_a_letter_holds_the_raw_text_and_what_the_parser_said(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text('{"time": 5, "user": "a"}\n{"time": oops\n')
    no_action, unparseable = sorted(letters(read(path)), key=lambda letter: str(letter["reason"]))
    assert (no_action["raw"], no_action["detail"]) == ('{"time": 5, "user": "a"}', None)
    assert unparseable["raw"] == '{"time": oops'
    assert "Expecting value" in str(unparseable["detail"])


def test_the_format_may_be_said(tmp_path: Path) -> None:
    path = written(tmp_path, "csv").rename(tmp_path / "events.log")
    assert len(events(read(path, file_format="csv"))) == 2
    with pytest.raises(InputError):
        read(path)


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_a_missing_column_is_told(tmp_path: Path, file_format: str) -> None:
    path = written(tmp_path, file_format)
    with pytest.raises(ColumnError, match=r"No column 'usr'.*\n.*Did you mean 'user'"):
        list(read_events(str(path), Columns("time", "usr", "action"), now_ms=0, limits=Limits()))


@pytest.mark.parametrize("file_format", ["json", "csv", "parquet"])
def test_a_file_that_is_cut_is_an_os_error(tmp_path: Path, file_format: str) -> None:
    path = written(tmp_path, file_format)
    whole = path.read_bytes()
    if file_format != "parquet":
        path = tmp_path / f"events.{file_format}.gz"
        whole = gzip.compress(whole * 50)
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(OSError, match=r"."):
            read(path)


def test_a_broken_file_is_one_letter() -> None:
    (letter,) = broken_file("a.json.gz", "Truncated compressed stream").to_pylist()
    assert letter == {
        "reason": "broken_file",
        "raw": "",
        "file": "a.json.gz",
        "detail": "Truncated compressed stream",
    }


def test_the_real_sample_is_read_to_the_last_event(wikiticker: Path) -> None:
    columns = Columns("time", "user", "namespace")
    limits = Limits()
    goods = list(read_events(str(wikiticker), columns, now_ms=NOW_MS, limits=limits))
    with gzip.open(wikiticker, "rt") as file:
        expected = Counter((row["user"], row["namespace"]) for row in map(json.loads, file))
    assert Counter((user, action) for _, user, action in events(goods)) == expected
    assert expected.total() == 39_244
    assert letters(goods) == []
