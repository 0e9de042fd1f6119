from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import given, harmless, rows
from tests.rocksdb.madestores import appearance, make_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("advising") / "store")


def test_memory_shows_parts_formula_process_and_the_rest(made: Path) -> None:
    before = appearance(made)
    answer = given("memory", made)
    assert (answer.code, answer.err) == (0, "")
    told = {line.split()[0]: " ".join(line.split()) for line in answer.out.splitlines()}
    assert told["block_cache_pinned_bytes"].startswith("block_cache_pinned_bytes this opener")
    assert "formula unknown (block cache: OPTIONS files hold no caches" in told["formula_bytes"]
    assert "the operating system" in told["not_accounted_for_bytes"]
    assert "write_buffer_size x max_write_buffer_number" in told["memtables:"]
    assert appearance(made) == before


def test_memory_gives_programs_one_object(made: Path) -> None:
    (told,) = rows(given("memory", made, "--json").out)
    rest = told["rss_bytes"] - told["total_bytes"] - told["arrow_bytes"]
    assert told["not_accounted_for_bytes"] == rest
    assert told["formula_bytes"] is None
    assert told["unknown"]["formula_bytes"]
    assert told["plan"]["terms"][0]["term"] == "memtables"


def test_advice_shows_evidence_and_names_what_was_not_judged(made: Path) -> None:
    answer = given("advice", made, "--bound-bytes", 1 << 20)
    assert answer.code == 0
    assert answer.out.startswith("memory over the bound: more than 1.0 MiB may be taken\n")
    assert "  measured: formula_at_least_bytes: 4.0 MiB (formula)\n" in answer.out
    silent = answer.err.splitlines()
    assert any("low bloom usefulness" in line and "as tickers" in line for line in silent)
    assert all(line.startswith("Not judged: ") for line in silent)
    assert len(silent) == 2, "rules that lack the same are named together"
    (told,) = rows(given("advice", made, "--bound-bytes", 1 << 20, "--json").out)
    assert told["rule"] == "memory over the bound"
    assert told["evidence"][0] == {"figure": "bound_bytes", "value": 1 << 20, "source": "given"}


def test_no_advice_is_said_on_stderr(made: Path) -> None:
    answer = given("advice", made)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("Nothing to advise")


@pytest.mark.parametrize("command", ["memory", "advice"])
def test_a_mistake_is_a_sentence_with_code_2(command: str, tmp_path: Path) -> None:
    answer = given(command, tmp_path / "nowhere")
    assert (answer.code, answer.out) == (2, "")
    assert "There is no" in answer.err
    assert harmless(answer.err)


def test_a_profile_tells_what_no_options_file_does(made: Path) -> None:
    (told,) = rows(given("memory", made, "--profile", "kafka_streams", "--json").out)
    assert told["formula_bytes"] >= 50 << 20
    answer = given("advice", made, "--profile", "spark", "--bound-bytes", 1 << 20)
    assert "give the profile" not in answer.err
    answer = given("memory", made, "--profile", "zz")
    assert (answer.code, answer.out) == (2, "")
    assert "zz" in answer.err


def test_a_process_that_is_not_there_is_a_mistake(made: Path) -> None:
    answer = given("advice", made, "--pid", 999_999_999)
    assert (answer.code, answer.out) == (2, "")
    assert "There is no process 999999999." in answer.err
