"""A store of one RocksDB that is damaged: its rows as far as they go, and a line that says so."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.stores.comparing.comparing import diff_stores
from kstoolkit.stores.growth.growth import growth
from kstoolkit.stores.rows.readable import LeftOutWarning
from kstoolkit.stores.rows.statestore import StateStore
from tests.cli.commands import given
from tests.rocksdb.madestores import appearance
from tests.stores.streamsstores import START_MS, int64, window_key

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [b"%05d" % at for at in range(3_000)]


@pytest.fixture(params=["counts", os.fsdecode(b"c\xff\n000009.sst")])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a store of three files of a thousand rows each, in folders of odd names too."""
    writer = Rdict(str(tmp_path / "written"), Options(raw_mode=True))
    for start in range(0, 3_000, 1_000):
        for at in range(start, start + 1_000):
            writer[KEYS[at]] = int64(at)
        writer.flush()
    writer.close()
    (tmp_path / "written" / "rocksdict-config.json").unlink()
    folder: Path = tmp_path / request.param
    (tmp_path / "written").rename(folder)
    return folder


def table(path: Path) -> Path:
    """Return the file with the second thousand of rows."""
    return sorted(path.glob("*.sst"))[1]


def tear(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 0xFF
    file.write_bytes(content)


def test_rows_that_are_left_are_shown_and_a_missing_file_is_said_once(path: Path) -> None:
    table(path).unlink()
    before = appearance(path)
    with pytest.warns(LeftOutWarning, match=r"goes: 1 of 3 SST files is missing") as said:
        store = kst.open_store(path)
    assert len(said) == 1
    with store:
        assert isinstance(store, StateStore)
        rows = {row.key: row.value for row in store.rows()}
        assert store.count(exact=True) == 2_000
        [left_out] = store.left_out
        assert left_out.path == path
        assert store.summary().damage == left_out.why
        assert not list(store.rows(key=KEYS[1_500]))
        assert [row.value for row in store.rows(key=KEYS[500])] == [500]
    assert rows == {key.decode(): at for at, key in enumerate(KEYS) if not 1_000 <= at < 2_000}
    assert appearance(path) == before


def test_rows_on_both_sides_of_a_bad_block_are_shown_and_said_at_their_end(path: Path) -> None:
    tear(table(path), 100)
    with kst.open_store(path, kind="key-value", key_serde="string", value_serde="long") as store:
        with pytest.warns(
            LeftOutWarning, match=r"1 block of \d+\.sst \(.*\) can't be read"
        ) as said:
            found = [row.value for row in store.rows()]
        assert len(said) == 1
        assert store.rows().count() == len(found)
        assert {*range(1_000), *range(2_000, 3_000)} < set(found)
        assert found == sorted(found)
        assert [row.value for row in store.rows(prefix="02")][-1] == 2_999


def test_a_key_in_a_bad_block_is_said_to_be_unreadable_and_not_absent(path: Path) -> None:
    tear(table(path), 100)
    with (
        kst.open_store(path, kind="key-value", key_serde="string", value_serde="long") as store,
        pytest.warns(LeftOutWarning, match="can't be read"),
    ):
        assert not list(store.rows(key=KEYS[1_000].decode()))


def test_what_was_read_and_not_said_is_said_when_the_store_is_closed(path: Path) -> None:
    tear(table(path), 100)
    store = kst.open_store(path)
    assert isinstance(store, StateStore)
    assert next(store.iter_rows(start=KEYS[1_000])) != (KEYS[1_000], int64(1_000))
    [left_out] = store.left_out
    with pytest.warns(LeftOutWarning, match=re.escape(left_out.why)):
        store.close()


def test_growth_and_a_difference_are_told_of_it(path: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    writer = Rdict(str(whole), Options(raw_mode=True))
    for at, key in enumerate(KEYS):
        writer[key] = int64(at)
    writer.close()
    table(path).unlink()
    with pytest.warns(LeftOutWarning, match="is missing"):
        store = kst.open_store(path)
    with store:
        assert "is missing" in growth(store).left_out[0]
        with kst.open_store(whole) as other:
            diff = diff_stores(store, other)
            assert (diff.added, diff.removed, diff.changed) == (1_000, 0, 0)


def test_the_command_shows_rows_remarks_on_stderr_and_succeeds(path: Path) -> None:
    table(path).unlink()
    told = given("rows", path, "--json")
    assert told.code == 0
    assert len([json.loads(line) for line in told.out.splitlines()]) == 2_000
    assert told.err.count("1 of 3 SST files is missing") == 1


def test_windows_of_one_rocksdb_are_sought_beside_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "w"
    writer = Rdict(str(path), Options(raw_mode=True))
    for user in KEYS:
        writer[window_key(user, START_MS)] = int64(1)
    writer.close()
    [file] = path.glob("*.sst")
    tear(file, file.stat().st_size // 2)
    with kst.open_store(path, kind="window", key_serde="string", value_serde="long") as store:
        with pytest.warns(LeftOutWarning, match="1 block"):
            found = {row.key for row in store.rows()}
        gone = [key for key in KEYS if key.decode() not in found]
        assert 0 < len(gone) < 300
        assert not list(store.rows(key=gone[0].decode()))
        assert len(list(store.rows(key=KEYS[0].decode()))) == 1
        assert len(list(store.rows(key=KEYS[-1].decode()))) == 1
