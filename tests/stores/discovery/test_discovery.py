from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from kstoolkit.errors import InputError
from kstoolkit.rocksdb.faults import DamagedStoreError
from kstoolkit.rocksdb.files.place import Locks
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.discovery.places import streams_place, streams_store
from kstoolkit.stores.opening import open_store
from tests.rocksdb.madestores import appearance
from tests.stores.strangers import open_to_others
from tests.stores.streamsstores import HOUR_MS, START_MS, int64, write_minutes, write_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.stores.discovery.discovering import FoundStores
    from kstoolkit.stores.discovery.found import FoundStore

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


def test_the_changelog_of_a_store_that_is_called_alike_is_not_taken_for_it(tmp_path: Path) -> None:
    task = tmp_path / "shop" / "0_0"
    for store in ("counts", "user-counts"):
        write_store(
            task / "rocksdb" / store,
            default={b"a": b"1"},
            offsets={b"shop-user-counts-changelog-0": int64(7), b"in-0": int64(3)},
        )
    (task / ".checkpoint").write_text("0\n1\nshop-user-counts-changelog 0 7\n")
    for look in (False, True):
        found = named(discover(tmp_path, look=look))
        assert (found["user-counts"].offset, found["counts"].offset) == (7, None)
    (tmp_path / "shop").rename(tmp_path / "a copy")
    found = named(discover(tmp_path))
    assert found["user-counts"].offset == 7


def test_the_changelog_of_a_named_topology_is_known_by_its_name(tmp_path: Path) -> None:
    for topology, offset in (("north", 5), ("south", 6)):
        task = tmp_path / "shop" / f"__{topology}__" / "0_1"
        write_minutes(task / "minutes", ["Anna"], segments=1)
        write_store(task / "rocksdb" / "counts", default={b"a": b"1"})
        (task / ".checkpoint").write_text(
            f"0\n2\nshop-{topology}-minutes-changelog 1 {offset}\n"
            f"shop-{topology}-counts-changelog 1 {offset}0\n"
        )
    found = discover(tmp_path)
    assert {(each.topology, each.store, each.offset) for each in found} == {
        ("north", "minutes", 5),
        ("north", "counts", 50),
        ("south", "minutes", 6),
        ("south", "counts", 60),
    }
    assert {each.task for each in found} == {"north__0_1", "south__0_1"}
    assert {each.application for each in found} == {"shop"}


def test_a_store_that_is_being_upgraded_tells_what_is_not_rewritten(tmp_path: Path) -> None:
    task = tmp_path / "shop" / "0_0"
    stamp = int64(START_MS)
    old = {b"a": int64(1), b"b": int64(2)}
    new = {b"b": stamp + int64(3), b"c": stamp + int64(4), b"d": stamp + int64(5)}
    write_store(task / "rocksdb" / "counts", default=old, keyValueWithTimestamp=new)
    write_store(
        task / "rocksdb" / "names",
        default={},
        keyValueWithTimestamp=new,
        keyValueWithTimestampAndHeaders={b"c": b"\x00" + stamp + b"v"},
        offsets={b"status": CLOSED},
    )
    write_store(task / "rocksdb" / "plain", default=old)
    for look in (False, True):
        found = named(discover(tmp_path, look=look))
        told = {name: (each.num_entries, each.num_not_rewritten) for name, each in found.items()}
        assert told == {"counts": (5, 2), "names": (4, 3), "plain": (2, 0)}
        assert found["counts"].kind == "timestamped-key-value"
        assert found["names"].kind == "headers-key-value"


def test_what_exactly_once_left_is_told_from_what_has_its_offsets_inside(tmp_path: Path) -> None:
    """Killed under exactly-once, a task has rows and no checkpoint."""
    left = tmp_path / "shop" / "0_0"
    write_store(left / "rocksdb" / "counts", default={b"a": b"1"})
    (left / ".checkpoint.tmp").write_text("0\n1\n")
    (left / "counts.position").write_text("0\n1\nin 0 5\n")
    newer = tmp_path / "shop" / "0_1"
    write_store(newer / "rocksdb" / "counts", default={b"a": b"1"}, offsets={b"status": int64(1)})
    first, second = discover(tmp_path)
    assert "under exactly-once" in first.unknown["offset"]
    assert "was not closed cleanly" in first.unknown["closed"]
    assert "look=True" not in first.unknown["offset"] + first.unknown["closed"]
    assert "look=True" in second.unknown["offset"]
    assert [each.closed for each in discover(tmp_path, look=True)] == [None, "not cleanly"]


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


