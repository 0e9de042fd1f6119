"""Local workers are forks of a daemon that has loaded what they need: told by themselves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.pipeline.workers import LOADED
from tests.pipeline.harness import finish, spawn

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


PROGRAM = """
import json, os, sys
os.environ.update(json.loads(sys.argv[1]))

from kstoolkit.pipeline.session import spark_session

def told(_):
    import pyarrow as pa
    import numpy as np
    from pathlib import Path

    np.ones(1 << 21)  # what is taken and given back is where the rest comes from
    held = [np.ones(1 << 17) for _ in range(64)]
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    large = next(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages"))
    yield large, sum(each.nbytes for each in held), pa.default_memory_pool().backend_name

spark = spark_session("local[1]")
print(json.dumps(spark.sparkContext.parallelize([0], 1).mapPartitions(told).first()))
print(spark.sparkContext._jvm.System.getenv("GLIBC_TUNABLES"))
"""
THEIRS = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0", "ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are told by /proc on Linux")
@pytest.mark.parametrize(("environment", "pool"), [({}, "system"), (THEIRS, "mimalloc")])
def test_what_workers_hold_lies_in_large_pages_unless_it_is_said_otherwise(
    environment: dict[str, str], pool: str
) -> None:
    code, out, errors = finish(spawn(PROGRAM, json.dumps(environment)))
    assert code == 0, errors
    told, of_java = out.splitlines()
    large_bytes, held_bytes, pool_found = json.loads(told)
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    kernel = path.read_text() if path.exists() else "[never]"
    may = "[always]" in kernel or ("[madvise]" in kernel and not environment)
    assert (large_bytes > held_bytes // 2) is may
    assert (pool_found, of_java) == (pool, environment.get("GLIBC_TUNABLES", "None"))
