"""Stores that are being written hard while they are looked into."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from rocksdict import Options, Rdict

from kstoolkit.rocksdb.faults import StoreLockedError, translated
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import appearance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMES = 10

WRITER = """
import itertools, sys
from pathlib import Path
from rocksdict import Options, Rdict, WriteOptions

path, wal = sys.argv[1], sys.argv[2] == "wal"
options = Options(raw_mode=True)
options.set_write_buffer_size(256 << 10)
options.set_target_file_size_base(256 << 10)
options.set_max_bytes_for_level_base(1 << 20)
store = Rdict(path, options)
how = WriteOptions()
how.disable_wal = not wal
store.set_write_options(how)
Path(path, "rocksdict-config.json").unlink()
for number in itertools.count():
    store[b"%012d" % number] = b"%01000d" % number
    store[b"latest"] = b"%d" % number
    if number == 5_000:
        print("ready", flush=True)
"""


class Owned(NamedTuple):
    """A store, and the process that writes it."""

    path: Path
    owner: subprocess.Popen[bytes]


@pytest.fixture(params=["wal", pytest.param("no wal", marks=pytest.mark.long)])
def busy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Owned]:
    """A store whose owner writes rows numbered upwards, flushing and compacting all the time."""
    path = tmp_path / "busy"
    owner = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), request.param], stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        try:
            yield Owned(path, owner)
            assert owner.poll() is None, "the owner has to be writing to the end"
        finally:
            owner.kill()


def test_a_store_that_is_written_hard_opens_each_time_and_shows_one_moment(
    busy: Owned, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    seen = [0]
    for _ in range(TIMES):
        with open_store(busy.path, scratch=scratch) as opened:
            assert opened.summary().num_entries > 0
            numbers = [int(key) for key, _ in opened.iter_rows(prefix=b"0")]
            latest = int(opened.get(b"latest") or -1)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) - 1 in {latest, latest + 1}
        seen.append(len(numbers))
    assert seen == sorted(seen)
    assert seen[-1] > seen[1]
    assert not list(scratch.iterdir())


def test_a_store_whose_owner_stands_still_in_the_middle_of_writing_is_left_as_it_is(
    busy: Owned, tmp_path: Path
) -> None:
    """Held up by a signal, the owner keeps its lock and its half-written files."""
    busy.owner.send_signal(signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, busy.owner.pid, os.WSTOPPED)
        before = appearance(busy.path)
        for scratch in (tmp_path, None):
            with open_store(busy.path, scratch=scratch) as opened:
                assert sum(1 for _ in opened.iter_rows()) > 0
        assert appearance(busy.path) == before
    finally:
        busy.owner.send_signal(signal.SIGCONT)


def test_a_second_writer_is_kept_out_by_the_lock_that_looking_in_does_not_need(busy: Owned) -> None:
    with pytest.raises(StoreLockedError, match="Another process"), translated(busy.path):
        Rdict(str(busy.path), Options(raw_mode=True))


def test_a_store_that_this_process_writes_stays_locked_whatever_is_asked_of_it(
    tmp_path: Path,
) -> None:
    """A process that closes LOCK, which it only looked at, would let go of its own lock on it."""
    path = tmp_path / "store"
    writer = Rdict(str(path), Options(raw_mode=True))
    writer[b"a"] = b"1"
    writer.flush()
    with open_store(path) as store:
        store.advice()
        store.memory()
    second = f"from rocksdict import Options, Rdict; Rdict({str(path)!r}, Options(raw_mode=True))"
    tried = subprocess.run(
        [sys.executable, "-c", second], capture_output=True, text=True, check=False
    )
    writer.close()
    assert "lock" in tried.stderr.lower()
