from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.events.event import letters
from kstoolkit.pipeline.run import _read_dead_letters, iter_dead_letters, sampled_letters

if TYPE_CHECKING:
    from pathlib import Path


def write(out: Path, number: int, dead: pa.RecordBatch) -> None:
    """Write the dead letters of a batch."""
    folders = BatchFolders(out / "dead_letters")
    pq.write_table(pa.table(dead), folders.begin(0, number) / "part-00000.parquet")
    folders.mark(0, number)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Two batches: 1,500 records without a user, then three without a time."""
    for number, (reason, count) in enumerate([("no_user", 1_500), ("no_time", 3)]):
        raws = [f"{number}: {index}" for index in range(count)]
        write(tmp_path, number, letters([reason] * count, raws))
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
    assert [batch.num_rows for batch in iter_dead_letters(out)] == [1_000, 500, 3]


def test_samples_differ_and_are_of_each_reason(tmp_path: Path) -> None:
    of_users = [f'{{"action": {n % 3}}}' for n in range(600)]
    files = ["/in/a.gz", "/in/b.gz", "/in/a.gz"]
    write(tmp_path, 0, letters(["no_user"] * 600, of_users))
    write(tmp_path, 4, letters(["broken_file"] * 3, [""] * 3, file=files))
    found = sampled_letters(tmp_path, {"no_user": 600, "broken_file": 3}, most=10)
    assert [(each["batch"], each["raw"] or each["file"]) for each in found] == [
        (0, '{"action": 0}'),
        (4, "/in/a.gz"),
        (0, '{"action": 1}'),
        (4, "/in/b.gz"),
        (0, '{"action": 2}'),
    ]
    assert len(sampled_letters(tmp_path, {"no_user": 600}, most=2)) == 2


def test_no_more_is_read_for_samples_than_it_takes(tmp_path: Path) -> None:
    write(tmp_path, 0, letters(["no_user"] * 20, list(map(str, range(20)))))
    write(tmp_path, 1, letters(["no_user"], ["last"]))
    (tmp_path / "dead_letters" / "epoch=0" / "batch=1" / "part-00000.parquet").write_bytes(b"")
    assert len(sampled_letters(tmp_path, {"no_user": 5_000}, most=10)) == 10


def test_those_of_one_reason_can_be_had_alone(out: Path) -> None:
    of_time = list(iter_dead_letters(out, "no_time"))
    assert [batch.num_rows for batch in of_time] == [0, 0, 3]
    assert of_time[2].column("batch").to_pylist() == [1, 1, 1]


def test_a_run_without_any_has_none(tmp_path: Path) -> None:
    assert len(_read_dead_letters(tmp_path, limit=10)) == 0
