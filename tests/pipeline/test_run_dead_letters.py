from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.events.event import letters
from kstoolkit.pipeline.run import _read_dead_letters, iter_dead_letters

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Two batches: 1,500 records without a user, then three without a time."""
    folders = BatchFolders(tmp_path / "dead_letters")
    for number, (reason, count) in enumerate([("no_user", 1_500), ("no_time", 3)]):
        raws = [f"{number}: {index}" for index in range(count)]
        table = pa.Table.from_batches([letters([reason] * count, raws)])
        pq.write_table(table, folders.begin(0, number) / "part-00000.parquet")
        folders.mark(0, number)
    return tmp_path


def test_all_are_counted_and_the_first_are_held(out: Path) -> None:
    found = _read_dead_letters(out, limit=1_200)
    assert (len(found), found.by_reason) == (1_503, {"no_user": 1_500, "no_time": 3})
    assert (found.table.num_rows, found.table["raw"][-1].as_py()) == (1_200, "0: 1199")
    expected = "DeadLetters(1,503: 1,500 no_user, 3 no_time; the first 1,200 are held)"
    assert repr(found) == expected


def test_with_room_for_all_each_tells_its_batch(out: Path) -> None:
    found = _read_dead_letters(out, limit=1_503)
    assert found.to_pandas()["batch"].value_counts().to_dict() == {0: 1_500, 1: 3}
    assert "held" not in repr(found)


def test_no_more_raw_text_is_in_memory_than_some_records(out: Path) -> None:
    assert [batch.num_rows for _, batch in iter_dead_letters(out)] == [1_000, 500, 3]


def test_a_run_without_any_has_none(tmp_path: Path) -> None:
    assert len(_read_dead_letters(tmp_path, limit=10)) == 0
