from __future__ import annotations

import gzip
from pathlib import Path

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
    found = rows(answer.out)
    assert {each["kind"] for each in found} == {"flush", "compaction"}
    assert found[0]["num_entries"] == 15622
    assert found[0]["at"] == "2026-11-21T14:56:17.182518+00:00"
    assert len(found) == 5


def test_a_log_that_leaves_events_out_says_it_beside_the_result() -> None:
    answer = given("log", LOGS / "rocksdb-5.18.4-error.log", "--json")
    assert (answer.code, answer.out) == (0, "")
    assert "setInfoLogLevel(InfoLogLevel.INFO_LEVEL)" in answer.err


def test_rolled_and_packed_logs_are_read_together(tmp_path: Path) -> None:
    text = (LOGS / "spark-4.3.log").read_bytes()
    half = text.index(b"\n", len(text) // 2) + 1
    (tmp_path / "spark-1.log.gz").write_bytes(gzip.compress(text[:half]))
    (tmp_path / "spark.log").write_bytes(text[half:])
    whole = given("log", LOGS / "spark-4.3.log", "--json")
    assert given("log", tmp_path, "--json").out == whole.out


def test_a_path_without_a_log_is_a_mistake(tmp_path: Path) -> None:
    answer = given("log", tmp_path)
    assert answer.code == 2
    assert "has no LOG" in answer.err
