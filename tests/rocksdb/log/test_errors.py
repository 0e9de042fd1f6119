"""Errors in a log: real lines that RocksDB wrote as things went wrong, kept and made anew."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyspark
import pytest

from kstoolkit.environment import find_java
from kstoolkit.rocksdb.log.storelog import count_errors, read_log
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.stores.discovery.discovering import discover
from tests.cli.commands import given
from tests.jdk import compiler
from tests.rocksdb.madestores import make_store
from tests.rocksdb.stalledstore import REAL_LOGS

SOURCE = Path(__file__).parent / "java" / "Wounded.java"
KEPT = {
    "rocksdb-10.1.3-damaged": {"corruption": 2},
    "rocksdb-7.9.2-damaged": {"corruption": 2},
    "rocksdb-10.1.3-removed": {"io error": 3, "other error": 1},
    "rocksdb-7.9.2-removed": {"io error": 1},
    "rocksdb-10.1.3-file-limit": {"io error": 2},
    "rocksdb-7.9.2-file-limit": {"io error": 1},
    "rocksdb-10.1.3-full": {"no space left": 2},
    "rocksdb-7.9.2-full": {"no space left": 3, "background error": 1},
    "rocksdb-5.18.4-error": {},
    "rocksdb-10.1.3": {},
}


@pytest.mark.parametrize(("name", "causes"), KEPT.items())
def test_each_line_of_level_error_is_an_error_by_its_cause(
    name: str, causes: dict[str, int]
) -> None:
    file = REAL_LOGS / f"{name}.log"
    marked = [each for each in file.read_text().splitlines() if "[ERROR]" in each]
    errors = read_log(file).errors()
    assert [each.text for each in errors] == [
        each.partition("] ")[2].partition("] ")[2].rstrip() for each in marked
    ]
    assert Counter(each.cause for each in errors) == causes
    assert count_errors(file) == len(marked)
    for each in errors:
        assert f"{each.written:%Y/%m/%d-%H:%M:%S.%f}" in marked[errors.index(each)]
        assert (each.at, each.level) == (None, "error")
        assert "zone=" in each.unknown["at"]


def test_with_a_zone_the_time_of_an_error_is_known() -> None:
    file = REAL_LOGS / "rocksdb-7.9.2-damaged.log"
    first = read_log(file, zone=UTC).errors()[0]
    assert first.at == datetime(2026, 11, 26, 14, 31, 58, 692432, UTC)
    assert repr(first).startswith("LoggedError(2026-11-26 14:31:58 UTC, corruption: Waiting after")


def test_a_warning_is_an_error_if_it_tells_of_one(tmp_path: Path) -> None:
    lines = [
        "[WARN] [db/error_handler.cc:396] Background IO error IO error: x, reason 2",
        "[WARN] [db/column_family.cc:1] [default] Stopping writes because we have 36 level-0 files",
        "[FATAL] [db/x.cc:1] [counts] Unexpected key",
        "[DEBUG] [db/x.cc:1] IO error: told at no level that counts",
    ]
    text = "\n".join(f"2026/11/26-14:31:58.692432 7f {each}" for each in lines)
    (tmp_path / "LOG").write_text(text)
    told = [(each.level, each.cause, each.column_family) for each in read_log(tmp_path).errors()]
    assert told == [("warn", "io error", None), ("fatal", "other error", "counts")]
    assert count_errors(tmp_path / "LOG") == 2


@pytest.fixture(scope="module")
def wounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with stores that something happened to, as RocksDB itself wrote them."""
    folder = tmp_path_factory.mktemp("wounded")
    jar = next((Path(pyspark.__file__).parent / "jars").glob("rocksdbjni-*.jar"))
    command = [compiler(), "-cp", str(jar), "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True)
    java = str(find_java().home / "bin" / "java")
    for how in ("damaged", "removed", "nothing"):
        place = folder / "0_0" / "rocksdb" / how
        place.parent.mkdir(parents=True, exist_ok=True)
        run = [java, "-cp", f"{jar}:{folder}", "Wounded", how, str(place)]
        subprocess.run(run, check=True, capture_output=True, timeout=120)
    return folder / "0_0" / "rocksdb"


def test_what_rocksdb_writes_now_is_read_counted_and_advised(wounded: Path) -> None:
    found = {each.store: each.errors for each in discover(wounded.parent.parent)}
    log = read_log(wounded / "damaged")
    marked = (wounded / "damaged" / "LOG").read_text().count("[ERROR]")
    assert found == {"damaged": marked, "nothing": 0}
    assert marked > 0
    assert {each.cause for each in log.errors()} == {"corruption"}
    assert {each.cause for each in read_log(wounded / "removed.LOG").errors()} >= {"io error"}
    with open_store(wounded / "damaged", partly=True) as store:
        first = store.advice()[0]
    assert first.rule == "errors in the log"
    assert {each.name: each.value for each in first.evidence}["corruption"] == marked
    with open_store(wounded / "nothing") as store:
        told = store.advice()
    assert "errors in the log" not in {*told.unjudged, *(each.rule for each in told)}


def test_commands_show_the_errors_first(wounded: Path) -> None:
    damaged = str(wounded / "damaged")
    lines = given("log", damaged).out.splitlines()
    assert lines[1].startswith(f"{len(read_log(damaged).errors())} error")
    assert "corruption (" in lines[1]
    assert " local  error " in lines[3]
    assert given("advice", damaged).out.startswith("errors in the log: RocksDB read bytes")
    listed = given("stores", str(wounded.parent.parent))
    assert "errors" in listed.out.splitlines()[0]
    assert "kstoolkit log FOLDER shows them" in listed.err


def test_what_happens_to_a_wal_is_a_warning_and_told_all_the_same(tmp_path: Path) -> None:
    program = "import sys; from rocksdict import Rdict; s = Rdict(sys.argv[1])\n"
    program += "for i in range(3000): s[i] = bytes(1000) + i.to_bytes(4, 'big') * 250\n"
    program += "s.flush()"

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        preexec_fn=limited,
        capture_output=True,
        check=False,
    )
    errors = read_log(tmp_path / "store").errors()
    assert {(each.level, each.cause) for each in errors} == {("warn", "io error")}
    assert all("File too large" in each.text or "Seen error" in each.text for each in errors)


