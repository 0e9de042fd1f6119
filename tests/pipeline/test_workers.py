"""Local workers are forks of a daemon that has loaded what they need: told by themselves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.pipeline.workers import LOADED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.skipif(sys.platform != "linux", reason="a process's parent is in /proc on Linux")
def test_a_local_worker_has_all_in_memory_before_it_is_told_what_to_do(spark: SparkSession) -> None:
    def told(_: Iterator[Any]) -> Iterator[Any]:
        import os
        import sys
        from pathlib import Path

        import pandas as pd

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
        before = [name for name in LOADED if name in sys.modules]
        yield pd.DataFrame({"of": [" ".join(parent)], "loaded": [" ".join(before)]})

    row = spark.range(1).mapInPandas(told, "of string, loaded string").collect()[0]
    assert "kstoolkit.pipeline.workers pyspark.worker" in row.of
    assert row.loaded.split() == [*LOADED]