def test_a_search_that_is_ended_says_so_and_tells_nothing_by_halves(state: Path) -> None:
    whole = discover(state).to_dicts()
    lengths = set()
    for most in (0, 4, 9, 16, 10_000):
        answers = chain(repeat(False, most), repeat(True))
        found = discover(state, is_stopped=answers.__next__)
        lengths.add(len(found))
        assert found.to_dicts() == whole[: len(found)]
        assert bool(found.unreadable) == (len(found) < len(whole))
    assert {0, len(whole)} < lengths


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


def test_segments_that_go_while_they_are_looked_at_are_left_out(tmp_path: Path) -> None:
    minutes = write_minutes(tmp_path / "shop" / "0_0" / "minutes", ["Anna"], segments=2)
    places = [(each, streams_place(each)) for each in sorted(minutes.iterdir())]
    gone, _ = places[0]
    shutil.rmtree(gone)
    found = streams_store([(each, place) for each, place in places if place], tmp_path)
    assert [each.start_ms for each in found.segments] == [START_MS + HOUR_MS]
    assert (found.num_entries, found.path) == (6, str(minutes))


def test_a_segment_that_was_set_aside_is_no_segment_of_its_replica(tmp_path: Path) -> None:
    level = tmp_path / "replica" / "60000"
    aside = write_store(level / "60000.0.damaged-1", default={b"a": b"1"})
    (tmp_path / "replica" / "replica.json").write_text("{}")
    [found] = discover(aside)
    assert (found.engine, found.num_entries) == ("rocksdb", 1)
    with open_store(aside) as store:
        assert store.rows().count() == 1
    [level_found] = discover(tmp_path)
    assert (level_found.store, level_found.size_bytes) == ("1 minute", 0)


@pytest.mark.parametrize("name", ["²", "६०"])
def test_a_folder_that_only_looks_like_a_length_is_no_level(tmp_path: Path, name: str) -> None:
    (tmp_path / "replica" / name).mkdir(parents=True)
    (tmp_path / "replica" / "replica.json").write_text("{}")
    assert list(discover(tmp_path)) == []
    assert list(discover(tmp_path / "replica" / name)) == []


def test_folders_that_may_not_be_read_are_named_wherever_one_begins(tmp_path: Path) -> None:
    """Asked by a user whom it is closed to: root may read everything."""
    replica = tmp_path / "replica"
    replica.mkdir()
    (replica / "replica.json").write_text("{}")
    (replica / "60000").mkdir()
    write_store(tmp_path / "kv", default={b"a": b"1"})
    script = f"""
import os
from pathlib import Path
from kstoolkit.rocksdb.faults import DamagedStoreError
from kstoolkit.stores.discovery.discovering import discover
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
found = discover(Path({str(tmp_path)!r}))
assert not found, found
print(found.unreadable)
for path in ({str(replica / "60000")!r}, {str(tmp_path / "kv")!r}):
    found = discover(Path(path))
    assert not found and list(found.unreadable) == [path], (found, found.unreadable)
"""
    open_to_others(tmp_path)
    (replica / "60000").chmod(0)
    (tmp_path / "kv").chmod(0)
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    (replica / "60000").chmod(0o755)
    (tmp_path / "kv").chmod(0o755)
    assert told.returncode == 0, told.stderr
    assert "replica/60000': 'Permission denied'" in told.stdout


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
    for path in (copy / "rocksdb" / "counts").glob("*.sst"):
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
    with closing(Locks()) as locks:
        assert [locks.is_locked(tmp_path / "mine") for _ in range(3)] == [True] * 3
    store.close()
    with closing(Locks()) as locks:
        assert locks.is_locked(tmp_path / "mine") is False


def test_a_folder_that_may_not_be_read_is_named(state: Path, tmp_path: Path) -> None:
    """Asked by a user whom it is closed to: root may read everything."""
    shutil.copytree(state / "my-app", tmp_path / "my-app")
    closed = tmp_path / "my-app" / "0_1" / "rocksdb"
    closed.chmod(0)
    script = f"""
import os
from pathlib import Path
from kstoolkit.stores.discovery.discovering import _FolderWalk
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
walk = _FolderWalk()
found = [path.name for path, _ in walk.below(Path({str(tmp_path / "my-app")!r}))]
assert "counts" not in found and "config" in found, found
print(walk.unreadable)
"""
    open_to_others(tmp_path)
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    closed.chmod(0o755)
    assert told.returncode == 0, told.stderr
    assert "Permission denied" in told.stdout


