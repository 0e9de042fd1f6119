"""What is said of stores in checkpoints of Spark's, from the files alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.stores.growth.files import checkpoint_use
from kstoolkit.stores.growth.growth import growth
from kstoolkit.stores.growth.records import Eviction
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.stores.spark.madecheckpoints import make_checkpoint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("inside", ["", "state/0", "state/0/0"])
def test_versions_and_the_missing_watermark_are_named(tmp_path: Path, inside: str) -> None:
    partition = make_checkpoint(tmp_path / "query")
    with kst.open_store(tmp_path / "query" / inside) as store:
        found = growth(store)
    use = found.checkpoint
    assert use is not None
    assert (use.num_versions, use.oldest_version, use.newest_version) == (4, 1, 4)
    assert (use.num_changelogs, use.num_snapshots) == (3, 2)
    files = [each.stat() for each in partition.rglob("*") if each.is_file()]
    assert use.size_bytes == found.size_bytes == sum(each.st_size for each in files)
    assert use.num_files == len(files)
    assert (use.eviction, use.watermark_ms) == (Eviction.WATERMARK, None)
    assert found.verdict[0] == (
        "The query has no watermark: Spark evicts no row of this store, however old it is."
    )
    assert any("keeps 4 versions of it, 1 to 4" in each for each in found.verdict)
    assert not any("1970" in each or "MANIFEST" in each for each in found.verdict)


def test_a_link_to_a_partition_is_measured_as_the_partition(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(make_checkpoint(tmp_path / "query"))
    with kst.open_store(tmp_path / "link") as store:
        assert isinstance(store, SparkStore)
        assert checkpoint_use(store).num_versions == 4
        assert growth(store).size_bytes == checkpoint_use(store).size_bytes
