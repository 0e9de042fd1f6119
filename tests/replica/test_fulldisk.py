"""A disk that is full ends a restore with a sentence, and the next one goes on from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from textwrap import dedent

import pytest

from tests.changelog.changelogs import HOUR, MINUTE, read, write
from tests.replica.replicas import Told, held, restored

RESTORE = """
    import sys
    from kstoolkit.errors import KstoolkitError
    from kstoolkit.replica.windowstore import WindowStore
    for _ in range(2):  # a second time in the same process: nothing of the first is in its way
        try:
            WindowStore.restore(sys.argv[1], path=sys.argv[2], progress=False).close()
        except KstoolkitError as error:
            print(type(error).__name__, str(error).replace("\\n", " "))
        else:
            print("done")
"""

TRIAL = """
    mount -t tmpfs -o size="$4" tmpfs "$2"
    "$PYTHON" -c "$RESTORE" "$1" "$2/r"
    mount -o remount,size=300m "$2"
    "$PYTHON" -c "$RESTORE" "$1" "$2/r"
    cp -r "$2/r" "$3"
"""

# A shell in which disks can be mounted that nobody else sees, whoever runs it.
MOUNTING = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")


def can_mount() -> bool:
    """Return whether this machine lets its users mount disks of their own."""
    if not shutil.which("unshare"):
        return False
    return not subprocess.run([*MOUNTING, "mount -t tmpfs tmpfs /mnt"], check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("size", ["8k", "300k"])
def test_a_full_disk_ends_a_restore_in_a_sentence_and_the_next_goes_on(
    tmp_path: Path, size: str
) -> None:
    if not can_mount():
        pytest.skip("no disk of one's own can be mounted")
    draw = Random(4)
    users = [f"{draw.getrandbits(256):x}" for _ in range(6_000)]
    told: Told = {
        length: {(n % 3 * HOUR, user, "edit"): 1 for n, user in enumerate(users)}
        for length in (MINUTE, HOUR)
    }
    write(tmp_path / "c", 0, told)
    (tmp_path / "disk").mkdir()
    places = (tmp_path / "c", tmp_path / "disk", tmp_path / "copy")
    answers = subprocess.run(
        [*MOUNTING, dedent(TRIAL), "sh", *places, size],
        env=os.environ | {"PYTHON": sys.executable, "RESTORE": dedent(RESTORE)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answers.returncode == 0, answers.stderr
    first, second, *later = answers.stdout.splitlines()
    for each in (first, second):
        assert each.startswith(("OutputError The replica", "StoreResourceError The machine"))
        assert "No space left" in each
    assert later == ["done", "done"]
    with restored(tmp_path / "c", tmp_path / "copy") as store:
        assert held(store) == read(tmp_path / "c")
