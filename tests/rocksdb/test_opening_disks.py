"""Stores on disks that nobody may write to, and scratch folders on disks without room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from kstoolkit.rocksdb.faults import StoreResourceError
from tests.rocksdb.madestores import LIVE, appearance, make_store

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


def test_without_room_for_copies_the_hint_says_where_none_are_needed(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    made = make_store(tmp_path / "store")
    before = appearance(made)
    (tmp_path / "small").mkdir()
    told = run(
        shell,
        'mount -t tmpfs -o size=100k tmpfs "$3"',
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
    assert told.startswith(f"{StoreResourceError.__name__} No room in {tmp_path / 'small'} to copy")
    assert "scratch= (or TMPDIR) a folder on the store's own disk" in told
    assert told.endswith(" []\n")
    assert appearance(made) == before
