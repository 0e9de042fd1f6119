from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.pipeline.statistics import BatchStatistics
from tests.plots.made import made_run

if TYPE_CHECKING:
    from pathlib import Path

TOLD = [
    BatchStatistics(0, 60_000, 8.0, events=80, late={"1 minute": 2, "1 hour": 1}, findings=1),
    BatchStatistics(1, 90_000, 2.0, events=400, dead_letters={"no_user": 3}),
]


def test_a_runs_batches_come_in_their_order(tmp_path: Path) -> None:
    batches = made_run(tmp_path / "out", batches=TOLD).batches()
    assert list(batches) == TOLD
    assert batches[1] == TOLD[1]
    assert list(batches[:1]) == TOLD[:1]


def test_as_a_table_they_have_one_row_each(tmp_path: Path) -> None:
    frame = made_run(tmp_path / "out", batches=TOLD).batches().to_pandas()
    assert frame["events_per_second"].tolist() == [10.0, 200.0]
    assert frame["late"].tolist() == [3, 0]
    assert frame["dead_letters"].tolist() == [0, 3]
    assert frame["clock"][0].isoformat() == "1970-01-01T00:01:00+00:00"
    assert frame["state_bytes"].isna().all()


def test_what_a_batch_wrote_into_the_state_is_told_by_the_version_after_it(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", batches=TOLD)
    for partition, name, size in (
        ("0", "1.changelog", 10),
        ("1", "1.changelog", 20),
        ("0", "1_0a1b-2c.zip", 5),
        ("0", ".1.changelog.crc", 999),
        ("0", "2.delta", 7),
    ):
        folder = run.folder.checkpoint / "state" / "0" / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size)
    assert run.batches().state_bytes == (35, 7)
    assert run.batches()[1:].state_bytes == (7,)


def test_text_and_html_state_the_same_facts(tmp_path: Path) -> None:
    batches = made_run(tmp_path / "out", batches=TOLD).batches()
    assert repr(batches) == "Batches(2 batches, 480 events in 10.0 s)"
    html = batches._repr_html_()
    assert "2 batches, 480 events in 10.0 s" in html
    assert "<td>1</td><td>2.00</td><td>400</td><td>200</td><td>0</td>" in html
    assert "unknown (removed since)" in html


def test_a_run_without_batches_has_none(tmp_path: Path) -> None:
    batches = made_run(tmp_path / "out").batches()
    assert repr(batches) == "Batches(0 batches, 0 events in 0.0 s)"
    assert batches.to_pandas().empty
    assert "0 batches" in batches._repr_html_()


def test_a_run_tells_its_sums_in_html(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", batches=TOLD)
    assert "1 minute, 1 hour, 1 day" in run._repr_html_()
    assert "Summary of the run" in run._repr_html_()
    frame = run.summary().to_pandas()
    assert frame.set_index(["figure", "of"]).loc[("late", "1 minute"), "value"] == 2
