"""Counts as Spark DataFrames equal what the files' own reader says, and a plain group-by."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

import kstoolkit as kst
from kstoolkit.changelog.changelog import DONE, Changelog
from kstoolkit.changelog.compaction import compact
from kstoolkit.errors import ConfigurationError, FormatError, InputError, OnBatchFailed
from kstoolkit.findings.finding import Findings
from kstoolkit.findings.stories import merge_findings
from kstoolkit.pipeline.failure import RestartLog
from kstoolkit.pipeline.results import hand_over
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder
from tests.changelog.changelogs import HOUR, MINUTE, Rows, levels, newest, write
from tests.pipeline.harness import (
    DAY,
    FIELDS_OF_FINDINGS,
    check_exact,
    events,
    kill_group,
    oracle,
    source,
    spawned,
    until,
    write_files,
)
from tests.pipeline.harness import newest as newest_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = ["window_start", "window_end", "user", "action", "count"]


@pytest.fixture(scope="module")
def new_york(spark: SparkSession) -> SparkSession:
    """A session whose time zone is not UTC, and whose timestamps have none unless it is said."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


def rows_of(counts: DataFrame) -> dict[int, Rows]:
    """Return counts as rows by window length; each key must be there once."""
    assert counts.columns == ["window_ms", *COLUMNS]
    assert [kind for _, kind in counts.dtypes[1:3]] == ["timestamp", "timestamp"]
    start, end = "unix_millis(window_start) AS start", "unix_millis(window_end) AS end"
    told: dict[int, Rows] = {}
    for row in counts.selectExpr("window_ms", start, end, "user", "action", "count").collect():
        rows = told.setdefault(row.window_ms, {})
        key = (row.start, row.user, row.action)
        assert key not in rows
        assert row.end == row.start + row.window_ms
        rows[key] = row["count"]
    return dict(sorted(told.items()))


@given(
    batches=st.lists(st.tuples(levels, st.booleans()), min_size=1, max_size=6),
    next_epoch=st.integers(0, 6),
    compacted_after=st.integers(0, 6),
)
@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_newest_marked_batch_of_the_newest_epoch_wins_folded_or_not(
    new_york: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[dict[int, Rows], bool]],
    next_epoch: int,
    compacted_after: int,
) -> None:
    out = tmp_path_factory.mktemp("out")
    write(out / "changelog", 0, {MINUTE: {(0, "first", "read"): 1}})
    for place, (told, marked) in enumerate(batches):
        epoch = int(place >= next_epoch)
        number = place - next_epoch if epoch else place + 1
        write(out / "changelog", number, told, epoch=epoch, marked=marked)
        if place == compacted_after:
            compact(out)
    counted = [told for told, marked in batches if marked]
    expected = newest({MINUTE: {(0, "first", "read"): 1}}, *counted)
    assert rows_of(kst.read_counts(new_york, out)) == expected
    only_hours = kst.read_counts(new_york, out / "changelog", "1 hour")
    assert rows_of(only_hours) == {k: v for k, v in expected.items() if k == HOUR}


@pytest.mark.parametrize("name", ["a [b] {c,d}", "100%25 *?", "back\\slash", "_under", ".hidden"])
def test_a_folder_may_have_any_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    told = {MINUTE: {(0, "Anna", "read"): 3}}
    for number in range(2):
        write(tmp_path / name / "changelog", number, told)
    assert rows_of(kst.read_counts(spark, tmp_path / name)) == told


def test_days_end_at_midnight_utc_in_any_century_and_in_the_night_when_clocks_are_set_back(
    new_york: SparkSession, tmp_path: Path
) -> None:
    days = [-719_162, -400_000, -1, 0, 20_030, 20_031, 900_000]  # from the year 1 to 4434
    told = {DAY: {(day * DAY, "Anna", "read"): 1 for day in days}}
    write(tmp_path / "changelog", 0, told)
    assert rows_of(kst.read_counts(new_york, tmp_path)) == told


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    write_files(folder / "in", events(900, seed=4), 3)
    assert spark is not None
    hop = kst.Hop("5 minutes", every="2 minutes")
    pipeline = kst.Pipeline(
        source=source(folder / "in"), cascade=kst.Cascade("1 minute", hop, "1 hour"), buckets=2
    )
    return pipeline.run(folder / "out", max_files_per_batch=1, progress=False)


