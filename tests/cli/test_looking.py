from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from tests.cli.commands import given, harmless, rows
from tests.rocksdb.madestores import LIVE, NUM_ROWS, appearance, key_of, largest_sst, make_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("looking") / "store")


def test_inspect_says_of_each_figure_whose_it_is(made: Path) -> None:
    before = appearance(made)
    answer = given("inspect", made)
    assert (answer.code, answer.err) == (0, "")
    told = {line.split()[0]: line for line in answer.out.splitlines()}
    assert told["rocksdb_version"].split() == ["rocksdb_version", "the", "OPTIONS", "file", "9.8.4"]
    assert " ".join(told["column_families"].split()).endswith("store on disk default, other")
    assert "unknown (only the process that writes knows" in told["unflushed_entries"]
    assert appearance(made) == before


def test_inspect_gives_programs_one_object(made: Path) -> None:
    (told,) = rows(given("inspect", made, "--json").out)
    assert told["path"] == str(made)
    assert told["column_families"] == ["default", "other"]
    assert told["num_files"] == 4
    assert told["estimated_rows"] == len(LIVE) + 2
    assert told["unflushed_entries"] is None
    assert told["unknown"]["unflushed_entries"]


def test_levels_gives_a_row_a_level(made: Path) -> None:
    (level,) = rows(given("levels", made, "--json").out)
    assert (level["column_family"], level["level"], level["num_files"]) == ("default", 0, 4)
    assert level["smallest_key"] == key_of(0).hex()
    assert level["largest_key"] == key_of(NUM_ROWS - 1).hex()
    header, line = given("levels", made).out.splitlines()
    assert header.split()[:4] == ["column", "family", "level", "files"]
    assert line.split()[:3] == ["default", "0", "4"]
    assert "9.1%" in line


def test_one_column_family_may_be_asked_for(made: Path) -> None:
    (told,) = rows(given("inspect", made, "--column-family", "other", "--json").out)
    assert (told["estimated_rows"], told["num_files"]) == (2, 0)
    answer = given("levels", made, "--column-family", "other")
    assert (answer.code, answer.out) == (0, "")
    assert "WAL" in answer.err


@pytest.mark.parametrize("command", ["inspect", "levels"])
def test_folders_that_the_store_does_not_name_may_be_given(
    command: str, made: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(made, tmp_path / "store")
    (tmp_path / "rows").mkdir()
    for each in copy.glob("*.sst"):
        each.rename(tmp_path / "rows" / each.name)
    answer = given(command, copy, "--json")
    assert (answer.code, answer.out) == (1, "")
    assert "--other-folder PATH" in answer.err
    (told,) = rows(given(command, copy, "--other-folder", tmp_path / "rows", "--json").out)
    assert told["num_files"] == 4


@pytest.mark.parametrize("command", ["inspect", "levels"])
def test_a_mistake_is_a_sentence_with_code_2(command: str, made: Path, tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "nowhere", "There is no"),
        (made.parent, f"Hint: There is one in {made}."),
    ):
        answer = given(command, path)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err
    answer = given(command, made, "--column-family", "zz")
    assert (answer.code, answer.out) == (2, "")
    assert "Hint: It has: default, other." in answer.err


@pytest.mark.parametrize("command", ["inspect", "levels"])
def test_a_damaged_store_is_looked_into_as_far_as_it_goes(
    command: str, made: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(made, tmp_path / "store")
    largest_sst(copy).unlink()
    answer = given(command, copy, "--json")
    assert answer.code == 0
    assert rows(answer.out)
    assert "as far as it goes: 1 of 4 SST files is missing" in answer.err


@pytest.mark.parametrize("command", ["inspect", "levels"])
def test_a_store_without_any_of_its_files_is_a_fault_with_code_1(
    command: str, made: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(made, tmp_path / "store")
    for each in copy.glob("*.sst"):
        each.unlink()
    answer = given(command, copy)
    assert (answer.code, answer.out) == (1, "")
    assert "which it needs, is missing" in answer.err
    assert "Hint: Restore" in answer.err


def test_names_that_could_harm_a_terminal_are_shown_as_escapes(tmp_path: Path) -> None:
    writer = Rdict(str(tmp_path / "store"), Options(raw_mode=True))
    other = writer.create_column_family("a\x1b[2Jb", Options(raw_mode=True))
    other[b"\x1b[2J" * 20] = b"1"
    other.flush()
    other.close()
    writer.close()
    for command in ("inspect", "levels"):
        answer = given(command, tmp_path / "store")
        assert answer.code == 0
        assert harmless(answer.out)
        assert r"a\x1b[2Jb" in answer.out
