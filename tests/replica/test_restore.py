from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstoolkit.changelog import reader
from kstoolkit.changelog.compaction import compact
from kstoolkit.changelog.countsfile import _SCHEMA
from kstoolkit.errors import FormatError, InputError, OutputError
from kstoolkit.replica import catchup
from kstoolkit.replica.records import Mark
from kstoolkit.replica.replicafile import ReplicaState, segment_folder, writing_alone
from kstoolkit.replica.segments import DiskSegment
from kstoolkit.replica.windowstore import WindowStore
from tests.changelog.changelogs import HOUR, MINUTE, newest, read, write
from tests.replica.replicas import Told, cut_in_half, flip_a_byte, held, restored, segment, told

if TYPE_CHECKING:
    from collections.abc import Callable

SOME = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
DAMAGE: dict[str, Callable[[Path], None]] = {
    "a flipped byte": lambda folder: flip_a_byte(next(folder.glob("*.sst"))),
    "a lost file": lambda folder: next(folder.glob("*.sst")).unlink(),
    "half a MANIFEST": lambda folder: cut_in_half(next(folder.glob("MANIFEST-*"))),
    "no CURRENT": lambda folder: (folder / "CURRENT").unlink(),
    "half a CURRENT": lambda folder: cut_in_half(folder / "CURRENT"),
    "nothing at all": shutil.rmtree,
}


@SOME
@given(st.lists(told, min_size=1, max_size=4), st.data())
def test_a_replica_holds_the_latest_values_of_its_changelog(
    told_in_turn: list[Told], data: st.DataObject
) -> None:
    at_once = data.draw(st.sampled_from([1, 3, 4_000_000]), "records of a piece")
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_AT_ONCE", at_once)
        patch.setattr(catchup, "_BETWEEN_CHECKPOINTS", at_once)
        patch.setattr(catchup, "_MOST_OPEN", data.draw(st.sampled_from([1, 64])))
        root, path = Path(place, "changelog"), Path(place, "replica")
        for number, batch in enumerate(told_in_turn):
            write(root, number, batch)
            if data.draw(st.booleans(), "restored after this batch"):
                restored(root, path).close()
            if data.draw(st.booleans(), "compacted"):
                compact(root)
        with restored(root, path) as store:
            assert held(store) == newest(*told_in_turn) == read(root)


@pytest.mark.filterwarnings("ignore:The changelog .* has no windows of:UserWarning")
@SOME
@given(st.lists(told, min_size=1, max_size=3))
def test_memory_answers_as_disk_does(told_in_turn: list[Told]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "changelog")
        for number, batch in enumerate(told_in_turn):
            write(root, number, batch)
        with (
            restored(root, Path(place, "a")) as on_disk,
            restored(root, Path(place, "b"), memory_windows=["1 minute"]) as mixed,
            restored(root, Path(place, "c"), memory_windows=["1 minute", "1 hour"]) as in_memory,
        ):
            assert held(on_disk) == held(mixed) == held(in_memory) == newest(*told_in_turn)
            for length, rows in newest(*told_in_turn).items():
                for start, user, _ in rows:
                    asked = [s.get(user, window=length, at=start) for s in (on_disk, mixed)]
                    assert asked[0] == asked[1]
            assert not Path(place, "b", str(MINUTE)).exists()
            assert not list(Path(place, "c").glob("*/*"))


