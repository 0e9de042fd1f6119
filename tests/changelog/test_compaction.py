from __future__ import annotations

import fcntl
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent

import duckdb
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.changelog import changelog as documented
from kstoolkit.changelog.changelog import DONE, FOLD, Changelog
from kstoolkit.changelog.compaction import CompactionResult, compact
from kstoolkit.changelog.countsfile import CountsFile
from kstoolkit.errors import FormatError, InputError, OutputError
from tests.changelog.changelogs import (
    BUCKETS,
    HOUR,
    MINUTE,
    Rows,
    levels,
    newest,
    read,
    rows_of,
    write,
)

PEOPLE = ["Anna", "Bo", "Čeněk", "d", "e e", "名前", "g", "h"]
FOLDED = {DONE, FOLD, "fold-00000.parquet"}


def told(number: int) -> dict[int, Rows]:
    """Return what a batch tells: two more minutes, and the same hour, a little further."""
    minutes = {
        (MINUTE * (number + ahead), user, "read"): number + 1 for ahead in (0, 1) for user in PEOPLE
    }
    hour = {(0, user, "read"): 10 * (number + 1) for user in PEOPLE[: 4 + number % 4]}
    return {MINUTE: minutes, HOUR: hour}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A changelog of six batches."""
    path = tmp_path / "out" / "changelog"
    for number in range(6):
        write(path, number, told(number))
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def numbers(root: Path) -> list[int]:
    return [batch.number for batch in Changelog(root).batches]


@settings(max_examples=25)
@given(
    batches=st.lists(levels, min_size=1, max_size=7),
    first_of_next_epoch=st.integers(0, 7),
    compacted_after=st.integers(0, 7),
)
def test_counts_are_the_same_before_and_after(
    batches: list[dict[int, Rows]], first_of_next_epoch: int, compacted_after: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, batch in enumerate(batches):
            write(folder, number, batch, epoch=int(number >= first_of_next_epoch))
            if number == compacted_after:
                compact(folder)
        before = read(folder)
        assert before == newest(*batches)
        compact(folder)
        assert read(folder) == before


def test_the_fold_has_the_highest_number_that_it_covers_and_nothing_else_is_left(
    root: Path,
) -> None:
    compact(root)
    assert numbers(root) == [4, 5]
    folders = sorted(path.name for path in (root / "epoch=0").iterdir())
    assert folders == ["batch=4", "batch=5"]
    assert {path.name for path in (root / "epoch=0" / "batch=4").iterdir()} == FOLDED


def test_what_it_came_to_is_told(root: Path) -> None:
    files = [CountsFile.open(path) for b in Changelog(root).batches[:-1] for path in b.files("")]
    size_bytes = sum(file.path.stat().st_size for file in files)
    done = compact(root)
    fold = root / "epoch=0" / "batch=4" / "fold-00000.parquet"
    assert done == CompactionResult(
        batches_folded=5,
        records_before=sum(file.num_rows for file in files),
        records_after=sum(map(len, newest(*map(told, range(5))).values())),
        bytes_before=size_bytes,
        bytes_after=fold.stat().st_size,
    )
    assert re.fullmatch(
        r"CompactionResult\(5 batches folded: 106 → 55 records, .+ → .+\)", repr(done)
    )


def test_the_newest_batch_is_not_touched(root: Path) -> None:
    before = content(root / "epoch=0" / "batch=5")
    compact(root)
    assert content(root / "epoch=0" / "batch=5") == before


def test_batches_without_a_marker_are_not_touched(root: Path) -> None:
    unmarked = [write(root, number, told(9), marked=False) for number in (2, 6, 7)]
    before = [content(folder) for folder in unmarked]
    counts = read(root)
    assert compact(root).batches_folded == 4
    assert [content(folder) for folder in unmarked] == before
    assert read(root) == counts


def test_a_single_batch_beside_the_newest_stays_as_it_is(tmp_path: Path) -> None:
    for number in (0, 1):
        write(tmp_path, number, told(number))
    before = content(tmp_path)
    assert repr(compact(tmp_path)) == "CompactionResult(nothing to fold)"
    assert content(tmp_path) == {**before, ".compact.lock": b""}


def test_a_second_compaction_has_nothing_to_fold(root: Path) -> None:
    compact(root)
    before = content(root)
    assert compact(root).batches_folded == 0
    assert content(root) == before


def test_a_fold_is_folded_with_what_came_after_it(root: Path) -> None:
    compact(root)
    for number in (6, 7):
        write(root, number, told(number))
    assert compact(root).batches_folded == 3  # the fold of five, and two more
    assert numbers(root) == [6, 7]
    assert read(root) == newest(*map(told, range(8)))


def test_each_epoch_is_folded_for_itself(root: Path) -> None:
    for number in range(3):
        write(root, number, {HOUR: {(0, "Anna", "read"): 5 + number}}, epoch=1)
    assert compact(root).batches_folded == 6 + 2
    found = [(batch.epoch, batch.number) for batch in Changelog(root).batches]
    assert found == [(0, 5), (1, 1), (1, 2)]
    assert read(root)[HOUR][0, "Anna", "read"] == 7


def test_whoever_follows_by_number_goes_on_with_the_fold(root: Path) -> None:
    seen = rows_of(Changelog(root).counters(HOUR))
    write(root, 6, {HOUR: {(0, "Anna", "read"): 71, (0, "new", "read"): 1}})
    write(root, 7, {HOUR: {(0, "Anna", "read"): 72}})
    compact(root)
    later = [batch for batch in Changelog(root).batches if batch.number > 5]
    assert [batch.number for batch in later] == [6, 7]
    for batch in later:
        for path in batch.files(".parquet"):
            for part in CountsFile.open(path).read(HOUR):
                seen |= rows_of(part)
    assert seen == read(root)[HOUR]


def test_a_fold_tells_the_latest_clock_that_it_covers(root: Path) -> None:
    compact(root)
    fold = pq.read_table(root / "epoch=0" / "batch=4" / "fold-00000.parquet", partitioning=None)
    assert [each.timestamp() for each in pc.unique(fold["changed_at"]).to_pylist()] == [4.0]


def test_a_fold_has_a_row_group_for_each_level_of_each_bucket(root: Path) -> None:
    compact(root)
    file = CountsFile.open(root / "epoch=0" / "batch=4" / "fold-00000.parquet")
    assert (file.buckets, len(file.groups)) == (BUCKETS, len(set(file.groups)))
    assert {length for _, length in file.groups} == {MINUTE, HOUR}
    assert rows_of(Changelog(root).counters(HOUR, users={"Bo"})) == {(0, "Bo", "read"): 60}


def test_batches_without_rows_fold_to_one_without_rows(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, number, {})
    done = compact(tmp_path)
    assert (done.batches_folded, done.records_before, done.records_after) == (3, 0, 0)
    assert (numbers(tmp_path), read(tmp_path)) == ([2, 3], {})


def test_files_that_another_tool_wrote_are_folded_too(root: Path) -> None:
    before = read(root)
    for path in (root / "epoch=0" / "batch=2").glob("part-*"):
        pd.read_parquet(path).to_parquet(path)
    compact(root)
    assert read(root) == before


def test_duckdb_and_pandas_read_a_compacted_changelog_as_they_did(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(root)[HOUR]
    query = re.search(r"::\n\n(    SELECT.+?)(?:\n\n|\Z)", str(documented.__doc__), re.DOTALL)
    assert query is not None
    monkeypatch.chdir(root.parents[1])
    for _ in range(2):
        with duckdb.connect() as database:
            found = database.execute(dedent(query[1])).fetchall()
        assert {(user, action): n for _, user, action, n in found} == {
            (user, action): n for (_, user, action), n in expected.items()
        }
        frame = pd.read_parquet(root).astype({"batch": int}).sort_values("batch")
        hours = frame[frame["window_ms"] == HOUR].drop_duplicates(["user", "action"], keep="last")
        assert dict(zip(hours["user"], hours["count"], strict=True)) == {
            user: n for (_, user, _), n in expected.items()
        }
        compact(root)


KILLED_AT_EVERY_POINT = """
import os, shutil, signal, sys, time
import pandas  # which pyarrow would load in every child
from kstoolkit.changelog.compaction import compact

