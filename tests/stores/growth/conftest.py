"""Checkpoints of real queries, shared with the tests of their formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.formats.spark.checkpoints import Checkpoints, shared_checkpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def checkpoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    return shared_checkpoints(spark, tmp_path_factory)
