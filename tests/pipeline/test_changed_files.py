"""Files that are replaced, moved, copied, touched or added to, of runs that go on with a folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import UnreadableFile
from tests.pipeline.harness import (
    Kept,
    check_exact,
    events,
    kill_group,
    letters,
    source,
    spawned,
    until,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

ALL_IN_TIME = kst.Cascade("1 hour", "1 day", lateness="3 days")

AS_COLUMNS = pytest.mark.parametrize(
    "user",
    ["user", pytest.param("trim(user)", marks=pytest.mark.long)],
    ids=["by name", "by expression"],
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder of three files, and of a run that has counted them; the run itself is made once."""

    @cache
    def kept(user: str) -> Kept:
        folder: Path = tmp_path_factory.mktemp("finished") / "folder"
        write_files(folder / "in", events(600), 3)
        run(folder, user)
        return Kept(folder)

    return lambda user: kept(user).again()


def inputs(folder: Path) -> list[Path]:
    return sorted((folder / "in").iterdir())


def run(folder: Path, user: str = "user", **options: Any) -> Run:
    given = kst.files(folder / "in*", event_time="time", user=user, action="action")
    # Under rules that learn, what files read by Spark bring is judged by a second batch.
    rules = [kst.Ceiling("1 hour", 1_000)]
    pipeline = kst.Pipeline(source=given, cascade=ALL_IN_TIME, rules=rules, buckets=2)
    return pipeline.run(folder / "out", progress=False, **options)


def changes(run: Run) -> tuple[int, int, tuple[str, ...]]:
    summary = run.summary()
    return summary.files_moved, summary.files_replaced, summary.files_grown


def line(user: str) -> str:
    return json.dumps({"time": "2025-03-01T10:00:00Z", "user": user, "action": "read"})


