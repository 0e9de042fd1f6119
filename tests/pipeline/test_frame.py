"""Anyone's DataFrame as the source: batch or streaming, with SQL expressions for columns."""

from __future__ import annotations

import shutil
from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import CheckpointError, ColumnError, ConfigurationError
from tests.pipeline.harness import (
    Kept,
    check_exact,
    counted,
    differences,
    events,
    kill_group,
    letters,
    oracle,
    source,
    spawned,
    told,
    until,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DDL = "time string, user string, action string"
COLUMNS: dict[str, Any] = {"event_time": "time", "user": "user", "action": "action"}


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return write_files(tmp_path / "in", events(1_500, seed=11), 4)


def batch(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.schema(DDL).json(str(folder))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(folder))


def pipeline(df: DataFrame, **options: Any) -> kst.Pipeline:
    return kst.Pipeline(source=kst.frame(df, **{**COLUMNS, **options}), buckets=3)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A folder of files, and of a run that has counted a DataFrame of them; it said nothing."""
    folder: Path = tmp_path_factory.mktemp("finished") / "folder"
    write_files(folder / "in", events(1_500, seed=11), 4)
    with redirect_stderr(StringIO()) as said:
        pipeline(batch(spark, folder / "in")).run(folder / "out", progress=False)
    assert said.getvalue() == ""
    return Kept(folder)


@pytest.fixture
def finished(made: Kept) -> Path:
    """Return that folder, as it was then."""
    return made.again()


def inputs(folder: Path) -> list[Path]:
    return sorted((folder / "in").iterdir())


def test_a_batch_dataframe_is_counted_exactly_and_once(spark: SparkSession, finished: Path) -> None:
    paths = inputs(finished)
    check_exact(kst.load_run(finished / "out"), paths)
    again = pipeline(batch(spark, finished / "in")).run(finished / "out", progress=False)
    check_exact(again, paths)
    assert again.summary().events == 1_500


def test_another_dataframe_is_added_by_another_name_and_one_of_the_same_is_said_to_be_there(
    spark: SparkSession, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, paths = finished / "out", inputs(finished)
    more = write_lines(finished / "more" / "a.json", events(200, seed=12))
    other = batch(spark, finished / "more")
    check_exact(pipeline(other).run(out, progress=False), paths)
    assert "The frame 'frame' was taken in before, and is not again;" in capsys.readouterr().err
    both = pipeline(other, name="../March ü/%").run(out, progress=False)
    check_exact(both, [*paths, more])
    assert capsys.readouterr().err == ""
    check_exact(pipeline(other, name="../March ü/%").run(out, progress=False), [*paths, more])
    assert both.summary().events == 1_700


def test_what_was_not_whole_of_another_frame_is_never_counted(
    spark: SparkSession, finished: Path
) -> None:
    out, paths = finished / "out", inputs(finished)
    # As after a kill between the last file of another and its being whole.
    shutil.copytree(out / "staged" / "name=frame", out / ".staging")
    more = write_lines(finished / "more" / "a.json", events(200, seed=12))
    other = batch(spark, finished / "more")
    check_exact(pipeline(other, name="other").run(out, progress=False), [*paths, more])


def test_frames_of_runs_before_there_were_names_stay_counted(
    spark: SparkSession, finished: Path
) -> None:
    out, paths = finished / "out", inputs(finished)
    named = out / "staged" / "name=frame"
    shutil.rmtree(out / "checkpoint")  # as if it had been killed before any of it was counted
    for each in named.iterdir():
        each.replace(out / "staged" / each.name)
    named.rmdir()
    again = pipeline(batch(spark, finished / "in")).run(out, progress=False)
    check_exact(again, paths)
    assert not named.exists()


def test_limits_of_a_batch_that_would_not_hold_are_refused(
    spark: SparkSession, paths: list[Path], tmp_path: Path
) -> None:
    assert paths
    limits: tuple[dict[str, Any], ...] = ({"max_files_per_batch": 5}, {"max_bytes_per_batch": 5})
    for limit in limits:
        with pytest.raises(ConfigurationError, match="are of files, and there are none"):
            pipeline(batch(spark, tmp_path / "in")).run(tmp_path / "out", **limit)
        columns: dict[str, Any] = {"event_time": "time", "user": "user", "action": "action"}
        topic = kst.kafka_topic("a-topic", bootstrap="127.0.0.1:1", **columns)
        with pytest.raises(ConfigurationError, match="are of files, and there are none"):
            kst.Pipeline(source=topic).run(tmp_path / "out", **limit)
    for name in ("", "č" * 60, "\ud800"):
        with pytest.raises(ConfigurationError, match="The frame's name has"):
            pipeline(batch(spark, tmp_path / "in"), name=name)


def test_a_streaming_dataframe_is_counted_exactly_and_goes_on(
    spark: SparkSession, paths: list[Path], tmp_path: Path
) -> None:
    run = pipeline(stream(spark, tmp_path / "in")).run(tmp_path / "out", progress=False)
    check_exact(run, paths)
    assert run.summary().batches == 4 + 1  # which ends the run
    more = write_lines(tmp_path / "in" / "more.json", events(200, seed=12))
    run = pipeline(stream(spark, tmp_path / "in")).run(tmp_path / "out", progress=False)
    check_exact(run, [*paths, more])
    assert run.summary().events == 1_700


def test_a_streaming_dataframe_can_be_followed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    cascade = kst.Cascade("1 hour", "1 day", flush={"1 day": "0 s"})
    given = kst.frame(stream(spark, tmp_path / "in"), **COLUMNS)
    run = kst.Pipeline(source=given, cascade=cascade, buckets=2).start(
        tmp_path / "out", trigger="1 second"
    )
    try:
        path = write_lines(tmp_path / "in" / "a.json", events(90, hours=1))
        until(lambda: sum(counted(run, "1 day").values()) == 90, "the events", every=0.2)
    finally:
        run.stop()
    check_exact(run, [path])


@pytest.mark.parametrize("kind", ["batch", pytest.param("stream", marks=pytest.mark.long)])
def test_columns_may_be_sql_expressions(
    spark: SparkSession, paths: list[Path], tmp_path: Path, kind: str
) -> None:
    df = {"batch": batch, "stream": stream}[kind](spark, tmp_path / "in")
    expressions = {
        "event_time": "to_timestamp(time)",
        "user": "concat(user, '!')",
        "action": "CASE WHEN action = 'read' THEN 'reading' ELSE 'other' END",
    }
    run = pipeline(df, **expressions).run(tmp_path / "out", progress=False)
    expected: dict[tuple[int, str, str], int] = {}
    for (start, user, action), count in oracle(paths, "1 hour").items():
        key = (start, f"{user}!", "reading" if action == "read" else "other")
        expected[key] = expected.get(key, 0) + count
    assert differences(run, "1 hour", expected) == []


def test_rows_that_are_no_events_become_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        ("2025-03-01T10:00:00Z", "Ann", "read"),
        ("never", "Ann", "read"),
        ("2025-03-01T10:00:00Z", None, "read"),
        ("2099-03-01T10:00:00Z", "Ann", "read"),
    ]
    run = pipeline(spark.createDataFrame(rows, DDL)).run(tmp_path / "out", progress=False)
    assert [reason for reason, _, _ in letters(run)] == ["bad_time", "future_time", "no_user"]
    assert '"time": "never"' in letters(run)[0][1]
    assert run.summary().events == 1


def test_a_frame_and_files_give_the_same_counts_and_findings(
    spark: SparkSession, paths: list[Path], tmp_path: Path
) -> None:
    rules = [kst.Ceiling("1 day", 12)]
    of_frame = kst.Pipeline(
        source=kst.frame(batch(spark, tmp_path / "in"), **COLUMNS), rules=rules
    ).run(tmp_path / "frame", progress=False)
    of_files = kst.Pipeline(source=source(tmp_path / "in"), rules=rules).run(
        tmp_path / "files", progress=False
    )
    assert len(paths) == 4
    assert counted(of_frame, "1 minute") == counted(of_files, "1 minute")
    assert told(of_frame) == told(of_files) != []


def test_a_column_that_is_not_there_is_named_and_can_be_mended(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.createDataFrame([("2025-03-01", "a", "b")], DDL)
    with pytest.raises(ColumnError, match="No column 'usr' in the DataFrame"):
        pipeline(df, user="usr").run(tmp_path / "out", progress=False)
    with pytest.raises(ConfigurationError, match="Spark can't read"):
        pipeline(df, user="lower(").run(tmp_path / "out", progress=False)
    run = pipeline(df).run(tmp_path / "out", progress=False)
    assert run.summary().events == 1


def test_another_kind_of_source_is_refused_and_harms_nothing(
    spark: SparkSession, finished: Path
) -> None:
    with pytest.raises(CheckpointError, match="other kind of source"):
        pipeline(stream(spark, finished / "in")).run(finished / "out", progress=False)
    with pytest.raises(CheckpointError, match="other kind of source"):
        kst.Pipeline(source=source(finished / "in"), buckets=3).run(finished / "out")
    check_exact(kst.load_run(finished / "out"), inputs(finished))


def test_rows_that_somebody_marked_as_broken_are_dead_letters(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("2025-03-01T00:00:00Z", "Ann", "read", None), (None, "Bo", None, "no such user")]
    df = spark.createDataFrame(rows, "time string, user string, action string, _broken string")
    given = kst.frame(df, event_time="time", user="user", action="action")

    run = kst.Pipeline(source=given, buckets=1).run(tmp_path / "out", progress=False)

    assert run.summary().events == 1
    (letter,) = run.dead_letters.to_pandas().to_dict("records")
    assert (letter["reason"], letter["detail"]) == ("marked_broken", "no such user")
    assert letter["raw"] == '{"user":"Bo"}'


PROGRAM = """
    import sys
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    spark = spark_session("local[2]")
    df = spark.read.schema("time string, user string, action string").json(sys.argv[1])
    given = kst.frame(df.repartition(2), event_time="time", user="user", action="action")
    kst.Pipeline(source=given, buckets=3).run(sys.argv[2], progress=False)
"""


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize(
    "sign",
    [
        *(pytest.param(sign, marks=pytest.mark.long) for sign in (".staging", "staged/name=frame")),
        "checkpoint/offsets/0",
    ],
)
def test_a_kill_between_staging_and_counting_is_made_good(
    spark: SparkSession, paths: list[Path], tmp_path: Path, sign: str
) -> None:
    out = tmp_path / "out"
    with spawned(PROGRAM, tmp_path / "in", out) as process:
        until(
            lambda: process.poll() is not None or (out / sign).exists(),
            sign,
            seconds=240,
            every=0.002,
        )
        assert process.poll() is None, process.communicate()
        kill_group(process)
    run = pipeline(batch(spark, tmp_path / "in")).run(out, progress=False)
    check_exact(run, paths)
    assert run.summary().events == 1_500
