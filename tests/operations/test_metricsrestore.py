from __future__ import annotations

from typing import TYPE_CHECKING

import kstoolkit as kst
from kstoolkit.operations.metricsrestore import RestoreProgress
from tests.operations.scraping import Scrape, scrape_until
from tests.plots.made import COUNTS, made_run

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = {"1 minute": 10, "1 hour": 13, "1 day": 3}


def test_a_restore_is_served_beside_the_run(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out")
    assert sorted(map(len, COUNTS.values())) == sorted(LEVELS.values())
    with run.serve_metrics() as server:
        assert Scrape(server.url).by("window", "kstoolkit_restore_records_total") == {}
        store = kst.WindowStore.restore(
            run.folder.path, path=tmp_path / "replica", listener=server.restores, progress=False
        )
        store.close()
        told = scrape_until(
            server.url, lambda told: told.by("window", "kstoolkit_restore_records_total")
        )
    assert told.by("window", "kstoolkit_restore_records_total") == LEVELS
    left = told.by("window", "kstoolkit_restore_remaining_records")
    assert left == dict.fromkeys(LEVELS, 0)
    failures = told.by("window", "kstoolkit_restore_failures_total")
    assert failures == dict.fromkeys(LEVELS, 0)


def figures(progress: RestoreProgress) -> list[float]:
    return [value for each in progress.metrics() for _, value in each.samples]


def test_what_remains_goes_down_with_each_batch_and_is_none_in_the_end() -> None:
    progress = RestoreProgress()
    progress.on_start("1 hour", total=100)
    progress.on_batch("1 hour", records=30)
    assert figures(progress) == [30, 70, 0]
    progress.on_end("1 hour", records=100)  # the rest had been read before it was interrupted
    assert figures(progress) == [30, 0, 0]


def test_a_failure_counts_and_nothing_remains_until_it_is_tried_again() -> None:
    progress = RestoreProgress()
    progress.on_start("1 hour", total=100)
    progress.on_failure("1 hour", error=OSError("no room"))
    assert figures(progress) == [0, 0, 1]
    progress.on_start("1 hour", total=100)
    assert figures(progress) == [0, 100, 1]


def test_segments_that_are_rebuilt_count_with_their_window() -> None:
    progress = RestoreProgress()
    for start in ("2015-09-12T10:00:00+00:00", "2015-09-12T11:00:00+00:00"):
        progress.on_start(f"1 hour from {start}", total=5)
        progress.on_batch(f"1 hour from {start}", records=5)
        progress.on_end(f"1 hour from {start}", records=5)
    assert [dict(each.samples) for each in progress.metrics()] == [
        {(("window", "1 hour"),): 10},
        {(("window", "1 hour"),): 0},
        {(("window", "1 hour"),): 0},
    ]


def test_before_a_restore_nothing_is_told() -> None:
    assert figures(RestoreProgress()) == []
