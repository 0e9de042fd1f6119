"""Which files are taken in, once each; and what goes out: all of a file, or that it is damaged."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.errors import ColumnError, InputError, UnreadableFile
from kstoolkit.events import opening
from kstoolkit.events.event import Columns, Judged, Limits
from kstoolkit.events.files import (
    BROKEN,
    FILE,
    NOW,
    RAW,
    Listing,
    _column_names,
    check_columns,
    first_lines,
    gone_from,
    lacks_zone,
    letter_of_file,
    read_events,
    read_rows,
    row_types,
)

if TYPE_CHECKING:
    from pathlib import Path

Told = tuple[Judged, list[pa.RecordBatch]]


def made(folder: Path, *names: str) -> list[str]:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    return [str(folder / name) for name in names]


def list_files(pattern: str, file_format: str | None = None, **options: str) -> list[str]:
    return sorted(Listing(pattern, file_format, **options))


def listed(pattern: Path | str, base: Path, file_format: str | None = None) -> list[str]:
    return [os.path.relpath(path, base) for path in list_files(str(pattern), file_format)]


def test_a_folder_is_searched_to_the_bottom_in_order(tmp_path: Path) -> None:
    made(tmp_path, "b.json", "a/z.csv", "a/b/c.parquet", "a.json.gz")
    assert listed(tmp_path, tmp_path) == ["a.json.gz", "a/b/c.parquet", "a/z.csv", "b.json"]


def test_hidden_and_unfinished_files_are_passed_over(tmp_path: Path) -> None:
    made(
        tmp_path, ".a.json", "_b.json", "_temporary/0/c.json", ".git/d.json", "e.json.tmp", "f.log"
    )
    made(tmp_path, "g.json", "h.json.crc")
    assert listed(tmp_path, tmp_path) == ["g.json"]
    assert listed(tmp_path / "*", tmp_path) == ["g.json"]
    assert listed(tmp_path / "**", tmp_path) == ["g.json"]
    assert listed(tmp_path / "**" / "*.json", tmp_path) == ["g.json"]


def test_a_pipe_is_not_opened_to_see_what_is_in_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    names = Columns("time", "user", "action")
    found = list_files(str(tmp_path))
    check_columns(found, names, None)
    assert not lacks_zone(found, names, None)


def test_a_glob_may_name_a_pipe_and_a_link_to_nothing(tmp_path: Path) -> None:
    made(tmp_path, "c.json")
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "b.json").symlink_to(tmp_path / "nowhere")
    assert listed(tmp_path / "*.json", tmp_path) == ["c.json"]


def test_what_lies_below_a_file_is_gone(tmp_path: Path) -> None:
    made(tmp_path, "a.json", "b.json")
    below = str(tmp_path / "a.json" / "c.json")
    assert gone_from(str(tmp_path), None, [below, str(tmp_path / "b.json")]) == [below]


def test_what_is_left_unread_is_told_by_its_endings(tmp_path: Path) -> None:
    made(tmp_path, "a.ndjson", "app.log", "old/app.log", "c.txt", "README", "_x.log", ".git/y.log")
    found = Listing(str(tmp_path))
    assert found.first(9) == [str(tmp_path / "a.ndjson")]
    assert found.unread == {".log": 2, ".txt": 1, "no ending": 1}
    assert found.unread_in_words() == (
        "Left unread are 4 files whose names say no format: .log (2), .txt (1), no ending (1). "
        "If they hold events, give --format json, csv or parquet (format= in Python)."
    )
    with_format = Listing(str(tmp_path), "json")
    assert (len(with_format.first(9)), with_format.unread_in_words()) == (5, None)
    made(tmp_path / "many", *(f"a.{n}" for n in range(8)))
    many = Listing(str(tmp_path / "many"))
    assert [*many] == []
    assert "and 3 others. If" in str(many.unread_in_words())


def test_a_hidden_file_that_is_spelt_out_is_meant(tmp_path: Path) -> None:
    made(tmp_path, "_b.json", "_in/c.json", "_in/_d.json")
    assert listed(tmp_path / "_b.json", tmp_path) == ["_b.json"]
    assert listed(tmp_path / "_*.json", tmp_path) == ["_b.json"]
    assert listed(tmp_path / "_in", tmp_path) == ["_in/c.json"]
    assert listed(tmp_path / "_in" / "*.json", tmp_path) == ["_in/c.json"]


def test_with_a_format_given_every_name_will_do(tmp_path: Path) -> None:
    made(tmp_path, "a.log", "b", "_c.log")
    assert listed(tmp_path, tmp_path, "json") == ["a.log", "b"]


def test_a_glob_takes_files_and_whole_folders_once_each(tmp_path: Path) -> None:
    made(tmp_path, "day=1/a.json", "day=1/b.json", "day=2/a.json", "other/a.json")
    assert listed(tmp_path / "day=*", tmp_path) == ["day=1/a.json", "day=1/b.json", "day=2/a.json"]
    assert listed(tmp_path / "day=*" / "a.json", tmp_path) == ["day=1/a.json", "day=2/a.json"]
    assert listed(tmp_path / "day=[2-9]*", tmp_path) == ["day=2/a.json"]
    assert listed(tmp_path / "none*", tmp_path) == []


def test_a_path_that_looks_like_a_glob_is_a_path_if_it_exists(tmp_path: Path) -> None:
    made(tmp_path, "a[1].json", "a1.json")
    assert listed(tmp_path / "a[1].json", tmp_path) == ["a[1].json"]


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "in/a.json")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    expected = [str(tmp_path / "in" / "a.json")]
    assert list_files("../in") == list_files("../in/a.json") == list_files("../in/*") == expected


def test_a_path_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No such file or folder: .*none\.json"):
        list_files(str(tmp_path / "none.json"))


def test_a_single_file_of_no_known_format_is_told(tmp_path: Path) -> None:
    (path,) = made(tmp_path, "a.log")
    with pytest.raises(InputError, match=r"'a\.log' does not say which format"):
        list_files(path)
    assert list_files(path, "json") == [path]


def test_an_empty_folder_has_no_files(tmp_path: Path) -> None:
    assert list_files(str(tmp_path)) == []


def test_a_runs_own_output_is_no_input_unless_it_is_meant(tmp_path: Path) -> None:
    out = tmp_path / "in" / "out"
    (out / "simulated").mkdir(parents=True)
    for path in (tmp_path / "in" / "a.json", out / "run.json", out / "simulated" / "b.json"):
        path.touch()
    inside = str(tmp_path / "in")
    assert list_files(inside, without=str(out)) == [str(tmp_path / "in" / "a.json")]
    assert list_files(f"{inside}/**", without=str(out)) == [str(tmp_path / "in" / "a.json")]
    meant = str(out / "simulated")
    assert list_files(meant, without=str(out)) == [str(out / "simulated" / "b.json")]


def test_the_output_of_earlier_runs_is_no_input(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    (earlier / "checkpoint").mkdir(parents=True)
    for path in (tmp_path / "a.json", earlier / "run.json", earlier / "files.jsonl"):
        path.touch()
    assert list_files(str(tmp_path)) == [str(tmp_path / "a.json")]
    assert list_files(str(earlier)) == [str(earlier / "files.jsonl"), str(earlier / "run.json")]


def test_a_glob_that_names_a_run_passes_it_over(tmp_path: Path) -> None:
    made(tmp_path, "a.json", "earlier/run.json", "earlier/b.json", "earlier/checkpoint/c.json")
    for pattern in ("*", "**", "**/*"):
        assert listed(tmp_path / pattern, tmp_path) == ["a.json"]
    assert listed(tmp_path / "earlier" / "*.json", tmp_path) == [
        "earlier/b.json",
        "earlier/run.json",
    ]


def test_a_link_to_a_folder_is_followed_where_a_glob_names_it(tmp_path: Path) -> None:
    made(tmp_path, "in/a.json", "elsewhere/b.json")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "one.json").symlink_to(tmp_path / "elsewhere" / "b.json")
    (tmp_path / "elsewhere" / "circle").symlink_to(tmp_path / "elsewhere")
    for pattern in ("", "**"):  # which names the folder in which the link lies
        assert listed(tmp_path / "in" / pattern, tmp_path) == ["in/a.json", "in/one.json"]
    for pattern in ("*", "**/*"):
        found = listed(tmp_path / "in" / pattern, tmp_path)
        assert found == ["in/a.json", "in/link/b.json", "in/one.json"]


def test_of_what_the_system_does_not_tell_whoever_takes_it_in_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_PAUSES", (0.0,))
    made(tmp_path, "in/a.json")
    loop = tmp_path / "in" / "loop.json"
    loop.symlink_to(loop)
    for pattern in ("", "*.json", "**"):
        assert listed(tmp_path / "in" / pattern, tmp_path) == ["in/a.json", "in/loop.json"]


def test_a_link_to_what_it_lies_in_is_not_followed_for_ever(tmp_path: Path) -> None:
    made(tmp_path, "in/a.json", "in/b/c.json")
    (tmp_path / "in" / "b" / "circle").symlink_to(tmp_path / "in")
    for pattern in ("", "*", "**", "**/*"):
        assert listed(tmp_path / "in" / pattern, tmp_path) == ["in/a.json", "in/b/c.json"]


@pytest.mark.parametrize("pattern", ["**/**/*.json", "**/x/**/*.json", "**/x/**"])
def test_a_file_that_a_glob_names_in_two_ways_comes_once(tmp_path: Path, pattern: str) -> None:
    made(tmp_path, "x/x/x/a.json", "x/b.json")
    assert listed(tmp_path / pattern, tmp_path) == ["x/b.json", "x/x/x/a.json"]


class Failing:
    """What asks the system, which fails: of one folder's entries after some, so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, times: int) -> None:
        self.after, self.times, self.scandir = after, times, os.scandir
        monkeypatch.setattr(os, "scandir", self)
        monkeypatch.setattr(opening, "_PAUSES", (0.0, 0.0, 0.0))

    def __call__(self, folder: str) -> Failing:
        self.number, self.lying = 0, self.scandir(folder)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lying.close()

    def __iter__(self) -> Failing:
        return self

    def __next__(self) -> os.DirEntry[str]:
        if self.number == self.after and self.times:
            self.times -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.number += 1
        return next(self.lying)


