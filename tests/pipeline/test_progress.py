from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.progress import Progress

if TYPE_CHECKING:
    import pytest


BATCH = MicroBatch(batch=0, batch_ms=0, seconds=2.0, events=1_200, findings=3)


def shown(capsys: pytest.CaptureFixture[str], total_bytes: int | None) -> str:
    with Progress(shown=True) as progress:
        progress.begin(total_bytes)
        progress.reach(500)
        progress.batch(BATCH)
        return capsys.readouterr().err.rpartition("\r")[2]


def test_where_an_end_is_known_a_bar_tells_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = shown(capsys, 1_000)
    assert "50%" in told
    assert "1,200 events, 600/s, 3 findings" in told


def test_where_no_end_is_known_a_line_tells_what_was_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = shown(capsys, None)
    assert told.startswith("counting: 00:00")
    assert "1,200 events, 600/s, 3 findings" in told
    assert "B" not in told


def test_events_and_findings_are_those_of_all_batches(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(shown=True) as progress:
        progress.begin(None)
        for _ in range(2):
            progress.batch(BATCH)
        told = capsys.readouterr().err.rpartition("\r")[2]
    assert "2,400 events, 600/s, 6 findings" in told


def test_nothing_shows_if_nothing_is_to(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(shown=False) as progress:
        progress.begin(None)
        progress.batch(BATCH)
    assert progress.events == 1_200
    assert capsys.readouterr().err == ""


IN_A_CELL = """
from kstoolkit.pipeline.progress import Progress
with Progress(shown=True) as progress:
    progress.begin(1_000)
    progress.say("by the way")
    progress.reach(500)
    print("meanwhile:", progress._bar.fp._line[:22])
"""


def test_in_a_notebook_the_bar_is_below_the_cell_and_leaves_nothing_on_stderr() -> None:
    import nbformat
    from nbclient import NotebookClient

    cell = nbformat.v4.new_code_cell(IN_A_CELL)  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    *told, bar = sorted(cell.outputs, key=lambda each: each.output_type == "display_data")
    assert {each.name for each in told} == {"stdout"}, "stderr would be a box in red"
    said = "".join(each.text for each in told)
    assert said.startswith("by the way\nmeanwhile: counting:")
    assert bar.data == {"text/plain": ""}


NOT_THERE = """
import sys
sys.modules["confluent_kafka"] = None
import kstoolkit as kst
kst.ensure_topic("counts", bootstrap="127.0.0.1:1")
"""


def test_a_notebook_tells_what_a_machine_lacks_without_a_traceback() -> None:
    import nbformat
    from nbclient import NotebookClient

    cell = nbformat.v4.new_code_cell(NOT_THERE)  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    NotebookClient(notebook, kernel_name="python3", timeout=60, allow_errors=True).execute()
    assert [each.traceback for each in cell.outputs] == [
        ["The package confluent-kafka is missing.\nHint: Run: pip install 'kstoolkit[kafka]'"]
    ]
