"""A run's figures over HTTP, of folders that need no Spark; and what can go wrong with serving."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from textwrap import dedent
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

import pytest

import kstoolkit as kst
from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.errors import ConfigurationError, EnvironmentFault
from kstoolkit.events.ledger import Admitted, Ledger
from kstoolkit.operations.lag import LagOfPartition
from kstoolkit.operations.metrics import RestoreProgress
from kstoolkit.pipeline.batches import MicroBatch
from tests.operations.scraping import OPENMETRICS, Scrape, scrape_until, values_of
from tests.plots.made import COUNTS, HOSTILE, OVER, found, made_run

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run


def batch(number: int, **changes: object) -> MicroBatch:
    facts = {"events": 100, "late": {"1 minute": 2}, "dead_letters": {"no_user": 1}}
    return MicroBatch(number, 1_000 * number, 0.5, **facts | changes)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    findings = [found(), found(**OVER), found(user="Bo")]
    return made_run(tmp_path / "out", findings=findings, batches=[batch(0), batch(1, events=40)])


def behind(partition: int, records: int | None, seconds: float | None) -> LagOfPartition:
    return LagOfPartition(
        topic="clicks", partition=partition, lag_records=records, catch_up_seconds=seconds
    )


@pytest.mark.parametrize("accept", ["text/plain", OPENMETRICS])
def test_a_folder_gives_what_its_run_counted(accept: str, run: Run) -> None:
    with kst.serve_metrics(run) as server:
        told = Scrape(server.url, accept)
    assert told.of("kstoolkit_events_total") == 140
    assert told.of("kstoolkit_batches_total") == 2
    late = told.by("window", "kstoolkit_late_events_total")
    assert late == {"1 minute": 4, "1 hour": 0, "1 day": 0}
    letters = told.by("reason", "kstoolkit_dead_letters_total")
    assert (letters["no_user"], letters["unparseable"]) == (2, 0)
    assert told.by("rule", "kstoolkit_findings_total") == {
        "Unusual 1 hour, 5 false alarms a day": 2,
        "Ceiling 8 per 1 minute": 1,
    }
    states = told.by("state", "kstoolkit_run_state")
    assert [name for name, value in states.items() if value] == ["resting"]
    assert set(told.by("part", "kstoolkit_scrape_errors_total").values()) == {0}


def test_what_is_not_known_has_no_value_and_its_help_says_why(run: Run) -> None:
    with run.serve_metrics() as server:
        told = Scrape(server.url)
    for name in ("kstoolkit_jvm_heap_used_bytes", "kstoolkit_state_rows"):
        assert told.of(name) is None
        assert told.about[name].endswith("Unknown: only the process that counts knows.")
    about = told.about["kstoolkit_state_disk_bytes"]
    assert about.endswith("Unknown: there is no state in its checkpoint.")
    assert not [sample for sample in told.samples if "rocksdb" in sample.name]


def test_files_that_wait_are_lag_in_files_and_bytes(run: Run) -> None:
    Ledger(run.folder.ledger)._append([Admitted(f"/{n}.json", 1024, 0) for n in range(3)])
    with run.serve_metrics() as server:
        told = Scrape(server.url)
    assert told.of("kstoolkit_lag_files") == 3
    assert told.of("kstoolkit_lag_bytes") == 3072


def test_disk_is_what_the_folder_takes_and_what_is_free(run: Run) -> None:
    (run.folder.path / "spark.log").write_bytes(b"x" * 100_000)
    with run.serve_metrics() as server:
        told = Scrape(server.url)
    used = told.of("kstoolkit_run_folder_bytes")
    files = [path for path in run.folder.path.rglob("*") if path.is_file()]
    assert used == sum(path.stat().st_size for path in files) > 100_000
    free, size = told.of("kstoolkit_disk_free_bytes"), told.of("kstoolkit_disk_size_bytes")
    assert free is not None
    assert size is not None
    assert 0 < free < size


def test_counters_go_on_where_they_were_when_the_server_is_started_anew(run: Run) -> None:
    with run.serve_metrics() as server:
        before = Scrape(server.url)
    folders = BatchFolders(run.folder.path / "statistics")
    batch(2, events=7).save(folders.begin(0, 2))
    folders.mark(0, 2)
    with kst.load_run(run.folder.path).serve_metrics() as server:
        after = Scrape(server.url)
    assert before.of("kstoolkit_events_total") == 140
    assert after.of("kstoolkit_events_total") == 147


def test_a_scrape_sees_what_came_since_the_last_one(run: Run) -> None:
    with run.serve_metrics() as server:
        assert Scrape(server.url).of("kstoolkit_events_total") == 140
        folders = BatchFolders(run.folder.path / "statistics")
        batch(2, events=7).save(folders.begin(0, 2))
        folders.mark(0, 2)
        scrape_until(server.url, lambda told: told.of("kstoolkit_events_total") == 147)


def test_lag_and_restarts_are_what_whoever_knows_them_says(run: Run) -> None:
    partitions = [behind(0, 12, 1.5), behind(1, None, None)]
    restarts = iter([3])
    with kst.serve_metrics(run, lag=lambda: partitions, restarts=lambda: next(restarts)) as server:
        told = Scrape(server.url)
    assert told.of("kstoolkit_restarts_total") == 3
    at = {"topic": "clicks", "partition": "0"}
    assert told.of("kstoolkit_lag_records", at) == 12
    assert told.of("kstoolkit_lag_catch_up_seconds", at) == 1.5
    assert told.by("partition", "kstoolkit_lag_records") == {"0": 12}


def test_a_part_that_takes_its_time_is_not_read_anew_each_time(run: Run) -> None:
    reads = []

    def slow() -> list[LagOfPartition]:
        reads.append(threading.Event().wait(0.5))
        return [behind(0, 12, None)]

    with kst.serve_metrics(run, lag=slow) as server:
        told = [Scrape(server.url) for _ in range(3)]
    assert len(reads) == 1
    assert {each.by("partition", "kstoolkit_lag_records")["0"] for each in told} == {12}


def test_without_a_supervisor_nothing_was_restarted(run: Run) -> None:
    with run.serve_metrics() as server:
        assert Scrape(server.url).of("kstoolkit_restarts_total") == 0


def test_a_part_that_fails_is_left_out_and_counted(run: Run) -> None:
    def gone() -> list[LagOfPartition]:
        message = "the broker is gone"
        raise RuntimeError(message)

    with kst.serve_metrics(run, lag=gone) as server:
        Scrape(server.url)
        told = Scrape(server.url)
    assert told.of("kstoolkit_events_total") == 140
    assert told.of("kstoolkit_restarts_total") == 0
    assert "kstoolkit_lag_records" not in told.about
    errors = told.by("part", "kstoolkit_scrape_errors_total")
    assert {part: number for part, number in errors.items() if number} == {"lag": 2}


def test_a_damaged_run_file_costs_the_figures_that_need_it_alone(run: Run) -> None:
    (run.folder.path / "run.json").write_text("{")
    with run.serve_metrics() as server:
        told = Scrape(server.url)
    errors = told.by("part", "kstoolkit_scrape_errors_total")
    assert {part for part, number in errors.items() if number} == {"run", "findings"}
    assert told.of("kstoolkit_disk_free_bytes")


def test_names_that_do_harm_are_labels_like_others(tmp_path: Path) -> None:
    rows = [found(rule=name) for name in HOSTILE]
    with made_run(tmp_path / "out", findings=rows).serve_metrics() as server:
        for accept in ("text/plain", OPENMETRICS):
            rules = Scrape(server.url, accept).by("rule", "kstoolkit_findings_total")
            assert {name: rules[name] for name in HOSTILE} == dict.fromkeys(HOSTILE, 1)


def test_no_user_and_no_action_of_the_data_becomes_a_label(run: Run) -> None:
    with run.serve_metrics() as server:
        told = Scrape(server.url)
    assert {"Anna", "Bo", "read", "write"}.isdisjoint(
        value for sample in told.samples for value in sample.labels.values()
    )


def test_a_run_that_was_removed_is_unknown_and_never_0_again(run: Run) -> None:
    with run.serve_metrics() as server:
        assert Scrape(server.url).of("kstoolkit_events_total")
        shutil.rmtree(run.folder.path)
        names = {f"kstoolkit_{each}_total" for each in ("events", "findings", "restarts")}
        told = scrape_until(
            server.url, lambda told: not names & {each.name for each in told.samples}
        )
    assert told.by("part", "kstoolkit_scrape_errors_total")["run"]


def test_a_run_that_has_not_begun_is_served_too(tmp_path: Path) -> None:
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import RunFolder

    with Run(RunFolder(tmp_path / "not" / "yet")).serve_metrics() as server:
        told = Scrape(server.url)
    assert told.of("kstoolkit_events_total") == 0
    assert told.of("kstoolkit_run_folder_bytes") is None
    assert set(told.by("part", "kstoolkit_scrape_errors_total").values()) == {0}


def test_stopping_the_run_closes_the_server_and_leaves_no_thread(run: Run) -> None:
    before = threading.active_count()
    server = run.serve_metrics()
    Scrape(server.url)
    run.stop()
    assert threading.active_count() == before
    with pytest.raises(URLError):
        Scrape(server.url)
    server.close()
    assert repr(server) == f"MetricsServer('{server.url}', closed)"


def test_who_asks_for_nothing_keeps_nobody_waiting(run: Run) -> None:
    with run.serve_metrics() as server, socket.create_connection(("127.0.0.1", server.port)):
        assert Scrape(server.url).of("kstoolkit_events_total") == 140


def test_only_this_machine_is_answered_unless_told_otherwise(run: Run) -> None:
    with run.serve_metrics() as server:
        assert server._server.server_address[0] == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{server.port}/metrics"


def test_a_port_that_is_taken_is_a_sentence(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"port {port} of '127\.0\.0\.1': it is tak"):
            run.serve_metrics(port)


@pytest.mark.parametrize("port", [-1, 65_536, "x"])
def test_a_port_that_there_is_not_is_a_sentence(port: Any, run: Run) -> None:
    with pytest.raises(ConfigurationError, match=rf"port is {port!r}: there are 0 to 65535\."):
        run.serve_metrics(port)


def test_an_address_of_another_machine_is_a_sentence(run: Run) -> None:
    with pytest.raises(ConfigurationError, match=r"can't be served at port 0 of '192\.0\.2\.1'"):
        run.serve_metrics(host="192.0.2.1")


def test_without_the_extra_it_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(EnvironmentFault, match=r'pip install "kstoolkit\[operations\]"'):
        run.serve_metrics()


def test_prometheus_is_loaded_by_serving_alone() -> None:
    program = """
        import sys
        import kstoolkit as kst
        kst.serve_metrics
        assert "prometheus_client" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", dedent(program)], check=True)


