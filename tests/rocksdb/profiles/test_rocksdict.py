"""What rocksdict is given: objects that live, reads and writes as the profile says."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from rocksdict import Rdict

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.named import bounded_memory, profile_named
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.profiles.rocksdict import SharedMemory, shared_memory

if TYPE_CHECKING:
    from pathlib import Path

CAPACITY = "rocksdb.block-cache-capacity"


def opened(path: Path, profile: Profile, shared: SharedMemory | None = None) -> Rdict:
    options = profile.to_rocksdict(shared=shared)
    return Rdict(str(path), options, column_families={"default": options})


def filled(store: Rdict) -> Rdict:
    for number in range(20_000):
        store[number.to_bytes(8, "big")] = b"value" * 10
    store.flush()
    return store


def test_a_store_has_a_cache_of_the_profiles_size_and_none_if_that_is_zero(tmp_path: Path) -> None:
    with opened(tmp_path / "a", Profile(block_cache_bytes=5 << 20)) as store:
        assert store.property_int_value(CAPACITY) == 5 << 20
    with opened(tmp_path / "b", Profile(block_cache_bytes=0)) as store:
        assert not store.property_int_value(CAPACITY)


def test_stores_that_share_a_cache_fill_one_and_it_outlives_the_objects_it_came_in(
    tmp_path: Path,
) -> None:
    profile = bounded_memory(8 << 20, stores=2).changed(compression="none")
    shared = shared_memory(profile)
    stores = [filled(opened(tmp_path / name, profile, shared)) for name in "ab"]
    assert shared.cache is not None
    assert {store.property_int_value("rocksdb.block-cache-usage") for store in stores} == {
        shared.cache.get_usage()
    }
    assert {store.property_int_value(CAPACITY) for store in stores} == {8 << 20}
    del shared
    gc.collect()
    for store in stores:
        assert store[(7).to_bytes(8, "big")] == b"value" * 10
        store.close()


def test_memtables_take_their_room_from_the_shared_cache(tmp_path: Path) -> None:
    profile = bounded_memory(8 << 20, stores=1)
    shared = shared_memory(profile)
    with opened(tmp_path, profile, shared) as store:
        for number in range(5_000):
            store[number.to_bytes(8, "big")] = b"v" * 100
        assert shared.cache is not None
        assert shared.write_buffer_manager is not None
        assert 0 < shared.write_buffer_manager.get_usage() <= 5 << 20
        assert shared.cache.get_usage() > 0


def test_memtables_have_a_budget_of_their_own_if_the_cache_does_not_pay(tmp_path: Path) -> None:
    profile = Profile(write_buffer_manager_bytes=1 << 20)
    shared = shared_memory(profile)
    assert shared.write_buffer_manager is not None
    assert shared.write_buffer_manager.get_buffer_size() == 1 << 20
    with opened(tmp_path, profile, shared) as store:
        filled(store)
    assert shared_memory(Profile()).write_buffer_manager is None


def test_memtables_cannot_take_their_room_from_a_cache_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match="cache of 0 bytes"):
        Profile(
            block_cache_bytes=0, write_buffer_manager_bytes=1, write_buffer_manager_in_cache=True
        )


def test_statistics_are_kept_if_the_profile_says_so(tmp_path: Path) -> None:
    for statistics in (True, False):
        options = Profile(statistics=statistics).to_rocksdict()
        with Rdict(str(tmp_path / str(statistics)), options) as store:
            store[b"a"] = b"b"
            assert (options.get_statistics() is not None) is statistics


def test_writes_skip_the_log_if_the_profile_says_so(tmp_path: Path) -> None:
    for disable_wal in (True, False):
        profile = Profile(disable_wal=disable_wal)
        folder = tmp_path / str(disable_wal)
        with opened(folder, profile) as store:
            store.set_write_options(profile.write_options())
            store[b"key"] = b"value" * 100
            logged = sum(file.stat().st_size for file in folder.glob("*.log"))
            assert (logged == 0) is disable_wal


def test_reads_fill_the_cache_unless_the_profile_says_otherwise(tmp_path: Path) -> None:
    used = {}
    for fill_cache in (True, False):
        profile = Profile(fill_cache=fill_cache, block_cache_bytes=4 << 20, readahead_bytes=4096)
        shared = shared_memory(profile)
        with filled(opened(tmp_path / str(fill_cache), profile, shared)) as store:
            assert len(list(store.items(read_opt=profile.read_options()))) == 20_000
            assert shared.cache is not None
            used[fill_cache] = shared.cache.get_usage()
    assert used[True] > 10 * used[False]


def test_an_iterator_stays_in_its_prefix_if_the_profile_says_so(tmp_path: Path) -> None:
    profile = Profile(prefix_bytes=4, prefix_same_as_start=True)
    with opened(tmp_path, profile) as store:
        for key in (b"aaaa1", b"aaaa2", b"bbbb1"):
            store[key] = b""
        found = store.iter(profile.read_options())
        found.seek(b"aaaa")
        seen = []
        while found.valid():
            seen.append(found.key())
            found.next()
        found.status()
    assert seen == [b"aaaa1", b"aaaa2"]


@pytest.mark.parametrize("flushed", [False, True])
def test_iterating_finds_what_follows_a_key_whose_prefix_is_absent(
    tmp_path: Path, *, flushed: bool
) -> None:
    profile = profile_named("point_lookup")
    with opened(tmp_path, profile) as store:
        for key in (b"aaaa1", b"cccc1", b"dddd1"):
            store[key] = b""
        if flushed:
            store.flush()
        found = store.iter(profile.read_options())
        found.seek(b"bbbb")
        assert found.valid()
        assert found.key() == b"cccc1"
        found.next()
        assert found.key() == b"dddd1"
        plain = store.iter()
        plain.seek(b"bbbb")
        assert not plain.valid()  # which is why the profile has its own options


def test_the_tuned_reader_finds_what_is_there_and_nothing_else(tmp_path: Path) -> None:
    with filled(opened(tmp_path, profile_named("point_lookup"))) as store:
        store.compact_range(None, None)
        for number in range(0, 20_000, 97):
            key = number.to_bytes(8, "big")
            assert store.get(key) == b"value" * 10
            assert store.get(b"none" + key) is None


def test_what_is_unknown_is_left_as_rocksdb_has_it_and_said() -> None:
    why = {"block_cache_bytes": "not told", "write_buffer_size": "not told"}
    profile = Profile(block_cache_bytes=None, write_buffer_size=None, unknown=why)
    profile.to_rocksdict()
    assert profile.not_in_rocksdict().keys() == why.keys()
    unset = profile_named("spark").not_in_rocksdict()
    assert unset["info_log_level"].startswith("unknown (Spark takes the level")