def as_run_tells(counts: DataFrame) -> pd.DataFrame:
    """Return a DataFrame as ``run.counts`` has it."""
    assert counts.columns == COLUMNS
    times = ["unix_millis(window_start) AS window_start", "unix_millis(window_end) AS window_end"]
    found = pd.DataFrame(counts.selectExpr(*times, *COLUMNS[2:]).collect(), columns=COLUMNS)
    for name in COLUMNS[:2]:
        found[name] = found[name].astype("datetime64[ms]").dt.tz_localize("UTC")
    return found.sort_values(["window_start", "user", "action"], ignore_index=True)


@pytest.mark.parametrize("window", ["1 minute", "5 minutes every 2 minutes", "1 hour"])
def test_a_run_gives_spark_what_it_gives_pandas(
    run: Run, new_york: SparkSession, window: str
) -> None:
    found = as_run_tells(run.to_spark(new_york, window))
    pd.testing.assert_frame_equal(found, run.counts(window, limit=None))
    assert found["count"].sum() == sum(
        oracle(sorted((run.folder.path.parent / "in").iterdir()), window).values()
    )


def test_spark_reads_the_files_itself_and_those_of_whole_batches_alone(
    run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copytree(run.folder.path, tmp_path / "copy")
    torn = kst.load_run(tmp_path / "copy")
    folder = torn.folder.path / "changelog" / "epoch=0"
    (folder / "batch=2" / DONE).unlink()
    counts = torn.to_spark(spark, "1 hour")
    whole = [path for path in sorted(folder.rglob("*.parquet")) if "batch=2" not in path.parts]
    assert sorted(counts.inputFiles()) == [f"file://{path}" for path in whole]
    pd.testing.assert_frame_equal(as_run_tells(counts), torn.counts("1 hour", limit=None))


def test_the_session_stays_as_it_was(run: Run, spark: SparkSession) -> None:
    def settings_now() -> dict[str, str]:
        return {row.key: row.value for row in spark.sql("SET").collect()}

    before = settings_now()
    run.to_spark(spark, "1 hour").count()
    assert settings_now() == before


def test_what_is_folded_before_it_is_read_is_had_by_another_call(
    run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copytree(run.folder.path, tmp_path / "copy")
    folded = kst.load_run(tmp_path / "copy")
    counts = folded.to_spark(spark, "1 hour")
    compact(folded.folder.path)
    with pytest.raises(Py4JJavaError, match="does not exist"):
        counts.count()
    assert folded.to_spark(spark, "1 hour").count() == len(run.counts("1 hour", limit=None))


def test_a_call_goes_on_while_batches_are_written_and_folded(
    spark: SparkSession, tmp_path: Path
) -> None:
    def told(number: int) -> dict[int, Rows]:
        return {MINUTE: {(0, "Anna", "read"): number + 1}}

    write(tmp_path / "changelog", 0, told(0))
    ended = Event()

    def write_and_fold() -> None:
        number, pause = 1, 0.01
        while not ended.wait(pause):
            write(tmp_path / "changelog", number, told(number))
            compact(tmp_path)
            number += 1
            pause *= 1.2  # however slow Spark is, it comes to an end

    folding = Thread(target=write_and_fold)
    folding.start()
    try:
        for _ in range(20):
            assert kst.read_counts(spark, tmp_path).columns == ["window_ms", *COLUMNS]
    finally:
        ended.set()
        folding.join()
    (count,) = rows_of(kst.read_counts(spark, tmp_path))[MINUTE].values()
    assert count == Changelog(tmp_path / "changelog").batches[-1].number + 1


def test_a_window_that_is_not_counted_is_told_with_those_that_are(
    run: Run, spark: SparkSession
) -> None:
    with pytest.raises(ConfigurationError, match=r"no window '1 day'\.\nHint: It has: 1 minute"):
        run.to_spark(spark, "1 day")


def test_a_run_that_counted_nothing_has_no_rows(
    run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    shutil.copy(run.folder.path / "run.json", tmp_path / "out")
    empty = Run(RunFolder(tmp_path / "out"))
    assert as_run_tells(empty.to_spark(spark, "1 hour")).empty
    with pytest.raises(InputError, match="No changelog in"):
        kst.read_counts(spark, tmp_path / "out")


def test_a_flipped_byte_is_told_and_never_counted(
    run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    shutil.copytree(run.folder.path, tmp_path / "copy")
    torn = kst.load_run(tmp_path / "copy")
    path = next((torn.folder.path / "changelog").rglob("part-*.parquet"))
    damaged = bytearray(path.read_bytes())
    damaged[200] ^= 0x40
    path.write_bytes(bytes(damaged))
    with pytest.raises(Py4JJavaError, match="CRC checksum verification failed"):
        torn.to_spark(spark, "1 minute").collect()
    with pytest.raises(FormatError):
        torn.counts("1 minute")


TABLES = """
CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY, rows INTEGER);
CREATE TABLE IF NOT EXISTS counts (window_ms, start_ms, user, action, count,
    PRIMARY KEY (window_ms, start_ms, user, action));
CREATE TABLE IF NOT EXISTS findings (rule, user, action, window_ms, start_ms, count,
    PRIMARY KEY (rule, user, action, window_ms, start_ms));
"""
COUNTS = ("window_ms", "unix_millis(window_start)", "user", "action", "count")
FOUND = ("rule", "user", "action", "window_ms", "window_start_ms", "count")


@dataclass
class Table:
    """A database that a function of the user's keeps up with a run, and a log of its calls."""

    path: Path
    pause: float = 0.0

    def __call__(self, batch: kst.BatchOutput) -> None:
        """Write a batch, unless it is there already; how many rows it had is kept beside it."""
        counts = [tuple(row) for row in batch.counts.selectExpr(*COUNTS).collect()]
        found = [tuple(row) for row in batch.findings.select(*FOUND).collect()]
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executescript(TABLES)
            (last,) = database.execute("SELECT max(id) FROM batches").fetchone()
            if last is None or last < batch.id:
                database.executemany("REPLACE INTO counts VALUES (?, ?, ?, ?, ?)", counts)
                database.executemany("REPLACE INTO findings VALUES (?, ?, ?, ?, ?, ?)", found)
                self._log(batch.id, "inside")
                database.execute("INSERT INTO batches VALUES (?, ?)", (batch.id, len(counts)))
        self._log(batch.id, "written")

    def _log(self, number: int, what: str) -> None:
        with self.path.with_suffix(".log").open("a", encoding="utf-8") as file:
            file.write(f"{number} {what}\n")
        time.sleep(self.pause)

    def log(self) -> list[str]:
        """Return what happened: the batch's id, and how far its writing was."""
        place = self.path.with_suffix(".log")
        return place.read_text(encoding="utf-8").splitlines() if place.exists() else []

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return what the database answers."""
        with closing(sqlite3.connect(self.path)) as database:
            return database.execute(query).fetchall()

    def check(self, spark: SparkSession, run: Run) -> None:
        """Raise unless the database has what the run has, and each change once."""
        told: dict[int, Rows] = {}
        for window_ms, *key, count in self.ask("SELECT * FROM counts"):
            told.setdefault(window_ms, {})[key[0], key[1], key[2]] = count
        assert dict(sorted(told.items())) == rows_of(kst.read_counts(spark, run.folder.path))
        assert set(self.ask("SELECT * FROM findings")) == {
            (f.rule, f.user, f.action, f.window_ms, f.window_start_ms, f.count)
            for f in merged_findings(run)
        }
        files = (run.folder.path / "changelog").rglob("*.parquet")
        assert self.ask("SELECT sum(rows) FROM batches") == [
            (sum(pq.read_metadata(path).num_rows for path in files),)
        ]


def merged_findings(run: Run) -> Findings:
    """Return what was found with its newest counts, stories of several levels not yet folded."""
    folders = sorted((run.folder.path / "findings" / "epoch=0").iterdir(), key=number_of)
    files = [path for folder in folders for path in sorted(folder.glob("*.parquet"))]
    return Findings(merge_findings([pq.read_table(path, partitioning=None) for path in files]))


def number_of(folder: Path) -> int:
    return int(folder.name.partition("=")[2])


def pipeline(folder: Path, function: Callable[[kst.BatchOutput], None]) -> kst.Pipeline:
    """Return what is run with a function of one's own."""
    return kst.Pipeline(
        source=source(folder / "in"),
        cascade=kst.Cascade("1 hour", "1 day"),
        rules=[kst.Ceiling("1 hour", 3), kst.Ceiling("1 day", 20)],
        buckets=2,
        on_batch=function,
    )


def test_a_function_of_ones_own_gets_what_each_batch_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", events(900, seed=4), 3)
    table, seen = Table(tmp_path / "table.db"), []

    def keep(batch: kst.BatchOutput) -> None:
        seen.append(batch)
        table(batch)

    run = pipeline(tmp_path, keep).run(tmp_path / "out", max_files_per_batch=1, progress=False)
    assert [batch.id for batch in seen] == [0, 1, 2]
    assert all((batch.now_ms or 0) > 1_700_000_000_000 for batch in seen)
    assert len(run.findings) > 5
    table.check(spark, run)
    pipeline(tmp_path, keep).run(tmp_path / "out", progress=False)  # nothing is new
    assert len(seen) == 3


def handed(spark: SparkSession, folder: Path, epoch: int, number: int) -> list[kst.BatchOutput]:
    """Return what a function is called with after a batch that found nothing."""
    seen: list[kst.BatchOutput] = []
    files = sorted(folder.glob("part-*.parquet"))
    hand_over(seen.append, spark, (epoch, number), 5, (files, []))
    return seen


def test_what_a_batch_lacks_has_its_columns_all_the_same(
    new_york: SparkSession, tmp_path: Path
) -> None:
    told = {MINUTE: {(0, "Anna", "read"): 3}}
    folder = write(tmp_path, 7, told, marked=False)
    (batch,) = handed(new_york, folder, 0, 7)
    assert (batch.id, batch.now_ms) == (7, 5)
    assert rows_of(batch.counts) == told
    assert tuple(batch.findings.columns) == FIELDS_OF_FINDINGS
    assert batch.findings.count() == 0
    assert handed(new_york, tmp_path / "none", 0, 7) == [], "nothing changed"


def test_ids_grow_over_epochs_and_fit_into_64_bits(spark: SparkSession, tmp_path: Path) -> None:
    numbers = [(0, 0), (0, 1), (0, 10**9), (1, 0), (1, 1), (7, 3), (1_000_000, 10**9)]
    ids = [
        batch.id
        for epoch, number in numbers
        for batch in handed(spark, write(tmp_path, number, {}, epoch=epoch), epoch, number)
    ]
    assert ids == sorted(set(ids))
    assert len(ids) == len(numbers)
    assert ids[-1] < 1 << 63


def test_a_function_that_fails_ends_the_run_with_its_name_and_its_error(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path / "in", events(300, seed=4), 3)
    table = Table(tmp_path / "table.db")

    def to_table(batch: kst.BatchOutput) -> None:
        if batch.id == 1:
            message = "no such table: counts\nand more"
            raise sqlite3.OperationalError(message)
        table(batch)

    with pytest.raises(OnBatchFailed) as caught:
        pipeline(tmp_path, to_table).run(tmp_path / "out", max_files_per_batch=1, progress=False)
    assert caught.value.message == (
        "The function to_table of on_batch failed with batch 1: "
        "OperationalError: no such table: counts."
    )
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert "Traceback" not in capfd.readouterr().err
    unmarked = kst.load_run(tmp_path / "out")
    assert [batch.number for batch in unmarked.changelog.batches] == [0]

    run = pipeline(tmp_path, table).run(tmp_path / "out", max_files_per_batch=1, progress=False)
    table.check(spark, run)


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()])
def test_a_function_that_would_end_the_process_ends_the_run(
    end: BaseException, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", events(30, seed=4), 1)

    def ending(_: kst.BatchOutput) -> None:
        raise end

    with pytest.raises(OnBatchFailed, match=f"with batch 0: {type(end).__name__}"):
        pipeline(tmp_path, ending).run(tmp_path / "out", progress=False)


def test_what_spark_says_in_ones_own_function_is_told_in_a_sentence(tmp_path: Path) -> None:
    write_files(tmp_path / "in", events(30, seed=4), 1)

    def divided(batch: kst.BatchOutput) -> None:
        batch.counts.selectExpr("CAST(user AS INT) AS number").collect()

    with pytest.raises(
        OnBatchFailed, match=r"divided of on_batch failed with batch 0: .*CAST"
    ) as e:
        pipeline(tmp_path, divided).run(tmp_path / "out", progress=False)
    assert "\tat " not in str(e.value)
    assert len(e.value.message) < 400


def test_a_live_run_that_restarts_calls_a_function_again_with_the_same_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", events(300, seed=4), 1)
    table, calls = Table(tmp_path / "table.db"), []

    def failing(batch: kst.BatchOutput) -> None:
        calls.append(batch.id)
        table(batch)
        if len(calls) <= 3:
            message = "the network is down"
            raise OSError(message)

    often = kst.Restart(most_per_hour=9, first_pause="100 ms")
    run = pipeline(tmp_path, failing).start(tmp_path / "out", trigger="500 ms", restart=often)
    try:
        until(lambda: run.changelog.batches, "the batch that is whole at last")
        assert run.failure() is None
    finally:
        run.stop()
    assert calls[:4] == calls[:1] * 4
    reasons = [each.reason for each in RestartLog(run.folder.restarts).read()]
    why = f"of on_batch failed with batch {calls[0]}: OSError: the network is down."
    assert reasons == [f"The function failing {why}"] * 3
    pipeline(tmp_path, table).run(tmp_path / "out", progress=False)  # what waited for its flush
    table.check(spark, run)


def test_a_live_run_without_restarts_says_what_its_function_raised(tmp_path: Path) -> None:
    write_files(tmp_path / "in", events(30, seed=4), 1)

    def failing(_: kst.BatchOutput) -> None:
        raise ValueError

    run = pipeline(tmp_path, failing).start(tmp_path / "out", trigger="500 ms")
    try:
        until(lambda: not run.is_active, "the end")
        failure = run.failure()
    finally:
        run.stop()
    assert isinstance(failure, OnBatchFailed)
    assert "failing of on_batch failed with batch" in failure.message
    assert failure.message.endswith("ValueError.")


def test_a_function_that_stops_its_own_run_ends_it_after_its_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", events(300, seed=4), 1)
    table, begun = Table(tmp_path / "table.db"), Event()
    runs: list[Run] = []

    def stopping(batch: kst.BatchOutput) -> None:
        assert begun.wait(60)
        table(batch)
        runs[0].stop()  # of the batch that flushes too

    runs.append(pipeline(tmp_path, stopping).start(tmp_path / "out", trigger="500 ms"))
    begun.set()
    until(lambda: not runs[0].folder.is_held(), "the end", seconds=60)
    assert not runs[0].is_active
    assert runs[0].failure() is None
    assert runs[0].as_of() == {}
    table.check(spark, runs[0])
    runs[0].stop()  # once more, from elsewhere


def test_a_function_does_not_go_with_counts_that_go_to_a_topic(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"these go to kafka://\S+/counts\."):
        kst.Pipeline(
            source=source(tmp_path),
            changelog=kst.kafka_changelog("kafka://127.0.0.1:1/counts"),
            on_batch=print,
        )
    with pytest.raises(ConfigurationError, match="on_batch is 5"):
        kst.Pipeline(source=source(tmp_path), on_batch=5)  # type: ignore[arg-type]


KILLED = """
    import sys
    from pathlib import Path
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_results import Table, pipeline
    spark_session("local[2]")
    folder = Path(sys.argv[1])
    table = Table(folder / "table.db", pause=0.5)
    pipeline(folder, table).run(folder / "out", max_files_per_batch=1, progress=False)
"""


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "phases",
    [["written"], pytest.param(["inside", "written", "marked"], marks=pytest.mark.long)],
    ids=["once", "thrice"],
)
def test_a_table_is_exact_whenever_the_run_is_killed(
    spark: SparkSession, tmp_path: Path, phases: list[str]
) -> None:
    write_files(tmp_path / "in", events(900, seed=4), 6)
    table, out = Table(tmp_path / "table.db"), tmp_path / "out"
    for phase in phases:
        before, first = len(table.log()), newest_of(out / "checkpoint" / "commits") + 1
        with spawned(KILLED, tmp_path) as process:
            until(
                lambda phase=phase, before=before, first=first: (  # type: ignore[misc]
                    (out / "changelog" / "epoch=0" / f"batch={first}" / DONE).exists()
                    if phase == "marked"
                    else any(line.endswith(phase) for line in table.log()[before:])
                ),
                phase,
                seconds=240,
                every=0.002,
            )
            assert process.poll() is None
            kill_group(process)
    run = pipeline(tmp_path, table).run(out, max_files_per_batch=1, progress=False)
    table.check(spark, run)
    check_exact(run, sorted((tmp_path / "in").iterdir()))
    written = [line for line in table.log() if line.endswith("written")]
    assert len(written) > len(set(written)) == 6, "no batch came again after it was written"
