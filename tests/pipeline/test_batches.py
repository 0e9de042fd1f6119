from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.pipeline.batches import MicroBatch, StateSize, keep_state_size
from tests.changelog.changelogs import HOUR
from tests.plots.made import made_run
from tests.report.made import TEN, Made, unusual

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kstoolkit.pipeline.run import Run


class Query:
    """Spark's query, as far as it tells what a batch came to."""

    def __init__(self, last: dict[str, Any] | None) -> None:
        self.lastProgress = last


def keep(run: Run, last: dict[str, Any] | None) -> None:
    query: Any = Query(last)
    keep_state_size(run.folder, 0, query)


def operator(rows: int, memory_bytes: int) -> dict[str, int]:
    return {"numRowsTotal": rows, "memoryUsedBytes": memory_bytes}


TOLD = [
    MicroBatch(0, 60_000, 8.0, events=80, late={"1 minute": 2, "1 hour": 1}, findings=1),
    MicroBatch(1, 90_000, 2.0, events=400, dead_letters={"no_user": 3}),
]


def test_a_run_is_named_as_one_would_give_it_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(tmp_path / "runs" / "out", batches=TOLD)
    assert repr(run) == f"Run({str(tmp_path / 'runs' / 'out')!r}, 1 minute, 1 hour, 1 day)"
    monkeypatch.chdir(tmp_path)
    assert repr(run) == "Run('runs/out', 1 minute, 1 hour, 1 day)"


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
    assert frame[["state_bytes", "state_rows", "state_memory_bytes"]].isna().all(axis=None)


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
    assert "unknown (not kept)" in html


def test_the_state_that_each_batch_left_stands_beside_it(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", batches=TOLD)
    keep(run, {"batchId": 1, "stateOperators": [operator(448, 2048), operator(2, 1024)]})
    batches = run.batches()
    assert batches.state == (None, StateSize(rows=450, memory_bytes=3072))
    assert batches[1:].state == batches.state[1:]
    frame = batches.to_pandas()
    assert frame["state_rows"].isna().tolist() == [True, False]
    assert (frame["state_rows"][1], frame["state_memory_bytes"][1]) == (450, 3072)
    assert "<td>450</td><td>3.0 KiB</td>" in batches._repr_html_()
    assert (
        dict(run.summary().rows())["state in memory"] == "3.0 KiB for 450 rows after the last batch"
    )


def test_state_that_nobody_kept_is_unknown(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", batches=TOLD)
    place = run.folder.path / "statistics" / "epoch=0" / "batch=1" / "part-state.json"
    place.write_text("")  # as a machine leaves it that lost its power
    assert run.batches().state == (None, None)
    told = dict(run.summary().rows())["state in memory"]
    assert told == "unknown (Spark's figure was not kept)"


def test_what_is_told_of_a_batch_that_has_no_folder_is_not_kept(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", batches=TOLD)
    keep(run, {"batchId": 7, "stateOperators": [operator(1, 1)]})
    keep(run, None)
    assert run.batches().state == (None, None)


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


def test_a_summary_tells_of_incidents_by_state_and_of_findings_as_their_evidence(
    tmp_path: Path,
) -> None:
    made = Made(tmp_path / "out")
    starts = [TEN, TEN + 1 * HOUR, TEN + 20 * HOUR]
    made.findings([unusual("Anna", -9, window_start_ms=start) for start in starts])
    made.statistics(findings=3, reached_ms=TEN + 21 * HOUR)
    summary = made.run.summary()
    assert summary.incidents == {"open": 1, "resolved": 1, "merged": 0}
    assert (summary.findings, made.run.incidents().facts()) == (3, "2: 1 open, 1 resolved")
    rows = dict(summary.rows())
    assert (rows["incidents"], rows["findings reported"]) == ("2: 1 open, 1 resolved", "3")
    frame = summary.to_pandas().set_index(["figure", "of"])
    assert frame.loc[("incidents", "open"), "value"] == 1


def test_incidents_whose_findings_are_gone_or_damaged_are_unknown_and_not_none(
    tmp_path: Path,
) -> None:
    made = Made(tmp_path / "out")
    made.statistics(findings=1)
    assert made.run.summary().incidents is None
    made.findings([unusual("Anna", -9)])
    assert made.run.summary().incidents == {"open": 1, "resolved": 0, "merged": 0}
    (file,) = (made.out / "findings").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    summary = made.run.summary()
    assert summary.incidents is None
    assert dict(summary.rows())["incidents"].startswith("unknown (the findings that tell are gone")


def test_a_run_that_found_nothing_has_no_incidents(tmp_path: Path) -> None:
    summary = made_run(tmp_path / "out", batches=[TOLD[1]]).summary()
    assert summary.incidents == {"open": 0, "resolved": 0, "merged": 0}
    assert dict(summary.rows())["incidents"] == "none"
