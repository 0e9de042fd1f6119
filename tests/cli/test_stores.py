from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from kstoolkit.cli.stores import _SERDES
from kstoolkit.formats.serdes import SERDE_NAMES
from tests.cli.commands import given, rows
from tests.rocksdb.madestores import appearance
from tests.stores.kafkastreams.archives import states, unpacked
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
        *("store", "kind", "engine", "application", "part", "segments", "size", "entries"),
        *("starts", "(UTC)", "closed", "folder"),
    ]
    told = {line.split()[0]: line.split()[1:6] for line in lines}
    assert told["minutes"] == ["window", "kafka-streams", "my-app", "0_1", "3"]
    assert told["latest"] == ["timestamped-key-value", "kafka-streams", "my-app", "0_1", "none"]
    assert answer.code == 0
    assert "  2023-11-14 23:00 to 2023-11-15 01:00  " in answer.out
    assert "offset" not in header


def test_how_a_store_was_left_is_listed(state: Path, tmp_path: Path) -> None:
    task = tmp_path / "my-app" / "0_1"
    shutil.copytree(state / "my-app" / "0_1", task)
    (task / ".checkpoint").write_text("0\n1\nmy-app-minutes-changelog 1 753\n")
    header, *lines = given("stores", tmp_path).out.splitlines()
    assert header.split()[-3:] == ["offset", "closed", "folder"]
    told = {line.split()[0]: line.split()[-3:-1] for line in lines}
    assert told["minutes"][0] == "753"
    assert told["latest"][0] == "unknown"


def test_every_command_on_stores_takes_the_same_four_options(state: Path, tmp_path: Path) -> None:
    path = state / "my-app" / "0_1" / "minutes"
    four = ("--key-serde", "string", "--value-serde", "long", "--window-size", "1500 ms")
    more = {"diff": (path,), "export": ("--to", tmp_path / "x.csv")}
    for command in ("stores", "rows", "diff", "growth", "export"):
        answer = given(command, path, *more.get(command, ()), *four, "--kind", "window")
        assert answer.code == 0, answer.err


def test_a_kind_that_nothing_tells_can_be_told(state: Path) -> None:
    answer = given("stores", state, "--no-look", "--json", "--kind", "window")
    kinds = {row["store"]: row["kind"] for row in rows(answer.out)}
    assert kinds == {"latest": "timestamped-key-value", "minutes": "window"}
    assert given("stores", state, "--kind", "windoww").code == 2


def test_an_unknown_kind_says_why_for_people_too(state: Path) -> None:
    answer = given("stores", state, "--no-look")
    assert answer.err == "The kind of 1 store is unknown: only its rows tell: --look opens it.\n"


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
    assert len(given("rows", path).out.splitlines()) == 36
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


def test_moments_may_be_the_epoch_ms_that_json_prints(state: Path) -> None:
    path = state / "my-app" / "0_1" / "minutes"
    span = ("--since", START_MS + 30 * MINUTE_MS, "--until", START_MS + 70 * MINUTE_MS)
    found = rows(given("rows", path, *span, "--json").out)
    starts = sorted({row["window_start_ms"] - START_MS for row in found})
    assert starts == [each * MINUTE_MS for each in (30, 40, 50, 60)]
    assert given("rows", path, "--since", "20231116", "--json").out == ""


def test_a_key_or_prefix_may_be_bytes_in_hex(state: Path) -> None:
    path = state / "my-app" / "0_1" / "minutes"
    keys = ("--key", "0x416e6e61"), ("--prefix", "0x416e"), ("--prefix", "An"), ("--key", "Anna")
    found = [rows(given("rows", path, *each, "--json").out) for each in keys]
    assert found == [found[0]] * 4
    assert {row["key"] for row in found[0]} == {"Anna"}
    answer = given("rows", path, "--key", "Anna", "--key-serde", "json")
    assert answer.code == 2
    assert "Hint: Give the key's bytes in hex, as --key 0x00ff." in answer.err


@pytest.mark.parametrize("command", ["stores", "rows", "growth"])
def test_an_empty_path_is_not_this_folder(command: str) -> None:
    answer = given(command, "")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Error: The path is empty.")


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
    assert set(_SERDES.replace(" or ", ", ").split(", ")) == set(SERDE_NAMES)


def test_bytes_are_shown_as_they_can_be_asked_for(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"\xff\x00": b"\xfe"})
    line = given("rows", path, "--key-serde", "bytes", "--value-serde", "long").out
    assert line == "0xff00: 0xfe (1 byte, not 8)\n"
    told = ("--key", "0xff00", "--key-serde", "bytes", "--value-serde", "bytes")
    assert given("rows", path, *told).out == "0xff00: 0xfe\n"


def test_every_key_is_found_by_the_hex_that_json_prints(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = unpacked(tmp_path_factory, "3.9.2") / "clean"
    of_kind = {row["kind"]: row for row in rows(given("stores", root, "--json").out)}
    for kind in ("list-value", "foreign-key-subscription", "versioned", "session"):
        path = root / of_kind[kind]["path"]
        (first,) = rows(given("rows", path, "--limit", 1, "--json").out)
        key = f"0x{first['key_hex']}"
        assert first in rows(given("rows", path, "--key", key, "--json").out)


def test_a_row_that_cannot_be_taken_apart_says_why_once(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", keyValueWithTimestamp={b"a": b"\x01"})
    answer = given("rows", path, "--key-serde", "string", "--value-serde", "long")
    assert answer.out.startswith("0x61: 0x01 (")
    assert answer.out.count("(") == 1


def test_what_is_left_out_of_a_store_is_a_line_beside_its_rows(tmp_path: Path) -> None:
    path = write_minutes(tmp_path / "minutes", ["Anna"])
    (path / f"minutes.{START_MS}").rename(path / f"others.{START_MS}")
    for command in ("rows", "growth"):
        answer = given(command, path)
        assert answer.code == 0
        assert answer.err.count("One part of the store") == 1
        assert "Warning" not in answer.err
    assert len(given("rows", path).out.splitlines()) == 12


def test_hostile_text_cannot_harm_a_terminal(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"\x1b[2J": b"\x1b]0;x\x07"})
    answer = given("rows", path, "--key-serde", "string", "--value-serde", "string")
    assert "\x1b" not in answer.out
    (row,) = rows(given("rows", path, "--value-serde", "string", "--json").out)
    assert json.dumps(row)
    assert row["value"] == "\x1b]0;x\x07"


def test_rows_have_their_promised_fields_and_the_details_of_their_kind(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    state = next(each for each in states("4.3.1") if str(each) == "own-4.3.1-clean")
    folder = state.directory(tmp_path_factory)
    path = next(folder.rglob("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-*"))
    plain = rows(given("rows", path, "--json", "--limit", "1").out)
    assert rows(given("rows", path, "--json", "--details", "--limit", "1").out) == plain
    assert len(plain[0].keys() - {"details"}) == 9
    assert plain[0]["details"]["foreign_key"] == "c0"