CHANGES = {"fcntl.flock", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"}

def forked(folder, work):
    child = os.fork()
    if child:
        return child
    work(folder)
    os._exit(0)

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def copied(name):
    return shutil.copytree(sys.argv[1], os.path.join(sys.argv[2], name))

def killed_before_change(number):
    def work(folder):
        seen = 0
        def watch(event, args):
            nonlocal seen
            if event in CHANGES or (event == "open" and folder in str(args[0])):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(watch)
        compact(folder)
    return work

number, code = 0, -9
while code == -9:
    number += 1
    code = ended(forked(copied(f"change-{number}"), killed_before_change(number)))
assert code == 0, code

began = time.monotonic()
assert ended(forked(copied("whole"), compact)) == 0
lasted = time.monotonic() - began
for tenth in range(10):
    child = forked(copied(f"tenth-{tenth}"), compact)
    time.sleep(lasted * tenth / 10)
    os.kill(child, signal.SIGKILL)
    ended(child)
print(number - 1)
"""


@pytest.mark.kill
@pytest.mark.parametrize("folded_before", [pytest.param(False, marks=pytest.mark.long), True])
def test_killed_at_any_point_it_loses_nothing_and_the_next_one_finishes(
    root: Path, tmp_path: Path, *, folded_before: bool
) -> None:
    if folded_before:
        compact(root)
        for number in (6, 7):
            write(root, number, told(number))
    expected = read(root)
    program = [sys.executable, "-c", KILLED_AT_EVERY_POINT, str(root), str(tmp_path / "killed")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    killed = sorted((tmp_path / "killed").iterdir())
    assert int(done.stdout) >= 20  # changes on disk, before each of which it was killed once
    assert len(killed) == int(done.stdout) + 1 + 1 + 10
    for left in killed:
        assert read(left) == expected, left.name
        compact(left)
        assert read(left) == expected, left.name
        *older, _ = sorted((left / "epoch=0").iterdir())
        assert [{path.name for path in folder.iterdir()} for folder in older] == [FOLDED]


COMPACTING = """
import sys, time
from pathlib import Path
from kstoolkit.changelog.compaction import compact

folded = 0
while not Path(sys.argv[2]).exists():
    folded += compact(sys.argv[1]).batches_folded
print(folded)
"""


def test_a_run_and_its_readers_go_on_while_it_works(root: Path, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    program = [sys.executable, "-c", COMPACTING, str(root), str(stop)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as compacting:
        try:
            batches = [told(number) for number in range(6)]
            for number in range(6, 30):
                batches.append(told(number))
                write(root, number, batches[-1])
                assert read(root) == newest(*batches)
                while number % 3 == 0 and len(numbers(root)) > 2 and compacting.poll() is None:
                    assert read(root) == newest(*batches)
        finally:
            stop.touch()
        folded, _ = compacting.communicate(timeout=60)
    assert int(folded) >= 24  # all but the newest, at the very least
    assert read(root) == newest(*batches)


def test_two_at_once_are_refused_with_a_sentence(root: Path) -> None:
    with (root / ".compact.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="Another compaction is at work on"):
            compact(root)
    assert compact(root).batches_folded == 5


WITHOUT_ROOM = """
import resource, sys
from kstoolkit.errors import OutputError
from kstoolkit.changelog.compaction import compact

resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
try:
    compact(sys.argv[1])
except OutputError as error:
    print(error)
"""


def test_where_nothing_can_be_written_the_counts_stay_as_they_are(root: Path) -> None:
    before = content(root)
    program = [sys.executable, "-c", WITHOUT_ROOM, str(root)]
    said = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert "can't be compacted" in said
    assert "too large" in said
    assert content(root) == {**before, ".compact.lock": b""}


def test_a_damaged_file_stops_it_before_anything_is_folded(root: Path) -> None:
    path = root / "epoch=0" / "batch=3" / "part-00001.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    before = content(root)
    with pytest.raises(FormatError, match="batch=3/part-00001"):
        compact(root)
    assert content(root) == {**before, ".compact.lock": b""}


def test_a_run_folder_will_do_and_a_folder_without_a_changelog_will_not(
    root: Path, tmp_path: Path
) -> None:
    assert compact(root.parent).batches_folded == 5
    with pytest.raises(InputError, match="No changelog in"):
        compact(tmp_path / "nowhere")
