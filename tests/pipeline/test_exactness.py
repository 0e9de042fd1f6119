"""After a run, the counts of every level equal DuckDB's group-by of the same files."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import CheckpointError
from tests.pipeline.harness import (
    HOUR,
    check_exact,
    counted,
    differences,
    events,
    oracle,
    source,
    told,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

RULES = (kst.Ceiling("1 hour", 12), kst.Unusual("1 hour", false_alarms_per_day=50))
LEVELS = ("1 minute", "1 hour", "1 day")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("events")
    write_files(place, events(3_000), 4)
    return place


def paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


@pytest.mark.parametrize(
    ("cascade", "buckets", "files_per_batch"),
    [
        pytest.param(kst.Cascade(*LEVELS), 8, None, id="all at once", marks=pytest.mark.long),
        pytest.param(kst.Cascade(*LEVELS), 1, 1, id="one bucket, a file a batch"),
        pytest.param(
            kst.Cascade("5 minutes", "1 day", retention=1), 3, 3, id="two levels, three buckets"
        ),
        pytest.param(
            kst.Cascade(
                *LEVELS, flush={"1 minute": "1 hour", "1 day": "6 hours"}, max_counters_per_flush=7
            ),
            3,
            2,
            id="slow flushes with a limit",
            marks=pytest.mark.long,
        ),
        pytest.param(
            kst.Cascade(
                "1 minute",
                kst.Hop("5 minutes", every="1 minute"),
                "1 hour",
                kst.Hop("3 hours", every="30 minutes"),
            ),
            3,
            2,
            id="hops among tumbling windows",
            marks=pytest.mark.long,
        ),
        pytest.param(
            kst.Cascade(kst.Hop("10 minutes", every="5 minutes")),
            2,
            2,
            id="a hop alone",
            marks=pytest.mark.long,
        ),
        pytest.param(
            kst.Cascade(
                "1 minute",
                kst.Hop("5 minutes", every="2 minutes"),
                kst.Hop("100 seconds", every="70 seconds"),
                "1 hour",
            ),
            3,
            2,
            id="hops that divide nothing",
        ),
    ],
)
def test_every_level_equals_duckdb(
    folder: Path, tmp_path: Path, cascade: kst.Cascade, buckets: int, files_per_batch: int | None
) -> None:
    pipeline = kst.Pipeline(source=source(folder), cascade=cascade, buckets=buckets)
    run = pipeline.run(tmp_path / "out", max_files_per_batch=files_per_batch, progress=False)
    check_exact(run, paths(folder))
    assert (run.summary().events, sum(run.summary().late.values())) == (3_000, 0)


def test_files_that_come_latest_first_make_nothing_late(tmp_path: Path) -> None:
    rows = sorted(events(600, hours=200), key=lambda row: row["time"], reverse=True)
    files = [
        write_lines(tmp_path / "in" / f"{n}.json", rows[n * 150 : (n + 1) * 150]) for n in range(4)
    ]
    run = kst.Pipeline(source=source(tmp_path / "in"), buckets=2).run(
        tmp_path / "out", max_files_per_batch=1, progress=False
    )
    check_exact(run, files)
    assert (run.summary().batches, run.summary().late) == (4, {})


def test_batches_are_limited_by_bytes_and_take_a_file_that_is_larger_all_the_same(
    folder: Path, tmp_path: Path
) -> None:
    run = kst.Pipeline(source=source(folder), cascade=kst.Cascade("1 hour"), buckets=2).run(
        tmp_path / "out", max_bytes_per_batch=1, progress=False
    )
    check_exact(run, paths(folder))
    assert run.summary().batches == len(paths(folder))


def test_each_run_adds_the_files_that_are_new_and_nothing_else(
    folder: Path, tmp_path: Path
) -> None:
    files = paths(folder)
    place = tmp_path / "in"
    place.mkdir()
    pipeline = kst.Pipeline(source=source(place), buckets=3, rules=RULES)
    for number, path in enumerate(files[:3]):
        # Names that sort before what is known already, with old modification times.
        shutil.copy2(path, place / f"{9 - number}.json")
        run = pipeline.run(tmp_path / "out", progress=False)
        check_exact(run, files[: number + 1])
    before = (counted(run, "1 hour"), told(run), run.summary())
    again = pipeline.run(tmp_path / "out", progress=False)
    assert (counted(again, "1 hour"), told(again), again.summary()) == before


def test_a_file_counts_once_by_its_path_even_if_it_was_touched_and_grew(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in" / "a.json", events(50))
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), cascade=kst.Cascade("1 day"), buckets=1)
    pipeline.run(tmp_path / "out", progress=False)
    expected = oracle([path], "1 day")
    write_lines(path, events(80))
    write_lines(tmp_path / "in" / "b.json", [])
    run = pipeline.run(tmp_path / "out", progress=False)
    assert differences(run, "1 day", expected) == []


@pytest.mark.long
def test_rules_flush_minimum_and_batch_size_may_change_between_runs(
    folder: Path, tmp_path: Path
) -> None:
    place = tmp_path / "in"
    place.mkdir()
    changes: list[dict[str, Any]] = [
        {"rules": ()},
        {"rules": RULES, "cascade": kst.Cascade(*LEVELS, flush={"1 hour": "1 day"})},
        {"rules": (kst.Ceiling("1 day", 3),), "cascade": kst.Cascade(*LEVELS, min_count=2)},
        {"rules": RULES},
    ]
    for number, (path, change) in enumerate(zip(paths(folder), changes, strict=True)):
        shutil.copy(path, place)
        run = kst.Pipeline(source=source(place), buckets=3, **change).run(
            tmp_path / "out", max_files_per_batch=1 + number, progress=False
        )
    below = {key: count for key, count in oracle(paths(folder), "1 hour").items() if count < 2}
    expected = {key: n for key, n in oracle(paths(folder), "1 hour").items() if n >= 2}
    missing = {key: n for key, n in counted(run, "1 hour").items() if key not in below}
    # What minimum kept out of the changelog stayed in state: what grew on is whole.
    assert missing == expected
    assert {f.kind for f in run.findings} == {"Ceiling", "Unusual"}


DEPENDED_ON: tuple[tuple[dict[str, Any], str], ...] = (
    ({"cascade": kst.Cascade("1 minute", "1 day")}, "windows"),
    ({"buckets": 4}, "buckets"),
    ({"action": "user"}, "columns"),
    ({"time": "processing"}, "kind of time"),
)


def test_what_the_state_depends_on_can_not_change_and_nothing_is_lost_by_trying(
    finished: tuple[Path, Path],
) -> None:
    place, out = finished
    before = counted(kst.load_run(out), "1 hour")
    for change, said in DEPENDED_ON:
        columns = {"event_time": "time", "user": "user", "action": change.get("action", "action")}
        given = {"buckets": 3, **change}
        given.pop("action", None)
        with pytest.raises(CheckpointError, match=f"belongs to other {said}: it has .* not"):
            kst.Pipeline(source=kst.files(place, **columns), **given).run(out, progress=False)
        assert counted(kst.load_run(out), "1 hour") == before
    run = kst.Pipeline(source=source(place), buckets=3).run(out, progress=False)
    assert counted(run, "1 hour") == before


@pytest.fixture(scope="module")
def finished(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of events, and the output of a run over it."""
    out: Path = tmp_path_factory.mktemp("finished") / "out"
    kst.Pipeline(source=source(folder), buckets=3).run(out, progress=False)
    return folder, out


