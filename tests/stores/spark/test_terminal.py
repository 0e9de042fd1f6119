"""Versions of a checkpoint at the terminal: named, read, measured, written out and compared."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.cli.commands import given, rows
from tests.stores.spark.madecheckpoints import changes, key_of, make_checkpoint
from tests.stores.streamsstores import int64, write_store

if TYPE_CHECKING:
    from pathlib import Path

AT = {1: {"Anna": 1}, 2: {"Anna": 1, "Bo": 2, "Cy": 3}, 3: {"Anna": 1, "Cy": 3, "Dee": 4}}
LATEST = {"Aaron": 5, "Anna": 9, "Cy": 3, "Dee": 4}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    make_checkpoint(tmp_path / "query")
    return tmp_path / "query"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_store(tmp_path / "plain", default={b"x": int64(1)})


def counted(text: str) -> dict[str, int]:
    return {row["key"]["user"]: row["value"]["count"] for row in rows(text)}


@pytest.mark.parametrize("version", AT)
def test_rows_are_those_of_a_version_or_of_a_batch(checkpoint: Path, version: int) -> None:
    told = ("--version", version), ("--batch", version - 1)
    for which in told:
        assert counted(given("rows", checkpoint, *which, "--json").out) == AT[version]
    assert counted(given("rows", checkpoint, "--json").out) == LATEST


def test_stores_say_which_versions_there_are(checkpoint: Path, plain: Path) -> None:
    header, *lines = given("stores", checkpoint.parent).out.splitlines()
    assert header.split()[-2:] == ["versions", "folder"]
    told = {line.split()[0]: line for line in lines}
    assert " 1 to 4 " in told["default"]
    assert " none " in told["plain"]
    [found] = rows(given("stores", checkpoint, "--json").out)
    assert found["versions"] == [1, 4]
    assert "versions" not in given("stores", plain).out


def test_growth_is_that_of_a_version(checkpoint: Path) -> None:
    [told] = rows(given("growth", checkpoint, "--version", 2, "--json").out)
    assert told["num_rows"] == 3
    [told] = rows(given("growth", checkpoint, "--batch", 0, "--json").out)
    assert told["num_rows"] == 1


def test_an_export_is_that_of_a_version(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    assert given("export", checkpoint, "--version", 2, "--to", path).out.startswith("3 rows")
    table = pq.read_table(path)
    assert {key["user"] for key in table["key"].to_pylist()} == AT[2].keys()
    assert table["partition"].to_pylist() == [0, 0, 0]


@pytest.mark.parametrize("which", [("--versions", 2, 4), ("--batches", 1, 3)])
def test_two_versions_of_one_checkpoint_are_compared(
    checkpoint: Path, which: tuple[object, ...]
) -> None:
    answer = given("diff", checkpoint, *which, "--json")
    assert answer.err == "2 added, 1 removed, 1 changed, 1 equal.\n"
    told = {row["key"]["user"]: row["change"] for row in rows(answer.out)}
    assert told == {"Aaron": "added", "Dee": "added", "Bo": "removed", "Anna": "changed"}


def test_versions_of_two_checkpoints_are_compared_too(checkpoint: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    (other / "state" / "0" / "0" / "4.changelog").write_bytes(changes(Anna=7))
    answer = given("diff", checkpoint, other, "--versions", 3, 4)
    assert answer.out == '~ {"user": "Anna"}: {"count": 7}, was {"count": 1}\n'


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("rows", "--version", 9), r"no version 9 of .*: 1, 2, 3, 4\."),
        (("rows", "--version", 0), "no version 0"),
        (("rows", "--batch", 4), "no version 5"),
        (("rows", "--version", 2, "--batch", 1), "Both version 2 and batch 1"),
        (("growth", "--version", 9), "no version 9"),
        (("diff",), "Only one store is given"),
        (("diff", "--versions", 2, 4, "--batches", 1, 3), "Both version 2 and batch 1"),
        (("diff", "--versions", 2, 4, "--total"), "holds counts of kstoolkit's"),
    ],
)
def test_a_version_that_there_is_not_is_a_mistake(
    checkpoint: Path, arguments: tuple[object, ...], told: str
) -> None:
    command, *options = arguments
    answer = given(command, checkpoint, *options)
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err
    error, hint = answer.err.splitlines()
    assert re.search(told, f"{error} {hint}")


@pytest.mark.parametrize("command", ["rows", "growth", "export", "diff"])
def test_other_engines_have_no_versions(plain: Path, tmp_path: Path, command: str) -> None:
    more = {"export": ("--to", tmp_path / "x.csv")}.get(command, ())
    which = ("--versions", 1, 2) if command == "diff" else ("--batch", 1)
    answer = given(command, plain, *more, *which)
    assert (answer.code, answer.out) == (2, "")
    assert f"of {plain}: only Spark's checkpoints keep several." in answer.err


@pytest.mark.parametrize("key", ["Anna", '{"user": "Anna"}', key_of("Anna")[1:].hex()])
def test_a_key_is_found_by_what_its_columns_hold(checkpoint: Path, key: str) -> None:
    told = key if key.startswith(("A", "{")) else f"0x{key}"
    assert counted(given("rows", checkpoint, "--key", told, "--json").out) == {"Anna": 9}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--key", '{"usr": "Anna"}'), "'user' is missing, 'usr' is none of them"),
        (("--key", '{"user": '), "is no JSON"),
        (("--key", '{"user": 5}'), "5 can't be written as the type string"),
        (("--prefix", "An"), "Hint: Give --key with the values of all columns or of some, or the "),
    ],
)
def test_a_key_that_no_row_can_have_is_a_mistake(
    checkpoint: Path, asked: tuple[str, str], told: str
) -> None:
    answer = given("rows", checkpoint, *asked)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert len(answer.err.splitlines()) == 2


def test_rows_of_all_partitions_tell_theirs(checkpoint: Path) -> None:
    partition = checkpoint / "state" / "0" / "0"
    shutil.copytree(partition, partition.with_name("1"))
    found = [row["partition"] for row in rows(given("rows", checkpoint, "--json").out)]
    assert sorted(found) == [0] * 4 + [1] * 4
    lines = given("rows", checkpoint).out.splitlines()
    assert sum(line.endswith(" (partition 1)") for line in lines) == 4
    alone = rows(given("rows", partition, "--json").out)
    assert len(alone) == 4
    assert all("partition" not in row for row in alone)