LEVELS = {"1 minute": 10, "1 hour": 13, "1 day": 3}


def test_a_restore_is_served_beside_the_run(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out")
    assert sorted(map(len, COUNTS.values())) == sorted(LEVELS.values())
    with run.serve_metrics() as server:
        assert Scrape(server.url).by("window", "kstoolkit_restore_records_total") == {}
        store = kst.WindowStore.restore(
            run.folder.path, path=tmp_path / "replica", listener=server.restores, progress=False
        )
        store.close()
        told = scrape_until(
            server.url, lambda told: told.by("window", "kstoolkit_restore_records_total")
        )
    assert told.by("window", "kstoolkit_restore_records_total") == LEVELS
    left = told.by("window", "kstoolkit_restore_remaining_records")
    assert left == dict.fromkeys(LEVELS, 0)
    failures = told.by("window", "kstoolkit_restore_failures_total")
    assert failures == dict.fromkeys(LEVELS, 0)


def figures(progress: RestoreProgress) -> list[float]:
    return [told.value for each in progress.metrics() for told in each.samples]


def test_what_remains_goes_down_with_each_batch_and_is_none_in_the_end() -> None:
    progress = RestoreProgress()
    progress.on_start("1 hour", total=100)
    progress.on_batch("1 hour", records=30)
    assert figures(progress) == [30, 70, 0]
    progress.on_end("1 hour", records=100)  # the rest had been read before it was interrupted
    assert figures(progress) == [30, 0, 0]


def test_a_failure_counts_and_nothing_remains_until_it_is_tried_again() -> None:
    progress = RestoreProgress()
    progress.on_start("1 hour", total=100)
    progress.on_failure("1 hour", error=OSError("no room"))
    assert figures(progress) == [0, 0, 1]
    progress.on_start("1 hour", total=100)
    assert figures(progress) == [0, 100, 1]


def test_segments_that_are_rebuilt_count_with_their_window() -> None:
    progress = RestoreProgress()
    for start in ("2015-09-12T10:00:00+00:00", "2015-09-12T11:00:00+00:00"):
        progress.on_start(f"1 hour from {start}", total=5)
        progress.on_batch(f"1 hour from {start}", records=5)
        progress.on_end(f"1 hour from {start}", records=5)
    assert [values_of(each) for each in progress.metrics()] == [
        {(("window", "1 hour"),): 10},
        {(("window", "1 hour"),): 0},
        {(("window", "1 hour"),): 0},
    ]


def test_before_a_restore_nothing_is_told() -> None:
    assert figures(RestoreProgress()) == []
