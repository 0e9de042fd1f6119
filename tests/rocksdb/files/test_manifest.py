from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Rdict

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.files.manifest import (
    _append_record,
    _records_in,
    drop_tables,
    listed_tables,
    torn_at,
)
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import key_of, make_store, small_options

if TYPE_CHECKING:
    from pathlib import Path


BLOCK, HEADER = 32 << 10, 7


def log_of(sizes: list[int]) -> tuple[bytes, list[int]]:
    """Return a log of records of these sizes as RocksDB writes it, and where each one ends."""
    log, ends = b"", [0]
    for size in sizes:
        left, first = size, True
        while first or left:
            room = BLOCK - len(log) % BLOCK
            if room < HEADER:
                log += bytes(room)
                room = BLOCK
            part = min(left, room - HEADER)
            left -= part
            kind = (1 if first else 4) if not left else (2 if first else 3)
            log += b"crc!" + part.to_bytes(2, "little") + bytes([kind]) + b"x" * part
            first = False
        ends.append(len(log))
    return log, ends


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "MANIFEST-000001"


SIZES = st.lists(st.integers(0, 200) | st.integers(32_700, 32_800) | st.just(70_000), max_size=8)


@given(sizes=SIZES, data=st.data())
def test_a_log_is_whole_where_a_record_ends_and_torn_anywhere_else(
    sizes: list[int], data: st.DataObject, path: Path
) -> None:
    log, ends = log_of(sizes)
    cut = data.draw(st.sampled_from(ends) | st.integers(0, len(log)))
    path.write_bytes(log[:cut])
    last = max(end for end in ends if end <= cut)
    found = torn_at(path)
    in_padding = cut - last <= BLOCK - last % BLOCK < HEADER
    if cut == last or in_padding:
        assert found is None or in_padding
    else:
        assert found is not None
        assert last <= found < cut


def test_room_that_was_set_aside_is_no_record(path: Path) -> None:
    log, _ = log_of([10, 20])
    path.write_bytes(log + bytes(4096))
    assert torn_at(path) is None


def test_the_manifest_of_a_store_is_whole_and_without_its_last_byte_it_is_not(
    tmp_path: Path,
) -> None:
    (manifest,) = make_store(tmp_path / "store").glob("MANIFEST-*")
    assert torn_at(manifest) is None
    manifest.write_bytes(manifest.read_bytes()[:-1])
    assert torn_at(manifest) is not None


@given(content=st.binary(max_size=200))
def test_any_bytes_are_walked_to_the_end(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    found = torn_at(path)
    assert found is None or 0 <= found <= len(content)


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
        _append_record(path, record)
    assert list(_records_in(path)) == written


def test_room_that_was_set_aside_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "MANIFEST-000001"
    path.touch()
    _append_record(path, b"first")
    path.write_bytes(path.read_bytes() + bytes(100_000))
    _append_record(path, b"second")
    assert list(_records_in(path)) == [b"first", b"second"]


@given(st.binary(max_size=300))
def test_bytes_that_are_no_edit_raise_an_error_of_our_own(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("edits") / "MANIFEST-000001"
    path.touch()
    _append_record(path, data)
    try:
        assert all(each.number >= 0 for each in listed_tables(path).values())
    except FormatError as error:
        assert "MANIFEST-000001" in error.message  # noqa: PT017 - either way
