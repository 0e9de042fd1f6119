"""The broker's commands; only its start costs something, so one test goes through a whole life."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.kafka.broker import Broker, _process_with
from tests.cli.commands import Answer, answered, given, harmless, rows, started

if TYPE_CHECKING:
    from pathlib import Path


def told(answer: Answer) -> dict[str, object]:
    assert answer.code == 0, answer.err
    (row,) = rows(answer.out)
    return row


@pytest.mark.kafka
def test_a_broker_is_started_outlives_its_command_and_is_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    try:
        first = told(answered(started("broker", "start", "--dir", folder, "--json")))
        assert first["running"] is True
        assert first["dir"] == str(folder)
        assert _process_with(int(str(first["pid"]))) is not None
        again = given("broker", "start", "--dir", folder)
        assert again.code == 0
        assert again.err == "It runs already.\n"
        assert again.out.startswith(f"Kafka 4.3.1 is running at {first['bootstrap']} (process ")
        assert told(given("broker", "status", "--dir", folder, "--json")) == first
        stopped = told(given("broker", "stop", "--dir", folder, "--json"))
        assert stopped == {**first, "running": False, "pid": None}
        assert _process_with(int(str(first["pid"]))) is None
    finally:
        Broker(folder).kill()
    assert given("broker", "stop", "--dir", folder).code == 0
    said = given("broker", "status", "--dir", folder)
    assert said.out == f"Stopped: its address is {first['bootstrap']}, its folder {folder}.\n"


def test_a_broker_that_was_never_started_is_stopped(tmp_path: Path) -> None:
    answer = given("broker", "status", "--dir", tmp_path / "new")
    assert answer == (0, f"Stopped: no broker was ever started in {tmp_path / 'new'}.\n", "")
    row = told(given("broker", "status", "--dir", tmp_path / "new", "--json"))
    assert row == {
        "bootstrap": None,
        "running": False,
        "pid": None,
        "dir": str(tmp_path / "new"),
        "version": None,
        "log": str(tmp_path / "new" / "broker.log"),
    }


def test_to_stop_what_was_never_started_is_a_mistake(tmp_path: Path) -> None:
    answer = given("broker", "stop", "--dir", tmp_path / "new\x1b[2J")
    assert (answer.code, answer.out) == (2, "")
    assert "Error: There is no broker in '" in answer.err
    assert "Hint: Start it first, or give the folder of another." in answer.err
    assert harmless(answer.err)


def test_a_folder_with_other_files_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    answer = given("broker", "start", "--dir", tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert "holds other files: 'thesis.tex'" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_without_dir_it_lives_where_this_users_data_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    row = told(given("broker", "status", "--json"))
    assert row["dir"] == str(tmp_path / "kstoolkit" / "broker")


@pytest.mark.parametrize("option", ["--dir=", "--colour", "now"])
def test_what_it_does_not_take_is_a_mistake(option: str) -> None:
    assert given("broker", "status", option).code == 2
