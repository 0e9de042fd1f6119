from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rocksdict import Rdict

from kstoolkit.rocksdb.profiles.profile import Profile
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


def test_a_trial_that_was_stopped_is_told_to_people() -> None:
    pace = ("--pace", 1_000, "--seconds", 1)
    answer = given("compare-profiles", "spark", *pace)
    assert answer.code == 0
    assert "spark was stopped before its last write: its time was up." in answer.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sprak",), "Did you mean 'spark'?"),
        (("spark", "spark"), "Two profiles are called 'spark'."),
        (("spark", "--workload", "zipf"), "zipf"),
        (("spark", "--replay", "no/such/store"), "no/such/store"),
        (("spark", "--folder", "no/such/folder"), "no/such/folder"),
        ((), "PROFILE"),
    ],
)
def test_a_mistake_ends_with_code_2_and_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    answer = given("compare-profiles", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
