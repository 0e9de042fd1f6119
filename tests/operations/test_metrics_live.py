"""Metrics of runs that count: in a notebook's process, and on the command line."""

from __future__ import annotations

import os
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from tests.cli.commands import COLUMNS, answered, given, started
from tests.operations.scraping import OPENMETRICS, Scrape, scrape_until
from tests.pipeline.harness import events, source, write_lines

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OPERATOR = {"operator": "transformWithStateInPandasExec", "position": "0"}


def test_a_live_run_gives_what_its_process_alone_knows(spark: SparkSession, tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.json", [*events(500, hours=1), "no JSON"])
    rules = [kst.Ceiling("1 hour", 5)]
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), rules=rules, buckets=2)
    run = pipeline.start(tmp_path / "out", trigger="1 second")
    try:
        url = run.serve_metrics().url
        scrape_until(url, lambda told: told.of("kstoolkit_events_total") == 500)
        told = scrape_until(url, lambda told: told.of("kstoolkit_state_rows", OPERATOR))
        before = java_threads(spark)
        for _ in range(40):
            Scrape(url, OPENMETRICS)
        assert java_threads(spark) < before + 20  # each scrape lets go of its way into Java
    finally:
        run.stop()
    assert not serving_threads()
    assert told.by("state", "kstoolkit_run_state")["counting"] == 1
    assert told.by("reason", "kstoolkit_dead_letters_total")["unparseable"] == 1
    assert told.by("rule", "kstoolkit_findings_total")["Ceiling 5 per 1 hour"] > 0
    assert set(told.by("part", "kstoolkit_scrape_errors_total").values()) == {0}
    parts = told.by("part", "kstoolkit_batch_part_seconds_total")
    assert parts.keys() == {"counting", "input", "planning", "logs", "other"}
    assert parts["counting"] >= told.by("part", "kstoolkit_last_batch_part_seconds")["counting"] > 0
    for name in (
        "kstoolkit_state_memory_bytes",
        "kstoolkit_state_rows_updated_total",
        "kstoolkit_rocksdb_bytes_written_total",
        "kstoolkit_rocksdb_total_sst_files_size_bytes",
    ):
        assert (told.of(name, OPERATOR) or 0) > 0, name
    used, most = told.of("kstoolkit_jvm_heap_used_bytes"), told.of("kstoolkit_jvm_heap_max_bytes")
    assert used is not None
    assert most is not None
    assert 0 < used < most
    assert sum(told.by("gc", "kstoolkit_jvm_gc_collections_total").values()) > 0


def test_a_folder_is_asked_for_the_query_that_counts_into_it_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert spark.range(1).count() == 1
    write_lines(tmp_path / "in" / "a.json", events(50, hours=1))
    out = tmp_path / "out"
    answer = given("run", tmp_path / "in", *COLUMNS, "--out", out, "--metrics-port", 0)
    assert answer.code == 0, answer.err
    assert re.match(r"Metrics: http://127\.0\.0\.1:\d+/metrics\n", answer.err)
    assert not serving_threads()
    with kst.serve_metrics(kst.load_run(out)) as server:
        assert Scrape(server.url).by("state", "kstoolkit_run_state")["resting"] == 1
        run = kst.Pipeline(source=source(tmp_path / "in")).start(out, trigger="1 second")
        try:
            told = scrape_until(
                server.url,
                lambda told: (
                    told.of("kstoolkit_state_rows", OPERATOR)
                    and told.of("kstoolkit_jvm_heap_used_bytes")
                ),
            )
        finally:
            run.stop()
    assert told.by("state", "kstoolkit_run_state")["counting"] == 1
    assert told.of("kstoolkit_events_total") == 50


@pytest.mark.slow
@pytest.mark.long
def test_the_command_line_says_where_metrics_are_and_closes_with_the_run(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.json", events(30, hours=1))
    where = ("--out", tmp_path / "out", "--follow", "--trigger", "1 second")
    process = started("run", tmp_path / "in", *COLUMNS, *where, "--metrics-port", 0, "--quiet")
    url = announced(process)
    scrape_until(
        url,
        lambda told: (
            told.of("kstoolkit_events_total") == 30 and told.of("kstoolkit_state_rows", OPERATOR)
        ),
        seconds=150,
    )
    os.killpg(process.pid, signal.SIGTERM)
    answer = answered(process)
    assert (answer.code, answer.out) == (0, "")
    with pytest.raises(OSError, match="refused"):
        Scrape(url)


def java_threads(spark: SparkSession) -> int:
    """Return how many threads Spark's Java has."""
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.management.ManagementFactory.getThreadMXBean().getThreadCount())


def serving_threads() -> list[str]:
    """Return the threads that serve or answer; py4j's own come and go as it pleases."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name == "metrics" or "process_request" in name]


def announced(process: subprocess.Popen[bytes]) -> str:
    """Return the address that a command says its metrics are at."""
    assert process.stderr is not None
    line = process.stderr.readline().decode()
    found = re.fullmatch(r"Metrics: (http://127\.0\.0\.1:\d+/metrics)\n", line)
    assert found is not None, line
    return found[1]