@contextmanager
def other_disk() -> Iterator[Path]:
    """A folder on another file system than the temporary one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@AS_COLUMNS
def test_a_file_that_was_moved_is_not_counted_again_and_a_copy_is(
    finished: Callable[[str], Path], user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished(user)
    paths = inputs(folder)
    kept = [shutil.copy2(path, folder / f"kept{path.name}") for path in paths]
    with other_disk() as disk:
        (folder / "in 2").symlink_to(disk)
        renamed = paths[0].rename(folder / "in" / "x.json")
        shutil.move(paths[1], disk / "y.json")
        shutil.copy2(paths[2], folder / "in" / "z.json")
        (folder / "in 2").unlink()
        shutil.move(disk / "y.json", folder / "in" / "y.json")
    done = run(folder, user)
    check_exact(done, [*map(Path, kept), paths[2]])
    assert changes(done) == (2, 0, ())
    said = capsys.readouterr().err
    assert f"Moved, and not counted again: {str(paths[0])!r} to {str(renamed)!r}" in said
    again = run(folder, user)
    check_exact(again, [*map(Path, kept), paths[2]])
    assert "Moved" not in capsys.readouterr().err
    renamed.rename(paths[0])
    assert changes(run(folder, user)) == (3, 0, ())


@AS_COLUMNS
def test_a_file_that_is_replaced_is_a_new_one_and_one_that_is_touched_is_not(
    finished: Callable[[str], Path], user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished(user)
    paths = inputs(folder)
    first = shutil.copy2(paths[0], folder / "first.json")
    write_lines(paths[0], events(300, seed=7))
    os.utime(paths[1])
    done = run(folder, user)
    check_exact(done, [Path(first), *paths])
    assert changes(done) == (0, 1, ())
    assert f"Replaced since, and counted as new: {str(paths[0])!r}." in capsys.readouterr().err
    text = paths[2].read_text().replace("read", "born", 1)  # as long as before, in its place
    first = shutil.copy2(paths[2], folder / "second.json")
    paths[2].write_text(text)
    done = run(folder, user)
    check_exact(done, [folder / "first.json", Path(first), *paths])
    assert changes(run(folder, user)) == (0, 2, ())


def test_what_only_looks_like_a_moved_file_counts(finished: Callable[[str], Path]) -> None:
    folder = finished("user")
    path, *others = inputs(folder)
    kept = Path(shutil.copy2(path, folder / "kept.json"))
    there, text = path.stat(), path.read_text()
    path.unlink()
    middle = text.index("read", len(text) // 2)
    other = folder / "in" / "other.json"
    other.write_text(f"{text[:middle]}born{text[middle + 4 :]}")
    os.utime(other, ns=(there.st_atime_ns, there.st_mtime_ns))
    done = run(folder)
    check_exact(done, [kept, other, *others])
    assert changes(done) == (0, 0, ())


@AS_COLUMNS
def test_a_file_that_grows_keeps_its_count_and_is_named(
    finished: Callable[[str], Path], user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished(user)
    path, *others = inputs(folder)
    kept = Path(shutil.copy2(path, folder / "kept.json"))
    for number in range(2):
        with path.open("a") as file:
            file.write(f"{line('Late')}\n")
        done = run(folder, user)
        check_exact(done, [kept, *others])
        assert changes(done) == (0, 0, (str(path),))
        told = f"Grown since, and what was added is not counted: {str(path)!r}; write what comes"
        assert (told in capsys.readouterr().err) == (number == 0)
        assert f"{str(path)!r}: what was added is not counted; write" in str(done.summary())
    path.write_text(f"{line('Anew')}\n")  # cut off, as a log is rotated
    done = run(folder, user)
    check_exact(done, [kept, *others, path])
    assert changes(done) == (0, 1, (str(path),))


def test_logs_that_are_rotated_by_name_count_once_each(tmp_path: Path) -> None:
    kept, logs = [], [tmp_path / "in" / f"{n}.app.json" for n in range(5)]
    for number in range(4):
        for old in reversed(range(number)):
            logs[old].rename(logs[old + 1])
        write_lines(logs[0], events(100 + number, seed=number))
        kept.append(Path(shutil.copy2(logs[0], tmp_path / f"kept{number}.json")))
        done = run(tmp_path)
        check_exact(done, kept)
    assert changes(done) == (6, 0, ())  # nothing was lost where another took its place


def test_a_log_that_grew_before_it_was_rotated_keeps_its_count(tmp_path: Path) -> None:
    log, kept = tmp_path / "in" / "app.json", []
    for number in range(2):
        write_lines(log, events(100 + number, seed=number))
        kept.append(Path(shutil.copy2(log, tmp_path / f"kept{number}.json")))
        done = run(tmp_path)
        check_exact(done, kept)
        with log.open("a") as file:
            file.write(f"{line('Late')}\n")
        run(tmp_path)
        log.rename(tmp_path / "in" / f"app.{number}.json")
    done = run(tmp_path)
    check_exact(done, kept)
    assert changes(done) == (2, 0, (str(log),))


def test_an_empty_or_damaged_file_counts_when_it_is_whole(tmp_path: Path) -> None:
    import gzip

    whole = gzip.compress("".join(f"{line(f'user {n}')}\n" for n in range(2_000)).encode())
    slow, late = tmp_path / "in" / "slow.json.gz", tmp_path / "in" / "late.json"
    (path,) = write_files(tmp_path / "in", events(60), 1)
    slow.write_bytes(whole[:5_000])
    late.touch()
    assert letters(run(tmp_path)) == [("broken_file", "", slow.name)]
    slow.write_bytes(whole)
    late.write_text(f"{line('Late')}\n")
    done = run(tmp_path)
    check_exact(done, [path, slow, late])
    assert changes(done) == (0, 2, ())


def test_files_of_a_ledger_without_times_go_by_their_path(finished: Callable[[str], Path]) -> None:
    folder = finished("user")
    path, *others = inputs(folder)
    ledger = folder / "out" / "files.jsonl"
    lines = [json.loads(each) for each in ledger.read_text().splitlines()]
    for each in lines:
        del each["mtime_ns"]
    ledger.write_text("".join(json.dumps(each) + "\n" for each in lines))
    (folder / "out" / "contents").unlink()
    kept = Path(shutil.copy2(path, folder / "kept.json"))
    write_lines(path, events(10, seed=9))
    done = run(folder)
    check_exact(done, [kept, *others])
    assert changes(done) == (0, 0, ())


def cut_off(out: Path) -> None:
    """Have the newest batch look as if it was killed between the sink's mark and Spark's."""
    newest = max((out / "checkpoint" / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()


@AS_COLUMNS
def test_a_repeated_batch_that_finds_other_contents_stops_and_can_be_set_aside(
    finished: Callable[[str], Path], user: str
) -> None:
    folder = finished(user)
    path, *others = inputs(folder)
    cut_off(folder / "out")
    write_lines(path, events(40, seed=5))
    for _ in range(2):
        with pytest.raises(UnreadableFile) as stopped:
            run(folder, user)
        assert stopped.value.message == (
            f"{str(path)!r} can't be read: it holds something else than when its batch, now "
            "repeated, was first read."
        )
    done = run(folder, user, set_aside=stopped.value.alone)
    check_exact(done, others)
    assert letters(done) == [("set_aside", "", path.name)]
    done = run(folder, user)  # what lies there now was never taken in
    check_exact(done, [path, *others])


@AS_COLUMNS
def test_a_repeated_batch_reads_its_files_where_they_lie_now(
    finished: Callable[[str], Path], user: str
) -> None:
    folder = finished(user)
    path, *others = inputs(folder)
    cut_off(folder / "out")
    moved = path.rename(folder / "in" / "moved.json")
    write_lines(path, events(50, seed=8))
    done = run(folder, user)
    check_exact(done, [moved, *others, path])
    assert letters(done) == []


LIVE = """
    import sys, time
    from pathlib import Path
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import source
    spark_session("local[2]")
    cascade = kst.Cascade("1 minute", "1 hour", lateness="3 days")
    pipeline = kst.Pipeline(source=source(Path(sys.argv[1]) / "in"), cascade=cascade, buckets=2)
    run = pipeline.start(Path(sys.argv[1]) / "out", trigger="300 ms")
    while run.is_active:
        time.sleep(0.1)
    print(run.failure())
