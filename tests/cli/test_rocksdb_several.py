"""Commands that look into stores of several RocksDB: segments, and snapshots of Spark's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import given, rows
from tests.stores.streamsstores import write_minutes

STORES = Path(__file__).parents[2] / "data" / "stores"
WINDOWED = STORES / "kafka-streams" / "small-main-4_3_1" / "0_0" / "actions-1m"
SEGMENT = WINDOWED / "actions-1m.1699999200000"
SNAPSHOTS = STORES / "spark" / "count-by-user"
CHANGES = STORES / "spark" / "hours-by-user"
COMMANDS = ["inspect", "levels", "memory", "advice", "log"]
SEGMENTS = sorted(each.name for each in WINDOWED.iterdir())


@pytest.mark.parametrize(
    ("path", "names"), [(WINDOWED, SEGMENTS), (SNAPSHOTS, ["0/2.zip", "1/2.zip"])]
)
@pytest.mark.parametrize("command", ["inspect", "levels", "memory"])
def test_json_has_an_object_a_store_and_then_the_sum(
    command: str, path: Path, names: list[str]
) -> None:
    answer = given(command, path, "--json")
    assert answer.code == 0
    found = rows(answer.out)
    stores = [each["store"] for each in found]
    assert list(dict.fromkeys(stores)) == [*names, None]
    assert stores == sorted(stores, key=lambda name: (name is None, name or ""))
    size = {"inspect": "sst_bytes", "levels": "size_bytes"}.get(command)
    if size is not None:
        ones = [each[size] for each in found if each["store"]]
        assert sum(each[size] for each in found if each["store"] is None) == sum(ones)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("path", [SEGMENT, SNAPSHOTS / "state" / "0" / "0"])
def test_one_rocksdb_is_told_without_a_name(command: str, path: Path) -> None:
    found = rows(given(command, path, "--json").out)
    assert all("store" not in each or each["store"] is None for each in found)
    assert len(found) == (1 if command in {"inspect", "memory"} else len(found))
    assert (command, path) == ("log", path) or found or command == "advice"


@pytest.mark.parametrize("command", ["inspect", "levels", "memory"])
def test_a_table_names_each_segment_and_then_what_all_come_to(command: str) -> None:
    answer = given(command, WINDOWED)
    assert (answer.code, answer.err) == (0, "")
    head, *lines = answer.out.splitlines()
    assert head.startswith("store ")
    named = [line.split()[0] for line in lines if line.startswith("actions-1m.")]
    assert list(dict.fromkeys(named)) == SEGMENTS
    assert "n all" in answer.out or "of all of them" in answer.out


def test_the_formula_of_several_stores_is_of_all_their_instances() -> None:
    found = rows(given("memory", WINDOWED, "--profile", "kafka_streams", "--json").out)
    *each, total = found
    assert total["num_stores"] == total["plan"]["instances"] == 3
    assert total["formula_bytes"] == sum(one["formula_bytes"] for one in each)
    answer = given("memory", WINDOWED, "--profile", "kafka_streams")
    assert "for 3 RocksDB instances" in answer.out


def test_advice_names_the_segment_and_each_reason_of_silence_once() -> None:
    bound = ("--bound-bytes", 200 << 20, "--profile", "kafka_streams")
    answer = given("advice", WINDOWED, *bound)
    for name in SEGMENTS:
        assert f"{name}: memory over the bound: " in answer.out
    silences = answer.err.splitlines()
    assert len(silences) == len(set(silences))
    assert [each["store"] for each in rows(given("advice", WINDOWED, *bound, "--json").out)] == (
        SEGMENTS
    )


def test_the_logs_of_segments_are_told_together(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"])
    answer = given("log", path)
    assert answer.code == 0
    assert "In all: write_amplification: 1 (the writer's log)" in answer.out
    assert answer.out.count("StoreLog(") == 3
    *events, total = rows(given("log", path, "--json").out)
    assert (total["store"], total["kind"], total["num_flushes"]) == (None, "summary", 3)
    kinds = [each["kind"] for each in events if each["store"] == f"{path.name}.1700002800000"]
    assert kinds == ["flush", "summary"]


@pytest.mark.parametrize("command", COMMANDS)
def test_state_without_snapshots_is_said_to_have_no_rocksdb(command: str) -> None:
    for path in (CHANGES, CHANGES / "state" / "0" / "0"):
        answer = given(command, path, "--json")
        assert (answer.code, answer.out) == (0, "")
        assert "executor" in answer.err
        assert len(answer.err.splitlines()) == 1


def test_the_log_of_snapshots_is_said_to_be_the_executors() -> None:
    answer = given("log", SNAPSHOTS)
    assert (answer.code, answer.out) == (0, "")
    assert "kstoolkit log" in answer.err


def test_a_family_that_no_segment_has_is_a_mistake() -> None:
    answer = given("inspect", WINDOWED, "--column-family", "no")
    assert (answer.code, answer.out) == (2, "")
    assert "No column family 'no'" in answer.err


def test_what_is_left_out_of_several_is_said_beside_the_result(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"])
    for table in (path / "minutes.1700002800000").glob("*.sst"):
        table.unlink()
    answer = given("inspect", path, "--json")
    assert answer.code == 0
    assert "minutes.1700002800000" in answer.err
    assert json.loads(answer.out.splitlines()[-1])["store"] is None
