from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from kstoolkit.errors import InputError
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.discovery.locks import Locks
from kstoolkit.stores.discovery.streamsplace import streams_place
from tests.rocksdb.madestores import appearance
from tests.stores.streamsstores import HOUR_MS, START_MS, int64, write_minutes, write_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.stores.discovery.foundstore import FoundStore, FoundStores

CLOSED = bytes(8)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory with the layouts of several releases."""
    root = tmp_path_factory.mktemp("state")
    app = root / "my-app"
    stamp = int64(START_MS)
    write_store(
        app / "0_1" / "rocksdb" / "counts",
        default={},
        keyValueWithTimestamp={b"Anna": stamp + bytes(8), b"Bo": stamp + bytes(8)},
        offsets={b"my-app-counts-changelog-1": int64(41), b"status": CLOSED},
    )
    write_minutes(app / "0_1" / "minutes", ["Anna", "Bo"])
    (app / "0_1" / ".checkpoint").write_text("0\n1\nmy-app-minutes-changelog 1 99\n")
    write_store(app / "global" / "rocksdb" / "config", default={b"a": b"1"})
    (app / "global" / ".checkpoint").write_text("0\n1\nconfig 0 12\n")
    write_store(app / "__second__" / "2_0" / "rocksdb" / "names", default={b"k": b"v"})
    write_store(root / "other-app" / "1_0" / "old" / "old-202311142300", default={})
    write_store(root / "lonely", default={b"x": b"y"})
    return root


def named(found: FoundStores) -> dict[str, FoundStore]:
    return {each.store: each for each in found}


def test_every_store_is_found_with_what_its_place_says(state: Path) -> None:
    found = named(discover(state))
    assert found.keys() == {"counts", "minutes", "config", "names", "old", "lonely"}
    counts, minutes = found["counts"], found["minutes"]
    assert (counts.engine, counts.application, counts.task) == ("kafka-streams", "my-app", "0_1")
    assert (counts.subtopology, counts.partition, len(counts.segments)) == (0, 1, 0)
    assert Path(counts.path) == state / "my-app" / "0_1" / "rocksdb" / "counts"
    assert Path(minutes.path) == state / "my-app" / "0_1" / "minutes"
    starts = [START_MS + number * HOUR_MS for number in range(3)]
    assert [each.start_ms for each in minutes.segments] == starts
    assert (found["config"].application, found["config"].partition) == ("my-app", None)
    assert (found["names"].topology, found["names"].task) == ("second", "second__2_0")
    assert found["old"].segments[0].start_ms == 1_700_002_800_000
    assert (found["lonely"].engine, found["lonely"].application) == ("rocksdb", None)


def test_files_tell_sizes_entries_and_formats_without_opening(state: Path) -> None:
    found = named(discover(state))
    counts = found["counts"]
    assert counts.column_families == ("default", "keyValueWithTimestamp", "offsets")
    assert counts.num_entries == 2  # the offsets are no rows of the application's
    assert found["minutes"].num_entries == 36
    assert len(counts.format_versions) == 1
    files = [each.stat() for each in Path(counts.path).iterdir()]
    assert counts.size_bytes == sum(each.st_size for each in files)
    assert counts.disk_bytes == sum(each.st_blocks * 512 for each in files)
    assert found["minutes"].size_bytes == sum(each.size_bytes for each in found["minutes"].segments)


def test_offsets_come_from_the_checkpoint_or_say_why_not(state: Path) -> None:
    found = named(discover(state))
    assert found["minutes"].offset == 99
    assert found["names"].offset is None
    assert "there is no checkpoint file" in found["names"].unknown["offset"]
    assert "does not name its changelog" in found["config"].unknown["offset"]


def test_only_a_look_tells_what_lies_in_rows(state: Path) -> None:
    blind, seen = named(discover(state)), named(discover(state, look=True))
    assert blind["counts"].kind == "timestamped-key-value"
    assert (blind["minutes"].kind, seen["minutes"].kind) == (None, "window")
    assert "look=True" in blind["minutes"].unknown["kind"]
    assert "kind" not in seen["minutes"].unknown
    assert (blind["counts"].closed, seen["counts"].closed) == (None, "cleanly")
    assert (blind["counts"].offset, seen["counts"].offset) == (None, 41)
    assert seen["names"].closed is None
    assert "before 4.3" in seen["names"].unknown["closed"]
    assert seen["minutes"].confidence is not None
    assert seen["minutes"].confidence > 0.9
    assert seen["minutes"].reasons


def test_nothing_is_touched(state: Path) -> None:
    before = appearance(state)
    discover(state, look=True)
    assert appearance(state) == before


def test_any_folder_above_or_below_may_be_asked(state: Path) -> None:
    task = state / "my-app" / "0_1"
    assert named(discover(task)).keys() == {"counts", "minutes"}
    [counts] = discover(task / "rocksdb" / "counts")
    assert counts.application == "my-app"
    [segment] = discover(task / "minutes" / f"minutes.{START_MS}")
    assert (segment.store, len(segment.segments)) == ("minutes", 1)
    assert Path(segment.path) == task / "minutes" / f"minutes.{START_MS}"


def test_there_is_nothing_to_find_where_nothing_is(tmp_path: Path) -> None:
    assert list(discover(tmp_path)) == []
    with pytest.raises(InputError, match="There is no folder"):
        discover(tmp_path / "absent")


def test_links_that_go_in_circles_end(state: Path, tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(state, target_is_directory=True)
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert len(discover(tmp_path)) == 0
    assert len(discover(tmp_path / "state")) == 6


def test_a_damaged_store_is_found_and_says_what_it_is(state: Path, tmp_path: Path) -> None:
    copy = tmp_path / "my-app" / "0_1"
    shutil.copytree(state / "my-app" / "0_1", copy)
    for path in (copy / "rocksdb" / "counts").glob("MANIFEST-*"):
        path.write_bytes(b"\xff" * 10)
    for path in (copy / "minutes").rglob("*.sst"):
        path.write_bytes(path.read_bytes()[:20])
    (copy / ".checkpoint").write_text("0\n7\nwhat\n")
    found = named(discover(tmp_path, look=True))
    assert "can't be opened" in found["counts"].unknown["closed"]
    assert found["minutes"].num_entries is None
    assert "does not tell" in found["minutes"].unknown["num_entries"]
    assert "checkpoint" in found["minutes"].unknown["offset"]


WRITER = """
import sys, time
from rocksdict import Options, Rdict
store = Rdict(sys.argv[1], Options(raw_mode=True))
store[b"a"] = b"1"
print("open", flush=True)
time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    path = tmp_path / "app" / "0_0" / "rocksdb" / "live"
    path.parent.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process, path
    process.kill()
    process.communicate()