@pytest.mark.parametrize("after", [0, 7, 1_000, 1_500, 2_500])
def test_a_folder_is_listed_again_after_the_system_failed_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    paths = made(tmp_path, *(f"{number:04}.json" for number in range(2_500)))
    failing = Failing(monkeypatch, after, 3)
    assert {*Listing(str(tmp_path))} == {*paths}
    failing.times = 1_000
    with pytest.raises(UnreadableFile, match="can't be listed: Input/output error"):
        [*Listing(str(tmp_path))]
    assert failing.times == 1_000 - 4


def test_a_file_of_which_the_system_does_not_tell_at_once_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, "a.json", "b.json", "c/d.json")
    told, asked = os.stat, set[str]()

    def stat_of(path: Any, **options: Any) -> os.stat_result:
        if str(path) not in asked:
            asked.add(str(path))
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return told(path, **options)

    for pattern in ("*.json", "*", "b.json", "", "**"):
        with monkeypatch.context() as failing:
            failing.setattr(opening, "_PAUSES", (0.0,) * 9)
            failing.setattr(os, "stat", stat_of)
            found = listed(tmp_path / pattern, tmp_path)
        asked.clear()
        assert found == [
            each
            for each in ("a.json", "b.json", "c/d.json")
            if pattern in {"*", "", "**", each} or (pattern == "*.json" and "/" not in each)
        ]