def test_what_was_set_aside_is_named_and_read_if_asked_for(tmp_path: Path) -> None:
    aside = datetime(2026, 11, 26, 14, 40, tzinfo=UTC)
    old = tmp_path / f"LOG.old.{round(aside.timestamp() * 1e6)}"
    shutil.copy(REAL_LOGS / "rocksdb-7.9.2-damaged.log", old)
    (tmp_path / "LOG").touch()
    log = read_log(tmp_path)
    [file] = log.rotated
    assert (len(log.errors()), log.num_files, file.path) == (0, 1, str(old))
    assert (file.ended_at, log.began_at) == (aside, aside)
    asked = read_log(tmp_path, since=aside - timedelta(days=1))
    assert (len(asked.errors()), asked.num_files, len(asked.rotated)) == (2, 2, 0)
    assert len(read_log(tmp_path, since=aside + timedelta(seconds=1)).errors()) == 0
    assert len(read_log(tmp_path, since=aside - timedelta(days=1), zone=UTC).errors()) == 2
    assert len(read_log(tmp_path, since=aside - timedelta(minutes=1), zone=UTC).errors()) == 0
    answer = given("log", str(tmp_path))
    assert f"{old.name} (635 B, unknown to 2026-11-26 14:40:00 UTC)" in answer.err
    assert "2 errors: corruption (2)" in given("log", str(tmp_path), "--since", "2026-11-01").out
    made = make_store(tmp_path / "store")
    shutil.copy(old, made)
    found = json.loads(given("stores", str(made), "--json").out)
    assert (found["errors"], found["errors_before"]) == (0, 2)
    assert "2 errors of before stores were last opened" in given("stores", str(made)).err


def test_a_disk_that_is_full_is_told_by_whoever_looks(tmp_path: Path) -> None:
    """A real file system of 20 MiB, in memory of a process's own, that RocksDB fills."""
    program = """
import os, sys
from rocksdict import Options, Rdict
options = Options(raw_mode=True)
options.set_write_buffer_size(1 << 20)
store = Rdict("/mnt/store", options)
try:
    for at in range(40_000):
        store[b"%08d" % at] = os.urandom(1_000)
except Exception as error:
    print("refused" if "No space left" in str(error) else error)
from tests.cli.commands import given
for words in (["advice", "/mnt/store"], ["stores", "/mnt"], ["checkup", "/mnt"]):
    told = given(*words, "--scratch", sys.argv[1])
    print(words[0], told.code, "the disk was full" in told.out, "hold errors" in told.err)
"""
    mounted = 'mount -t tmpfs -o size=20m none /mnt && exec "$0" -c "$@"'
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-c", mounted]
    done = subprocess.run(
        [*alone, sys.executable, program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no disk of one's own: {done.stderr.strip()}")
    assert done.stdout.splitlines() == [
        "refused",
        "advice 0 True False",
        "stores 0 False True",
        "checkup 3 True False",
    ], done.stderr
