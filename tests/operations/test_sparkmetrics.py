from __future__ import annotations

from typing import Any

import pytest

from kstoolkit.operations.sparkmetrics import _FIGURES, QueryFigures
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.status import RunState, RunStatus
from kstoolkit.rocksdb.metricnames import metric_names
from tests.operations.scraping import values_of

AT = (("operator", "dedupe"), ("position", "0"))


def operator(**custom: int) -> dict[str, Any]:
    return {
        "operatorName": "dedupe",
        "numRowsTotal": 10,
        "numRowsUpdated": 4,
        "numRowsRemoved": 1,
        "numRowsDroppedByWatermark": 0,
        "memoryUsedBytes": 2048,
        "numStateStoreInstances": 2,
        "customMetrics": custom,
    }


def status(*numbers: int, state: RunState = RunState.COUNTING) -> RunStatus:
    batches = tuple(
        MicroBatch(number, 0, 2.0, events=1, parts_seconds={"counting": 1.5}) for number in numbers
    )
    return RunStatus(state=state, at_ms=0, batches=batches)


def progress(*operators: dict[str, Any]) -> dict[str, Any]:
    return {"stateOperators": list(operators)}


def told(figures: QueryFigures, seen: RunStatus, of: dict[int, Any]) -> dict[str, dict[Any, float]]:
    found = figures.metrics(seen.batches, of, counts_here=seen.state is RunState.COUNTING)
    return {each.name: values_of(each) for each in found}


def test_each_batch_adds_up_once_however_often_it_is_seen() -> None:
    figures = QueryFigures()
    batches = {n: progress(operator(rocksdbTotalBytesWritten=100)) for n in range(3)}
    told(figures, status(0, 1), batches)
    found = told(figures, status(0, 1), batches)
    assert found["kstoolkit_batch_part_seconds"] == {(("part", "counting"),): 3.0}
    assert found["kstoolkit_rocksdb_bytes_written"] == {AT: 200}
    found = told(figures, status(1, 2), batches)
    assert found["kstoolkit_rocksdb_bytes_written"] == {AT: 300}
    assert found["kstoolkit_state_rows_updated"] == {AT: 12}
    assert found["kstoolkit_state_rows"] == {AT: 10}


def test_a_batch_of_which_the_query_has_not_told_yet_is_taken_at_the_next_look() -> None:
    figures = QueryFigures()
    one = progress(operator(rocksdbGetCount=5))
    assert told(figures, status(0, 1), {0: one})["kstoolkit_rocksdb_gets"] == {AT: 5}
    assert told(figures, status(0, 1), {0: one, 1: one})["kstoolkit_rocksdb_gets"] == {AT: 10}


def test_another_query_may_repeat_the_number_of_a_batch() -> None:
    figures = QueryFigures()
    one = progress(operator(rocksdbGetCount=5))
    told(figures, status(7), {7: one})
    figures.begin(resets=True)
    assert told(figures, status(7), {7: one})["kstoolkit_rocksdb_gets"] == {AT: 10}


def test_counts_that_spark_does_not_reset_are_taken_as_they_are() -> None:
    figures = QueryFigures(resets=False)
    told(figures, status(0), {0: progress(operator(rocksdbGetCount=5))})
    found = told(figures, status(1), {1: progress(operator(rocksdbGetCount=8))})
    assert found["kstoolkit_rocksdb_gets"] == {AT: 8}


def test_two_operators_of_one_name_are_told_apart() -> None:
    found = told(QueryFigures(), status(0), {0: progress(operator(), operator())})
    other = (("operator", "dedupe"), ("position", "1"))
    assert found["kstoolkit_state_memory_bytes"] == {AT: 2048, other: 2048}


def test_sizes_are_of_the_newest_batch_and_milliseconds_become_seconds() -> None:
    figures = QueryFigures()
    told(figures, status(0), {0: progress(operator(rocksdbSstFileSize=900))})
    custom = {"rocksdbSstFileSize": 500, "rocksdbWriterStallLatencyMs": 250}
    found = told(figures, status(1), {1: progress(operator(**custom))})
    assert found["kstoolkit_rocksdb_total_sst_files_size_bytes"] == {AT: 500}
    assert found["kstoolkit_rocksdb_write_stall_duration_seconds"] == {AT: 0.25}


def test_what_spark_tells_of_each_partition_is_left_out() -> None:
    custom = {"SnapshotLastUploaded.partition_0_default": 1, "rocksdbNews": 1}
    found = told(QueryFigures(), status(0), {0: progress(operator(**custom))})
    assert not [name for name in found if "rocksdb" in name or "snapshot" in name]


@pytest.mark.parametrize(
    ("counts_here", "why"),
    [(True, "no batch has ended yet"), (False, "only the process that counts knows")],
)
def test_before_the_first_batch_the_state_is_unknown(counts_here: bool, why: str) -> None:  # noqa: FBT001
    told = QueryFigures().metrics((), {}, counts_here=counts_here)
    found = {each.name: each for each in told}
    assert not found["kstoolkit_state_rows"].samples
    assert found["kstoolkit_state_rows"].documentation.endswith(f"Unknown: {why}.")


def test_the_same_figures_have_the_names_that_kafka_streams_gives_them() -> None:
    names = {f"{each.key}": each.name for each in _FIGURES}
    same = {each.in_spark: each.name for each in metric_names() if each.in_spark}
    assert len(same) >= 9
    for in_spark, name in same.items():
        stem = name.partition("-{")[0].removesuffix("-rate").replace("-", "_")
        assert names[in_spark] in {stem, f"{stem}_seconds", f"{stem}_bytes"}


def test_no_two_figures_have_one_name() -> None:
    assert len({each.name for each in _FIGURES}) == len({each.key for each in _FIGURES})
    assert len({each.name for each in _FIGURES}) == len(_FIGURES)