def test_a_folder_that_nobody_may_list_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, "a.json", "locked/b.json")
    locked, told, scandir = str(tmp_path / "locked"), os.stat, os.scandir

    def refused(of: Any) -> None:
        if str(of).startswith(locked):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(of))

    def stat_of(path: Any, **options: Any) -> os.stat_result:
        refused(path if str(path) != locked else "")
        return told(path, **options)

    def listed_in(folder: str) -> Any:
        refused(folder)
        return scandir(folder)

    monkeypatch.setattr(opening, "_PAUSES", (0.0,))
    monkeypatch.setattr(os, "stat", stat_of)
    monkeypatch.setattr(os, "scandir", listed_in)
    with pytest.raises(UnreadableFile, match=r"/locked' can't be listed: Permission denied"):
        [*Listing(str(tmp_path))]


def test_an_empty_text_is_no_folder() -> None:
    with pytest.raises(InputError, match="empty text"):
        list_files("")


COLUMNS = Columns("time", "user", "action")
NOW_MS = 1_500_000_000_000
RECORDS = [
    {"time": "2015-09-12T00:00:00Z", "user": "Anna", "action": "read"},
    {"time": "2015-09-12T00:00:01Z", "user": "Čeněk", "action": "read"},
    {"time": "2015-09-12T00:00:02Z", "user": "", "action": "read"},
    {"time": "2099-01-01T00:00:00Z", "user": "Bo", "action": "read"},
    {"time": "soon", "user": "Bo", "action": "read"},
]


