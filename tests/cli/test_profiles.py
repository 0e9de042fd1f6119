from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Rdict

from kstoolkit.rocksdb.profiles.named import (
    bounded_memory,
    point_lookup,
    profile_named,
    profile_names,
)
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.cli.commands import given, rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("to", ["java", "spark", "rocksdict", "options"])
@pytest.mark.parametrize("name", profile_names())
def test_each_profile_is_printed_for_each_engine_to_people_and_to_programs(
    name: str, to: str
) -> None:
    told, as_json = given("profile", name, "--to", to), given("profile", name, "--to", to, "--json")
    assert (told.code, told.err, as_json.code, as_json.err) == (0, "", 0, "")
    (found,) = rows(as_json.out)
    assert (found["name"], found["to"]) == (name, to)
    assert found["purpose"] in told.out
    for option in found["unset"]:
        assert f"{option}: " in told.out


def test_the_class_of_java_has_the_name_that_was_asked_for() -> None:
    answer = given("profile", "point_lookup", "--to", "java", "--class", "com.example.Fast")
    assert answer.out == point_lookup().to_java("com.example.Fast")


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
    assert "# unknown: block_cache_bytes: OPTIONS files hold no caches" in answer.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("point_lokup",), "Did you mean 'point_lookup'?"),
        (("spark", "--to", "java", "--class", "1"), "'1' is no name of a Java class."),
        (("bounded_memory", "--total-mb", 1, "--stores", 99), "Give at least"),
        (("spark", "--to", "flink"), "flink"),
        (("spark", "--to", "java", "--class", "enum"), "'enum' is no name of a Java class."),
        (("spark", "--class", "Fast"), "--to java is missing"),
        (("kafka_streams", "--total-mb", 3), "--total-mb and --stores are for bounded_memory"),
        (("spark", "--stores", 1), "--total-mb and --stores are for bounded_memory"),
        ((".", "--stores", 1), "--total-mb and --stores are for bounded_memory"),
        ((__file__,), "test_profiles.py is no OPTIONS file of RocksDB."),
    ],
)
def test_a_mistake_ends_with_code_2_and_a_sentence(arguments: tuple[Any, ...], said: str) -> None:
    answer = given("profile", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
