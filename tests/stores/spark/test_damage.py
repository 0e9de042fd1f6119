from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.errors import KstoolkitError
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.stores.rows.readable import LeftOutWarning
from tests.rocksdb.madestores import appearance
from tests.stores.spark.madecheckpoints import FIRST, make_checkpoint, make_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "query")
        make_checkpoint(root)
        yield root


@pytest.mark.filterwarnings("ignore::kstoolkit.stores.rows.readable.LeftOutWarning")
@settings(max_examples=150)
@given(st.data())
def test_a_damaged_file_raises_nothing_but_errors_of_our_own(
    made: Path, data: st.DataObject
) -> None:
    files = sorted(each.relative_to(made) for each in made.rglob("*") if each.is_file())
    name = data.draw(st.sampled_from(files))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "query")
        shutil.copytree(made, root)
        raw = bytearray((root / name).read_bytes())
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at] ^= data.draw(st.integers(1, 255))
        else:
            del raw[at:]
        (root / name).write_bytes(raw)
        scratch = Path(folder, "scratch")
        scratch.mkdir()
        kst.discover(root)
        path = data.draw(st.sampled_from([root / "state" / "0" / "0", root]))
        with suppress(KstoolkitError), kst.open_store(path, scratch=scratch) as store:
            with suppress(KstoolkitError):
                store.rows().count(exact=False)
            list(store.rows())
        assert list(scratch.iterdir()) == []


def make_damaged(root: Path, harm: str) -> Path:
    """Write a checkpoint whose latest snapshot has a file for each user; harm Bo's."""
    partition = make_checkpoint(root)
    make_snapshot(partition, 4, FIRST, file_each=True)
    file = sorted((partition / "SSTs").glob("*-4.sst"))[1]
    raw = file.read_bytes()
    match harm:
        case "missing":
            file.unlink()
        case "short":
            file.write_bytes(raw[:-5])
        case "flipped":
            file.write_bytes(bytes([raw[0] ^ 1]) + raw[1:])
    return partition


HARMS = {
    "missing": "1 of 3 SST files is missing",
    "short": "1 of 3 SST files is missing",
    "flipped": r"1 block of \d+\.sst .* can't be read",
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_snapshot_is_read_as_far_as_its_files_go(tmp_path: Path, harm: str) -> None:
    partition = make_damaged(tmp_path / "query", harm)
    before = appearance(tmp_path / "query")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with kst.open_store(partition, scratch=scratch) as store:
        with pytest.warns(LeftOutWarning, match=f"goes: {HARMS[harm]}") as said:
            found = {row.key["user"]: row.value["count"] for row in store.rows()}
        assert found == {"Anna": 1, "Cy": 3}
        assert len(said) == 1
        assert store.rows().count() == 2
    assert not list(scratch.iterdir())
    assert appearance(tmp_path / "query") == before


def test_of_all_partitions_one_that_is_damaged_is_said(tmp_path: Path) -> None:
    make_damaged(tmp_path / "query", "missing")
    with (
        kst.open_store(tmp_path / "query") as store,
        pytest.warns(LeftOutWarning, match="1 of 3 SST files is missing"),
    ):
        assert store.rows().count() == 2


def test_where_metadata_name_no_store_there_is_none(tmp_path: Path) -> None:
    root = tmp_path / "query"
    partition = make_checkpoint(root)
    metadata = root / "state" / "0" / "_metadata" / "metadata"
    version, told = metadata.read_text().split("\n")
    metadata.write_text(f"{version}\n{json.dumps(json.loads(told) | {'stateStoreInfo': []})}")
    for path in (root, root / "state", partition):
        with pytest.raises(NoStoreError, match="not one store of it"):
            kst.open_store(path)
