"""What Kafka Streams tells through Prometheus' real agent, and a real query of Spark's progress."""

from __future__ import annotations

import json
import re
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import InputError
from kstoolkit.rocksdb.metricnames import metric_names
from tests.cli import commands
from tests.operations import livestreams
from tests.rocksdb.madestores import make_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kstoolkit.kafka.broker import Broker

SCRAPE = Path(__file__).parent / "scrapes" / "kafka-streams-4.3.1-debug.txt"
OF_ITS_TASK = {
    *("task-restore-remaining-records", "task-restore-rate", "time-between-poll-max"),
    *("process-resident-memory-bytes", "process-start-time-seconds"),
    *("jvm-heap-used", "jvm-heap-committed"),
}
LINE = re.compile(r"kafka_streams_stream_state_metrics_(\w+)\{(.*)\} (\S+)")


def names_of(kip: str) -> set[str]:
    """Return the names of a proposal's metrics, each statistic apart, as they are read."""
    found = set()
    for each in metric_names():
        stem, _, statistics = each.name.partition("{")
        ends = statistics.rstrip("}").split(",") if statistics else [""]
        found |= {f"{stem}{end}".removesuffix("-total") for end in ends if each.kip == kip}
    return found


def store_in(folder: Path, task: str, name: str) -> Path:
    return make_store(folder / "app" / task / "rocksdb" / name)


def silent(line: str) -> bool:
    """Say whether a line is of a metric that is there at level DEBUG alone."""
    stems = [re.split(r"[-{]rate|-(avg|min|max)$", each)[0] for each in names_of("KIP-471")]
    return any(f"stream_state_metrics_{stem.replace('-', '_')}" in line for stem in stems)


def test_every_figure_of_a_scrape_is_read_as_it_stands_there() -> None:
    found = {(each.task, each.store): each.values for each in kst.read_metrics(SCRAPE)}
    told = 0
    for name, labels, value in LINE.findall(SCRAPE.read_text()):
        store = re.search(r'state_id="(\w+)"', labels)
        assert store is not None
        values = found["0_0", store[1]]
        assert value == "NaN" or values[name.replace("_", "-")] == float(value)
        told += 1
    assert told > 80
    of_one = found["0_0", "versions"]
    assert names_of("KIP-471") | names_of("KIP-607") <= of_one.keys()
    assert (of_one["time-between-poll-max"], of_one["process-max-fds"]) == (1_173, 20_000)


def test_rules_judge_by_ratios_and_rates_and_what_is_silent_says_why(tmp_path: Path) -> None:
    store = store_in(tmp_path, "0_0", "versions")
    (store / "LOG").unlink()
    before = commands.given("advice", store)
    after = commands.given("advice", store, "--metrics", SCRAPE)
    for rule in ("write stalls: memtable limit", "write amplification", "iterator pinning"):
        assert rule in " ".join(before.err.split())
        assert rule not in " ".join(after.err.split())
    assert "--metrics takes what Kafka Streams tells Prometheus" in " ".join(before.err.split())
    assert "--metrics takes" not in " ".join(after.err.split())
    plain = tmp_path / "info.txt"
    plain.write_text(
        "\n".join(each for each in SCRAPE.read_text().splitlines() if not silent(each))
    )
    by_properties = commands.given("advice", store, "--metrics", plain)
    assert "set metrics.recording.level=DEBUG" in " ".join(by_properties.err.split())


def test_memory_of_the_process_is_that_of_all_stores_and_one_cache_counts_once() -> None:
    metrics = kst.read_metrics(SCRAPE)
    usages = [each.values["block-cache-usage"] for each in metrics]
    assert usages == [32_584, 32_584]
    assert metrics.caches_bytes() == 32_584  # the application has one for all its stores
    sizes = [each.values["size-all-mem-tables"] for each in metrics]
    assert metrics.sum_of("size-all-mem-tables") == sum(sizes)


def advised(store: Path, text: str, tmp_path: Path, **given: Any) -> dict[str, Any]:
    scrape = tmp_path / "scrape.txt"
    scrape.write_text(text)
    with kst.open_store(store) as opened:
        told = opened.advice(metrics=kst.read_metrics(scrape), **given)
    return {each.rule: each for each in told}