def test_a_store_is_locked_while_a_process_has_it_open(
    writer: tuple[subprocess.Popen[str], Path],
) -> None:
    process, path = writer
    assert [each.is_locked for each in discover(path)] == [True]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [each.is_locked for each in discover(path)] == [False]


def test_asking_about_a_lock_does_not_drop_ones_own(tmp_path: Path) -> None:
    store = Rdict(str(tmp_path / "mine"), Options(raw_mode=True))
    with Locks() as locks:
        assert [locks.is_locked(tmp_path / "mine") for _ in range(3)] == [True] * 3
    store.close()
    with Locks() as locks:
        assert locks.is_locked(tmp_path / "mine") is False


def test_a_folder_that_may_not_be_read_is_named(state: Path, tmp_path: Path) -> None:
    """Asked by a user whom it is closed to: root may read everything."""
    shutil.copytree(state / "my-app", tmp_path / "my-app")
    closed = tmp_path / "my-app" / "0_1" / "rocksdb"
    closed.chmod(0)
    script = f"""
import os
from pathlib import Path
from kstoolkit.stores.discovery.walking import Walk
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
walk = Walk()
found = [path.name for path, _ in walk.below(Path({str(tmp_path / "my-app")!r}))]
assert "counts" not in found and "config" in found, found
print(walk.unreadable)
"""
    for folder in (tmp_path, *tmp_path.parents[:2]):  # pytest's own, which are closed to others
        folder.chmod(0o755)
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    closed.chmod(0o755)
    assert told.returncode == 0, told.stderr
    assert "Permission denied" in told.stdout


@pytest.mark.parametrize(
    "path",
    ["/a/rocksdb/x", "/a/0_x/rocksdb/x", "/a/0_0/x/y.1", "/a/0_0/x/x.y", "/x.1", "/"],
)
def test_other_places_are_nobodys(path: str) -> None:
    assert streams_place(Path(path)) is None
