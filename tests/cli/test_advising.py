from __future__ import annotations

import os
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
    assert told["formula_bytes"] == "formula_bytes formula 68.0 MiB"
    assert "the operating system" in told["not_accounted_for_bytes"]
    assert "write_buffer_size x max_write_buffer_number" in told["memtables:"]
    assert "OPTIONS-" in told["memtables:"]
    assert "the writer's log, LRUCache at 0x" in told["block"]
    assert appearance(made) == before


def test_memory_begins_with_the_writer_and_sets_this_reader_apart(made: Path) -> None:
    lines = given("memory", made).out.splitlines()
    assert lines[0] == "The writer, by what it set:"
    (apart,) = [at for at, line in enumerate(lines) if line.startswith("This reader, which ")]
    assert all("this opener" not in line for line in lines[:apart])
    assert all("writer_" not in line for line in lines[apart:])
    unknown = next(line for line in lines if line.startswith("writer_rss_bytes"))
    assert "unknown (the pid of the writer is not given: --pid)" in unknown


def test_memory_answers_for_a_host_that_runs_out_of_it(made: Path) -> None:
    (one,) = rows(given("memory", made, "--json").out)
    host = ("--partitions", 40, "--segments", 3, "--instances", 2, "--iterators", 5)
    (many,) = rows(given("memory", made, *host, "--pid", os.getpid(), "--json").out)
    pinned = {each["term"]: each for each in many["plan"]["terms"]}["pinned by iterators"]
    assert pinned["each_bytes"] > 0
    assert many["formula_bytes"] == 240 * (one["formula_bytes"] + pinned["each_bytes"])
    assert many["plan"]["instances"] == 240
    assert many["writer_rss_bytes"] >= many["writer_pss_bytes"] > 0
    rest = many["writer_rss_bytes"] - many["formula_bytes"]
    assert many["writer_not_accounted_for_bytes"] == rest
    assert one["writer_rss_bytes"] is None


def test_memory_gives_programs_one_object(made: Path) -> None:
    (told,) = rows(given("memory", made, "--json").out)
    rest = told["rss_bytes"] - told["total_bytes"] - told["arrow_bytes"]
    assert told["not_accounted_for_bytes"] == rest
    assert told["formula_bytes"] == told["plan"]["total_bytes"]
    assert told["plan"]["terms"][0]["term"] == "memtables"


def test_advice_shows_evidence_and_names_what_was_not_judged(made: Path) -> None:
    answer = given("advice", made, "--bound-bytes", 1 << 20)
    assert answer.code == 0
    assert answer.out.startswith("memory over the bound: more than 1.0 MiB may be taken\n")
    assert "  measured: formula_at_least_bytes: 68.0 MiB (formula)\n" in answer.out
    silent = answer.err.splitlines()
    assert any("low bloom usefulness" in line and "tickers=" in line for line in silent)
    assert all(line.startswith("Not judged: ") for line in silent)
    assert len(silent) == 2, "rules that lack the same are named together"
    (told,) = rows(given("advice", made, "--bound-bytes", 1 << 20, "--json").out)
    assert told["rule"] == "memory over the bound"
    assert told["evidence"][0] == {"figure": "bound_bytes", "value": 1 << 20, "source": "given"}


def test_no_advice_is_said_on_stderr(made: Path) -> None:
    answer = given("advice", made)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("Nothing to advise")
    assert "no bound is given: --bound-bytes." in answer.err
    assert "in no OPTIONS file: give --profile." in answer.err


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
    assert "--profile" not in answer.err
    answer = given("memory", made, "--profile", "zz")
    assert (answer.code, answer.out) == (2, "")
    assert "zz" in answer.err


def test_a_process_that_is_not_there_is_a_mistake(made: Path) -> None:
    answer = given("advice", made, "--pid", 999_999_999)
    assert (answer.code, answer.out) == (2, "")
    assert "There is no process 999999999." in answer.err