def raised(name: str, value: str) -> str:
    """Return the scrape with one figure changed, in every store or thread."""
    changed, number = re.subn(
        rf"(?m)^(\w*{name}(\{{.*\}})?) \S+$", rf"\1 {value}", SCRAPE.read_text()
    )
    assert number
    return changed


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("background_errors", "1.0", "background errors"),
        ("write_stall_duration_avg", "2.0E7", "write stalls"),
        ("bytes_written_compaction_rate", "9.0E6", "write amplification"),
        ("num_open_iterators", "51.0", "iterator pinning"),
        ("oldest_iterator_open_since_ms", "1.7E12", "iterator pinning"),
        ("total_sst_files_size", "9.0E8", "iterator pinning"),
        ("process_open_fds", "19000.0", "too many open files"),
        ("time_between_poll_max", "301000.0", "late polls after stalls"),
        ("block_cache_index_hit_ratio", "0.2", "index and filter misses"),
    ],
)
def test_a_rule_speaks_when_its_figure_is_bad_and_is_silent_when_it_is_not(
    name: str, value: str, rule: str, tmp_path: Path
) -> None:
    store = store_in(tmp_path, "0_0", "versions")
    (store / "LOG").unlink()  # which would be asked first
    options = max(store.glob("OPTIONS-*"))
    options.write_text(
        options.read_text().replace(
            "cache_index_and_filter_blocks=false", "cache_index_and_filter_blocks=true"
        )
    )
    assert rule not in advised(store, raised("(?:index|filter)_hit_ratio", "0.99"), tmp_path)
    assert rule in advised(store, raised(name, value), tmp_path)


def test_stalls_late_polls_and_rebalances_are_one_chain(tmp_path: Path) -> None:
    store = store_in(tmp_path, "0_0", "versions")
    rule = "late polls after stalls"
    late = raised("time_between_poll_max", "50000.0")
    assert rule not in advised(store, late, tmp_path)
    found = advised(store, late, tmp_path, client_config={"max.poll.interval.ms": "40000"})[rule]
    assert "not by stalls that are known of" in found.symptom
    both = re.sub(r"(?m)^(\w*stall_duration_avg\{.*\}) \S+$", r"\1 2.0E7", late)
    found = advised(store, both, tmp_path, client_config={"max.poll.interval.ms": "40000"})[rule]
    told = {each.name: each.value for each in found.evidence}
    assert told["write_stall_duration_avg_us_a_minute"] == 20_000_000
    assert (told["time_between_poll_max_ms"], told["max.poll.interval.ms"]) == (50_000, 40_000)
    assert told["failed-rebalance"] == 1


def test_settings_are_judged_and_nothing_else_of_their_file_is_shown(tmp_path: Path) -> None:
    store = store_in(tmp_path, "0_0", "versions")
    settings = tmp_path / "client.properties"
    settings.write_text(
        "application.id=app\nsession.timeout.ms=6000\nheartbeat.interval.ms=3000\n"
        'sasl.jaas.config=org.apache.kafka.Login password="s3cret";\n'
    )
    shown = commands.given("advice", store, "--client-config", settings)
    assert "at least three times heartbeat.interval.ms" in shown.out
    assert "state.dir: /tmp/kafka-streams" in shown.out
    assert "s3cret" not in shown.out + shown.err
    settings.write_text("session.timeout.ms=45000\nstate.dir=/var/lib/kafka-streams\n")
    assert "client settings" not in commands.given("advice", store, "--client-config", settings).out


def test_a_restore_is_slow_if_what_is_left_takes_long_at_its_rate(tmp_path: Path) -> None:
    """By hand: 9 million records at 1,000 a second are 150 minutes; 300,000 are five."""
    store = store_in(tmp_path, "0_0", "versions")
    figure = 'kafka_streams_stream_task_metrics_restore_{}{{task_id="0_0",thread_id="t"}} {}\n'

    def restoring(records: float, rate: float) -> str:
        left = figure.format("remaining_records", records), figure.format("rate", rate)
        return "".join([SCRAPE.read_text(), *left])

    assert "slow restore" not in advised(store, restoring(3e5, 1e3), tmp_path)
    assert "slow restore" not in advised(store, restoring(9e6, 0.0), tmp_path)
    found = advised(store, restoring(9e6, 1e3), tmp_path)["slow restore"]
    assert "150 more minutes" in found.symptom
    assert found.option == "write_buffer_size"


