from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kstoolkit.cli.storeoptions import SERDES
from kstoolkit.formats.serdes import SERDE_NAMES
from tests.cli.commands import given, rows
from tests.rocksdb.madestores import appearance
from tests.stores.streamsstores import START_MS, int64, write_minutes, write_store

if TYPE_CHECKING:
    from pathlib import Path

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("state")
    task = root / "my-app" / "0_1"
    write_minutes(task / "minutes", ["Anna", "Zoë"])
    values = {b"a": int64(START_MS) + b'{"n": 1}', b"\xff\x00": int64(START_MS) + b"\xfe"}
    write_store(task / "rocksdb" / "latest", keyValueWithTimestamp=values)
    return root


def test_stores_are_listed_for_people(state: Path) -> None:
    answer = given("stores", state)
    header, *lines = answer.out.splitlines()
    assert header.split() == [
        *("store", "kind", "engine", "application", "part", "segments", "size", "entries", "folder")
    ]
    told = {line.split()[0]: line.split()[1:6] for line in lines}
    assert told["minutes"] == ["window", "kafka-streams", "my-app", "0_1", "3"]
    assert told["latest"] == ["timestamped-key-value", "kafka-streams", "my-app", "0_1", "none"]
    assert answer.code == 0


def test_stores_are_objects_for_programs(state: Path) -> None:
    found = {row["store"]: row for row in rows(given("stores", state, "--json").out)}
    minutes = found["minutes"]
    assert minutes["path"] == str(state / "my-app" / "0_1" / "minutes")
    named = ("engine", "application", "partition", "kind", "num_entries")
    assert [minutes[name] for name in named] == ["kafka-streams", "my-app", 1, "window", 36]
    assert minutes["size_bytes"] == sum(each["size_bytes"] for each in minutes["segments"]) > 0
    assert minutes["segments"][0]["start_ms"] == START_MS


def test_without_a_look_the_kind_may_be_unknown(state: Path) -> None:
    found = rows(given("stores", state, "--no-look", "--json").out)
    kinds = {row["store"]: row["kind"] for row in found}
    assert kinds == {"latest": "timestamped-key-value", "minutes": None}


def test_rows_are_printed_for_people(state: Path) -> None:
    before = appearance(state)
    path = state / "my-app" / "0_1" / "minutes"
    answer = given("rows", path, "--key", "Zoë", "--window-size", "60 seconds", "--limit", 1)
    assert answer.out == "'Zoë' [2023-11-14 23:00:00.000 to 2023-11-14 23:01:00.000]: 28333380\n"
    assert (answer.code, answer.err) == (0, "")
    assert len(given("rows", path).out.splitlines()) == 20
    assert appearance(state) == before


def test_rows_are_objects_for_programs_all_of_them(state: Path) -> None:
    found = rows(given("rows", state / "my-app" / "0_1" / "minutes", "--json").out)
    assert len(found) == 36
    assert found[0] == {
        "store": "minutes",
        "key": "Anna",
        "window_start_ms": START_MS,
        "window_end_ms": None,
        "timestamp_ms": None,
        "value": START_MS // MINUTE_MS,
        "headers": None,
        "key_hex": b"Anna".hex(),
        "value_hex": int64(START_MS // MINUTE_MS).hex(),
    }


def test_rows_may_be_bounded_by_time(state: Path) -> None:
    path = state / "my-app" / "0_1" / "minutes"
    span = ("--since", "2023-11-14T23:30Z", "--until", "2023-11-15T00:10Z")
    found = rows(given("rows", path, *span, "--json").out)
    starts = sorted({row["window_start_ms"] - START_MS for row in found})
    assert starts == [each * MINUTE_MS for each in (30, 40, 50, 60)]


def test_what_cannot_be_decoded_is_hex_and_counted(state: Path) -> None:
    path = state / "my-app" / "0_1" / "rocksdb" / "latest"
    answer = given("rows", path, "--key-serde", "string", "--value-serde", "json", "--json")
    first, second = rows(answer.out)
    assert (first["value"], first["timestamp_ms"]) == ({"n": 1}, START_MS)
    assert second["key"] == {"hex": "ff00", "problem": "no UTF-8 at byte 0"}
    assert second["value"]["hex"] == "fe"
    assert answer.err == "1 row could not be decoded, and stand there in hex.\n"
    assert answer.code == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--kind", "windoww"), "window"),
        (("--key-serde", "strin"), "string"),
        (("--window-size", "soon"), "duration"),
        (("--since", "yesterday"), "not a time"),
    ],
)
def test_mistakes_are_said_in_a_sentence(state: Path, options: tuple[str, str], word: str) -> None:
    answer = given("rows", state / "my-app" / "0_1" / "minutes", *options)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Error: ")
    assert word in answer.err
    assert "Traceback" not in answer.err


def test_a_folder_without_stores_is_no_mistake_and_one_that_is_not_there_is(tmp_path: Path) -> None:
    answer = given("stores", tmp_path)
    assert (answer.code, answer.out, answer.err) == (0, "", f"No stores in {tmp_path}.\n")
    assert given("stores", tmp_path / "absent").code == 2
    assert given("rows", tmp_path).code == 2


def test_the_help_names_every_serde() -> None:
    assert set(SERDES.replace(" or ", ", ").split(", ")) == set(SERDE_NAMES)


def test_hostile_text_cannot_harm_a_terminal(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"\x1b[2J": b"\x1b]0;x\x07"})
    answer = given("rows", path, "--key-serde", "string", "--value-serde", "string")
    assert "\x1b" not in answer.out
    (row,) = rows(given("rows", path, "--value-serde", "string", "--json").out)
    assert json.dumps(row)
    assert row["value"] == "\x1b]0;x\x07"
