"""Live rows by a sample, judged by counting them all."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Rdict

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.files.sampling import estimated_live_rows, index_keys
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.profiles.rocksdict import shared_memory

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = Profile(compression="none", disable_auto_compactions=True)


def written(path: Path, **changes: Any) -> Path:
    """Write rows of which few keys take most, so that the share of live rows differs by place."""
    profile = PLAIN.changed(**changes)
    options = profile.to_rocksdict(shared=shared_memory(profile))
    store = Rdict(str(path), options, column_families={"default": options})
    draws = random.Random(3)
    for _ in range(6):
        for _ in range(20_000):
            key = b"user%07d" % int(60_000 * draws.random() ** 4)
            if draws.random() < 0.1:
                del store[key]
            else:
                store[key] = draws.randbytes(draws.choice([10, 200]))
        store.flush()
    store.close()
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"compression": "none"},
        {"compression": "lz4", "format_version": 5},
        {"compression": "zstd", "format_version": 2},
        {"compression": "snappy", "disable_auto_compactions": False, "write_buffer_size": 1 << 20},
    ],
)
def test_an_estimate_is_as_near_to_the_count_as_it_says(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    with open_store(written(tmp_path / "store", **changes)) as store:
        exact = sum(1 for _ in store.iter_rows())
        ssts, folder = store.ssts(), store._shadow.path
        for each in ssts:
            keys = index_keys(folder / each.name)
            assert len(keys) == each.num_data_blocks
            assert keys == sorted(keys)
            assert each.smallest_key <= keys[0] <= each.largest_key <= keys[-1]
        found = [estimated_live_rows(folder, "default", ssts, seed=seed) for seed in range(8)]
    errors = [(each.most - each.least) / 2 for each in found]
    missed = [abs(each.number - exact) > error for each, error in zip(found, errors, strict=True)]
    assert sum(missed) <= 2  # of eight, 0.4 are expected
    mean = sum(each.number for each in found) / len(found)
    assert abs(mean - exact) < max(errors)  # it leans to neither side
    assert max(errors) < 0.1 * exact


def test_an_index_that_is_not_read_is_said_to_be_so(tmp_path: Path) -> None:
    path = written(tmp_path / "store", index_type="two_level_search")
    with pytest.raises(FormatError, match="or in partitions"):
        index_keys(next(path.glob("*.sst")))