def test_a_level_that_moves_to_memory_leaves_the_disk(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    restored(tmp_path / "c", tmp_path / "r").close()
    with restored(tmp_path / "c", tmp_path / "r", memory_windows=["1 minute"]) as store:
        assert held(store) == TOLD
    assert not (tmp_path / "r" / str(MINUTE)).exists()
    with WindowStore.open(tmp_path / "r") as store:
        assert store.windows == ("1 hour",)


TOLD: Told = {
    MINUTE: {(start, f"user {n}", "edit"): n + 1 for n in range(40) for start in (0, MINUTE, HOUR)},
    HOUR: {(start, f"user {n}", a): n + 1 for n in range(40) for start in (0, HOUR) for a in "ab"},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_segment_is_set_aside_and_rebuilt_alone(tmp_path: Path, damage: str) -> None:
    root, path = tmp_path / "c", tmp_path / "r"
    write(root, 0, TOLD)
    restored(root, path).close()
    write(root, 1, {HOUR: {(0, "user 0", "c"): 7}})
    hurt = segment(path, MINUTE, HOUR)
    others = {each: _stamp(each) for each in path.glob("*/*") if each != hurt}
    del others[segment(path, HOUR)]  # the second batch goes in there
    DAMAGE[damage](hurt)
    with restored(root, path) as store:
        assert held(store) == newest(TOLD, {HOUR: {(0, "user 0", "c"): 7}})
    asides = sorted(each.name for each in path.glob("*/*.damaged-*"))
    gone = damage == "nothing at all"
    assert asides == ([] if gone else [f"{hurt.name}.damaged-1"])
    assert {each: _stamp(each) for each in others} == others


def test_a_segment_that_is_damaged_again_is_set_aside_beside_the_first(tmp_path: Path) -> None:
    root, path = tmp_path / "c", tmp_path / "r"
    write(root, 0, TOLD)
    for _ in range(2):
        restored(root, path).close()
        DAMAGE["a flipped byte"](segment(path, HOUR))
    restored(root, path).close()
    compact(root)
    with restored(root, path) as store:
        assert held(store) == TOLD
    assert len(list((path / str(HOUR)).glob("*.damaged-[12]"))) == 2


def test_a_segment_that_is_older_than_the_replica_says_is_rebuilt(tmp_path: Path) -> None:
    root, path = tmp_path / "c", tmp_path / "r"
    write(root, 0, TOLD)
    restored(root, path).close()
    state = ReplicaState.load(path)
    level = state.levels[HOUR]
    newer = Mark(0, 5, 1)
    write(root, 5, {HOUR: {(0, "new", "a"): 1}})
    behind = level.with_segments({0: newer})
    state.with_level(behind).save(path)  # as if somebody had put back a copy of the folder
    with restored(root, path) as store:
        assert held(store) == newest(TOLD, {HOUR: {(0, "new", "a"): 1}})
    assert segment(path, HOUR).with_name(f"{HOUR}.0.damaged-1").exists()


def test_a_restore_says_how_it_goes(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    calls: list[tuple[str, str, object]] = []

    class Listener:
        def on_start(self, what: str, *, total: int) -> None:
            calls.append(("start", what, total))

        def on_batch(self, what: str, *, records: int) -> None:
            calls.append(("batch", what, records))

        def on_end(self, what: str, *, records: int) -> None:
            calls.append(("end", what, records))

        def on_failure(self, what: str, *, error: Exception) -> None:
            calls.append(("failure", what, type(error)))

    restored(tmp_path / "c", tmp_path / "r", listener=Listener()).close()
    assert calls == [
        (event, what, total)
        for what, total in (("1 minute", 120), ("1 hour", 160))
        for event in ("start", "batch", "end")
    ]
    calls.clear()
    folder = write(tmp_path / "c", 1, {HOUR: {(0, "user 0", "a"): 99}})
    for part in folder.glob("part-*"):
        _spoil_counts(part)
    with pytest.raises((FormatError, OSError)):
        restored(tmp_path / "c", tmp_path / "r", listener=Listener())
    assert calls[-1][0] == "failure"


def test_what_a_broken_pass_wrote_is_not_taken_for_another_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_AT_ONCE", 1)  # piece by piece
    root = tmp_path / "c"
    write(root, 0, TOLD)
    later: Told = {HOUR: {(7 * HOUR, f"user {n}", "a"): 1 for n in range(40)}}
    with restored(root, tmp_path / "r") as store, store.follow(root) as standby:
        part = write(root, 1, later) / "part-00001.parquet"
        whole = part.read_bytes()
        _spoil_counts(part)
        with pytest.raises(FormatError, match="is damaged"):
            standby.step()
        part.write_bytes(whole)
        write(root, 2, {MINUTE: {(0, "user 0", "edit"): 99}})
        standby.step()
        assert set(ReplicaState.load(tmp_path / "r").levels[MINUTE].segments) == {0, HOUR}
        assert held(store) == newest(TOLD, later, {MINUTE: {(0, "user 0", "edit"): 99}})


def test_several_that_restore_at_once_leave_it_to_one_of_them(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    program = (
        "import sys\n"
        "from kstoolkit.errors import OutputError\n"
        "from kstoolkit.replica.windowstore import WindowStore\n"
        "sys.stdin.read()\n"
        "try:\n"
        "    WindowStore.restore(sys.argv[1], path=sys.argv[2], progress=False)\n"
        "except OutputError as error:\n"
        "    assert 'somebody else' in str(error), error\n"
    )
    several = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "c"), str(tmp_path / "r")],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    assert [each.poll() for each in several] == [None] * 3
    for each in several:
        assert each.stdin is not None
        each.stdin.close()
    assert [each.wait() for each in several] == [0, 0, 0]
    with WindowStore.open(tmp_path / "r") as store:
        assert held(store) == TOLD


def test_a_progress_bar_is_shown_if_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "c", 0, TOLD)
    WindowStore.restore(tmp_path / "c", path=tmp_path / "r", progress=True).close()
    shown = capsys.readouterr()
    assert "restoring 1 hour" in shown.err
    assert "records/s" in shown.err
    assert not shown.out


def test_a_folder_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letters.txt").write_text("dear")
    with pytest.raises(OutputError, match=r"letters\.txt"):
        restored(tmp_path / "c", tmp_path / "home")
    assert (tmp_path / "home" / "letters.txt").read_text() == "dear"


def test_the_replica_of_another_changelog_is_told(tmp_path: Path) -> None:
    write(tmp_path / "c", 7, TOLD)
    write(tmp_path / "other", 2, TOLD)
    restored(tmp_path / "c", tmp_path / "r").close()
    with pytest.raises(InputError, match="batch 7 of epoch 0"):
        restored(tmp_path / "other", tmp_path / "r")


def test_two_do_not_write_one_replica(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    restored(tmp_path / "c", tmp_path / "r").close()
    with writing_alone(tmp_path / "r"), pytest.raises(OutputError, match="somebody else"):
        restored(tmp_path / "c", tmp_path / "r")


def test_what_a_killed_restore_left_unnamed_is_not_counted_on(tmp_path: Path) -> None:
    root, path = tmp_path / "c", tmp_path / "r"
    write(root, 0, TOLD)
    restored(root, path).close()
    ReplicaState().save(path)
    stray = segment_folder(path, HOUR, 99 * HOUR)
    DiskSegment(stray, WindowStore.open(path)._options, writing=True).close()
    with restored(root, path) as store:
        assert held(store) == TOLD
    assert not stray.exists()


class StopsAt:
    """A listener that ends a restore as Ctrl-C does, when it comes to a level."""

    def __init__(self, level: str) -> None:
        self.level = level

    def on_start(self, what: str, *, total: int) -> None:
        del total
        if what == self.level:
            raise KeyboardInterrupt

    def on_batch(self, what: str, *, records: int) -> None: ...
    def on_end(self, what: str, *, records: int) -> None: ...
    def on_failure(self, what: str, *, error: Exception) -> None: ...


@pytest.mark.parametrize("level", ["1 minute", "1 hour"])
def test_a_restore_that_is_cut_short_between_levels_forgets_none(
    tmp_path: Path, level: str
) -> None:
    root, path = tmp_path / "c", tmp_path / "r"
    write(root, 0, TOLD)
    with pytest.raises(KeyboardInterrupt):
        restored(root, path, listener=StopsAt(level))
    with restored(root, path) as store:
        assert held(store) == TOLD
        assert store.windows == ("1 minute", "1 hour")


@pytest.mark.kill
def test_a_restore_that_is_killed_at_any_moment_is_finished_by_the_next(tmp_path: Path) -> None:
    root, path = tmp_path / "c", tmp_path / "r"
    random = Random(20_150_912)
    written: list[Told] = []
    program = (
        "import sys\n"
        "from kstoolkit.changelog import reader\n"
        "from kstoolkit.replica import catchup\n"
        "from kstoolkit.replica.windowstore import WindowStore\n"
        "reader._AT_ONCE = catchup._BETWEEN_CHECKPOINTS = 1_000\n"
        "catchup._MOST_OPEN = 4\n"
        "print('begun', flush=True)\n"
        "WindowStore.restore(sys.argv[1], path=sys.argv[2], progress=False)\n"
    )
    cut_short = 0
    for turn in range(8):
        written.append(_batch(random))
        write(root, turn, written[-1])
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(root), str(path)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        cut_short += process.wait() == -signal.SIGKILL
        process.stdout.close()
        if turn == 4:
            compact(root)
    assert cut_short >= 4, "restores ended before they were killed"
    with restored(root, path) as store:
        assert held(store) == newest(*written) == read(root)
    assert not list(path.glob("*/*.damaged-*")), "a kill tears nothing"


def _batch(random: Random) -> Told:
    users = [f"user {random.randrange(3_000)}" for _ in range(3_000)]
    return {
        MINUTE: {
            (random.randrange(300) * MINUTE, u, "edit"): random.randrange(1, 99) for u in users
        },
        HOUR: {
            (random.randrange(9) * HOUR, u, random.choice("abcdef")): random.randrange(1, 999)
            for u in users
        },
    }


def _spoil_counts(path: Path) -> None:
    """Overwrite the counts of a file of the changelog, and nothing else."""
    metadata = pq.read_metadata(path)
    data = bytearray(path.read_bytes())
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(_SCHEMA.get_field_index("count"))
        first = column.dictionary_page_offset or column.data_page_offset
        data[first : first + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)


def _stamp(folder: Path) -> dict[str, int]:
    """Return when the SST files of a segment were written."""
    return {each.name: each.stat().st_mtime_ns for each in folder.glob("*.sst")}