def test_a_lateness_that_the_user_sets_holds_in_a_bounded_run_too(tmp_path: Path) -> None:
    moments = ["2025-03-01T12:00:00Z", "2025-03-01T15:30:00Z", "2025-03-01T12:00:01Z"]
    for number, moment in enumerate(moments):
        row = {"time": moment, "user": "Ann", "action": "read"}
        write_lines(tmp_path / "in" / f"{number}.json", [row])
    cascade = kst.Cascade("1 minute", "1 hour", "1 day", lateness="1 hour")
    run = kst.Pipeline(source=source(tmp_path / "in"), cascade=cascade, buckets=1).run(
        tmp_path / "out", max_files_per_batch=1, progress=False
    )
    assert run.summary().late == {"1 minute": 1, "1 hour": 1}
    assert [sum(counted(run, window).values()) for window in LEVELS] == [2, 2, 3]


@pytest.mark.slow
def test_the_real_sample_counts_39244_events_and_each_level_equals_duckdb(
    wikiticker: Path, tmp_path: Path
) -> None:
    columns: dict[str, Any] = {"user": "user", "action": "namespace"}
    run = kst.Pipeline(source=kst.files(wikiticker, event_time="time", **columns)).run(
        tmp_path / "out", progress=False
    )
    check_exact(run, [wikiticker], **columns)
    assert run.summary().events == 39_244
    stories = [(f.rule, f.user, f.action, f.window_start_ms // HOUR) for f in run.findings]
    assert len(stories) == len(set(stories)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_any_batching_order_and_number_of_buckets_gives_the_same(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows = events(draw.randint(200, 1_500), seed=seed, hours=draw.choice([0.5, 30, 900]))
    draw.shuffle(rows)
    files = write_files(tmp_path / "in", rows, draw.randint(1, 6))
    cascade = kst.Cascade(
        *draw.choice([LEVELS, ("1 second", "1 minute"), ("1 hour", "1 day", "7 days")]),
        retention=draw.randint(1, 4),
        max_counters_per_flush=draw.randint(1, 100),
    )
    pipeline = kst.Pipeline(
        source=source(tmp_path / "in"), cascade=cascade, buckets=draw.randint(1, 9)
    )
    run = pipeline.run(tmp_path / "out", max_files_per_batch=draw.randint(1, 4), progress=False)
    check_exact(run, files)
