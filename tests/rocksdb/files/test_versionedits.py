from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Rdict

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.files.logfile import append_record, records_in
from kstoolkit.rocksdb.files.versionedits import drop_tables, listed_tables
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import key_of, small_options

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store of two column families, whose files have come, moved and gone many times."""
    random, path = Random(3), tmp_path / "store"
    options = small_options()
    options.set_disable_auto_compactions(False)
    options.set_write_buffer_size(64 << 10)
    options.set_target_file_size_base(32 << 10)
    writer = Rdict(str(path), options)
    other, gone = (writer.create_column_family(each, options) for each in ("other", "gone"))
    for number in range(12_000):
        for family in (writer, other):
            family[key_of(random.randrange(3_000))] = b"%040d" % number
    gone[b"a"] = b"1"
    for each in (gone, other, writer):
        each.flush()
    gone.close()
    writer.drop_column_family("gone")
    other.close()
    writer.close()
    return path


def manifest(path: Path) -> Path:
    return path / (path / "CURRENT").read_text().strip()


def test_the_files_that_rocksdb_lists_are_listed(store: Path) -> None:
    with open_store(store) as opened:
        known = {each.name: (each.level, each.size_bytes) for each in opened.ssts()}
        families = {each.name: each.column_family for each in opened.ssts()}
    listed = listed_tables(manifest(store)).values()
    assert {each.name: (each.level, each.size_bytes) for each in listed} == known
    numbers = {each.family: families[each.name] for each in listed}
    assert numbers == {0: "default", 1: "other"}


def test_files_that_are_taken_off_the_list_are_listed_no_more_by_rocksdb_either(
    store: Path,
) -> None:
    listed = list(listed_tables(manifest(store)).values())
    dropped = listed[::2]
    drop_tables(manifest(store), dropped)
    kept = {each.name for each in listed} - {each.name for each in dropped}
    assert {each.name for each in listed_tables(manifest(store)).values()} == kept
    for each in dropped:
        (store / each.name).unlink()
    with open_store(store) as opened:
        assert {each.name for each in opened.ssts()} == kept


@pytest.mark.parametrize("size", [0, 1, 32_760, 32_761, 32_762, 32_768, 70_000])
def test_a_record_may_begin_and_end_anywhere_in_a_block(tmp_path: Path, size: int) -> None:
    path = tmp_path / "MANIFEST-000001"
    path.touch()
    written = [bytes([at]) * (size - at if at else size) for at in range(min(size, 9) + 1)]
    for record in written:
        append_record(path, record)
    assert list(records_in(path)) == written


def test_room_that_was_set_aside_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "MANIFEST-000001"
    path.touch()
    append_record(path, b"first")
    path.write_bytes(path.read_bytes() + bytes(100_000))
    append_record(path, b"second")
    assert list(records_in(path)) == [b"first", b"second"]


@given(st.binary(max_size=300))
def test_bytes_that_are_no_edit_raise_an_error_of_our_own(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("edits") / "MANIFEST-000001"
    path.touch()
    append_record(path, data)
    try:
        assert all(each.number >= 0 for each in listed_tables(path).values())
    except FormatError as error:
        assert "MANIFEST-000001" in error.message  # noqa: PT017 - either way
