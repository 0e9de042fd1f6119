"""A run's folder is kept tidy: what it tells stays the same, whatever happens meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.changelog.changelog import DONE, FOLD, Batch, BatchFolders, Fold
from kstoolkit.changelog.compaction import NEIGHBOURS, next_in_tiers
from kstoolkit.errors import ConfigurationError
from kstoolkit.pipeline.run import iter_dead_letters
from kstoolkit.pipeline.status import FindingCounts, RunWatch
from kstoolkit.pipeline.tidying import Tidying, compact_run, tidy
from kstoolkit.replica.windowstore import WindowStore
from kstoolkit.windows import Cascade
from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.pipeline.longrun import KINDS, add, batch_of, begun, expected, told
from tests.plots.made import MORNING
from tests.replica.replicas import held

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.pipeline.run import Run

CASCADE = Cascade("1 minute", "1 hour", "1 day")
DAY = 24 * HOUR
STATE = "part-state.json"


@pytest.fixture(scope="module")
def longest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of as many batches as a test has at most."""
    folder: Path = tmp_path_factory.mktemp("longest") / "out"
    begun(folder)
    for number in range(600):
        add(folder, number)
    return folder


@pytest.fixture
def copy(longest: Path) -> Callable[[Path, int], None]:
    """Add a batch where nobody looks meanwhile; writing it would take five times as long."""

    def copied(out: Path, number: int) -> None:
        for kind in KINDS:
            place = Path(kind, "epoch=0", f"batch={number}")
            if (longest / place).exists():
                # What the state held is written beside a batch as the next one comes.
                shutil.copytree(longest / place, out / place, ignore=lambda *_: [STATE])
        if number:
            place = Path("statistics", "epoch=0", f"batch={number - 1}")
            shutil.copy2(longest / place / STATE, out / place)

    return copied


@pytest.fixture
def long_run(copy: Callable[[Path, int], None]) -> Callable[[Path, int], Run]:
    """Return a run of so many batches."""

    def made(out: Path, batches: int) -> Run:
        run = begun(out)
        for number in range(batches):
            copy(out, number)
        return run

    return made


def holds(found: dict[str, Any], batches: int, context: object = None) -> None:
    """Check what is told against what Python makes of all that was written."""
    for name, right in expected(batches).items():
        assert found[name] == right, (name, context)
    assert [each.batch for each in found["batches"]] == list(range(batches)), context


def folders_of(out: Path) -> dict[str, int]:
    return {kind: sum(1 for _ in (out / kind).glob("epoch=*/batch=*")) for kind in KINDS}


@pytest.mark.long
def test_three_hundred_batches_tell_the_same_folded_as_they_come(
    copy: Callable[[Path, int], None], long_run: Callable[[Path, int], Run], tmp_path: Path
) -> None:
    plain, tidied = long_run(tmp_path / "plain", 300), begun(tmp_path / "tidied")
    for number in range(300):
        copy(tidied.folder.path, number)
        if (number + 1) % NEIGHBOURS == 0:
            tidy(tidied.folder, CASCADE)
    there = folders_of(tidied.folder.path)
    assert all(NEIGHBOURS <= each <= 4 * NEIGHBOURS for each in there.values()), there
    found = told(tidied)
    holds(found, 300)
    assert found == told(plain)
    compact_run(plain.folder.path)
    assert told(plain) == found
    assert folders_of(plain.folder.path) == dict.fromkeys(KINDS, 2) | {"statistics": 3}


def test_a_month_of_batches_is_some_dozens_of_folds_and_each_is_written_a_few_times() -> None:
    settled, written = list[Batch](), 0
    for number in range(259_200):
        settled.append(Batch(0, number, Path()))
        while number % NEIGHBOURS == 0 and (
            chosen := next_in_tiers(settled[:-NEIGHBOURS], lambda _: False)
        ):
            batches = sum(each.fold.batches if each.fold else 1 for each in settled[chosen])
            written += batches
            fold = Fold("", batches, ())
            settled[chosen] = [Batch(0, settled[chosen][-1].number, Path(), fold=fold)]
    assert len(settled) < 80
    assert sum(each.fold.batches if each.fold else 1 for each in settled) == 259_200
    assert written <= 4 * 259_200