def test_state_that_nobody_keeps_ready_is_told_from_a_gibibyte_on(tmp_path: Path) -> None:
    store = store_in(tmp_path, "0_0", "versions")
    size = sum(each.stat().st_size for each in store.glob("*.sst"))
    many, text = -(-(1 << 30) // size), SCRAPE.read_text()
    alone = {"application.id": "app", "state.dir": "/var/lib/app", "num.standby.replicas": "0"}
    told = advised(store, text, tmp_path, instances=2 * many, client_config=alone)
    assert told["client settings"].option == "num.standby.replicas"
    grouped = alone | {"group.protocol": "streams"}
    told = advised(store, text, tmp_path, instances=2 * many, client_config=grouped)
    assert told["client settings"].option == "streams.num.standby.replicas of the group"
    ready = alone | {"num.standby.replicas": "1"}
    for instances, settings in ((many // 2, alone), (2 * many, ready)):
        told = advised(store, text, tmp_path, instances=instances, client_config=settings)
        assert "client settings" not in told


def test_metrics_of_other_stores_are_not_taken_for_this_one_s(tmp_path: Path) -> None:
    metrics = kst.read_metrics(SCRAPE)
    assert metrics.of(tmp_path / "0_0" / "rocksdb" / "versions")[0] is metrics[1]
    assert metrics.of(tmp_path / "0_0" / "minutes" / "minutes.60000")[0] is metrics[0]
    found, why = metrics.of(tmp_path / "0_0" / "rocksdb" / "counts")
    assert found is None
    assert why.endswith("no store of this name: 0_0/minutes, 0_0/versions")


@contextmanager
def answering(body: bytes, status: int = 200, **headers: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics?token=s3cret"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_address_is_read_and_what_is_none_is_refused_without_its_secrets() -> None:
    with answering(SCRAPE.read_bytes()) as url:
        assert len(kst.read_metrics(url)) == 2
    with answering(b"", 302, Location="file:///etc/passwd") as url:
        refused(url, "302")
    with answering(b"<html>no metrics {") as url:
        refused(url, "no metrics as Prometheus")
    refused(url, "refused")
    refused("http://me:s3cret@127.0.0.1/metrics", "password")
    refused("file:///etc/passwd", "'file' is not read")
    refused("/nowhere/scrape.txt", "No such file")
    with socket.create_server(("127.0.0.1", 0)) as listening:  # accepts, and says nothing
        refused(f"http://127.0.0.1:{listening.getsockname()[1]}/", "timed out", timeout="1 second")


def refused(source: str, why: str, **how: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        kst.read_metrics(source, **how)
    assert "s3cret" not in str(caught.value) + str(caught.value.hint)


@pytest.mark.kafka
@pytest.mark.slow
def test_the_real_agent_on_a_real_application_is_read_store_by_store(
    broker: Broker, tmp_path: Path
) -> None:
    live, scrapes = livestreams.scraped(broker, tmp_path, "told-by-the-agent")
    metrics = kst.read_metrics(scrapes[0])
    names = names_of("KIP-471") | names_of("KIP-607") | {"num-open-iterators"}
    for store in (*livestreams.STORES, *livestreams.JOINS):
        for partition in range(livestreams.PARTITIONS):
            of, why = metrics.of(live.store(store, partition))
            assert of is not None, why
            missing = {each for each in names - of.values.keys() if not each.endswith("-avg")}
            assert not missing  # averages of what never was are no numbers
            # of the names that rules take of a task and of its process
            assert of.values.keys() >= OF_ITS_TASK
    assert sum(each.values["num-entries-active-mem-table"] for each in metrics) > 0


@pytest.fixture(scope="module")
def progress(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The progress of a real query, a line a batch, beside its checkpoint."""
    folder = tmp_path_factory.mktemp("progress")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 500).load()
    counts = rows.groupBy((rows.value % 97).alias("key")).count()
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    key = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(key, None)
    spark.conf.set(key, provider)
    try:
        sink = counts.writeStream.format("noop").outputMode("update")
        query = sink.option("checkpointLocation", str(folder / "checkpoint")).start()
        while len(query.recentProgress) < 4 and query.exception() is None:
            threading.Event().wait(0.2)
        query.stop()
    finally:
        spark.conf.set(key, before) if before else spark.conf.unset(key)
    told = [json.dumps(json.loads(each.json)) for each in query.recentProgress]
    (folder / "progress.jsonl").write_text("\n".join(told) + "\n")
    return folder / "progress.jsonl"


@pytest.mark.spark
def test_progress_of_a_real_query_adds_up_and_is_judged(progress: Path, tmp_path: Path) -> None:
    lines = [json.loads(each) for each in progress.read_text().splitlines()]
    [found] = kst.read_progress(progress)
    custom = [each["stateOperators"][0]["customMetrics"] for each in lines]
    for name in ("rocksdbPutCount", "rocksdbTotalBytesWrittenByFlush"):
        assert found.values[name] == sum(each[name] for each in custom)
    assert found.values["rocksdbPutCount"] >= 97 * len(lines)
    store = make_store(tmp_path / "store")
    shown = commands.given("advice", store, "--progress", progress)
    assert "the writer's figures are not given" not in " ".join(shown.err.split())
    assert "lagging snapshots" not in shown.out
    lines[-1]["batchId"] += 60
    late = tmp_path / "late.jsonl"
    late.write_text("\n".join(map(json.dumps, lines)))
    assert "lagging snapshots" in commands.given("advice", store, "--progress", late).out
    lines[-1]["stateOperators"][0]["commitTimeMs"] = 5_000_000
    late.write_text("\n".join(map(json.dumps, lines)))
    told = [each["stateOperators"][0] for each in lines]
    mean_ms = (
        sum(each["commitTimeMs"] for each in told) / len(told) / told[0]["numStateStoreInstances"]
    )
    shown = commands.given("advice", store, "--progress", late)
    assert f"long commits: a commit of a store takes {mean_ms:,.0f} ms" in shown.out


def test_what_is_no_progress_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text('{"stateOperators": 3}\n')
    with pytest.raises(InputError, match="Line 1 of"):
        kst.read_progress(path)
    path.write_text('{"batchId": 0, "stateOperators": []}\n')
    with pytest.raises(InputError, match="no state in RocksDB"):
        kst.read_progress(path)
    both = commands.given("advice", tmp_path, "--progress", path, "--metrics", path)
    assert both.code == 2
