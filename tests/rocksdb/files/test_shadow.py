from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstoolkit.rocksdb.files.shadow import _clear_abandoned, new_scratch_folder
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import LIVE, appearance, make_store

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]

READER = """
import sys, time
from kstoolkit.rocksdb.opening import open_store
opened = open_store(sys.argv[1], scratch=sys.argv[2])
print("open", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def reader(made: Path, scratch: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open."""
    process = subprocess.Popen(
        [sys.executable, "-c", READER, str(made), str(scratch)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


@pytest.mark.kill
def test_what_a_killed_reader_left_goes_when_the_next_one_opens(
    reader: subprocess.Popen[str], made: Path, scratch: Path
) -> None:
    before = appearance(made)
    (left,) = scratch.iterdir()
    with open_store(made, scratch=scratch):
        assert left.is_dir(), "its owner lives"
        assert len(list(scratch.iterdir())) == 2
    assert {each.stat().st_nlink for each in made.iterdir()} == {1}
    assert {each.is_symlink() for each in left.glob("*.sst")} == {True}
    os.kill(reader.pid, signal.SIGKILL)
    reader.wait()
    assert left.is_dir(), "nobody was there to remove it"
    with open_store(made, scratch=scratch) as opened:
        assert not left.exists()
        assert dict(opened.iter_rows()) == LIVE
    assert not list(scratch.iterdir())
    assert appearance(made) == before


def test_a_folder_in_use_by_this_very_process_stays(scratch: Path) -> None:
    folder = new_scratch_folder(scratch)
    _clear_abandoned(scratch)
    assert folder.path.is_dir()
    folder.remove()
    assert not list(scratch.iterdir())


def abandoned(scratch: Path) -> Path:
    """Leave a folder as a killed owner does: with files in it, and its lock held by nobody."""
    folder = new_scratch_folder(scratch)
    (folder.path / "000012.sst").write_bytes(b"rows")
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "a").touch()
    os.close(folder.lock)
    return folder.path


def test_an_owner_that_died_before_it_locked_left_an_empty_folder_that_goes(scratch: Path) -> None:
    (scratch / "kstoolkit-shadow-empty").mkdir()
    (scratch / "kstoolkit-shadow-strange").mkdir()
    (scratch / "kstoolkit-shadow-strange" / "file").touch()
    (scratch / "other").mkdir()
    abandoned(scratch)
    _clear_abandoned(scratch)
    assert sorted(each.name for each in scratch.iterdir()) == ["kstoolkit-shadow-strange", "other"]


def test_each_purpose_clears_what_its_own_dead_left(scratch: Path) -> None:
    left = abandoned(scratch)
    folder = new_scratch_folder(scratch, prefix="kstoolkit-other-")
    assert folder.path.name.startswith("kstoolkit-other-")
    assert left.exists()
    os.close(folder.lock)
    _clear_abandoned(scratch)
    assert folder.path.exists()
    _clear_abandoned(scratch, prefix="kstoolkit-other-")
    assert not list(scratch.iterdir())


def test_a_link_to_a_folder_is_not_followed(scratch: Path, tmp_path: Path) -> None:
    left = abandoned(scratch)
    target = left.rename(tmp_path / "target")
    (scratch / "kstoolkit-shadow-link").symlink_to(target)
    _clear_abandoned(scratch)
    assert (target / "000012.sst").exists()
    assert (scratch / "kstoolkit-shadow-link").is_symlink()


@pytest.mark.skipif(os.getuid() != 0, reason="no disk of one's own: giving files away takes root")
def test_what_another_user_left_is_not_ours_to_remove(scratch: Path) -> None:
    left = abandoned(scratch)
    os.chown(left, 65534, 65534)
    _clear_abandoned(scratch)
    assert (left / "000012.sst").exists()


def test_cleaners_and_makers_at_the_same_time_end_well(scratch: Path) -> None:
    """Each maker keeps what it made, each abandoned folder goes, and nobody raises."""
    for _ in range(30):
        abandoned(scratch)
    made: list[Path] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(15):
                folder = new_scratch_folder(scratch)
                (folder.path / "mine").touch()
                _clear_abandoned(scratch)
                assert (folder.path / "mine").exists()
                made.append(folder.path)
                folder.remove()
        except BaseException as error:
            errors.append(error)
            raise

    workers = [threading.Thread(target=work) for _ in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert not errors
    assert len(set(made)) == 60
    assert not list(scratch.iterdir())


def test_a_forked_child_that_ends_leaves_the_parent_s_folder(made: Path, scratch: Path) -> None:
    """Else the first child of a pool to end would take the store from under its parent."""
    program = f"""
import os, sys
from kstoolkit.rocksdb.files.shadow import Shadow
from pathlib import Path
shadow = Shadow(Path({str(made)!r}), scratch={str(scratch)!r})
if os.fork() == 0:
    sys.exit()
os.wait()
print(len(list(shadow.path.glob("*.sst"))))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "4\n"
    assert not list(scratch.iterdir())


IDLE = """
import os, sys, time
from rocksdict import Rdict
import kstoolkit.rocksdb.files.shadow as shadow
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import small_options
shadow._IDLE_S, shadow._LOOK_S = 0.6, 0.1

def deleted():
    links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
    told = (os.readlink(each) for each in links if os.path.lexists(each))
    return sum(each.endswith(".sst (deleted)") for each in told)

writer = Rdict(sys.argv[1], small_options())
def write(value):
    for number in range(2_000):
        writer[b"%04d" % number] = value
    writer.flush()
write(b"old")
store = open_store(sys.argv[1], scratch=sys.argv[2])
onwards, later = store.iter_rows(), store.iter_rows(start=b"1000")
begun = [next(onwards), next(later), next(later)]
time.sleep(1.2)
print(begun, store.is_let_go)
write(b"new")
writer.compact_range(None, None)
store.get(b"0000")
print(deleted() > 0, store.is_let_go)
time.sleep(1.2)
print(deleted(), store.is_let_go, [each for each in os.listdir(sys.argv[2])])
rest = list(onwards)
print(len(rest), rest[0], rest[-1], len(list(later)), len(store.ssts()), store.get(b"0000"))
write(b"newer")
writer.compact_range(None, None)
time.sleep(1.2)
print(store.is_let_go, store.column_families, store.summary().num_entries)
writer.close()
store.close()
"""


def test_a_store_that_nobody_asks_lets_deleted_files_go_and_is_then_as_it_is_now(
    tmp_path: Path, scratch: Path
) -> None:
    """What is held shows in /proc; a row that was come to is not come to again."""
    done = subprocess.run(
        [sys.executable, "-c", IDLE, str(tmp_path / "store"), str(scratch)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "[(b'0000', b'old'), (b'1000', b'old'), (b'1001', b'old')] False",
        "True False",
        "0 True []",
        "1999 (b'0001', b'new') (b'1999', b'new') 998 1 b'new'",
        "True ('default',) 2000",
    ], done.stderr
    assert not list(scratch.iterdir())