@pytest.mark.parametrize(
    "path", ["/a/rocksdb/x", "/a/0_x/rocksdb/x", "/a/0_0/x/y.z", "/a/0_0/x/x.y", "/x", "/"]
)
def test_other_places_are_nobodys(path: str) -> None:
    assert streams_place(Path(path)) is None


@pytest.mark.parametrize("name", ["x.1", "x.5000", f"x.{START_MS + 1}", "x-209913012300"])
def test_a_number_in_a_name_is_not_always_a_segments_start(tmp_path: Path, name: str) -> None:
    write_store(tmp_path / "any" / name, default={b"a": b"1"})
    [found] = discover(tmp_path)
    assert (found.engine, found.store, len(found.segments)) == ("rocksdb", name, 0)


@pytest.mark.parametrize("look", [False, True])
def test_a_copy_of_a_store_is_known_by_its_segments(tmp_path: Path, *, look: bool) -> None:
    minutes = write_minutes(tmp_path / "shop" / "0_0" / "minutes", ["Anna"])
    copy = tmp_path / "copies" / "seg"
    shutil.copytree(minutes, copy)
    [found] = discover(copy.parent, look=look)
    assert (found.engine, found.store, len(found.segments)) == ("kafka-streams", "minutes", 3)
    assert Path(found.path) == copy
    assert found.application is None
    if look:
        assert found.kind == "window"
        assert found.confidence is not None
        assert 0.5 < found.confidence < 0.9
        assert any("lie in 'seg'" in each for each in found.reasons)
    [alone] = discover(copy / f"minutes.{START_MS}", look=look)
    assert (alone.store, len(alone.segments), alone.path) == (
        "minutes",
        1,
        str(copy / f"minutes.{START_MS}"),
    )


def test_a_link_to_a_store_is_the_store(state: Path, tmp_path: Path) -> None:
    task = state / "my-app" / "0_1"
    for folder in ("minutes", "rocksdb/counts"):
        link = tmp_path / f"to-{folder[:3]}"
        link.symlink_to(task / folder, target_is_directory=True)
        [found] = discover(link)
        assert (found.application, found.task) == ("my-app", "0_1")
        assert Path(found.path) == link
        assert found.store == Path(folder).name


def test_segments_tell_when_their_rows_end(state: Path) -> None:
    ends = [each.end_ms for each in named(discover(state))["minutes"].segments]
    assert ends == [START_MS + number * HOUR_MS for number in (1, 2, 3)]
    [lonely] = named(discover(state))["old"].segments
    assert lonely.end_ms is None
    assert "at least two segments" in lonely.unknown["end_ms"]


def test_keys_are_estimated_without_what_tombstones_stand_for(tmp_path: Path) -> None:
    path = tmp_path / "kv"
    store = Rdict(str(path), Options(raw_mode=True))
    for number in range(100):
        store[b"%d" % number] = b"1"
    store.flush()
    for number in range(40):
        del store[b"%d" % number]
    store.flush()
    store.close()
    [found] = discover(path)
    assert (found.num_entries, found.num_deletions, found.estimated_keys) == (140, 40, 60)


def test_rows_that_lie_in_the_wal_alone_are_not_counted_as_none(tmp_path: Path) -> None:
    path = tmp_path / "kv"
    store = Rdict(str(path), Options(raw_mode=True))
    for number in range(1000):
        store[b"%d" % number] = b"1"
    store.flush_wal(sync=True)
    [found] = discover(path)
    assert found.wal_bytes > 1000
    assert (found.num_entries, found.estimated_keys) == (None, None)
    assert "all may be in its WAL" in found.unknown["num_entries"]
    [seen] = discover(path, look=True)
    assert seen.estimated_keys == 1000
    store.close()


@pytest.mark.parametrize("name", ["CURRENT", "LOCK", "000777.sst", "OPTIONS-999999"])
def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path, name: str) -> None:
    path = write_store(tmp_path / "shop" / "0_0" / "rocksdb" / "kv", default={b"a": b"1"})
    (path / name).unlink(missing_ok=True)
    os.mkfifo(path / name)
    os.mkfifo(path.parents[1] / ".checkpoint")
    [found] = discover(tmp_path, look=True)
    assert "none: .checkpoint" in found.unknown["offset"]
    if name == "LOCK":
        assert found.kind == "key-value"
        return
    assert f"{name} is no file, but a pipe" in found.unknown["kind"]
    with pytest.raises(DamagedStoreError, match="is no file, but a pipe"):
        open_store(path)
