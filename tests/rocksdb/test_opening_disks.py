"""Stores on disks that nobody may write to, and scratch folders on disks without room."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from rocksdict import Rdict

from kstoolkit.rocksdb.faults import StoreResourceError
from tests.rocksdb.madestores import LIVE, appearance, key_of, make_store, small_options

ROOT = Path(__file__).parents[2]

# A shell in which disks can be mounted that nobody else sees, whoever runs it.
MOUNTING = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")


@pytest.fixture(scope="module")
def shell() -> tuple[str, ...]:
    try:
        done = subprocess.run([*MOUNTING, "mount -t tmpfs tmpfs /mnt"], check=False)
    except FileNotFoundError:
        pytest.skip("no disk of one's own: no unshare")
    if done.returncode:
        pytest.skip("no disk of one's own: mounting is not allowed")
    return MOUNTING


def run(shell: tuple[str, ...], mounting: str, program: str, *arguments: Path) -> str:
    """Run a program with disks mounted before; both get the arguments."""
    done = subprocess.run(
        [*shell, f'{mounting}\nexec "$0" -c "$1" "$2" "$3"', sys.executable, dedent(program)]
        + [str(each) for each in arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_store_on_a_disk_that_is_mounted_for_reading_alone_opens(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    made = make_store(tmp_path / "store")
    before = appearance(made)
    told = run(
        shell,
        'mount --bind "$2" "$2"; mount -o remount,ro,bind "$2"; ! touch "$2/a" 2> /dev/null',
        """
        import sys
        from kstoolkit.rocksdb.opening import open_store
        with open_store(sys.argv[1], scratch=sys.argv[2]) as opened:
            print(sum(1 for _ in opened.iter_rows()), opened.log().num_files)
        """,
        made,
        tmp_path,
    )
    assert told == f"{len(LIVE)} 1\n"
    assert appearance(made) == before


COPYING = """
import os, sys, warnings
import resource
from kstoolkit.rocksdb.opening import open_store
warnings.simplefilter("always")
warnings.showwarning = lambda told, *_, **__: print("said:", told)
resource.setrlimit(resource.RLIMIT_NOFILE, (%d, %d))
try:
    with open_store(sys.argv[1], scratch=sys.argv[2]) as opened:
        print(opened.summary().copied_bytes > 16 << 20, sum(1 for _ in opened.iter_rows()))
        print("may open", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
except Exception as error:
    print(type(error).__name__, error, os.listdir(sys.argv[2]))
print("may open", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
"""Opens a store where so many files may be open, by the soft limit and the hard one."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 60 SST files, 30 MiB together."""
    path = tmp_path_factory.mktemp("wide") / "store"
    store = Rdict(str(path), small_options())
    for each in range(60):
        store[key_of(each)] = os.urandom(512 << 10)
        store.flush()
    store.close()
    return path


def test_files_that_may_not_be_held_are_copied_which_is_said_or_refused_beyond_half_of_what_is_free(
    shell: tuple[str, ...], wide: Path, tmp_path: Path
) -> None:
    before = appearance(wide)
    told = {
        size: run(
            shell, f'mount -t tmpfs -o size={size} tmpfs "$3"', COPYING % (100, 100), wide, tmp_path
        )
        for size in ("80m", "50m")
    }
    large, small = (each.splitlines() for each in told.values())
    assert large[0].startswith(f"said: To read {wide}, 30.1 MiB are to be copied to {tmp_path}, ")
    assert "80.0 MiB are free" in large[0]
    assert large[1:] == ["True 60", "may open 100", "may open 100"]
    assert small[0].startswith(f"{StoreResourceError.__name__} To read {wide}, 30.1 MiB are to be ")
    assert small[0].endswith(" where 50.0 MiB are free: that is more than half.")
    assert small[1:] == [
        "Hint: Give scratch= (or TMPDIR) a folder with more room. []",
        "may open 100",
    ]
    assert appearance(wide) == before


def test_more_files_may_be_open_while_they_are_held_and_nothing_is_copied_to_a_small_disk(
    shell: tuple[str, ...], wide: Path, tmp_path: Path
) -> None:
    told = run(
        shell, 'mount -t tmpfs -o size=1m tmpfs "$3"', COPYING % (100, 1_000), wide, tmp_path
    )
    assert told.splitlines() == ["False 60", "may open 240", "may open 100"]


BESIDE_A_WRITER = """
import os, signal, subprocess, sys
from pathlib import Path
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import appearance
from tests.rocksdb.test_opening_live import WRITER

disk, scratch = map(Path, sys.argv[1:])
store = disk / "busy"
owner = subprocess.Popen([sys.executable, "-c", WRITER, store, "no wal"], stdout=subprocess.PIPE)
assert owner.stdout.readline() == b"ready\\n"
assert os.stat(disk).st_dev != os.stat(scratch).st_dev
deleted = 0
while not deleted:
    with open_store(store, scratch=scratch) as opened:
        assert opened.summary().copied_bytes < 1 << 20
        names = {each.name for each in opened.ssts()}
        for _ in range(20):
            numbers = [int(key) for key, _ in opened.iter_rows(prefix=b"0")]
            assert numbers == list(range(len(numbers)))
        deleted = len(names - set(os.listdir(store)))
        os.kill(owner.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, owner.pid, os.WSTOPPED)
        before, taken = appearance(store), os.statvfs(disk).f_bfree
        with open_store(store, scratch=scratch) as again:
            assert sum(1 for _ in again.iter_rows()) > len(numbers)
        assert appearance(store) == before
    freed = (os.statvfs(disk).f_bfree - taken) * os.statvfs(disk).f_frsize
    os.kill(owner.pid, signal.SIGCONT)
owner.kill()
print(deleted > 0, freed > 0, os.listdir(scratch))
"""


def test_on_another_disk_whose_writer_deletes_what_is_read_rows_stay_and_nothing_is_held_after(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    disk, scratch = tmp_path / "disk", tmp_path / "scratch"
    disk.mkdir()
    scratch.mkdir()
    told = run(shell, 'mount -t tmpfs -o size=500m tmpfs "$2"', BESIDE_A_WRITER, disk, scratch)
    assert told == "True True []\n"


def test_what_a_killed_reader_held_of_deleted_files_is_free_at_once(
    shell: tuple[str, ...], wide: Path, tmp_path: Path
) -> None:
    """Hard links would hold it until the next store is opened, on the store's own disk."""
    told = run(
        shell,
        'mount -t tmpfs -o size=100m tmpfs "$3"; cp -r "$2" "$3/store"',
        """
        import os, shutil, subprocess, sys
        from pathlib import Path
        reading = "import sys, time; from kstoolkit.rocksdb.opening import open_store; "
        reading += "store = open_store(sys.argv[1], scratch=sys.argv[2]); print(); time.sleep(99)"
        disk = Path(sys.argv[2])
        reader = subprocess.Popen(
            [sys.executable, "-c", reading, disk / "store", disk], stdout=subprocess.PIPE
        )
        reader.stdout.readline()
        free = lambda: os.statvfs(disk).f_bfree * os.statvfs(disk).f_frsize >> 20
        shutil.rmtree(disk / "store")
        print(free() < 75)
        reader.kill()
        reader.wait()
        (left,) = disk.iterdir()
        print(free() > 95, any(each.exists() for each in left.glob("*.sst")))
        """,
        wide,
        tmp_path,
    )
    assert told == "True\nTrue False\n"


def test_without_room_for_copies_the_hint_says_where_there_may_be_some(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    made = make_store(tmp_path / "store")
    before = appearance(made)
    (tmp_path / "small").mkdir()
    told = run(
        shell,
        'mount -t tmpfs -o size=16k tmpfs "$3"',
        """
        import os, sys
        from kstoolkit.rocksdb.opening import open_store
        try:
            open_store(sys.argv[1], scratch=sys.argv[2])
        except Exception as error:
            print(type(error).__name__, error, os.listdir(sys.argv[2]))
        """,
        made,
        tmp_path / "small",
    )
    assert told.startswith(f"{StoreResourceError.__name__} To read {made}, ")
    assert f"are to be copied to {tmp_path / 'small'}, where 16.0 KiB are free" in told
    assert "scratch= (or TMPDIR) a folder with more room" in told
    assert told.endswith(" []\n")
    assert appearance(made) == before
