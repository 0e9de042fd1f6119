from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from kstoolkit.rocksdb.log.storelog import read_log
from tests.cli.commands import given, harmless, rows
from tests.rocksdb.madestores import appearance, make_store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("advising") / "store")


def test_memory_shows_parts_formula_process_and_the_rest(made: Path) -> None:
    before = appearance(made)
    answer = given("memory", made)
    assert (answer.code, answer.err) == (0, "")
    told = {line.split()[0]: " ".join(line.split()) for line in answer.out.splitlines()}
    assert told["block_cache_pinned_bytes"].startswith("block_cache_pinned_bytes this opener")
    assert told["formula_bytes"] == "formula_bytes formula at most 68.3 MiB"
    assert "the operating system" in told["not_accounted_for_bytes"]
    assert "max_write_buffer_number x (write_buffer_size" in told["memtables:"]
    assert "OPTIONS-" in told["memtables:"]
    assert "the writer's log, LRUCache at 0x" in told["block"]
    assert appearance(made) == before


@pytest.mark.parametrize(
    "command",
    [
        ("stores", "PATH"),
        ("rows", "PATH"),
        ("inspect", "PATH"),
        ("levels", "PATH"),
        ("memory", "PATH"),
        ("advice", "PATH"),
        ("checkup", "PATH"),
        ("growth", "PATH"),
        ("diff", "PATH", "PATH"),
        ("export", "PATH", "--to", "OUT.csv"),
        ("report", "PATH", "--html", "OUT.html"),
        ("compare-profiles", "spark", "--replay", "PATH"),
    ],
    ids=lambda command: command[0],
)
def test_each_command_that_opens_a_store_reads_it_through_the_scratch_folder_that_is_given(
    made: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """It is one in which no folder can be made: who used another would answer."""
    places = {"PATH": str(made), "OUT.csv": f"{tmp_path}/a.csv", "OUT.html": f"{tmp_path}/a.html"}
    words = [places.get(each, each) for each in command]
    before = tempfile.gettempdir()
    answer = given(*words, "--scratch", tmp_path / "nowhere")
    assert "No such file or directory" in answer.err
    assert str(tmp_path / "nowhere") in answer.err
    assert tempfile.gettempdir() == before
    (tmp_path / "there").mkdir()
    assert given(*words, "--scratch", tmp_path / "there").code == 0
    assert not list((tmp_path / "there").iterdir())


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
    assert "  evidence: formula_at_most_bytes: 68.3 MiB (formula)\n" in answer.out
    silent = answer.err.splitlines()
    assert any("low bloom usefulness" in line and "counters" in line for line in silent)
    assert all(line.startswith("Not judged: ") for line in silent)
    assert len({line.partition(" (")[0] for line in silent}) == len(silent), "a cause is said once"
    (told,) = rows(given("advice", made, "--bound-bytes", 1 << 20, "--json").out)
    assert told["rule"] == "memory over the bound"
    assert told["evidence"][0] == {"figure": "bound_bytes", "value": 1 << 20, "source": "given"}


def test_no_advice_is_said_on_stderr(made: Path) -> None:
    answer = given("advice", made)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("Nothing to advise")
    assert "no bound is given: --bound" in answer.err
    assert "in no OPTIONS file: give --profile (" in answer.err


def test_what_is_unknown_of_memory_names_flags(made: Path, tmp_path: Path) -> None:
    silent = copytree(made, tmp_path / "store", ignore=ignore_patterns("LOG*"))
    said = given("memory", silent).out
    assert said.count("give --profile") == 2
    assert "profile=" not in said
    assert "  at least 4.3 MiB" in said


def test_what_nothing_but_the_engine_s_default_tells_says_so() -> None:
    segment = "data/stores/kafka-streams/small-main-4_3_1/0_0/actions-1m/actions-1m.1700002800000"
    lines = given("memory", segment).out.splitlines()
    (memtables,) = [line for line in lines if line.startswith("    memtables: ")]
    assert "keyValueWithTimestamp 49.8 MiB, offsets 2.2 MiB, default 2.0 KiB" in memtables
    (cache,) = [line for line in lines if line.startswith("    block cache: ")]
    assert cache.startswith("    block cache: at most 50.0 MiB")
    assert "inferred from profile 'kafka_streams'" in cache
    answer = given("advice", segment, "--bound-bytes", 1 << 20)
    assert "evidence: inferred_block_cache_bytes: 50.0 MiB (formula)" in answer.out


def test_a_floor_and_a_ceiling_are_told_apart(made: Path) -> None:
    figures = {
        line.split()[0]: line
        for line in given("memory", made, "--pid", os.getpid()).out.splitlines()
    }
    assert " at most " in figures["formula_bytes"]
    assert " at least " in figures["writer_not_accounted_for_bytes"]
    assert " at " not in figures["writer_rss_bytes"]


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


LOGS = Path(__file__).parents[1] / "rocksdb" / "logs"


def test_events_are_printed_in_a_table_with_what_they_sum_up_to() -> None:
    answer = given("log", LOGS / "rocksdb-10.1.3.log")
    assert answer.code == 0
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[0].startswith("StoreLog(RocksDB 10.1.3, 1 file")
    assert lines[1].split() == ["time", "(UTC)", "kind", "family", "what"]
    assert any(" move " in line and "18,282" not in line for line in lines)
    assert any("records dropped (LevelL0FilesNum)" in line for line in lines)
    assert any(line.startswith("write_amplification: ") for line in lines)


def test_a_limit_shows_the_newest_and_says_so() -> None:
    answer = given("log", LOGS / "rocksdb-7.9.2.log", "--limit", 2)
    assert "The last 2 of 8 events:" in answer.out
    assert answer.out.count("2026-11-21 08:48") == 3  # the log's own beginning is one


def test_json_prints_every_event_with_its_kind() -> None:
    answer = given("log", LOGS / "spark-4.3.log", "--json", "--limit", 1)
    *found, _ = rows(answer.out)
    assert {each["kind"] for each in found} == {"flush", "compaction"}
    assert found[0]["num_entries"] == 15622
    assert found[0]["at"] == "2026-11-21T14:56:17.182518+00:00"
    assert len(found) == 5


def test_json_ends_with_what_the_events_come_to() -> None:
    *_, last = rows(given("log", LOGS / "rocksdb-10.1.3.log", "--json").out)
    found = read_log(LOGS / "rocksdb-10.1.3.log")
    assert last["kind"] == "summary"
    assert last["level"] == "info"
    assert last["write_amplification"] == found.write_amplification().write_amplification
    assert last["stalled_s"] == found.stall_time().stalled_s
    assert "files" not in last


def test_a_span_of_no_time_tells_nothing_of_stalls(tmp_path: Path) -> None:
    log = tmp_path / "LOG"
    log.write_text(
        "2026/11/21-08:08:24.435575 7f [db/db_impl.cc:9] ------- DUMPING STATS -------\n"
        "2026/11/21-08:08:24.435576 7f [db/db_impl.cc:9] \n"
        "** DB Stats **\n"
        "Uptime(secs): 0.0 total, 0.0 interval\n"
        "Cumulative stall: 00:00:0.000 H:M:S, 0.0 percent\n"
    )
    answer = given("log", log)
    assert "covered_s: 0 (the writer's log)" in answer.out
    assert "stalled_s: unknown (each dump of statistics is of the moment of an open" in answer.out
    (last,) = rows(given("log", log, "--json").out)
    assert (last["covered_s"], last["stalled_s"], last["stalled_percent"]) == (0, None, None)
    assert "covers no time" in last["unknown"]["stalled_s"]


def test_a_compaction_that_was_not_finished_is_shown_so(tmp_path: Path) -> None:
    text = (LOGS / "rocksdb-10.1.3.log").read_text()
    whole, aborted = given("log", LOGS / "rocksdb-10.1.3.log"), tmp_path / "LOG"
    head, _, tail = text.rpartition(" OK, records in: ")
    aborted.write_text(f"{head} Shutdown in progress: Database shutdown, records in: {tail}")
    assert "not finished" not in whole.out
    assert "not finished (Shutdown in progress: Database shutdown): " in given("log", aborted).out


def test_a_log_that_leaves_events_out_says_it_beside_the_result() -> None:
    answer = given("log", LOGS / "rocksdb-5.18.4-error.log", "--json")
    (last,) = rows(answer.out)
    assert (answer.code, last["kind"], last["stalled_s"]) == (0, "summary", None)
    assert "setInfoLogLevel(InfoLogLevel.INFO_LEVEL)" in answer.err


def test_rolled_and_packed_logs_are_read_together(tmp_path: Path) -> None:
    text = (LOGS / "spark-4.3.log").read_bytes()
    half = text.index(b"\n", len(text) // 2) + 1
    (tmp_path / "spark-1.log.gz").write_bytes(gzip.compress(text[:half]))
    (tmp_path / "spark.log").write_bytes(text[half:])
    *whole, _ = rows(given("log", LOGS / "spark-4.3.log", "--json").out)
    *together, last = rows(given("log", tmp_path, "--json").out)
    assert together == whole
    assert last["num_files"] == 2


def test_a_path_without_a_log_is_a_mistake(tmp_path: Path) -> None:
    answer = given("log", tmp_path)
    assert answer.code == 2
    assert "has no LOG" in answer.err
