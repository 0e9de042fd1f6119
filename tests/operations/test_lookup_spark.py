"""Look-ups as a column: in batches and streams, few calls from Spark's workers, which tell them."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import ColumnError, ConfigurationError
from kstoolkit.events import files as rows
from kstoolkit.operations.lookup import _BROKEN
from tests.operations.lookupserver import country_of, lookup_server

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

REASON = "look-up of 'country': HTTPError: HTTP Error 500: Internal Server Error"
QUICK: dict[str, Any] = {"backoff": "5 ms", "retries": 1}
NAME = "CASE id % 200 WHEN 3 THEN 'poison' WHEN 4 THEN NULL ELSE 'user ' || (id % 200) END"


def logins(spark: SparkSession, number: int = 40_000, partitions: int = 8) -> DataFrame:
    return spark.range(0, number, 1, partitions).selectExpr("id", f"{NAME} AS user")


def country_by_user(df: DataFrame) -> dict[str | None, str]:
    return {row.user: row.country for row in df.collect()}


def test_the_reason_stands_where_a_pipeline_reads_it() -> None:
    assert _BROKEN == rows.BROKEN


def test_the_tasks_of_a_worker_share_calls_and_tell_what_they_counted(spark: SparkSession) -> None:
    with lookup_server(seconds=0.02) as server:
        lookup = kst.Lookup(server.client(), **QUICK)
        looked_up = lookup.add_to(logins(spark), key="user", column="country")
        assert looked_up.schema.simpleString() == (
            "struct<id:bigint,user:string,country:string,_broken:string>"
        )
        found = looked_up.toArrow()
    assert found.num_rows == 40_000
    different = found.group_by(["user", "country", _BROKEN]).aggregate([]).to_pylist()
    assert len(different) == 200
    for row in different:
        failed = row["user"] == "poison"
        assert row["country"] == (row["user"] and country_of(row["user"]) if not failed else None)
        assert row[_BROKEN] == (REASON if failed else None)
    told = lookup.statistics()
    assert told.calls == len(server.requests)
    assert told.num_processes in {1, 2}
    assert (told.rows, told.rows_failed) == (40_000, 200)
    asked = [user for request in server.requests for user in request]
    assert asked.count("user 150") == told.num_processes  # and not once for each of the 8 tasks


def test_failed_rows_are_skipped_or_get_the_default(spark: SparkSession) -> None:
    users = {None, "poison"} | {f"user {n}" for n in range(200) if n not in {3, 4}}
    with lookup_server() as server:
        skipping = kst.Lookup(server.client(), on_error="skip", **QUICK)
        kept = skipping.add_to(logins(spark, 200, 1), key="user", column="country")
        assert kept.columns == ["id", "user", "country"]
        assert country_by_user(kept) == {
            each: each and country_of(each) for each in users if each != "poison"
        }
        assert (skipping.statistics().rows, skipping.statistics().rows_failed) == (200, 1)
        filling = kst.Lookup(server.client(), on_error="default", default="?", **QUICK)
        filled = filling.add_to(logins(spark, 200, 1), key="lower(user)", column="country")
        assert country_by_user(filled) == {
            each: "?" if each in {None, "poison"} else country_of(each) for each in users
        }


def test_a_second_look_up_leaves_the_first_reason_and_types_are_kept(spark: SparkSession) -> None:
    def fail(_: list[str]) -> dict[str, str]:
        raise OSError

    def details(keys: list[str]) -> dict[str, Any]:
        return {key: {"size": len(key), "name": key} for key in keys}

    one = spark.sql("SELECT 'ann' AS user")
    first = kst.Lookup(fail, **QUICK).add_to(one, key="user", column="a")
    second = kst.Lookup(fail, **QUICK).add_to(first, key="user", column="b")
    last = kst.Lookup(details).add_to(second, key="user", column="c", ddl="size int, name string")
    (row,) = last.collect()
    assert row.asDict(recursive=True) == {
        "user": "ann",
        "a": None,
        _BROKEN: "look-up of 'a': OSError",
        "b": None,
        "c": {"size": 3, "name": "ann"},
    }


def test_a_stream_keeps_its_watermark(spark: SparkSession, tmp_path: Path) -> None:
    with lookup_server() as server:
        lookup = kst.Lookup(server.client(), **QUICK)
        events = logins(spark, 800, 2).selectExpr("timestamp_seconds(id) AS time", "user")
        events.write.parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "in"))
        looked_up = lookup.add_to(
            stream.withWatermark("time", "0 seconds"), key="user", column="country"
        )
        counts = looked_up.where(f"{_BROKEN} IS NULL").groupBy("time", "country").count()
        query = (
            counts.writeStream.format("memory")
            .queryName("looked_up")
            .outputMode("append")  # which Spark refuses without a watermark
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        # The last moment is still open: the watermark has not passed it.
        assert spark.table("looked_up").count() == 800 - 4 - 1
        assert lookup.statistics().calls == len(server.requests)


def test_mistakes_are_sentences_before_anything_runs(spark: SparkSession) -> None:
    df, lookup = spark.sql("SELECT 'ann' AS user"), kst.Lookup(lambda _: {})
    with pytest.raises(ColumnError, match="No column 'usr'"):
        lookup.add_to(df, key="usr", column="country")
    with pytest.raises(ColumnError, match="No column 'usr'"):
        lookup.add_to(df, key="upper(usr)", column="country")
    for taken in ("USER", _BROKEN):
        with pytest.raises(ConfigurationError, match=f"The name '{taken}' is taken"):
            lookup.add_to(df, key="user", column=taken)
    with pytest.raises(ConfigurationError, match="can't read the type 'strig'"):
        lookup.add_to(df, key="user", column="country", ddl="strig")
    filling = kst.Lookup(lambda _: {}, on_error="default", default="?")
    with pytest.raises(ConfigurationError, match="which is no int32"):
        filling.add_to(df, key="user", column="country", ddl="int")


CONNECT = """
    import os, sys

    os.environ["PYSPARK_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    from kstoolkit.operations.lookup import Lookup

    def ask(users):
        return {user: ValueError("gone") if user == "bob" else user.upper() for user in users}

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    users = spark.sql("SELECT explode(array('ann', 'bob', NULL)) AS user")
    lookup = Lookup(ask, retries=0)
    for row in lookup.add_to(users, key="trim(user)", column="name").collect():
        print(tuple(row))
    print(lookup.statistics().unknown["num_processes"])
    try:
        lookup.add_to(users, key="trim(usr)", column="name")
    except Exception as error:
        print(error)
    spark.stop()
"""


@pytest.mark.connect
@pytest.mark.slow
def test_over_connect_it_is_the_same_but_for_what_workers_count() -> None:
    command = [sys.executable, "-c", dedent(CONNECT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "('ann', 'ANN', None)",
        "('bob', None, \"look-up of 'name': ValueError: gone\")",
        "(None, None, None)",
        "over Spark Connect, workers can't tell what they count; this is this process alone",
        "No column 'usr' in the DataFrame.",
        "Hint: Did you mean 'user'? It has: user.",
    ]
