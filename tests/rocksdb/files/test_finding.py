"""Where stores lie, and what is none of their files."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.rocksdb.faults import DamagedStoreError, NoStoreError, StoreResourceError
from kstoolkit.rocksdb.files.finding import _stores_below, check_is_store, irregular_files
from kstoolkit.rocksdb.files.shadow import Shadow
from tests.stores.streamsstores import START_MS, write_minutes, write_store

if TYPE_CHECKING:
    from pathlib import Path


def test_of_a_store_in_segments_its_own_folder_is_named(tmp_path: Path) -> None:
    minutes = write_minutes(tmp_path / "0_0" / "minutes", ["Anna"], segments=5)
    counts = write_store(tmp_path / "0_1" / "rocksdb" / "counts", default={})
    assert _stores_below(tmp_path) == [minutes, counts]
    with pytest.raises(NoStoreError) as caught:
        check_is_store(tmp_path)
    assert str(caught.value.hint) == (
        f"There is one in {minutes}, {counts}. kstoolkit stores {tmp_path} lists them all."
    )
    assert _stores_below(minutes)[0] == minutes / f"minutes.{START_MS}"


def test_pipes_sockets_and_folders_are_no_files_of_a_store(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"a": b"1"})
    assert irregular_files(path) == set()
    (path / "000900.sst").symlink_to(path / "absent")
    (path / "kept").mkdir()
    assert irregular_files(path) == set()
    os.mkfifo(path / "000901.log")
    (path / "MANIFEST-000902").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path / "000903.sst"))
        assert irregular_files(path) == {"000901.log", "MANIFEST-000902", "000903.sst"}
        with pytest.raises(DamagedStoreError, match=r"000901\.log, 000903\.sst, MANIFEST-000902"):
            check_is_store(path)


def test_a_pipe_that_came_since_is_not_taken_into_a_shadow(tmp_path: Path) -> None:
    path = write_store(tmp_path / "kv", default={b"a": b"1"})
    os.mkfifo(path / "000900.sst")
    os.mkfifo(path / "000901.log")
    shadow = Shadow(path, scratch=None)
    assert not {"000900.sst", "000901.log"} & {each.name for each in shadow.path.iterdir()}
    shadow.close()


def test_copies_that_take_more_than_half_of_what_is_free_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage: Any = shutil.disk_usage(tmp_path)._replace(free=12 << 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(
        StoreResourceError,
        match=r"KiB are to be copied to .*, where 12\.0 KiB are free: that is more than half\.",
    ):
        Shadow(write_store(tmp_path / "kv", default={b"a": b"1"}), scratch=None)
