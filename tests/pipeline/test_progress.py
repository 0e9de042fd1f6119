from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.pipeline.progress import Progress
from kstoolkit.pipeline.statistics import BatchStatistics

if TYPE_CHECKING:
    import pytest

BATCH = BatchStatistics(batch=0, batch_ms=0, seconds=2.0, events=1_200, findings=3)


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


def test_nothing_shows_if_nothing_is_to(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(shown=False) as progress:
        progress.begin(None)
        progress.batch(BATCH)
    assert progress.events == 1_200
    assert capsys.readouterr().err == ""
