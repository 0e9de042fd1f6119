"""Whether a cluster and its driver see the same output folder."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def check_shared(spark: SparkSession, folder: Path) -> None:
    """Have executors write into the folder, and see whether it arrives here.

    Raises
    ------
    OutputError
        If the folder is another one there than here.
    """
    tasks = spark.sparkContext.defaultParallelism
    prefix = f".probe-{uuid.uuid4().hex}"
    numbers = spark.range(tasks, numPartitions=tasks).mapInArrow(
        _probing(str(folder), prefix), "written string"
    )
    names = [row.written for row in numbers.collect()]
    missing = [name for name in names if not (folder / name).exists()]
    for name in names:
        (folder / name).unlink(missing_ok=True)
    if missing:
        message = (
            f"{len(missing)} of {len(names)} tasks wrote to {str(folder)!r} on the cluster, "
            f"but it did not arrive here."
        )
        raise OutputError(
            message,
            hint="A cluster needs an output folder that all its nodes and the driver share, "
            "such as an NFS mount: give one with --out.",
        )


def _probing(folder: str, prefix: str) -> Any:
    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                place = Path(folder) / f"{prefix}-{number}"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
                yield pa.record_batch([pa.array([place.name])], names=["written"])

    return probe