def test_what_only_the_newest_batch_needs_stays_with_it_alone(
    long_run: Callable[[Path, int], Run], tmp_path: Path
) -> None:
    run = long_run(tmp_path / "out", 40)
    compact_run(run.folder.path)
    left = sorted((run.folder.path / "statistics").rglob("part-moments.parquet"))
    assert [path.parent.name for path in left] == ["batch=38", "batch=39"]


def test_whoever_looks_again_after_a_fold_counts_nothing_twice_and_misses_nothing(
    tmp_path: Path,
) -> None:
    run = begun(tmp_path / "out")
    watch, counts = RunWatch(run), FindingCounts(run.folder)
    add(run.folder.path, 0)
    store = WindowStore.restore(run.folder.path, path=tmp_path / "replica")
    standby = store.follow(run.folder.path)
    for number in range(1, 150):
        add(run.folder.path, number)
        if number in {20, 47, 90, 149}:
            if number in {47, 149}:
                compact_run(run.folder.path)
            tidy(run.folder, CASCADE)
            status, right = watch.look(), expected(number + 1)
            statistics = [batch_of(each) for each in range(number + 1)]
            assert status.num_batches == number + 1
            assert status.events == sum(each.events for each in statistics)
            assert status.late["1 minute"] == sum(each.late["1 minute"] for each in statistics)
            assert Counter(status.dead_letters) == right["reasons"]
            assert [each.batch for each in status.batches] == list(range(number + 1))
            assert counts.look() == right["reported"]
            standby.step()
            assert held(store) == right["counts"]
    standby.close()
    store.close()


def test_dead_letters_that_are_folded_while_they_are_read_come_once_and_in_order(
    long_run: Callable[[Path, int], Run], tmp_path: Path
) -> None:
    run = long_run(tmp_path / "out", 60)
    found = []
    for place, rows in enumerate(iter_dead_letters(run.folder.path)):
        found += [(row["batch"], row["reason"], row["raw"]) for row in rows.to_pylist()]
        if place == 3:
            tidy(run.folder, CASCADE)
        if place == 9:
            compact_run(run.folder.path)
    assert found == expected(60)["letters"]


KILLED_AT_EVERY_STEP = """
import os, shutil, signal, sys
from pathlib import Path
import pandas  # which pyarrow would load in every child
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.pipeline.tidying import tidy
from kstoolkit.windows import Cascade

CHANGES = {"fcntl.flock", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"}
source, killed, stride, cascade = *sys.argv[1:3], int(sys.argv[3]), Cascade("1 minute", "1 hour")

def killed_before_change(folder, number):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seen = 0
    def watch(event, args):
        nonlocal seen
        if event in CHANGES or (event == "open" and "fold" in str(args[0])):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    tidy(RunFolder(Path(folder)), cascade)
    os._exit(0)

number, code = 1, -9
while code == -9:
    folder = shutil.copytree(source, os.path.join(killed, str(number)))
    code = killed_before_change(folder, number)
    number += stride
assert code == 0, code
"""