def read(path: Path | str, **options: Any) -> list[Told]:
    return list(read_events(str(path), COLUMNS, now_ms=NOW_MS, limits=Limits(), **options))


def events(goods: list[Told]) -> list[tuple[int, str, str]]:
    return [
        (int(time_ms), user, action)
        for good, _ in goods
        for time_ms, user, action in zip(
            good.time_ms, good.users.to_pylist(), good.actions.to_pylist(), strict=True
        )
    ]


def letters(goods: list[Told]) -> list[dict[str, str | None]]:
    return [letter for _, dead in goods for batch in dead for letter in batch.to_pylist()]


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
    (letter,) = letter_of_file(
        "a.json.gz", "broken_file", "Truncated compressed stream"
    ).to_pylist()
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


def file_of(folder: Path, name: str, data: str | bytes) -> str:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def record(**fields: object) -> str:
    return json.dumps(fields)


def test_json_names_are_those_of_all_first_records(tmp_path: Path) -> None:
    lines = [record(time=1), "oops", "[1]", record(user=2, time=1), "", record(action=3)]
    path = file_of(tmp_path, "a.json", "\ufeff" + "\n".join(lines))
    assert _column_names(path) == ["time", "user", "action"]


def test_names_of_compressed_files_are_found(tmp_path: Path) -> None:
    assert _column_names(file_of(tmp_path, "a.json.gz", gzip.compress(b'{"a": 1}'))) == ["a"]
    assert _column_names(file_of(tmp_path, "a.csv.gz", gzip.compress(b"a,b\n"))) == ["a", "b"]


def test_names_of_csv_and_parquet_are_their_headers(tmp_path: Path) -> None:
    assert _column_names(file_of(tmp_path, "a.csv", '\ufeffa,"b c"\n1,2')) == ["a", "b c"]
    pq.write_table(pa.table({"a": [1], "é": [2]}), tmp_path / "a.parquet")
    assert _column_names(str(tmp_path / "a.parquet")) == ["a", "é"]


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
    path = file_of(tmp_path, name, data)
    if _column_names(path):  # of CSV, nearly everything is a header
        assert name.startswith("a.csv")
    else:
        check_columns([path], COLUMNS, None)


def test_a_file_that_is_gone_is_judged_later(tmp_path: Path) -> None:
    check_columns([str(tmp_path / "none.json")], COLUMNS, None)
    check_columns([os.fsdecode(b"caf\xe9.parquet")], COLUMNS, None)


def test_a_missing_column_is_told_with_the_nearest_and_the_file(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.json", record(time=1, usr="a", action="x"))
    with pytest.raises(ColumnError) as told:
        check_columns([path], COLUMNS, None)
    assert told.value.message == f"No column 'user' in {path}."
    assert told.value.hint == "Did you mean 'usr'? It has: action, time, usr."


def test_a_missing_column_that_resembles_nothing_is_told_with_all(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.csv", "a,b\n1,2\n")
    with pytest.raises(ColumnError) as told:
        check_columns([path], COLUMNS, None)
    assert told.value.hint == "It has: a, b."


def test_a_column_that_a_header_has_twice_is_told(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.csv", "time,user,user,action\n")
    with pytest.raises(ColumnError, match="2 columns 'user'"):
        check_columns([path], COLUMNS, None)


def test_a_later_file_is_looked_at_too(tmp_path: Path) -> None:
    good = file_of(tmp_path, "a.json", record(time=1, user="a", action="x"))
    bad = file_of(tmp_path, "b.json", record(time=1, user="a"))
    check_columns([good], COLUMNS, None)
    with pytest.raises(ColumnError, match=r"'action' in .*b\.json"):
        check_columns([good, bad], COLUMNS, None)


def test_expressions_are_left_to_spark(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.json", record(time=1))
    check_columns([path], Columns("time", "lower(user)", "action"), None)


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
