"""Spark's memory on real queries: parts that add up, workers that are seen, the formula beside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from rocksdict import Rdict

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.sparkmemory import _formula, _python_workers, _query_state, _together
from kstoolkit.records import Source
from kstoolkit.rocksdb.memory.measured import ProcessMemory
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.profile import Profile
from tests import quickjava
from tests.pipeline.harness import events, source, until, write_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.operations.sparkmemory import SparkMemory

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
MB = 1 << 20
ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
KEYS = 20_000


def unchanged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def counting(session: SparkSession, checkpoint: Path, name: str) -> StreamingQuery:
    """Count numbers by key, each micro-batch through Python, until the state is there."""
    session.conf.set("spark.sql.shuffle.partitions", "2")
    numbers = session.readStream.format("rate-micro-batch").option("rowsPerBatch", KEYS).load()
    keys = numbers.select((F.col("value") % KEYS).alias("key")).mapInArrow(unchanged, "key long")
    writer = keys.groupBy("key").count().writeStream.format("noop").outputMode("update")
    query = writer.queryName(name).option("checkpointLocation", str(checkpoint)).start()
    until(lambda: len(query.recentProgress) > 3, f"batches of {name}")
    return query


def listed_workers(java: psutil.Process) -> list[int]:
    """List the workers by other means; one that ended, reaped or not, is none."""
    return sorted(each.pid for each in java.children(recursive=True) if "-m" in words_of(each))


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie too
        return []


@pytest.fixture(scope="module")
def query(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StreamingQuery]:
    running = counting(spark.newSession(), tmp_path_factory.mktemp("plain"), "plain")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def memory(spark: SparkSession, query: StreamingQuery) -> SparkMemory:
    return kst.spark_memory(spark, query=query)


def test_the_parts_of_java_and_the_rest_add_up_to_its_process(memory: SparkMemory) -> None:
    java = memory.java
    parts = (
        java.heap_committed_bytes,
        java.non_heap_committed_bytes,
        java.direct_bytes,
        java.netty_bytes,
        java.rocksdb_bytes,
    )
    assert java.rss_bytes is not None
    assert java.total_bytes == sum(part or 0 for part in parts)
    assert java.total_bytes + (java.not_accounted_for_bytes or 0) == java.rss_bytes
    assert memory.not_accounted_for_bytes == java.not_accounted_for_bytes


def test_each_part_is_within_what_holds_it(memory: SparkMemory) -> None:
    java, state = memory.java, memory.state
    assert java.rss_bytes is not None
    assert java.netty_bytes is not None
    assert MB < java.heap_used_bytes <= java.heap_committed_bytes <= java.heap_max_bytes
    assert MB < java.non_heap_used_bytes <= java.non_heap_committed_bytes < java.rss_bytes
    assert 0 <= java.arrow_bytes <= java.netty_bytes < java.rss_bytes
    assert 0 < java.rocksdb_bytes < java.rss_bytes  # little, where no store had to take more yet
    assert state.rocksdb_pinned_bytes is not None
    assert state.rocksdb_bytes is not None
    assert 0 < state.rocksdb_pinned_bytes < state.rocksdb_bytes < java.rss_bytes
    assert state.heap_bytes == 0


def test_java_is_the_one_that_this_process_started(memory: SparkMemory) -> None:
    children = {each.pid: each for each in psutil.Process().children(recursive=True)}
    assert children[memory.java.pid].name() == "java"
    assert memory.java.rss_bytes == pytest.approx(
        children[memory.java.pid].memory_info().rss, rel=0.5
    )


def test_the_workers_below_java_are_those_that_the_system_lists(
    spark: SparkSession, memory: SparkMemory
) -> None:
    java = psutil.Process(memory.java.pid)
    until(
        lambda: listed_workers(java) == sorted(_python_workers(java.pid) or ()), "the same workers"
    )
    workers = kst.spark_memory(spark).workers
    assert workers.num_workers is not None
    assert workers.num_workers >= 2  # the daemon, and what it forked
    assert workers.rss_bytes is not None
    assert workers.pss_bytes is not None
    assert MB < workers.pss_bytes < workers.rss_bytes


def test_what_all_processes_take_together_is_the_sum_of_what_may_be_added(
    memory: SparkMemory,
) -> None:
    shares = [memory.java.pss_bytes, memory.python.pss_bytes, memory.workers.pss_bytes]
    assert memory.total_pss_bytes == sum(share or 0 for share in shares)
    assert memory.python.rss_bytes is not None
    assert 0 <= memory.python_arrow_bytes < memory.python.rss_bytes


def test_the_formula_is_that_of_plan_memory_for_the_stores_that_the_query_reports(
    spark: SparkSession, query: StreamingQuery, memory: SparkMemory
) -> None:
    assert memory.state.queries == ("plain",)
    assert memory.state.num_stores == 2
    assert memory.formula_bytes == kst.plan_memory("spark", partitions=2).total_bytes
    assert memory.formula_bytes == 2 * (2 * 64 + 8) * MB
    given = kst.spark_memory(spark, query=query, profile=profile_named("kafka_streams"))
    assert given.formula_bytes == kst.plan_memory("kafka_streams", partitions=2).total_bytes


def test_settings_of_the_session_change_the_formula(
    spark: SparkSession, query: StreamingQuery
) -> None:
    session = spark.newSession()
    session.conf.set(f"{ROCKSDB}.writeBufferSizeMB", "16")
    session.conf.set(f"{ROCKSDB}.maxWriteBufferNumber", "3")
    found = kst.spark_memory(session, query=query)
    assert found.formula_bytes == 2 * (3 * 16 + 8) * MB
    assert found.plan is not None
    assert "spark, as the session sets it" in found.plan.terms[0].origin


def test_a_cache_that_all_stores_share_is_a_bound_and_counts_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set(f"{ROCKSDB}.boundedMemoryUsage", "true")
    session.conf.set(f"{ROCKSDB}.maxMemoryUsageMB", "32")
    bounded = counting(session, tmp_path, "bounded")
    try:
        found = kst.spark_memory(session)
    finally:
        bounded.stop()
    assert found.state.queries == ("bounded",)
    assert found.plan is not None
    assert found.plan.is_bound
    assert found.formula_bytes == 32 * MB
    assert found.state.rocksdb_bytes is not None
    assert MB < found.state.rocksdb_bytes <= 32 * MB


def test_state_on_the_heap_is_not_taken_for_rocksdbs(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    provider = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    on_heap = counting(session, tmp_path, "on heap")
    try:
        found = kst.spark_memory(session)
    finally:
        on_heap.stop()
    assert (found.state.num_stores, found.state.rocksdb_bytes) == (0, 0)
    assert found.state.heap_bytes is not None
    assert found.state.heap_bytes > MB
    assert found.formula_bytes is None
    assert found.unknown["formula_bytes"] == "these queries keep no state in RocksDB"


def test_without_a_query_the_state_is_unknown_and_the_rest_is_measured(spark: SparkSession) -> None:
    found = kst.spark_memory(spark.newSession())
    assert found.state.unknown["num_stores"] == "no streaming query is running"
    assert found.unknown["formula_bytes"] == "no streaming query is running"
    assert found.java.heap_used_bytes > MB
    assert len(found.executors) == 0


def test_the_active_session_is_asked_if_none_is_given(spark: SparkSession) -> None:
    assert kst.spark_memory().application == spark.sparkContext.appName


def test_a_live_run_of_ours_is_a_query_until_it_has_been_loaded_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", events(200), 2)
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), buckets=2)
    run = pipeline.start(tmp_path / "out", trigger="1 second")
    try:
        until(lambda: run.query and run.query.lastProgress, "a micro-batch")
        found = kst.spark_memory(spark, query=run)
    finally:
        run.stop()
    assert found.state.queries == ("kstoolkit",)
    assert found.state.num_stores
    assert found.plan is not None
    assert found.plan.instances == found.state.num_stores
    with pytest.raises(ConfigurationError, match="is not live: it has no streaming query"):
        kst.spark_memory(spark, query=kst.load_run(tmp_path / "out"))


def test_a_session_of_spark_connect_is_a_sentence() -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    remote: Any = ConnectSession.__new__(ConnectSession)  # its client would look for a server
    with pytest.raises(ConfigurationError, match="Spark Connect session has no Java on this side"):
        kst.spark_memory(remote)


def test_each_executor_has_a_shared_cache_of_its_own() -> None:
    state = _query_state({"a": {"stateOperators": []}})
    bounded = kst.plan_memory(kst.bounded_memory(64 * MB, stores=4), partitions=4)
    assert _formula(bounded, state, executors=0) == (64 * MB, None)
    assert _formula(bounded, state, executors=3) == (3 * 64 * MB, None)
    apart = kst.plan_memory("spark", partitions=4)
    assert _formula(apart, state, executors=3) == (apart.total_bytes, None)


def test_a_sum_without_one_of_its_parts_is_unknown_and_says_which(tmp_path: Path) -> None:
    Rdict(str(tmp_path), Profile().to_rocksdict()).close()
    state = _query_state({"a": {"stateOperators": []}})
    (tmp_path / "LOG").unlink()  # it tells the cache
    size, why = _formula(kst.plan_memory(tmp_path), state, executors=0)
    assert size is None
    assert str(why).startswith("block cache: OPTIONS files hold no caches")
    hidden = ProcessMemory(8, 5 * MB, None, {"pss_bytes": "another user's"})
    assert _together(ProcessMemory(7, 3 * MB, MB), hidden) == (None, "another user's")


def test_it_is_shown_in_one_line_as_a_table_and_as_plain_values(memory: SparkMemory) -> None:
    assert "\n" not in repr(memory)
    assert "not accounted for" in repr(memory)
    figures = memory.to_pandas().set_index("figure")
    assert figures.loc["java.heap_used_bytes", "value"] == memory.java.heap_used_bytes
    assert figures.loc["formula_bytes", "source"] == Source.FORMULA
    html = memory._repr_html_()
    assert all(name in html for name in figures.index)
    assert "block cache" in html
    told = json.loads(json.dumps(memory.to_dict()))
    assert told["workers"]["pss_bytes"] == memory.workers.pss_bytes


APART = """
    import json, os, sys, time
    import pyspark
    import kstoolkit as kst
    from kstoolkit.errors import UserError

    def sentence(action):
        try:
            action()
        except UserError as error:
            return error.message
        return "no error"

    def waiting(batches):
        for batch in batches:
            time.sleep(1)
            yield batch

    def measured(asked):
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-Dio.netty.maxDirectMemory=0",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.heartbeatInterval": "500ms",
            "spark.executor.memory": "600m",
            "spark.executor.processTreeMetrics.enabled": asked,
            "spark.ui.enabled": "false",
        }
        builder = pyspark.sql.SparkSession.builder.master("local-cluster[1,1,700]")
        spark = builder.config(map=settings).getOrCreate()
        spark.range(4, numPartitions=1).mapInArrow(waiting, "id long").count()
        for _ in range(120):
            memory = kst.spark_memory()
            told = memory.executors[0] if memory.executors else None
            if told and told.peak_heap_bytes and (told.peak_workers_rss_bytes or asked == "false"):
                return spark, memory
            time.sleep(0.25)

    told = {"none": sentence(kst.spark_memory)}
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark, memory = measured("true")
    told["asked"] = memory.executors.to_dicts()
    told["shown"] = memory._repr_html_()
    told["java"] = memory.java.to_dict()
    spark.stop()
    told["stopped"] = sentence(lambda: kst.spark_memory(spark))
    spark, memory = measured("false")
    told["not asked"] = memory.executors.to_dicts()
    java = spark.sparkContext._gateway.proc
    java.kill()
    java.wait()
    told["dead"] = sentence(kst.spark_memory)
    print(json.dumps(told))
