from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Rdict

from kstoolkit.rocksdb.lab import comparing as watching
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named, profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.changelog.changelogs import HOUR, write
from tests.cli.commands import given, rows

if TYPE_CHECKING:
    from pathlib import Path


SHORT = ("--writes", 2_000, "--keys", 500)


def test_profiles_are_compared_for_people() -> None:
    answer = given("compare-profiles", "kafka_streams", "spark", *SHORT)
    head, first, second = answer.out.splitlines()
    assert answer.code == 0
    assert head.split()[:3] == ["profile", "writes", "write"]
    assert first.split()[:2] == ["kafka_streams", "2,000"]
    assert second.split()[:2] == ["spark", "2,000"]
    assert "info_log_level is not set" in answer.err


def test_profiles_are_compared_for_programs() -> None:
    answer = given("compare-profiles", "point_lookup", "low_disk", *SHORT, "--json")
    found = rows(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert [each["profile"] for each in found] == ["point_lookup", "low_disk"]
    assert len({each["content_sha256"] for each in found}) == 1
    for each in found:
        assert each["series"][-1]["writes"] == each["writes"] == 2_000
        assert each["levels"][0]["num_flushes"] == 1


def test_a_stores_own_rows_are_replayed_under_its_own_options(tmp_path: Path) -> None:
    store = Rdict(str(tmp_path), Profile(block_size=8192).to_rocksdict())
    for number in range(300):
        store[b"%03d" % number] = b"value"
    store.close()
    answer = given("compare-profiles", tmp_path, "spark", "--replay", tmp_path, "--json")
    found = rows(answer.out)
    assert [each["profile"] for each in found] == [str(tmp_path), "spark"]
    assert {(each["live_rows"], each["live_bytes"]) for each in found} == {(300, 2_400)}
    notes = given("compare-profiles", tmp_path, *SHORT).err
    assert "statistics are not set: unknown (OPTIONS files hold no caches" in notes
    assert notes.count("OPTIONS files hold no caches") == 1, (
        "what is unknown for one reason, at once"
    )


def test_what_following_a_changelog_writes_is_replayed(tmp_path: Path) -> None:
    write(tmp_path, 0, {HOUR: {(0, "Anna", "read"): 1, (0, "Bo", "read"): 5}})
    write(tmp_path, 1, {HOUR: {(0, "Anna", "write"): 2}})
    told = ("--replay", tmp_path, "--window", "1 hour", "--json")
    (found,) = rows(given("compare-profiles", "spark", *told).out)
    assert (found["writes"], found["live_rows"]) == (3, 2)


def test_the_stores_of_trials_stay_where_one_wants_to_look_at_them(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    answer = given("compare-profiles", "spark", *SHORT, "--keep", kept, "--json")
    assert answer.code == 0
    (found,) = rows(given("memory", kept / "spark", "--json").out)
    assert found["unknown"] is not None
    assert (kept / "spark" / "CURRENT").is_file()


def test_a_trial_that_was_stopped_is_told_to_people() -> None:
    pace = ("--pace", 1_000, "--seconds", 1)
    answer = given("compare-profiles", "spark", *pace)
    assert answer.code == 0
    assert "spark was stopped before its last write: its time was up." in answer.err
    assert "spark: write amplification is unknown (nothing was flushed" in answer.err


def test_a_trial_that_took_too_much_disk_at_its_end_is_told_to_people() -> None:
    answer = given("compare-profiles", "kafka_streams", "--writes", 15_000, "--disk-mb", 1)
    assert answer.code == 0
    assert "kafka_streams had written all, but took more disk than it may (1." in answer.err
    assert "its time was up" not in answer.err


def test_trials_before_one_that_fails_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_STOP_S", 1.0)
    stuck = Profile(
        write_buffer_size=64 << 10,
        compaction_style="universal",
        level0_file_num_compaction_trigger=2,
        level0_slowdown_writes_trigger=2,
        level0_stop_writes_trigger=2,
    )
    Rdict(str(tmp_path), stuck.to_rocksdict()).close()
    sizes = ("--writes", 20_000, "--seconds", 2, "--json")
    answer = given("compare-profiles", "spark", tmp_path, *sizes)
    assert answer.code == 1
    assert [each["profile"] for each in rows(answer.out)] == ["spark"]
    assert "lets no write through" in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sprak",), "Did you mean 'spark'?"),
        (("spark", "spark"), "Two profiles are called 'spark'."),
        (("spark", "--workload", "zipf"), "zipf"),
        (("spark", "--replay", "no/such/store"), "no/such/store"),
        (("spark", "--replay", "x", "--writes", "5"), "--writes says what is written"),
        (("spark", "--replay", "x", "--value-bytes", "5"), "Leave out --value-bytes or --replay."),
        (("spark", "--window", "1 hour"), "--window says which windows"),
        (("spark", "--replay", "no/such", "--window", "1 hour"), "No changelog in 'no/such'"),
        (("spark", "--folder", "no/such/folder"), "no/such/folder"),
        ((), "PROFILE"),
    ],
)
def test_a_mistake_ends_with_code_2_and_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    answer = given("compare-profiles", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


@pytest.mark.parametrize("to", ["java", "spark", "rocksdict", "options"])
@pytest.mark.parametrize("name", profile_names())
def test_each_profile_is_printed_for_each_engine_to_people_and_to_programs(
    name: str, to: str
) -> None:
    told, as_json = given("profile", name, "--to", to), given("profile", name, "--to", to, "--json")
    assert (told.code, as_json.code, as_json.err) == (0, 0, "")
    large = name in {"write_heavy", "bulk_load"} and to in {"java", "spark"}
    assert bool(told.err) == large
    assert "a hundred of them" in told.err or not large
    (found,) = rows(as_json.out)
    assert (found["name"], found["to"]) == (name, to)
    assert found["purpose"] in told.out
    for option in found["unset"]:
        assert f"{option}: " in told.out


def test_the_class_of_java_has_the_name_that_was_asked_for() -> None:
    answer = given("profile", "point_lookup", "--to", "java", "--class", "com.example.Fast")
    assert answer.out == profile_named("point_lookup").to_java("com.example.Fast")


def test_the_python_that_is_printed_for_rocksdict_makes_the_profile() -> None:
    answer = given("profile", "write_heavy", "--to", "rocksdict")
    found: dict[str, Any] = {}
    exec(answer.out, found)  # noqa: S102 - it is our own text
    assert found["profile"] == profile_named("write_heavy")


def test_the_json_for_spark_is_its_configuration() -> None:
    (found,) = rows(given("profile", "bounded_memory", "--to", "spark", "--json").out)
    assert found["settings"] == bounded_memory(512 << 20, 1).to_spark_conf().settings


def test_bounded_memory_takes_its_size_and_its_stores() -> None:
    sizes = ("--total-mb", 64, "--stores", 8)
    (found,) = rows(given("profile", "bounded_memory", *sizes, "--json").out)
    assert found["options"]["block_cache_bytes"] == 64 << 20
    assert found["options"]["write_buffer_size"] == 2 << 20


def test_the_options_of_a_store_are_printed_as_well(tmp_path: Path) -> None:
    Rdict(str(tmp_path), Profile(block_size=8192, compression="zstd").to_rocksdict()).close()
    answer = given("profile", tmp_path)
    assert "block_size=8192\n" in answer.out
    assert "compression=zstd\n" in answer.out
    assert "# unknown: block_cache_shared: OPTIONS files hold no caches" in answer.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("point_lokup",), "Did you mean 'point_lookup'?"),
        (("spark", "--to", "java", "--class", "1"), "'1' is no name of a Java class."),
        (("bounded_memory", "--total-mb", 1, "--stores", 99), "Give at least"),
        (("spark", "--to", "flink"), "flink"),
        (("spark", "--to", "java", "--class", "enum"), "'enum' is no name of a Java class."),
        (("spark", "--class", "Fast"), "--to java is missing"),
        (("kafka_streams", "--total-mb", 3), "--total and --stores are for bounded_memory"),
        (("spark", "--stores", 1), "--total and --stores are for bounded_memory"),
        ((".", "--stores", 1), "--total and --stores are for bounded_memory"),
        ((__file__,), "test_lab.py is no OPTIONS file of RocksDB."),
    ],
)
def test_a_mistake_ends_with_code_2_and_a_sentence_of_profiles(
    arguments: tuple[Any, ...], said: str
) -> None:
    answer = given("profile", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_no_store_that_is_read_is_written_where_stores_are_kept(tmp_path: Path) -> None:
    """A path as a profile's name would lead out of the folder, to the very store."""
    store = Rdict(str(tmp_path / "mine"), Profile(write_buffer_size=64 << 10).to_rocksdict())
    for number in range(3_000):
        store[b"%08d" % number] = bytes(100)
    store.close()
    before = {each.name: each.read_bytes() for each in (tmp_path / "mine").iterdir()}
    asked = ("compare-profiles", "--replay-log", tmp_path / "mine", "--seconds", 5, "--keep")
    kept = given(*asked, tmp_path / "kept")
    assert kept.code == 0, kept.err
    assert [*(tmp_path / "kept").glob("*/CURRENT")]
    inside = given(*asked, tmp_path / "mine")
    assert inside.code == 2
    assert "which is read" in inside.err
    assert {each.name: each.read_bytes() for each in (tmp_path / "mine").iterdir()} == before
