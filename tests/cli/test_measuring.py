from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb
import pytest

import kstoolkit as kst
from tests.cli.commands import given, rows
from tests.rocksdb.madestores import appearance
from tests.stores.streamsstores import int64, write_minutes, write_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_minutes(tmp_path_factory.mktemp("stores") / "minutes", ["Anna", "Bo"], segments=5)


def test_a_difference_is_a_line_and_the_numbers_are_beside_it(tmp_path: Path) -> None:
    a = write_store(tmp_path / "a", default={b"x": int64(1), b"y": int64(2), b"z": int64(3)})
    b = write_store(tmp_path / "b", default={b"y": int64(2), b"z": int64(4), b"w": int64(5)})
    answer = given("diff", a, b)
    assert answer.code == 0
    signs = {line[0]: line for line in answer.out.splitlines()}
    assert signs.keys() == {"+", "-", "~"}
    assert "'w'" in signs["+"]
    assert "'x'" in signs["-"]
    assert "'z'" in signs["~"]
    assert answer.err == "1 added, 1 removed, 1 changed, 1 equal.\n"


def test_a_difference_is_an_object_for_programs(tmp_path: Path) -> None:
    a = write_store(tmp_path / "a", default={b"z": int64(3)})
    b = write_store(tmp_path / "b", default={b"z": int64(4)})
    (row,) = rows(given("diff", a, b, "--json").out)
    assert (row["change"], row["key"], row["value_a"], row["value_b"]) == ("changed", "z", 3, 4)


def test_a_limit_bounds_differences_for_programs_too(minutes: Path, tmp_path: Path) -> None:
    other = write_minutes(tmp_path / "minutes", ["Cy"], segments=5)
    for more, number in (((), 20), (("--json",), 90), (("--json", "--limit", 2), 2)):
        answer = given("diff", minutes, other, *more)
        assert len(answer.out.splitlines()) == number
        assert answer.err == "30 added, 60 removed, 0 changed, 0 equal.\n"


def test_a_store_equals_itself_and_is_not_touched(minutes: Path) -> None:
    before = appearance(minutes)
    answer = given("diff", minutes, minutes)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "0 added, 0 removed, 0 changed, 60 equal.\n"
    assert appearance(minutes) == before


def test_growth_says_what_is_past_its_time(minutes: Path) -> None:
    answer = given("growth", minutes, "--retention", "1 hour")
    assert answer.code == 0
    assert "retention of 1 hour" in answer.out
    assert "Anna" in answer.out
    (told,) = rows(given("growth", minutes, "--retention", "1 hour", "--json").out)
    assert told["num_rows"] == 60
    # The newest window begins at 4:50 from the start: what began by 3:50 is expired.
    assert told["expired"]["num_rows"] == 2 * 24
    assert [each["is_past"] for each in told["segments"]] == [True, True, True, False, False]


def test_growth_names_what_takes_most_of_each(minutes: Path, tmp_path: Path) -> None:
    answer = given("growth", minutes, "--top", 2, "--value-serde", "long")
    tables = [part.splitlines() for part in answer.out.split("\n\n")[1:]]
    heads = [lines[0].split("  ")[0] for lines in tables]
    assert heads == ["largest keys", "largest windows"]
    assert tables[0][1].split()[:2] == ["'Anna'", "30"]
    assert tables[1][1].startswith("2023-11-14 23:00 UTC  2 ")
    assert [len(lines) for lines in tables] == [3, 3]
    keys = {b"%b-%d" % (kind, n): b"" for kind in (b"user", b"page") for n in range(9_000)}
    plain = write_store(tmp_path / "plain", default=keys)
    *_, table = given("growth", plain, "--top", 2).out.split("\n\n")
    assert table.startswith("largest prefixes  rows  ")


def test_growth_takes_a_folder_or_an_open_store(minutes: Path) -> None:
    with kst.open_store(minutes) as store:
        opened = kst.growth(store, retention="1 hour")
    assert opened.to_dict() == kst.growth(minutes, retention="1 hour").to_dict()
    assert opened.verdict


def test_growth_asks_for_its_options_in_their_own_words(tmp_path: Path) -> None:
    store = write_minutes(tmp_path / "few", ["Anna"], segments=1)
    answer = given("growth", store)
    (told,) = rows(given("growth", store, "--json").out)
    assert "give --retention" in answer.out
    assert "give --retention" in told["horizon"]["unknown"]["inferred_retention_ms"]
    assert "retention=" not in answer.out + json.dumps(told)
    assert "retention=" in str(kst.growth(store).verdict)


def test_differences_may_be_bounded_by_time(minutes: Path, tmp_path: Path) -> None:
    other = write_minutes(tmp_path / "minutes", ["Anna"], segments=5)
    span = ("--since", "2023-11-14T23:30Z", "--until", "2023-11-15T00:10Z")
    assert given("diff", minutes, other).err == "0 added, 30 removed, 0 changed, 30 equal.\n"
    assert given("diff", minutes, other, *span).err == "0 added, 4 removed, 0 changed, 4 equal.\n"


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".csv.gz", ".jsonl.zst"])
def test_an_export_is_read_by_other_tools(minutes: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"minutes{suffix}"
    answer = given("export", minutes, "--to", path)
    assert answer.out == f"60 rows are in {path}.\n"
    query = f"SELECT count(*), count(DISTINCT key) FROM '{path}'"  # noqa: S608 - the test's own path
    assert duckdb.connect().execute(query).fetchall() == [(60, 2)]


def test_an_export_replaces_nothing_unasked(minutes: Path, tmp_path: Path) -> None:
    path = tmp_path / "minutes.csv"
    path.write_text("mine")
    answer = given("export", minutes, "--to", path)
    assert answer.code == 2
    assert path.read_text() == "mine"
    assert "--overwrite" in answer.err
    assert given("export", minutes, "--to", path, "--overwrite").code == 0


@pytest.mark.parametrize(
    "arguments", [("diff", "absent", "absent"), ("growth", "absent"), ("export", "absent")]
)
def test_a_store_that_is_not_there_is_a_mistake(arguments: tuple[str, ...], tmp_path: Path) -> None:
    more = ("--to", tmp_path / "x.csv") if arguments[0] == "export" else ()
    answer = given(*arguments, *more)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Error: ")