"""


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.slow
def test_executors_tell_their_peaks_and_sessions_that_are_gone_are_sentences() -> None:
    done = subprocess.run(
        [sys.executable, "-c", dedent(APART)],
        env=os.environ
        | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
        | {"JDK_JAVA_OPTIONS": quickjava.of_spark()},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["none"] == "There is no Spark session in this process."
    assert told["stopped"].startswith("This Spark session has been stopped")
    assert told["dead"] == "Spark's Java has ended."
    (asked,), (not_asked,) = told["asked"], told["not asked"]
    assert asked["executor"] == not_asked["executor"] == "0"
    assert MB < asked["peak_heap_bytes"] < 600 * MB
    assert asked["peak_heap_bytes"] < asked["peak_java_rss_bytes"]
    assert asked["peak_workers_rss_bytes"] > MB
    assert asked["unknown"] == {}
    assert "peak_java_rss_bytes" in told["shown"]
    assert told["java"]["netty_bytes"] is None
    assert "direct_bytes has it" in told["java"]["unknown"]["netty_bytes"]
    assert told["java"]["direct_bytes"] > 0
    assert not_asked["peak_java_rss_bytes"] is None
    assert set(not_asked["unknown"].values()) == {
        "spark.executor.processTreeMetrics.enabled is not true"
    }