"""


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.long
def test_a_live_run_that_is_killed_and_rotated_meanwhile_counts_each_line_once(
    tmp_path: Path,
) -> None:
    log, kept = tmp_path / "in" / "app.json", []
    write_lines(log, events(500, seed=0))
    for number in range(1, 4):
        kept.append(Path(shutil.copy2(log, tmp_path / f"kept{number}.json")))
        with spawned(LIVE, tmp_path) as process:
            until(lambda: taken(tmp_path / "out") >= number, "the log to be taken in")  # noqa: B023
            time.sleep(0.2 * number)
            kill_group(process)
        log.rename(tmp_path / "in" / f"app.{number}.json")
        write_lines(log, events(500 + number, seed=number))
    kept.append(log)
    pipeline = kst.Pipeline(
        source=source(tmp_path / "in"),
        cascade=kst.Cascade("1 minute", "1 hour", lateness="3 days"),
        buckets=2,
    )
    done = pipeline.run(tmp_path / "out", progress=False)
    check_exact(done, kept)
    assert letters(done) == []


def taken(out: Path) -> int:
    """Return how many files Spark has planned to take."""
    offsets = out / "checkpoint" / "offsets"
    found = [each for each in offsets.glob("[0-9]*") if each.name.isdigit()]
    told = [text for each in found for text in each.read_text().splitlines() if "files" in text]
    return max(
        (json.loads(each)["files"] for each in told if each.startswith('{"files"')), default=0
    )


def test_a_live_run_says_what_became_of_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = write_files(tmp_path / "in", events(600), 2)
    kept = Path(shutil.copy2(path, tmp_path / "kept.json"))
    pipeline = kst.Pipeline(
        source=source(tmp_path / "in"),
        cascade=kst.Cascade("1 minute", "1 hour", lateness="3 days"),
        buckets=2,
    )
    live = pipeline.start(tmp_path / "out", trigger="300 ms")
    said = []

    def says(what: str) -> Callable[[], bool]:
        def look() -> bool:
            said.append(capsys.readouterr().err)
            return what in "".join(said)

        return look

    try:
        until(lambda: live.summary().events == 600, "both to be counted")
        with path.open("a") as file:
            file.write(f"{line('Late')}\n")
        until(says("Grown since"), "the growth to be said")
        other.rename(tmp_path / "in" / "moved.json")
        until(says("Moved, and not"), "the move to be said")
    finally:
        live.stop()
    done = pipeline.run(tmp_path / "out", progress=False)
    check_exact(done, [kept, tmp_path / "in" / "moved.json"])
    assert changes(done) == (1, 0, (str(path),))
