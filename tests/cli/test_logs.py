from __future__ import annotations

import gzip
from pathlib import Path

from kstoolkit.rocksdb.log.storelog import read_log
from tests.cli.commands import given, rows

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
