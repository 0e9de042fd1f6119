"""Stores that are newer than the library, encrypted as RocksDB encrypts, or of other kinds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rocksdict import AccessType, Options, Rdict

from kstoolkit.rocksdb.faults import EncryptedStoreError, NewerFormatError
from kstoolkit.rocksdb.files.ssts import as_count, read_footer, read_properties
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import LIVE, appearance, make_store, small_options

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT_7 = Path(__file__).parent / "files" / "format-7"
PREFIX_BYTES = 4096
BLOCK_BYTES = 32


def test_a_store_of_a_newer_rocksdb_is_refused_with_both_versions() -> None:
    before = appearance(FORMAT_7)
    with pytest.raises(NewerFormatError) as caught:
        open_store(FORMAT_7)
    assert "format_version 7, written by RocksDB 11.1.2; rocksdict 0." in caught.value.message
    assert "reads up to 6" in caught.value.message
    assert appearance(FORMAT_7) == before


def test_what_a_file_of_a_newer_rocksdb_says_of_itself_is_read_all_the_same() -> None:
    """No library is needed for that: the properties are where they were in format 6."""
    footer = read_footer(FORMAT_7 / "000009.sst")
    assert footer is not None
    assert footer.format_version == 7
    properties = read_properties(FORMAT_7 / "000009.sst")
    assert as_count(properties["rocksdb.num.entries"]) == 50


def encrypt(files: Iterable[Path]) -> None:
    """Encrypt as RocksDB's CTREncryptionProvider does with its ROT13 cipher, prefix and all.

    The prefix holds the first counter and the nonce; each block is xored with the encrypted counter
    and nonce (RocksDB's ``env/env_encryption.cc``).
    """
    for file in files:
        content = file.read_bytes()
        prefix = os.urandom(PREFIX_BYTES)
        first = int.from_bytes(prefix[:8], "little")
        nonce = prefix[BLOCK_BYTES + 8 : 2 * BLOCK_BYTES]
        stream = b"".join(
            ((first + block) % (1 << 64)).to_bytes(8, "little") + nonce
            for block in range(-(-len(content) // BLOCK_BYTES))
        )
        key = bytes((each + 13) % 256 for each in stream)
        file.write_bytes(prefix + bytes(a ^ b for a, b in zip(content, key, strict=False)))


@pytest.mark.parametrize("what", ["all but the LOG", "SST files alone", "all but CURRENT"])
def test_an_encrypted_store_is_said_to_be_encrypted(what: str, tmp_path: Path) -> None:
    """RocksDB encrypts whatever it writes but its LOG; engines of their own leave more out."""
    store = make_store(tmp_path / "store")
    plain = {"LOG"} | ({"CURRENT"} if what == "all but CURRENT" else set())
    names = "*.sst" if what == "SST files alone" else "*"
    encrypt(each for each in store.glob(names) if each.name not in plain)
    before = appearance(store)
    with pytest.raises(EncryptedStoreError, match="encrypted") as caught:
        open_store(store)
    assert "key" in str(caught.value.hint)
    assert appearance(store) == before


def test_values_in_blob_files_are_read_and_their_size_is_told(tmp_path: Path) -> None:
    options = Options(raw_mode=True)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(10)
    writer = Rdict(str(tmp_path / "store"), options)
    for number in range(100):
        writer[b"%03d" % number] = b"x" * 500
    writer.close()
    (blobs,) = (tmp_path / "store").glob("*.blob")
    with open_store(tmp_path / "store", scratch=tmp_path) as opened:
        assert opened.get(b"007") == b"x" * 500
        assert sum(1 for _ in opened.iter_rows()) == 100
        summary = opened.summary()
    assert summary.blob_bytes == blobs.stat().st_size > summary.sst_bytes


def test_a_value_that_may_expire_is_shown_with_the_time_that_stands_behind_it(
    tmp_path: Path,
) -> None:
    writer = Rdict(
        str(tmp_path / "store"), Options(raw_mode=True), access_type=AccessType.with_ttl(3600)
    )
    writer[b"a"] = b"1"
    writer.close()
    with open_store(tmp_path / "store") as opened:
        ((key, value),) = opened.iter_rows()
    assert (key, value[:-4]) == (b"a", b"1")
    assert int.from_bytes(value[-4:], "little") > 1_700_000_000


def test_a_hundred_column_families_open_together(tmp_path: Path) -> None:
    writer = Rdict(str(tmp_path / "store"), small_options())
    for number in range(100):
        family = writer.create_column_family(f"family {number}", small_options())
        family[b"a"] = b"%d" % number
        family.close()
    writer.close()
    with open_store(tmp_path / "store") as opened:
        assert len(opened.column_families) == 101
        assert repr(opened).endswith("101 column families)")
        assert opened.get(b"a", cf="family 77") == b"77"
        assert len(opened.ssts()) == opened.summary().num_files


NAMES = ["a b", "100%s", "new\nline", "#1", "ünï", 'quo"te', os.fsdecode(b"\xff\xfe")]


@pytest.mark.parametrize("name", NAMES)
def test_a_store_may_have_any_name(name: str, tmp_path: Path) -> None:
    store = tmp_path / name
    shutil.copytree(make_store(tmp_path / "made"), store)
    (tmp_path / "link").symlink_to(store)
    before = appearance(store)
    for path in (store, tmp_path / "link"):
        with open_store(path) as opened:
            assert dict(opened.iter_rows()) == LIVE
            assert opened.log().num_files == 1
            assert opened.options()
    assert appearance(store) == before


def test_the_newest_options_are_in_force_and_what_is_half_written_is_not_read(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path / "store")
    (newest,) = sorted(store.glob("OPTIONS-*"))[-1:]
    later = newest.read_text().replace("write_buffer_size=1048576", "write_buffer_size=777216")
    (store / "OPTIONS-1000000").write_text(later)
    (store / "OPTIONS-1000001.dbtmp").write_text("half")
    with open_store(store) as opened:
        profile = opened.profile()
    assert profile is not None
    assert profile.write_buffer_size == 777216
