"""Plans that reach past the end of a run: cut in Spark's offset log, or taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.failure import java_ended, run_failed
from kstoolkit.pipeline.runfolder import RunFolder, initial_offsets, offsets_reached
from kstoolkit.pipeline.supervising import AtItsEnd, Ending, PlannedAnew, Retries, SupervisedQuery

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.pipeline.supervising import Gate

HEAD = '{"batchWatermarkMs":0,"batchTimestampMs":1795317909169,"conf":{}}'
TICKS = '{"tick_ms": 0}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as Spark writes it, with the topic's beginning."""
    begin = tmp_path / "sources" / "0" / "0"
    begin.parent.mkdir(parents=True)
    begin.write_bytes(b'\x00v1\n{"actions":{"0":10,"1":0}}')
    (tmp_path / "offsets").mkdir()
    return tmp_path


def plan(checkpoint: Path, batch: int, ends: str) -> None:
    text = f'v1\n{HEAD}\n{{"actions":{{{ends}}}}}\n{TICKS}'
    (checkpoint / "offsets" / str(batch)).write_text(text)
    (checkpoint / "offsets" / f".{batch}.crc").write_bytes(b"crc\x00")


def test_a_batch_that_reaches_too_far_is_cut_and_counted_after_that(checkpoint: Path) -> None:
    ending = Ending("actions", {0: 50, 1: 0}, checkpoint, first_batch=0)
    plan(checkpoint, 0, '"1":7,"0":60,"2":3')
    with pytest.raises(PlannedAnew):
        ending.check(0)
    assert offsets_reached(checkpoint, 0, "actions") == {0: 50, 1: 0}
    lines = (checkpoint / "offsets" / "0").read_text().splitlines()
    assert lines == ["v1", HEAD, '{"actions":{"0":50,"1":0}}', TICKS]
    assert [path.name for path in (checkpoint / "offsets").iterdir()] == ["0"]
    ending.check(0)


def test_a_batch_with_nothing_before_the_end_is_taken_back(checkpoint: Path) -> None:
    ending = Ending("actions", {0: 50, 1: 0}, checkpoint, first_batch=0)
    plan(checkpoint, 0, '"1":0,"0":50')
    ending.check(0)
    plan(checkpoint, 1, '"1":9,"0":50')
    with pytest.raises(AtItsEnd):
        ending.check(1)
    assert sorted(path.name for path in (checkpoint / "offsets").iterdir()) == [".0.crc", "0"]


def test_the_first_batch_is_counted_even_if_nothing_is_left_of_it(checkpoint: Path) -> None:
    assert initial_offsets(checkpoint, "actions") == {0: 10, 1: 0}
    ending = Ending("actions", {0: 4, 1: 0}, checkpoint, first_batch=0)  # it begins beyond that
    plan(checkpoint, 0, '"1":5,"0":12')
    with pytest.raises(PlannedAnew):
        ending.check(0)
    assert offsets_reached(checkpoint, 0, "actions") == {0: 10, 1: 0}
    ending.check(0)


def test_an_error_names_only_a_log_that_is_there(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for told in (run_failed("java.io.IOException: no", folder), java_ended(folder)):
        assert "spark.log" not in str(told)
    folder.log.touch()
    for told in (run_failed("java.io.IOException: no", folder), java_ended(folder)):
        assert str(told.hint).endswith(f" Spark's own words are in {folder.log}.")


@pytest.mark.parametrize(
    ("passed", "flushes", "left"),
    [
        (None, False, {"4", "5"}),  # an earlier process began it: it has to be counted as it was
        (5, False, {"4", "5"}),
        (4, True, {"4"}),
    ],
)
def test_a_stop_takes_back_only_what_it_planned_itself_and_did_not_begin(
    tmp_path: Path,
    passed: int | None,
    flushes: bool,  # noqa: FBT001 - parametrized
    left: set[str],
) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / "run.json").touch()
    for name in ("offsets/4", "offsets/5", "commits/4"):
        (folder.checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.checkpoint / name).write_text("v1\n{}")
    statistics = BatchFolders(tmp_path / "statistics")
    MicroBatch(4, 1_000, 0.5, as_of_ms={"1 hour": 900}).save(statistics.begin(0, 4))
    statistics.mark(0, 4)
    query = SupervisedQuery(unstarted, lambda *_: unstarted, Retries(folder, 0, print), print)
    query._gate.passed = passed
    assert query._may_flush() == flushes
    assert {path.name for path in (folder.checkpoint / "offsets").iterdir()} == left


def unstarted(gate: Gate, *, flush: bool = False) -> StreamingQuery:  # noqa: ARG001 - as it is called
    pytest.fail("nothing was to be started")
