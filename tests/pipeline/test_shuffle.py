from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.pipeline.shuffle import _spark_partition, shuffle_keys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@given(st.integers(1, 200), st.integers(1, 200))
def test_each_bucket_has_a_key_into_its_partition(buckets: int, partitions: int) -> None:
    found = shuffle_keys(buckets, partitions)
    assert [key % buckets for key in found] == list(range(buckets))
    into = [_spark_partition(key, partitions) for key in found]
    assert into == [bucket % partitions for bucket in range(buckets)]
    assert max(found) < 2**31


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [2, 7, 64])
def test_spark_shuffles_as_is_said(spark: SparkSession, partitions: int) -> None:
    numbers = spark.range(1_000).selectExpr("cast(id as int) AS number")
    by_hash = numbers.repartition(partitions, "number").selectExpr(
        "number", "spark_partition_id() AS found"
    )
    told = {row.number: row.found for row in by_hash.collect()}
    assert told == {number: _spark_partition(number, partitions) for number in range(1_000)}
