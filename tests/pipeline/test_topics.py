"""Events from a topic, counts into a topic: on a real broker, equal to DuckDB's group-by."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import kstoolkit as kst
from kstoolkit.errors import CheckpointError, ConfigurationError, InputError
from kstoolkit.events.topics import _CONFIG_FILE
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.reading import last_values
from kstoolkit.pipeline import runfolder
from kstoolkit.pipeline.pipeline import _prepare
from kstoolkit.pipeline.progress import Progress
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.pipeline.session import spark_session
from tests.kafka.clients import make_topic, topics_of
from tests.pipeline.harness import (
    FIELDS_OF_FINDINGS,
    check_exact,
    counted,
    differences,
    events,
    letters,
    oracle,
    source,
    write_lines,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.kafka.cluster import Log, Sleep
    from kstoolkit.pipeline.pipeline import _Job

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("spark")]

CASCADE = kst.Cascade("1 minute", "1 hour")
NAMED: dict[str, Any] = {"event_time": "time", "user": "user", "action": "action"}
EVENTS = events(1_200)
CHANGED: list[dict[str, Any]] = [  # as records of a newer schema would be
    {"time": "2025-03-01T00:00:00Z", "user": "Ann", "action": "more", "level": 3, "new": [{}]},
    {"time": "2025-03-01T00:00:00Z", "user": "Bo", "action": "other", "level": "high"},
]
BAD = ["rubbish", '{"time": "never", "user": "Ann", "action": "read"}', '{"user": "Ann"}']
GOOD = '{"time": "2025-03-01T00:00:00Z", "user": "Ann", "action": "read"}'
NO_JSON = {  # though Spark's parser makes something of most of them
    "rubbish": b"rubbish",
    "": None,
    f"{GOOD} tail": f"{GOOD} tail".encode(),
    GOOD.replace('"', "'"): GOOD.replace('"', "'").encode(),
    GOOD.replace("Ann", "A\\xff"): GOOD.encode().replace(b"Ann", b"A\xff"),
}


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("events") / "events.json", [*EVENTS, *CHANGED])


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """A topic of events in three partitions, with some records that are none."""
    make_topic(broker, "topics-events", 3)
    values = [json.dumps(event, ensure_ascii=False).encode() for event in [*EVENTS, *CHANGED]]
    bad = [*(each.encode() for each in BAD[1:]), *NO_JSON.values()]
    write_keyed(broker, "topics-events", [*values, *bad])
    return f"kafka://{broker.bootstrap}/topics-events"


def write_keyed(broker: Broker, topic: str, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for number, value in enumerate(values):
        headers: dict[str, str | bytes | None] = {"source": b"app", "n": str(number)}
        producer.produce(topic, value, key=f"k{number % 7}", headers=headers, timestamp=5_000)
    assert producer.flush(90) == 0


def run_on(given: Any, out: Path, **options: Any) -> kst.Run:
    return kst.Pipeline(source=given, cascade=CASCADE, **options).run(out, progress=False)


def test_a_topic_is_counted_as_its_values_are_in_a_file(
    topic: str, lines: Path, tmp_path: Path
) -> None:
    given = kst.kafka_topic(topic, **NAMED, max_records_per_batch=500)

    run = run_on(given, tmp_path / "out")

    check_exact(run, [lines])
    assert len(run.batches()) >= 3
    found = {(reason, raw) for reason, raw, _ in letters(run)}
    assert found == {
        *(("unparseable", raw) for raw in NO_JSON),
        ("bad_time", BAD[1]),
        ("no_action", BAD[2]),
    }
    places = run.dead_letters.to_pandas()["file"]
    assert places.str.fullmatch(r"topic topics-events, partition \d, offset \d+").all()


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("offsets", 120),
        pytest.param("elsewhere", 200, id="or-as-its-query-began", marks=pytest.mark.long),
    ],
)
def test_a_run_ends_where_its_topic_ended_as_it_began_and_the_next_goes_on_there(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, first: int
) -> None:
    monkeypatch.setattr(runfolder, "_OFFSETS", log)  # where Spark's log is looked for
    name = f"topics-more-{first}"
    make_topic(broker, name, 2)
    values = [json.dumps(event, ensure_ascii=False).encode() for event in EVENTS[:200]]
    write_keyed(broker, name, [*values[:120]])
    given = kst.kafka_topic(name, bootstrap=broker.bootstrap, **NAMED)
    pipeline, folder = kst.Pipeline(source=given, cascade=CASCADE), RunFolder(tmp_path / "out")

    def ready(say: Log, sleep: Sleep) -> _Job:
        how: dict[str, Any] = {"master": None, "limits": (1, 1), "live": False}
        return _prepare(pipeline, folder, say, sleep, rulebook=pipeline.rulebook(folder), **how)

    with folder.hold(), Progress(shown=False) as shown:
        job = ready(shown.say, time.sleep)
        write_keyed(broker, name, [*values[120:]])  # as others do while Java starts
        job.finish(shown, ready)
    assert kst.load_run(folder.path).summary().events == first
    run = run_on(given, folder.path)

    assert run.summary().events == 200
    check_exact(run, [write_lines(tmp_path / "all.json", EVENTS[:200])])


def test_expressions_see_fields_and_what_the_record_brings_whatever_its_schema(
    topic: str, lines: Path, tmp_path: Path
) -> None:
    """An unknown field is ignored, a missing one is null, and one of another type is no event."""
    brought = "concat(headers[0].key, ' at ', unix_seconds(timestamp))"
    given = kst.kafka_topic(
        topic,
        event_time="time",
        user="user",
        action=f"concat(action, ' by ', {brought}, ' of ', coalesce(string(level), 'none'))",
        schema="time string, user string, action string, level int",
    )

    run = run_on(given, tmp_path / "out")

    marked = {
        (start, user, f"{action} by source at 5 of {3 if action == 'more' else 'none'}"): number
        for (start, user, action), number in oracle([lines], "1 hour").items()
        if action != "other"
    }
    assert differences(run, "1 hour", marked) == []
    dead = run.dead_letters.to_pandas().query("reason == 'unparseable'").set_index("raw")["detail"]
    assert set(dead.index) == {*NO_JSON, json.dumps(CHANGED[1])}
    assert dead[json.dumps(CHANGED[1])].startswith("a field is not of the type ")


def test_an_expression_reads_values_that_are_no_json(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "topics-text", 1)
    write_keyed(broker, "topics-text", [b"1741000000000|Ann|read", b"1741000000000|Bo|read"])
    given = kst.kafka_topic(
        "topics-text",
        bootstrap=broker.bootstrap,
        value="split(cast(value AS string), '[|]')",
        event_time="cast(value[0] AS long)",
        user="lower(value[1])",
        action="value[2]",
    )

    run = run_on(given, tmp_path / "out")

    assert sorted(run.counts("1 hour")["user"]) == ["ann", "bo"]


def shouted(records: pa.RecordBatch) -> pa.RecordBatch:
    """Read values as an application's own format would be; one of them can't be."""
    read = [json.loads(value) for value in records.column("value").to_pylist()]
    return pa.RecordBatch.from_pylist([{**each, "user": each["user"].upper()} for each in read])


def test_a_function_reads_values_and_what_it_fails_for_is_a_dead_letter(
    broker: Broker, tmp_path: Path
) -> None:
    make_topic(broker, "topics-function", 1)
    values: list[bytes | None] = [json.dumps(event).encode() for event in EVENTS[:50]]
    values[17] = b"not for us"
    write_keyed(broker, "topics-function", values)
    given = kst.kafka_topic("topics-function", bootstrap=broker.bootstrap, value=shouted, **NAMED)

    run = run_on(given, tmp_path / "out")

    assert run.summary().events == 49
    assert all(user == user.upper() for user in run.counts("1 hour")["user"])
    letter = run.dead_letters.to_pandas().iloc[0]
    assert letter["raw"] == "not for us"
    assert letter["file"] == "topic topics-function, partition 0, offset 17"
    assert letter["detail"].startswith("JSONDecodeError: ")


def test_a_run_begins_at_a_time_or_at_offsets(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "topics-start", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, event in enumerate(EVENTS[:30]):
        producer.produce("topics-start", json.dumps(event).encode(), timestamp=1_000 * (number + 1))
    assert producer.flush(90) == 0

    def events_from(where: str | datetime | Mapping[int, int]) -> int:
        given = kst.kafka_topic("topics-start", bootstrap=broker.bootstrap, starting=where, **NAMED)
        return run_on(given, tmp_path / str(where)).summary().events

    assert events_from(datetime.fromtimestamp(21, UTC)) == 10
    assert events_from({0: 25}) == 5
    with pytest.raises(ConfigurationError, match="starting has offset 31 of partition 0"):
        events_from({0: 31})


@pytest.mark.long
def test_a_topic_that_was_made_again_is_refused(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "topics-again", 1)
    write_keyed(broker, "topics-again", [json.dumps(EVENTS[0]).encode()])
    given = kst.kafka_topic("topics-again", bootstrap=broker.bootstrap, **NAMED)
    run_on(given, tmp_path / "out")
    admin = Cluster(broker.bootstrap).admin()
    admin.delete_topics(["topics-again"])["topics-again"].result(60)
    make_topic(broker, "topics-again", 1)

    with pytest.raises(CheckpointError, match="was deleted and made again") as caught:
        run_on(given, tmp_path / "out")
    assert "kstoolkit reset" in str(caught.value)


def test_what_is_not_there_is_said(broker: Broker, topic: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No topic 'topics-event'") as caught:
        run_on(kst.kafka_topic(topic[:-1], **NAMED), tmp_path / "out")
    assert "Did you mean 'topics-events'?" in str(caught.value)
    assert not (tmp_path / "out" / "run.json").exists()
    assert "topics-event" not in topics_of(broker)


def test_secrets_stay_out_of_sight(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(broker, "topics-secret", 1)
    write_keyed(broker, "topics-secret", [json.dumps(EVENTS[0]).encode()])
    # Without SASL as its protocol, the clients take these along and don't use them.
    config = tmp_path / "kafka.properties"
    config.write_text("sasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=hidden-42\n")
    monkeypatch.setenv(_CONFIG_FILE, str(config))
    options = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "hidden-42"}
    given = kst.kafka_topic("topics-secret", bootstrap=broker.bootstrap, options=options, **NAMED)
    log = kst.kafka_changelog("topics-secret-counts", bootstrap=broker.bootstrap)

    run = run_on(given, tmp_path / "out", changelog=log)

    assert run.summary().events == 1
    assert "hidden-42" not in repr(given) + repr(log) + repr(run) + str(run.settings)
    holding = [
        path
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and b"hidden-42" in path.read_bytes()
    ]
    assert holding == []


@pytest.fixture(scope="module")
def filed(lines: Path, tmp_path_factory: pytest.TempPathFactory) -> kst.Run:
    """The same events counted into a folder."""
    return run_on(source(lines), tmp_path_factory.mktemp("filed") / "out")


@pytest.mark.parametrize("form", ["bundles", pytest.param("blocks", marks=pytest.mark.long)])
def test_counts_go_to_a_topic_and_come_back(  # noqa: PLR0917 - fixtures
    broker: Broker, topic: str, lines: Path, filed: kst.Run, tmp_path: Path, form: str
) -> None:
    log = kst.kafka_changelog(
        f"topics-{form}", bootstrap=broker.bootstrap, blocks=form == "blocks", partitions=2
    )
    given = kst.kafka_topic(topic, **NAMED, max_records_per_batch=500)

    found = kst.kafka_findings(f"topics-{form}-found", bootstrap=broker.bootstrap, partitions=1)
    run = run_on(given, tmp_path / "out", changelog=log, findings_to=found)

    check_exact(run, [lines])
    sent = map(json.loads, last_values(Cluster(broker.bootstrap), f"topics-{form}-found", 1_000))
    findings = [each for each in sent if "record" not in each]
    assert len(findings) == sum(batch.findings for batch in run.batches()) > 0
    one = findings[0]
    assert tuple(one) == FIELDS_OF_FINDINGS
    assert one["window_end_ms"] - one["window_start_ms"] == one["window_ms"]
    assert one["ceiling"] is None  # what a rule knows nothing of is told as null
    assert not (tmp_path / "out" / "changelog").exists()
    assert not list((tmp_path / "out" / "outbox").rglob("part-*"))
    in_spark = run.to_spark(spark_session(), "1 hour").groupBy().sum("count").collect()
    assert in_spark[0][0] == sum(counted(run, "1 hour").values())
    with kst.WindowStore.restore(log, path=tmp_path / "replica", progress=False) as replica:
        assert replica.windows == ("1 minute", "1 hour")
        with kst.diff_stores(
            str(filed.folder.path), str(tmp_path / "replica" / "3600000"), window_size="1 hour"
        ) as diff:
            assert (diff.added, diff.removed, diff.changed) == (0, 0, 0)
            assert diff.equal > 100


def test_a_record_of_the_changelog_has_all_that_its_user_did_in_the_window(
    broker: Broker, tmp_path: Path
) -> None:
    log = kst.kafka_changelog("topics-whole", bootstrap=broker.bootstrap, partitions=1)
    for number, action in enumerate(["read", "write"]):
        event = {"time": "2025-03-01T00:00:10Z", "user": "Ann", "action": action}
        write_lines(tmp_path / "in" / f"{number}.json", [event])
        run = run_on(source(tmp_path / "in"), tmp_path / "out", changelog=log)

    assert counted(run, "1 hour").keys() == {
        (1740787200000, "Ann", "read"),
        (1740787200000, "Ann", "write"),
    }
    # Compacted, only the last record of each key is left: it must tell of both actions.
    last = last_values(Cluster(broker.bootstrap), "topics-whole", 2)
    assert all(b"read" in value and b"write" in value for value in last)
