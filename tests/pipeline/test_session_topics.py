"""Sessions in a topic and in replicas, and beside those of a real Kafka Streams."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

import kstoolkit as kst
from kstoolkit.changelog.compaction import compact
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.reading import read_records
from kstoolkit.stores.rows.counts import changelog_counts
from tests.cli.commands import given, rows
from tests.kafka.clients import make_topic
from tests.operations.livestreams import Live, application, compiled
from tests.pipeline.harness import events, kill_group, newest, source, spawned, until, write_files
from tests.pipeline.test_sessions import ALL, EACH, Rows, check, expected, told

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.replica.windowstore import WindowReader

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("spark")]

USERS = {row["user"] for row in events(900, users=20, hours=20)}
PROGRAM = """
    import sys
    from pathlib import Path
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_session_topics import pipeline
    spark_session("local[2]")
    pipeline(Path(sys.argv[1]), *sys.argv[2:]).run(
        Path(sys.argv[1], "out"), max_files_per_batch=1, progress=False)
"""


def pipeline(folder: Path, topic: str, blocks: str = "") -> kst.Pipeline:
    cascade = kst.Cascade("1 hour", EACH, ALL)
    changelog = kst.kafka_changelog(topic, blocks=bool(blocks), partitions=2)
    return kst.Pipeline(
        source=source(folder / "in"), cascade=cascade, rules=(), buckets=3, changelog=changelog
    )


def held(replica: WindowReader, session: kst.Session, users: set[str]) -> Rows:
    return sorted(
        (one.window_start_ms, one.window_end_ms, one.user, action, count)
        for user in users
        for one in replica.history(user, window=session)
        for action, count in one.counts.items()
    )


def check_replica(replica: WindowReader, paths: list[Path]) -> None:
    for session in (EACH, ALL):
        right = expected(paths, session)
        assert held(replica, session, {row[2] for row in right}) == right
    first, last, user, action, count = max(expected(paths, EACH), key=lambda row: row[1] - row[0])
    at = datetime.fromtimestamp((first + last) / 2_000, UTC)
    one = replica.get(user, window=EACH, at=at)
    assert one.counts[action] == count
    assert one.window_start_ms <= first < last <= one.window_end_ms
    before = datetime(2020, 1, 1, tzinfo=UTC)
    assert replica.get(user, window=EACH, at=before).counts == {}


@pytest.mark.parametrize("blocks", ["", pytest.param("blocks", marks=pytest.mark.long)])
def test_a_topic_tells_those_of_all_events_though_others_swallowed_some(
    broker: Broker, tmp_path: Path, blocks: str
) -> None:
    name = f"session-counts-{blocks}"
    paths = write_files(tmp_path / "in", events(900, users=20, hours=20), 5)
    topic = f"kafka://{broker.bootstrap}/{name}"
    with spawned(PROGRAM, tmp_path, topic, blocks) as process:
        commits = tmp_path / "out" / "checkpoint" / "commits"
        until(lambda: newest(commits) >= 1, "two batches", seconds=240)
        kill_group(process)
    with kst.WindowStore.restore(
        kst.kafka_changelog(topic), path=tmp_path / "early", progress=False
    ) as early:
        there = [one for user in USERS for one in early.history(user, window=EACH)]
    run = pipeline(tmp_path, topic, blocks).run(
        tmp_path / "out", max_files_per_batch=1, progress=False
    )
    check(run, paths)
    compact(tmp_path / "out" / "mirror")
    check(run, paths)
    assert all(one.total for one in there)  # and no session of none
    # One that follows, and one from the topic's beginning, hold the same.
    for place in (tmp_path / "early", tmp_path / "late"):
        with kst.WindowStore.restore(
            kst.kafka_changelog(topic), path=place, progress=False
        ) as replica:
            check_replica(replica, paths)
    gone = 0
    cluster = Cluster(broker.bootstrap)
    for partition, reach in cluster.reach(name, [0, 1]).items():
        ends = {partition: reach.first}, {partition: reach.end}
        for part in read_records(cluster, name, *ends, 500):
            gone += sum(value is None for value in part.values)
    assert (gone > 0) == (not blocks)  # a swallowed session is a tombstone


def test_of_sessions_below_the_minimum_none_is_told_though_others_swallowed_some(
    broker: Broker, tmp_path: Path
) -> None:
    paths = write_files(tmp_path / "in", events(900, users=20, hours=20), 5)
    topic = f"kafka://{broker.bootstrap}/session-minimum"
    least = {EACH.label: 2, ALL.label: 2}
    run = kst.Pipeline(
        source=source(tmp_path / "in"),
        cascade=kst.Cascade("1 hour", EACH, ALL, min_count=least),
        rules=(),
        buckets=3,
        changelog=kst.kafka_changelog(topic, partitions=2),
    ).run(tmp_path / "out", max_files_per_batch=1, progress=False)
    with kst.WindowStore.restore(
        kst.kafka_changelog(topic), path=tmp_path / "replica", progress=False
    ) as replica:
        for session in (EACH, ALL):
            every = expected(paths, session)
            right = [row for row in every if row[-1] >= 2]
            assert 0 < len(right) < len(every)
            assert told(run.counts(session.label, limit=None)) == right
            assert held(replica, session, {row[2] for row in every}) == right


def test_a_session_of_two_months_is_found_by_who_asks_for_as_long_a_one(tmp_path: Path) -> None:
    began, month = datetime(2026, 1, 1, tzinfo=UTC), kst.Session("20 days", longest="90 days")
    days = (0, 15, 30, 45, 60)
    rows = [
        {"time": (began + timedelta(days=day)).isoformat(), "user": "ann", "action": "read"}
        for day in days
    ]
    write_files(tmp_path / "in", rows, 1)
    run = kst.Pipeline(
        source=source(tmp_path / "in"), cascade=kst.Cascade("1 day", month), rules=()
    ).run(tmp_path / "out", progress=False)
    with kst.WindowStore.restore(
        run.folder.path, path=tmp_path / "replica", progress=False
    ) as replica:
        for day in days:
            at = began + timedelta(days=day, hours=-1 if day else 0)
            assert replica.get("ann", window=month, at=at).counts == {"read": 5}
        since = began + timedelta(days=59)
        assert len(replica.history("ann", window=month, since=since)) == 1


def test_a_replica_of_a_folder_follows_and_answers_the_command(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", events(600, users=20, hours=20), 3)
    cascade = kst.Cascade("1 hour", EACH, ALL)
    looking = kst.Pipeline(source=source(tmp_path / "in"), cascade=cascade, rules=(), buckets=3)
    later = [path.rename(tmp_path / path.name) for path in paths[1:]]
    looking.run(tmp_path / "out", progress=False)
    replica = kst.WindowStore.restore(tmp_path / "out", path=tmp_path / "replica", progress=False)
    with replica, replica.follow(tmp_path / "out") as standby:
        for path in later:
            path.rename(tmp_path / "in" / path.name)
            looking.run(tmp_path / "out", progress=False)
            standby.step()
        check_replica(replica, sorted((tmp_path / "in").iterdir()))
        assert set(replica.windows) == {"1 hour", EACH.label.split(" up")[0], "session 5 minutes"}
    right = expected(sorted((tmp_path / "in").iterdir()), ALL)
    first, last, user, _, _ = max(right, key=lambda row: row[4])
    at = datetime.fromtimestamp(last / 1_000, UTC).isoformat()
    named = ("--user", user, "--window", ALL.label, "--at", at)
    (answer,) = rows(given("get", tmp_path / "replica", *named, "--json").out)
    assert (answer["window_start_ms"], answer["window_end_ms"]) == (first, last)
    level = tmp_path / "replica" / f"{ALL.size_ms}"
    same = given("diff", tmp_path / "out", level, "--window-size", ALL.label, "--total")
    assert same.code == 0, same.err
    assert "0 changed" in same.err


def test_the_store_of_a_real_kafka_streams_has_the_same(
    broker: Broker, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    classes = compiled(tmp_path_factory.mktemp("live") / "classes")
    draw, now_ms, name = random.Random(5), round(time.time() * 1_000), "session-judge"
    rows = [
        (now_ms - draw.randrange(3_000_000), f"user{draw.randrange(23)}", f"do{draw.randrange(4)}")
        for _ in range(900)
    ]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for each in ("actions", "replies"):
        make_topic(broker, f"{name}-{each}", 1)
    for time_ms, user, action in rows:
        producer.produce(f"{name}-actions", key=user, value=action, timestamp=time_ms)
    assert producer.flush(90) == 0
    theirs: Live = application(broker, classes, tmp_path, name, "DEFAULT", number=len(rows))
    told: list[dict[str, Any]] = [
        {"time": datetime.fromtimestamp(ms / 1_000, UTC).isoformat(), "user": user, "action": what}
        for ms, user, what in rows
    ]
    write_files(tmp_path / "in", told, 4)
    session = kst.Session("1 minute", by=[])
    counting = kst.Pipeline(
        source=source(tmp_path / "in"), cascade=kst.Cascade("1 hour", session), rules=()
    )
    run = counting.run(tmp_path / "out", max_files_per_batch=1, progress=False)
    ours = changelog_counts(run.folder.path, window=session, total=True)
    with kst.open_store(theirs.store("sessions", 0)) as store, kst.diff_stores(ours, store) as diff:
        assert (diff.added, diff.removed, diff.changed) == (0, 0, 0), list(diff.rows())[:3]
        assert diff.equal > 300
