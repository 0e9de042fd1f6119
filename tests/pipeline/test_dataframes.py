from __future__ import annotations

import os
from collections import Counter
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as sf

from kstoolkit.errors import ColumnError, ConfigurationError
from kstoolkit.pipeline.dataframes import column_of, count_sessions, count_sliding, count_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.pipeline.dataframes import Transformation


pytestmark = pytest.mark.spark

Event = tuple[Any, Any, Any]  # microseconds since 1970, user, action; each may be missing
Count = tuple[Any, ...]  # window start, window end, user, action, count

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
# The night in which clocks in New York were set back, and one before the Unix epoch.
ANCHORS = (1_730_606_400 * SECOND, -3 * DAY)

FEW_EXAMPLES = settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
moments = st.builds(
    lambda anchor, minutes, offset: anchor + minutes * MINUTE + offset,
    st.sampled_from(ANCHORS),
    st.integers(0, 90),
    st.sampled_from([0, 0, 1, -1, 30 * SECOND, 123_456]),
)
some_events = st.lists(
    st.tuples(moments, st.sampled_from(["ann", "Bé", ""]), st.sampled_from(["edit", "view"])),
    min_size=1,
    max_size=120,
)


@pytest.fixture(scope="module")
def new_york(spark: SparkSession) -> SparkSession:
    """A session whose time zone is not UTC and has daylight saving."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


def frame(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    rows = spark.createDataFrame(list(events), "us long, user string, action string")
    return rows.selectExpr("timestamp_micros(us) AS time", "user", "action")


def rows_of(counts: DataFrame) -> list[Count]:
    assert counts.columns == ["window_start", "window_end", "user", "action", "count"]
    assert [kind for _, kind in counts.dtypes] == [*["timestamp"] * 2, *["string"] * 2, "bigint"]
    wanted = counts.selectExpr(
        "unix_micros(window_start)", "unix_micros(window_end)", "user", "action", "count"
    )
    return sorted(tuple(row) for row in wanted.collect())


def windows_by_hand(events: Iterable[Event], size: int, every: int) -> list[Count]:
    found: Counter[Event] = Counter()
    for time, user, action in events:
        last = time // every * every
        starts = [last - back for back in range(0, size, every)]
        found.update((start, user, action) for start in starts if time < start + size)
    return sorted((start, start + size, *who, count) for (start, *who), count in found.items())


def sessions_by_hand(events: Iterable[Event], gap: int) -> list[Count]:
    sessions: list[list[Any]] = []
    for user, action, time in sorted((user, action, time) for time, user, action in events):
        last = sessions[-1] if sessions else None
        if last and last[2:4] == [user, action] and time <= last[1]:
            last[1], last[4] = time + gap, last[4] + 1
        else:
            sessions.append([time, time + gap, user, action, 1])
    return sorted(tuple(session) for session in sessions)


def sliding_by_hand(events: list[Event], size: int) -> list[Count]:
    found = {
        (end - size, end, *who, sum(end - size < time <= end for time, *by in events if by == who))
        for end, *who in events
    }
    return sorted(found)


@given(events=some_events)
@FEW_EXAMPLES
def test_tumbling_windows_hold_what_falls_into_them(
    new_york: SparkSession, events: list[Event]
) -> None:
    counts = frame(new_york, events).transform(count_windows("5 minutes"))
    assert rows_of(counts) == windows_by_hand(events, 5 * MINUTE, 5 * MINUTE)


@given(events=some_events)
@FEW_EXAMPLES
def test_hopping_windows_hold_what_falls_into_each_of_them(
    new_york: SparkSession, events: list[Event]
) -> None:
    counts = frame(new_york, events).transform(count_windows("15 minutes", every="3 minutes"))
    assert rows_of(counts) == windows_by_hand(events, 15 * MINUTE, 3 * MINUTE)


@given(events=some_events)
@FEW_EXAMPLES
def test_windows_that_no_hop_divides_are_those_of_spark(
    new_york: SparkSession, events: list[Event]
) -> None:
    rows = frame(new_york, events)
    counts = rows_of(rows.transform(count_windows("5 minutes", every="2 minutes")))
    spark_windows = rows.groupBy(sf.window("time", "5 minutes", "2 minutes"), "user", "action")
    columns = ["window.start AS window_start", "window.end AS window_end"]
    theirs = spark_windows.count().selectExpr(*columns, "user", "action", "count")
    assert counts == rows_of(theirs)
    assert counts == windows_by_hand(events, 5 * MINUTE, 2 * MINUTE)


@given(events=some_events)
@FEW_EXAMPLES
def test_a_session_ends_when_more_than_the_gap_passes(
    new_york: SparkSession, events: list[Event]
) -> None:
    counts = frame(new_york, events).transform(count_sessions("2 minutes"))
    assert rows_of(counts) == sessions_by_hand(events, 2 * MINUTE)


@given(events=some_events)
@FEW_EXAMPLES
def test_sliding_windows_end_at_each_event_and_leave_out_their_start(
    new_york: SparkSession, events: list[Event]
) -> None:
    counts = frame(new_york, events).transform(count_sliding("10 minutes"))
    assert rows_of(counts) == sliding_by_hand(events, 10 * MINUTE)


@pytest.mark.parametrize("every", [None, "12 hours"])
def test_days_begin_at_midnight_utc_whatever_the_time_zone_of_the_session(
    new_york: SparkSession, every: str | None
) -> None:
    events = [
        (day * DAY + hour * 3600 * SECOND, "ann", "edit")
        for day in (20_030, 20_031)
        for hour in (0, 3, 23)
    ]
    counts = frame(new_york, events).transform(count_windows("1 day", every=every))
    assert rows_of(counts) == windows_by_hand(events, DAY, DAY if every is None else DAY // 2)


def test_hours_of_the_real_sample_equal_those_of_duckdb(
    new_york: SparkSession, wikiticker: Path
) -> None:
    edits = new_york.read.json(str(wikiticker))
    counts = edits.transform(
        count_windows("1 hour", event_time="try_to_timestamp(time)", action="namespace")
    )
    expected = duckdb.execute(f"""
        SELECT epoch_us(hour), epoch_us(hour) + 3600000000, "user", namespace, count(*) FROM (
            SELECT time_bucket(INTERVAL 1 HOUR, "time"::TIMESTAMP, TIMESTAMP '1970-01-01') AS hour,
                "user", namespace
            FROM read_json_auto('{wikiticker}')) GROUP BY ALL""")  # noqa: S608 - a path of our own
    rows = rows_of(counts)
    assert rows == sorted(expected.fetchall())
    assert sum(count for *_, count in rows) == 39_244


@pytest.mark.parametrize(
    "transformation",
    [count_windows("1 minute"), count_windows("1 minute", every="30 seconds"),
     count_sessions("1 minute"), count_sliding("1 minute")],
    ids=["tumbling", "hopping", "sessions", "sliding"],
)  # fmt: skip
def test_an_event_without_time_user_or_action_is_not_counted(
    new_york: SparkSession, transformation: Transformation
) -> None:
    whole: list[Event] = [(SECOND, "ann", "edit"), (2 * SECOND, "bob", "view")]
    broken: list[Event] = [(None, "ann", "edit"), (SECOND, None, "edit"), (SECOND, "ann", None)]
    counts = frame(new_york, whole + broken).transform(transformation)
    assert rows_of(counts) == rows_of(frame(new_york, whole).transform(transformation))
    assert counts.count() > 0


@pytest.mark.parametrize(
    "count", [count_windows, count_sessions, count_sliding], ids=lambda count: count.__name__
)
def test_without_an_action_all_actions_count_together(
    new_york: SparkSession, count: Callable[..., Transformation]
) -> None:
    events = frame(new_york, [(0, "ann", "edit"), (0, "ann", "view"), (0, "ann", None)])
    [(*_, user, action, number)] = rows_of(events.transform(count("1 minute", action=None)))
    assert (user, action, number) == ("ann", None, 3)


@pytest.mark.parametrize(
    "count", [count_windows, count_sessions, count_sliding], ids=lambda count: count.__name__
)
def test_counts_below_min_count_are_left_out(
    new_york: SparkSession, count: Callable[..., Transformation]
) -> None:
    events = frame(new_york, [(0, "ann", "edit"), (0, "ann", "edit"), (0, "bob", "edit")])
    [(*_, user, _, number)] = rows_of(events.transform(count("1 minute", min_count=2)))
    assert (user, number) == ("ann", 2)


def test_columns_may_be_odd_names_or_expressions_and_keep_their_types(
    new_york: SparkSession,
) -> None:
    events = new_york.sql("""SELECT timestamp_seconds(61) AS `when`, 7 AS `user.id`,
        named_struct('kind', 'EDIT') AS request""")
    counts = events.transform(
        count_windows("1 minute", event_time="when", user="user.id", action="lower(request.kind)")
    )
    assert dict(counts.dtypes)["user"] == "int"
    assert [(row.user, row.action, row["count"]) for row in counts.collect()] == [(7, "edit", 1)]


def test_a_name_may_differ_in_case_as_everywhere_in_spark(new_york: SparkSession) -> None:
    events = frame(new_york, [(0, "ann", "edit")]).withColumnRenamed("user", "User")
    assert rows_of(events.transform(count_windows("1 minute"))) == [(0, MINUTE, "ann", "edit", 1)]


def test_a_timestamp_without_a_zone_is_in_utc_even_where_local_clocks_skip_it(
    new_york: SparkSession,
) -> None:
    # 02:30 does not exist on that day in New York.
    events = new_york.sql("""SELECT TIMESTAMP_NTZ '2024-03-10 02:30:00.000001' AS time,
        'ann' AS user, 'edit' AS action""")
    [(start, *_)] = rows_of(events.transform(count_windows("1 minute")))
    assert start == 1_710_037_800 * SECOND


def test_a_missing_column_is_named_with_the_nearest_one(new_york: SparkSession) -> None:
    events = new_york.sql("SELECT now() AS time, 'ann' AS usr, 'edit' AS action")
    with pytest.raises(
        ColumnError, match=r"No column 'user' in the DataFrame.\n.*Did you mean 'usr'"
    ):
        events.transform(count_windows("1 minute"))
    with pytest.raises(ColumnError, match="No column 'usrs' in the DataFrame"):
        events.transform(count_windows("1 minute", user="lower(usrs)"))


def test_an_expression_that_spark_cannot_read_is_shown(new_york: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match=r"user='user user user'.*\n.*SQL expressions"):
        frame(new_york, [(0, "a", "b")]).transform(count_windows("1 day", user="user user user"))


@pytest.mark.parametrize("event_time", ["string(time)", "unix_millis(time)", "date(time)"])
def test_what_is_not_a_timestamp_is_refused_with_the_way_out(
    new_york: SparkSession, event_time: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"is of type .*, not a timestamp.\n.*Convert it"):
        frame(new_york, [(0, "a", "b")]).transform(count_windows("1 day", event_time=event_time))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: count_windows("5 parsecs"), "'5 parsecs' is not a duration"),
        (lambda: count_windows("2 minutes", every="5 minutes"), "leaves gaps between its windows"),
        (lambda: count_windows("1 day", every="1 second"), "makes 86,400 counters of one event"),
        (lambda: count_windows("1 day every 1 second"), "makes 86,400 counters of one event"),
        (lambda: count_windows("5 minutes", lateness="-"), "'-' is not a duration"),
        (lambda: count_sessions("0 seconds"), "is not positive"),
        (lambda: count_sliding("1 day", min_count=0), "min_count is 0: it has to be 1 or more"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_any_data(
    make: Callable[[], Transformation], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


def followed(spark: SparkSession, folder: Path, batches: list[list[Event]]) -> DataFrame:
    """Return a stream that reads one batch of events after the other."""
    for number, events in enumerate(batches):
        file = folder / f"{number}.parquet"
        times = pa.array([time for time, *_ in events], pa.timestamp("us", "UTC"))
        users, actions = ([event[part] for event in events] for part in (1, 2))
        pq.write_table(pa.table({"time": times, "user": users, "action": actions}), file)
        os.utime(file, (number, number))
    stream = spark.readStream.schema("time timestamp, user string, action string")
    return stream.option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(counts: DataFrame, mode: str, name: str) -> StreamingQuery:
    query = (
        counts.writeStream.format("memory").queryName(name).outputMode(mode)
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return query


def three_batches() -> list[list[Event]]:
    """Return batches that overlap by five minutes of event time, and an event long after."""
    random = Random(3)
    batches = [
        [
            (second * SECOND, random.choice(["ann", "bob"]), random.choice(["edit", "view"]))
            for second in random.choices(range(60 * minute, 60 * (minute + 15)), k=100)
        ]
        for minute in (0, 10, 20)
    ]
    return [*batches, [(2 * DAY, "end", "end")]]


@pytest.mark.parametrize(
    "count",
    [
        lambda **late: count_windows("5 minutes", **late),
        lambda **late: count_windows("5 minutes", every="1 minute", **late),
        lambda **late: count_sessions("20 seconds", **late),
    ],
    ids=["tumbling", "hopping", "sessions"],
)
def test_a_stream_in_append_mode_emits_each_closed_window_once_as_a_batch_counts_it(
    new_york: SparkSession,
    tmp_path: Path,
    count: Callable[..., Transformation],
    request: pytest.FixtureRequest,
) -> None:
    batches = three_batches()
    name = f"closed_{request.node.callspec.id}"
    stream = followed(new_york, tmp_path, batches)
    run(stream.transform(count(lateness="10 minutes")), "append", name)
    expected = frame(new_york, chain(*batches[:-1])).transform(count())
    assert rows_of(new_york.table(name)) == rows_of(expected)


@pytest.mark.parametrize("every", [None, "1 minute"])
def test_a_stream_in_update_mode_ends_with_the_counts_of_a_batch(
    new_york: SparkSession, tmp_path: Path, every: str | None
) -> None:
    batches, name = three_batches(), f"updated_{every}".replace(" ", "_")
    counts = followed(new_york, tmp_path, batches).transform(
        count_windows("5 minutes", every=every)
    )
    run(counts, "update", name)
    latest = new_york.table(name).groupBy("window_start", "window_end", "user", "action")
    expected = frame(new_york, chain(*batches)).transform(count_windows("5 minutes", every=every))
    assert rows_of(
        latest.agg({"count": "max"}).withColumnRenamed("max(count)", "count")
    ) == rows_of(expected)


def test_sessions_of_a_stream_join_over_batches_at_exactly_the_gap(
    new_york: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [(0, "ann", "edit")],
        [(MINUTE, "ann", "edit")],
        [(2 * MINUTE + 1, "ann", "edit")],
        [(DAY, "end", "end")],
    ]
    stream = followed(new_york, tmp_path, batches)
    run(stream.transform(count_sessions("1 minute", lateness="5 minutes")), "append", "joined")
    assert rows_of(new_york.table("joined")) == sessions_by_hand(chain(*batches[:-1]), MINUTE)


def test_events_behind_the_lateness_are_dropped_from_a_stream_and_told_in_its_progress(
    new_york: SparkSession, tmp_path: Path
) -> None:
    batches = [
        [(10 * MINUTE, "ann", "edit")],
        [(9 * MINUTE, "ann", "edit")],
        # Spark judges by the watermark with which the batch before began.
        [(MINUTE, "ann", "edit"), (9 * MINUTE, "ann", "edit")],
        [(DAY, "end", "end")],
    ]
    stream = followed(new_york, tmp_path, batches)
    query = run(stream.transform(count_windows("1 minute", lateness="2 minutes")), "append", "late")
    counts = [(start // MINUTE, count) for start, *_, count in rows_of(new_york.table("late"))]
    dropped = sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )
    assert (counts, dropped) == ([(9, 2), (10, 1)], 1)


def test_the_watermark_that_a_stream_already_has_is_used(
    new_york: SparkSession, tmp_path: Path
) -> None:
    stream = followed(new_york, tmp_path, [[(0, "ann", "edit")], [(DAY, "end", "end")]])
    watermarked = stream.withWatermark("time", "1 minute")
    run(watermarked.transform(count_windows("1 minute")), "append", "own_watermark")
    assert rows_of(new_york.table("own_watermark")) == [(0, MINUTE, "ann", "edit", 1)]


def test_an_event_that_is_not_counted_does_not_move_the_watermark(
    new_york: SparkSession, tmp_path: Path
) -> None:
    batches: list[list[Event]] = [
        [(0, "ann", "edit"), (DAY, None, "edit")],
        [(SECOND, "ann", "edit")],
        [(DAY, "e", "e")],
    ]
    stream = followed(new_york, tmp_path, batches)
    run(stream.transform(count_windows("1 minute", lateness=0)), "append", "unmoved")
    assert rows_of(new_york.table("unmoved")) == [(0, MINUTE, "ann", "edit", 2)]


def test_closed_windows_go_to_parquet_files_that_anyone_reads(
    new_york: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "events").mkdir()
    stream = followed(new_york, tmp_path / "events", three_batches())
    counts = stream.transform(count_windows("5 minutes", lateness="10 minutes"))
    query = (
        counts.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True).start(str(tmp_path / "counts"))
    )  # fmt: skip
    query.awaitTermination()
    files = tmp_path / "counts" / "*.parquet"
    assert duckdb.execute(f"SELECT sum(count) FROM '{files}'").fetchall() == [(300,)]  # noqa: S608


def test_exact_sliding_windows_of_a_stream_are_refused_with_the_way_out(
    new_york: SparkSession, tmp_path: Path
) -> None:
    stream = followed(new_york, tmp_path, [[(0, "ann", "edit")]])
    with pytest.raises(ConfigurationError, match=r"can't follow a stream.\n.*count_windows"):
        stream.transform(count_sliding("5 minutes"))


@pytest.fixture(scope="module")
def logins(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 'Ann' AS name, named_struct('user', 'Bo') AS actor, 'x y' AS `a b`")


@pytest.mark.parametrize("text", ["user", "USER", "lower(user)", "coalesce(name, User )"])
def test_the_name_of_whoever_is_logged_in_is_no_column(logins: DataFrame, text: str) -> None:
    with pytest.raises(ColumnError, match=r"(?i)no column 'user'"):
        column_of(logins, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("name", "Ann"),
        ("NAME", "Ann"),
        ("a b", "x y"),
        ("lower(name)", "ann"),
        ("actor.user", "Bo"),
        ("concat('user ', name)", "user Ann"),
        (r"concat('it\'s user ', name)", "it's user Ann"),
    ],
)
def test_names_and_expressions_are_read(logins: DataFrame, text: str, value: str) -> None:
    (row,) = logins.select(column_of(logins, text)).collect()
    assert row[0] == value


def test_a_column_called_user_may_stand_in_expressions(spark: SparkSession) -> None:
    df = spark.sql("SELECT 'Ann' AS user")
    (row,) = df.select(column_of(df, "upper(user)")).collect()
    assert row[0] == "ANN"
