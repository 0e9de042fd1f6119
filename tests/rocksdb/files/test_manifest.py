from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.rocksdb.files.manifest import torn_at
from tests.rocksdb.madestores import make_store

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
