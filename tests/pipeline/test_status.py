from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.errors import InputError
from kstoolkit.events.ledger import Admitted, Ledger
from kstoolkit.pipeline.batches import MicroBatch, StateSize
from kstoolkit.pipeline.failure import RestartLog
from kstoolkit.pipeline.status import _MOST_BATCHES, RunState, RunStatus, RunWatch
from tests.plots.made import made_run

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run


def batch(number: int, **changes: object) -> MicroBatch:
    facts = {"events": 100, "late": {"1 minute": 2}, "dead_letters": {"no_user": 1}, "findings": 3}
    return MicroBatch(number, 1_000 * number, 0.5, **facts | changes)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_run(tmp_path / "out", batches=[batch(0), batch(1, events=40)])


def add(run: Run, told: MicroBatch, *, mark: bool = True) -> None:
    folders = BatchFolders(run.folder.path / "statistics")
    told.save(folders.begin(0, told.batch))
    if mark:
        folders.mark(0, told.batch)


def test_a_folder_tells_what_was_counted_and_whose_secret_the_rest_is(run: Run) -> None:
    status = RunWatch(run).look()
    assert status.state is RunState.RESTING
    assert (status.num_batches, status.events, status.findings) == (2, 140, 6)
    told = dict(status.rows())
    assert told["events"] == "140 in 2 batches"
    assert told["late"] == "4 for windows of 1 minute"
    assert told["dead letters"].endswith(" 2")
    assert told["state rows"] == "unknown (not kept: only the process that counts knows it so soon)"
    assert told["state memory"] == told["state rows"]
    assert told["lag"].endswith("event time reaches 2015-09-12 10:10:00 UTC")
    assert told["last batch"].startswith("0.50 s, 40 events; by the clock of Spark unknown: only")


def test_the_state_that_a_batch_left_is_told_once_its_process_has_kept_it(run: Run) -> None:
    watch = RunWatch(run)
    assert watch.look().batches[-1].state_rows is None
    folders = BatchFolders(run.folder.path / "statistics")
    StateSize(rows=440, memory_bytes=1024).save(folders.folder(0, 0))
    told = dict(watch.look().rows())
    assert told["state rows"] == "440 after batch 0"
    assert told["state memory"] == "1.0 KiB after batch 0"
    StateSize(rows=448, memory_bytes=2048).save(folders.folder(0, 1))
    told = dict(watch.look().rows())
    assert (told["state rows"], told["state memory"]) == ("448", "2.0 KiB")


def test_each_look_adds_what_is_new_and_marked(run: Run) -> None:
    watch = RunWatch(run)
    watch.look()
    add(run, batch(2), mark=False)
    assert watch.look().events == 140
    add(run, batch(2))
    assert watch.look().events == 240
    assert watch.look().events == 240


def test_a_reset_adds_an_epoch_and_takes_nothing_away(run: Run) -> None:
    watch = RunWatch(run)
    assert watch.look().events == 140
    folders = BatchFolders(run.folder.path / "statistics")
    batch(0, events=9).save(folders.begin(1, 0))
    folders.mark(1, 0)
    assert watch.look().events == RunWatch(run).look().events == 149


def test_of_a_run_that_was_removed_nothing_is_said_and_one_in_its_place_begins_anew(
    run: Run,
) -> None:
    watch = RunWatch(run)
    assert watch.look().events == 140
    shutil.rmtree(run.folder.path)
    for each in (watch, watch):
        with pytest.raises(InputError, match="there is no such folder"):
            each.look()
    made_run(run.folder.path, batches=[batch(0, events=7)])
    assert watch.look().events == 7


def test_restarts_are_told_with_the_last_reason_once_there_are_any(run: Run) -> None:
    assert "restarts" not in dict(RunWatch(run).look().rows())
    log = RestartLog(run.folder.restarts)
    log.add("Kafka could not be read: TimeoutException.", 1, counts=False)
    log.add("Spark gave up: OutOfMemoryError.", 1, counts=True)
    told = dict(RunWatch(run).look().rows())["restarts"]
    assert re.fullmatch(r"2, the last \d+\.\d s ago: Spark gave up: OutOfMemoryError\.", told)


def test_a_restart_is_told_also_after_a_line_that_a_crash_cut_off(run: Run) -> None:
    log = RestartLog(run.folder.restarts)
    log.add("Spark gave up\u2028: OutOfMemoryError.", 1, counts=True)
    with log.path.open("a") as file:
        file.write('{"at_ms": 1')
    log.add("Spark gave up.", 2, counts=True)
    assert [each.batch for each in log.read()] == [1, 2]
    assert log.within_an_hour() == 2