@pytest.mark.kill
@pytest.mark.parametrize("stride", [83, pytest.param(11, marks=pytest.mark.long)])
def test_killed_at_any_step_of_any_kind_and_tier_it_loses_nothing_and_the_next_one_finishes(
    copy: Callable[[Path, int], None], tmp_path: Path, stride: int
) -> None:
    # Sixteen folds of the first tier become one of the second: all but the last are there.
    run, batches = begun(tmp_path / "out"), 17 * NEIGHBOURS
    for number in range(batches):
        copy(run.folder.path, number)
        if (number + 1) % NEIGHBOURS == 0 and number < batches - 1:
            tidy(run.folder, CASCADE)
    right = told(run)
    holds(right, batches)
    program = [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(run.folder.path)]
    places = [str(tmp_path / "killed"), str(stride)]
    done = subprocess.run([*program, *places], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    killed = sorted((tmp_path / "killed").iterdir())
    assert len(killed) >= 220 // stride
    for left in killed:
        again = type(run)(type(run.folder)(left))
        assert told(again) == right, left.name
        tidy(again.folder, CASCADE)
        assert told(again) == right, left.name
        for kind in ("changelog", "statistics"):
            first, *_ = BatchFolders(left / kind).marked()
            assert first.fold is not None
            assert (first.number, first.fold.batches) == (255, 256)
            assert set(first.names) == {DONE, FOLD, first.fold.file}
        shutil.rmtree(left)


FOLDING = """
import sys
from pathlib import Path
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.pipeline.tidying import compact_run, tidy
from kstoolkit.windows import Cascade

turns = 0
while not Path(sys.argv[2]).exists():
    turns += 1
    done = tidy(RunFolder(Path(sys.argv[1])), Cascade("1 minute", "1 hour"))
    if turns % 5 == 0:
        compact_run(sys.argv[1])
print(turns)
"""


@pytest.mark.long
def test_readers_go_on_while_another_process_folds(
    long_run: Callable[[Path, int], Run], tmp_path: Path
) -> None:
    run, stop = long_run(tmp_path / "out", 40), tmp_path / "stop"
    program = [sys.executable, "-c", FOLDING, str(run.folder.path), str(stop)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as folding:
        try:
            for number in range(40, 100):
                add(run.folder.path, number)
                holds(told(run), number + 1)
        finally:
            stop.touch()
        turns, _ = folding.communicate(timeout=60)
    assert int(turns) > 5
    holds(told(run), 100)


def test_a_thread_beside_a_run_folds_and_ends_with_it(tmp_path: Path) -> None:
    run, said = begun(tmp_path / "out"), list[str]()
    tidying = Tidying(run.folder, CASCADE, said.append)
    for number in range(100):
        add(run.folder.path, number)
        tidying.batch_ended()
    while folders_of(run.folder.path)["statistics"] > 2 * NEIGHBOURS + 6:
        assert tidying._thread.is_alive()
    tidying.close()
    assert not tidying._thread.is_alive()
    assert said == []
    holds(told(run), 100)


WITHOUT_ROOM = """
import shutil, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.pipeline.tidying import Tidying, tidy
from kstoolkit.windows import Cascade

disk = Path(sys.argv[1])
folder, cascade = RunFolder(disk / "out"), Cascade("1 minute", "1 hour")
left = shutil.disk_usage(disk).free
with (disk / "filler").open("wb") as filler:
    filler.write(bytes(left - 4096))
tidying = Tidying(folder, cascade, print)
for _ in range(33):
    tidying.batch_ended()
    time.sleep(0.02)
time.sleep(1)
tidying.close()
(disk / "filler").unlink()
print(tidy(folder, cascade)["statistics"])
"""

ON_A_SMALL_DISK = """
    mount -t tmpfs -o size=3m tmpfs "$1"
    cp -r "$2" "$1/out"
    "$PYTHON" -c "$PROGRAM" "$1" "$4"
    cp -r "$1/out" "$3"
"""
# A shell in which disks can be mounted that nobody else sees, whoever runs it.
MOUNTING = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")


def can_mount() -> bool:
    if not shutil.which("unshare"):
        return False
    return not subprocess.run([*MOUNTING, "mount -t tmpfs tmpfs /mnt"], check=False).returncode


def test_a_full_disk_is_told_once_and_nothing_is_lost(
    long_run: Callable[[Path, int], Run], tmp_path: Path
) -> None:
    if not can_mount():
        pytest.skip("no disk of one's own can be mounted")
    run = long_run(tmp_path / "out", 50)
    (tmp_path / "disk").mkdir()
    places = (tmp_path / "disk", run.folder.path, tmp_path / "copy", Path(__file__).parents[2])
    done = subprocess.run(
        [*MOUNTING, dedent(ON_A_SMALL_DISK), "sh", *places],
        env=os.environ | {"PYTHON": sys.executable, "PROGRAM": WITHOUT_ROOM},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    why, then = done.stdout.splitlines()
    assert why.startswith("Older batches can't be folded, which is tried again later: ")
    assert "No space left on device" in why
    assert then.startswith("34 batches folded: 34 → 34 records")
    holds(told(type(run)(type(run.folder)(tmp_path / "copy"))), 50)


def test_counts_and_findings_expire_by_the_runs_clock_and_the_rest_stays(
    long_run: Callable[[Path, int], Run], tmp_path: Path
) -> None:
    run = long_run(tmp_path / "out", 400)  # more than an hour
    before = told(run)
    compact_run(run.folder.path, {"1 minute": "10 minutes"})
    found = told(run)
    # The clock is a little behind: in the middle of what the newest 32 batches tell.
    ended_ms = MORNING + 390 * 10_000 - 600_000
    left, gone = found["counts"][MINUTE], before["counts"][MINUTE].keys()
    gone -= left.keys()
    assert left.items() <= before["counts"][MINUTE].items()
    assert max(start for start, *_ in gone) + MINUTE <= ended_ms
    assert min(start for start, *_ in left) + MINUTE > ended_ms - 2 * MINUTE
    assert found["counts"][HOUR] == before["counts"][HOUR]
    minutes = {key[1] for key in found["findings"] if key[0].startswith("Ceiling")}
    assert min(minutes) == min(start for start, *_ in left)
    assert len(minutes) < sum(1 for key in before["findings"] if key[0].startswith("Ceiling"))
    hours = [key for key in found["findings"] if key[0].startswith("Unusual")]
    assert hours == [key for key in before["findings"] if key[0].startswith("Unusual")]
    for name in ("letters", "reasons", "summary", "batches"):
        assert found[name] == before[name]


def test_one_clients_clock_makes_nothing_expire(
    long_run: Callable[[Path, int], Run], tmp_path: Path
) -> None:
    run = long_run(tmp_path / "out", 60)
    ahead = {MINUTE: {(MORNING + 365 * DAY, "Anna", "read"): 1}}
    clock_ms = MORNING + 366 * DAY
    write(run.folder.path / "changelog", 60, ahead, changed_ms=clock_ms)
    before = told(run)["counts"]
    compact_run(run.folder.path, {"1 minute": "20 minutes", "1 hour": "1 day"})
    assert told(run)["counts"] == before


@pytest.mark.long
def test_what_expired_by_half_goes_without_a_new_neighbour(
    copy: Callable[[Path, int], None], tmp_path: Path
) -> None:
    run, kept = begun(tmp_path / "out"), Cascade("1 minute", "1 hour", expire={"1 minute": 600_000})
    rows = []
    for number in range(600):
        copy(run.folder.path, number)
        if (number + 1) % NEIGHBOURS == 0:
            tidy(run.folder, kept)
            rows.append(len(told_minutes(run)))
    assert max(rows[-10:]) <= 2 * 11 * 4  # of at most four users, twice what is to stay at most
    assert len(told_minutes(run)) < len(expected(600)["counts"][MINUTE]) / 4


def told_minutes(run: Run) -> list[int]:
    counters = run.changelog.counters(MINUTE)
    return [int(each) for each in counters.start_ms]


def test_a_window_that_is_not_counted_in_can_not_expire(
    long_run: Callable[[Path, int], Run], tmp_path: Path
) -> None:
    run = long_run(tmp_path / "out", 2)
    with pytest.raises(ConfigurationError, match="5 minutes"):
        compact_run(run.folder.path, {"5 minutes": "1 day"})
    with pytest.raises(ConfigurationError, match="is no run's folder: nothing expires"):
        compact_run(run.folder.path / "changelog", {"1 minute": "1 day"})
