"""The same functions over Spark Connect, in a process of its own, with no JVM in reach."""

from __future__ import annotations

import json
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.pipeline.runfolder import RunFolder, Settings
from tests.changelog.changelogs import write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.connect, pytest.mark.slow]

CLIENT = dedent("""
    import json, os, sys

    os.environ["PYSPARK_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    from kstoolkit.errors import KstoolkitError
    from kstoolkit.pipeline.dataframes import count_sessions, count_sliding, count_windows
    from kstoolkit.pipeline.results import read_counts
    from kstoolkit.pipeline.run import load_run

    MINUTE = 60_000_000
    TRANSFORMATIONS = {
        "tumbling": count_windows("1 minute"),
        "hopping": count_windows("2 hours", every="1 hour"),
        "days": count_windows("1 day", action=None, min_count=2),
        "sessions": count_sessions("1 minute"),
        "sliding": count_sliding("1 hour"),
        "missing": count_windows("1 minute", user="usr"),
        "missing_in_expression": count_windows("1 minute", user="lower(usr)"),
        "unreadable": count_windows("1 minute", user="user user user"),
        "no_timestamp": count_windows("1 minute", event_time="string(time)"),
    }


    def answer(transformation, events):
        try:
            counts = events.transform(transformation)
        except KstoolkitError as error:
            return [type(error).__name__, error.message]
        return rows(counts)


    def rows(counts):
        start, end = "unix_micros(window_start)", "unix_micros(window_end)"
        return sorted(map(list, counts.selectExpr(start, end, "user", "action", "count").collect()))


    def follow(counts):
        query = (
            counts.writeStream.format("memory").queryName("closed").outputMode("append")
            .trigger(availableNow=True).start()
        )
        query.awaitTermination()
        return rows(spark.table("closed"))


    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    rows_of_ann = [(time, "ann", "edit") for time in (0, MINUTE, 150 * MINUTE)]
    events = spark.createDataFrame(rows_of_ann, "us long, user string, action string")
    events = events.selectExpr("timestamp_micros(us) AS time", "user", "action")
    answers = {name: answer(made, events) for name, made in TRANSFORMATIONS.items()}

    folder = sys.argv[1]
    events.write.parquet(folder)
    stream = spark.readStream.schema(events.schema).parquet(folder)
    hops = count_windows("1 hour", every="30 minutes", lateness=0)
    answers["followed"] = follow(stream.transform(hops))
    answers["sliding_stream"] = answer(count_sliding("1 minute"), stream)
    answers["read"] = rows(read_counts(spark, sys.argv[2], "1 hour"))
    answers["of_run"] = rows(load_run(sys.argv[2]).to_spark(spark, "1 minute"))
    answers["remote"] = type(spark).__module__
    print(json.dumps(answers))
    spark.stop()
""")

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def write_run(out: Path) -> None:
    """Write what a run leaves of its counts: two batches, and one that is not whole."""
    settings = Settings(("1 minute", "1 hour"), 1, {}, "event", "files", 1, "[]", "here")
    for number in range(3):
        told = {60_000: {(0, "ann", "edit"): 5 + number}, 3_600_000: {(0, "bo", "edit"): number}}
        write(out / "changelog", number, told, marked=number < 2)
    RunFolder(out).save(settings)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("connect")
    write_run(place / "out")
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, str(place / "events"), str(place / "out")],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert client.returncode == 0, client.stderr[-3000:]
    found: dict[str, Any] = json.loads(client.stdout.splitlines()[-1])
    assert found["remote"] == "pyspark.sql.connect.session"
    return found


@pytest.mark.parametrize(
    ("name", "spans"),
    [
        ("tumbling", [(0, MINUTE, 1), (MINUTE, 2 * MINUTE, 1), (150 * MINUTE, 151 * MINUTE, 1)]),
        (
            "hopping",
            [(-HOUR, HOUR, 2), (0, 2 * HOUR, 2), (HOUR, 3 * HOUR, 1), (2 * HOUR, 4 * HOUR, 1)],
        ),
        ("sessions", [(0, 2 * MINUTE, 2), (150 * MINUTE, 151 * MINUTE, 1)]),
        ("sliding", [(-HOUR, 0, 1), (MINUTE - HOUR, MINUTE, 2), (90 * MINUTE, 150 * MINUTE, 1)]),
    ],
)
def test_counts_over_connect_are_exact(
    answers: dict[str, Any], name: str, spans: list[tuple[int, int, int]]
) -> None:
    assert answers[name] == [[start, end, "ann", "edit", count] for start, end, count in spans]


def test_counts_of_a_run_are_read_over_connect(answers: dict[str, Any]) -> None:
    assert answers["read"] == [[0, HOUR, "bo", "edit", 1]]
    assert answers["of_run"] == [[0, MINUTE, "ann", "edit", 6]]


def test_all_actions_together_and_min_count_work_over_connect(answers: dict[str, Any]) -> None:
    assert answers["days"] == [[0, DAY, "ann", None, 3]]


@pytest.mark.parametrize(
    ("name", "error", "beginning"),
    [
        ("missing", "ColumnError", "No column 'usr' in the DataFrame."),
        ("missing_in_expression", "ColumnError", "No column 'usr' in the DataFrame."),
        ("unreadable", "ConfigurationError", "Spark can't read time='time', user='user user user'"),
        ("no_timestamp", "ConfigurationError", "The event time 'string(time)' is of type string"),
        ("sliding_stream", "ConfigurationError", "Exact sliding windows of 1 minute can't follow"),
    ],
)
def test_mistakes_are_told_at_once_over_connect(
    answers: dict[str, Any], name: str, error: str, beginning: str
) -> None:
    kind, message = answers[name]
    assert (kind, message[: len(beginning)]) == (error, beginning)


def test_a_stream_over_connect_emits_the_windows_that_are_closed(answers: dict[str, Any]) -> None:
    half = 30 * MINUTE
    assert answers["followed"] == [[-half, half, "ann", "edit", 2], [0, HOUR, "ann", "edit", 2]]