def test_whoever_holds_the_folder_counts(run: Run) -> None:
    watch = RunWatch(run)
    with run.folder.hold():
        assert watch.look().state is RunState.ELSEWHERE
        assert watch.look().arriving_per_second == 0
    status = watch.look()
    assert status.state is RunState.RESTING
    assert status.arriving_per_second is None
    with run.folder.hold():
        pass


def test_files_taken_in_and_not_counted_yet_wait(run: Run) -> None:
    watch = RunWatch(run)
    assert dict(watch.look().rows())["waiting"] == "0 files, 0 B"
    ledger = Ledger(run.folder.ledger)
    ledger._append([Admitted(f"/{n}.json", 1024 * (n + 1), 0) for n in range(3)])
    with run.folder.ledger.open("ab") as file:
        file.write(b'{"path": "/3.js')  # half a line, as it is while it is written
    before = run.folder.ledger.read_bytes()
    assert dict(watch.look().rows())["waiting"] == "3 files, 6.0 KiB"
    for name in ("offsets", "commits"):
        (run.folder.checkpoint / name).mkdir(parents=True)
    (run.folder.checkpoint / "offsets" / "0").write_text('v1\n{}\n{"files": 2}\n{"tick_ms": 0}')
    assert watch.look().waiting_files == 3
    (run.folder.checkpoint / "commits" / "0").touch()
    assert dict(watch.look().rows())["waiting"] == "1 file, 3.0 KiB"
    assert run.folder.ledger.read_bytes() == before
    with run.folder.ledger.open("ab") as file:
        file.write(b'on", "size_bytes": 1024, "admitted_ms": 0}\n')
    assert watch.look().waiting_bytes == 4096


def test_a_frames_source_does_not_say_what_waits(run: Run) -> None:
    place = run.folder.path / "run.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"feed": "frame"}))
    assert "does not say" in dict(RunWatch(run).look().rows())["waiting"]


def test_of_a_long_run_the_newest_batches_are_told_and_all_are_summed_up(run: Run) -> None:
    for number in range(2, _MOST_BATCHES + 5):
        add(run, batch(number))
    status = RunWatch(run).look()
    assert len(status.batches) == _MOST_BATCHES
    assert status.batches[-1].batch == _MOST_BATCHES + 4
    assert status.num_batches == _MOST_BATCHES + 5
    assert status.events == 140 + 100 * (_MOST_BATCHES + 3)


def test_text_and_html_state_the_same_facts() -> None:
    parts = {"counting": 1.5, "other": 0.5}
    newest = MicroBatch(
        7,
        59_000,
        1.6,
        events=600,
        parts_seconds=parts,
        state=StateSize(rows=12, memory_bytes=3 << 20),
    )
    status = RunStatus(
        state=RunState.FAILED,
        why="<gone>",
        at_ms=60_000,
        batches=(newest,),
        num_batches=8,
        events=9,
    )
    html = status._repr_html_()
    assert repr(status) == "RunStatus(failed, 9 events in 8 batches)"
    assert "failed, 9 events in 8 batches" in html
    assert "failed: &lt;gone&gt;" in html
    told = dict(status.rows())
    around = "2.00 s by the clock of Spark (counting 1.50 s, other 0.50 s)"
    assert told["last batch"] == f"1.60 s, 600 events; {around}"
    assert (told["state rows"], told["state memory"]) == ("12", "3.0 MiB")
    assert told["events/s"] == "375 in the last batch with events"
    row = status.to_pandas().iloc[0]
    assert (row["number"], row["counting_seconds"], row["state_rows"]) == (7, 1.5, 12)


@pytest.mark.parametrize(
    ("reached_ms", "said"),
    [
        (100_000, "none: event time reaches 1970-01-01 00:01:40 UTC"),
        (95_500, "4.5 s: "),
        (-500_000, "10 minutes: "),
        (-86_400_000 * 5, "5 days: "),
    ],
)
def test_lag_is_how_far_event_time_is_behind_the_clock(reached_ms: int, said: str) -> None:
    status = RunStatus(state=RunState.COUNTING, at_ms=100_000, newest_event_ms=reached_ms)
    assert dict(status.rows())["lag"].startswith(said)
