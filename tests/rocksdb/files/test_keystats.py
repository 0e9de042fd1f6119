from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rocksdict import Options, Rdict

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import EVERY, LIVE, NUM_ROWS, make_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.rocksdb.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(make_store(tmp_path_factory.mktemp("keys") / "store")) as opened:
        yield opened


def test_all_rows_of_a_small_store_are_read(store: Store) -> None:
    stats = store.key_stats()
    assert stats.is_complete
    assert stats.num_sampled == len(LIVE)
    assert stats.key_sizes is not None
    assert stats.value_sizes is not None
    assert stats.key_sizes.min_bytes == stats.key_sizes.max_bytes == len(b"user-000000")
    assert stats.value_sizes.mean_bytes == 32
    assert [(each.prefix, each.share) for each in stats.hot_prefixes] == [(b"user", 1)]
    assert stats.num_deletions == NUM_ROWS // EVERY
    assert stats.densest_file_tombstone_density == 1
    assert stats.densest_file == max(store.ssts(), key=lambda each: each.num_deletions).name
    assert f"all {len(LIVE):,} rows" in repr(stats)


@pytest.mark.parametrize("sample", [1, 10, 63, 64, 65, 500, len(LIVE) - 1])
def test_a_sample_is_no_larger_than_asked_and_says_that_it_is_one(
    sample: int, store: Store
) -> None:
    stats = store.key_stats(sample)
    assert not stats.is_complete
    assert 0 < stats.num_sampled <= sample
    assert "a sample of" in repr(stats)


def test_a_sample_sees_every_part_of_a_store(store: Store) -> None:
    stats = store.key_stats(300, prefix_bytes=9, top=50)
    assert len(stats.hot_prefixes) == 30  # user-0000 to user-0029
    assert stats.num_sampled > 200


def test_sizes_are_those_that_numpy_finds(tmp_path: Path) -> None:
    sizes = np.random.default_rng(5).integers(1, 1000, 500)
    writer = Rdict(str(tmp_path / "store"), Options(raw_mode=True))
    for number, size in enumerate(sizes.tolist()):
        writer[b"%04d" % number] = b"v" * size
    writer.close()
    with open_store(tmp_path / "store") as opened:
        told = opened.key_stats().value_sizes
    assert told is not None
    assert (told.min_bytes, told.max_bytes) == (sizes.min(), sizes.max())
    assert told.mean_bytes == pytest.approx(sizes.mean())
    assert told.p99_bytes == np.sort(sizes)[494]


def test_hot_prefixes_come_hottest_first(tmp_path: Path) -> None:
    writer = Rdict(str(tmp_path / "store"), Options(raw_mode=True))
    for prefix, times in ((b"cold", 1), (b"warm", 5), (b"hot!", 20)):
        for number in range(times):
            writer[prefix + b"%d" % number] = b""
    writer.close()
    with open_store(tmp_path / "store") as opened:
        hot = opened.key_stats(top=2).hot_prefixes
    assert [(each.prefix, each.num_rows) for each in hot] == [(b"hot!", 20), (b"warm", 5)]


def test_an_empty_column_family_has_no_sizes_and_says_why(tmp_path: Path) -> None:
    Rdict(str(tmp_path / "store"), Options(raw_mode=True)).close()
    with open_store(tmp_path / "store") as opened:
        stats = opened.key_stats()
    assert (stats.key_sizes, stats.tombstone_density, stats.densest_file) == (None, None, None)
    assert stats.unknown["key_sizes"] == "there are no rows"
    assert stats.unknown["densest_file"] == "there are no SST files"
    assert (stats.num_sampled, stats.is_complete) == (0, True)
    assert repr(stats) == "KeyStats('default', no rows)"


def test_a_single_row_is_named_as_one(tmp_path: Path) -> None:
    writer = Rdict(str(tmp_path / "store"), Options(raw_mode=True))
    writer[b"a"] = b"1"
    writer.close()
    with open_store(tmp_path / "store") as opened:
        assert "'default', its only row, keys Sizes(" in repr(opened.key_stats())


def test_nothing_can_be_told_of_no_rows(store: Store) -> None:
    with pytest.raises(ConfigurationError, match="sample is 0"):
        store.key_stats(0)
    with pytest.raises(ConfigurationError, match="prefix_bytes is 0"):
        store.key_stats(prefix_bytes=0)
    with pytest.raises(ConfigurationError, match="top is -1"):
        store.key_stats(top=-1)


@pytest.mark.parametrize("wrong", [1.5, "many", True, None])
def test_a_sample_that_is_no_whole_number_is_refused(wrong: Any, store: Store) -> None:
    with pytest.raises(ConfigurationError, match="which is no whole number"):
        store.key_stats(sample=wrong)
