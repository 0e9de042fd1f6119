"""Events into a real topic: what arrives, where and when, and what if the broker is away."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.errors import ColumnError, ConfigurationError, InputError, KafkaError
from kstoolkit.kafka.cluster import Cluster, retention_ms
from kstoolkit.kafka.producing import Produced
from tests.kafka.clients import make_topic, read_all
from tests.kafka.javaproducer import send_by_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from confluent_kafka import Message

    from kstoolkit.kafka.broker import Broker

pytestmark = pytest.mark.kafka

COLUMNS: dict[str, Any] = {"event_time": "time", "user": "user"}
BEGAN_MS = 1_442_018_818_000
OLD_MS = 10 * 365 * 86_400_000
NOWHERE = "127.0.0.1:9"


def silent(_: str) -> None:
    """Let nobody know."""


def event(number: int, user: object = "Zoë", **more: object) -> bytes:
    record = {"time": BEGAN_MS + number, "user": user, "action": "edit", **more}
    return json.dumps(record, ensure_ascii=False).encode()


def written(folder: Path, lines: Iterable[bytes], name: str = "events.json") -> Path:
    path = folder / name
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def value_of(record: Message) -> bytes:
    value = record.value()
    assert value is not None
    return value


def values(found: list[Message]) -> list[bytes]:
    return sorted(map(value_of, found))


def by_value(found: list[Message]) -> dict[bytes, Message]:
    return {value_of(each): each for each in found}


RUBBISH = [
    b"no JSON at all",
    b'{"time": "2015-09-12T00:46:58.771Z", "user": "Ann", ',
    b'{"time": 1442018818771}',
    b'{"user": "Ann"} {"user": "Bob"}',
    b"[1, 2]",
    b'{"time": 1, "user": "\xff\xfe"}',
    b'{"time": 1442018818771, "user": "\\ud800", "action": "x"}',
    b'{"time": 1442018818771, "user": {"first": "Ann"}}',
    b"\x00\x01\x02",
    b"a\rb",
    b"{" * 2_000,
]
HOSTILE = [
    ("NUL", "a\x00b"),
    ("emoji", "👩\N{ZERO WIDTH JOINER}🚀"),
    ("long", "u" * 10_000),
    ("turning", "\u202ernanny"),
    ("spaces", "  "),
    ("a number", 7),
    ("true", True),
    ("a fraction", 1.5),
]


def test_what_arrives_is_the_file_line_by_line_rubbish_too(broker: Broker, tmp_path: Path) -> None:
    lines = [event(number, f"user {number % 7}") for number in range(500)]
    lines[100:100] = RUBBISH
    path = written(tmp_path, lines)
    done = kst.produce(path, "as-is", bootstrap=broker.bootstrap, **COLUMNS)
    found = read_all(broker, "as-is")
    assert values(found) == sorted(lines)
    assert (done.records, done.failures) == (len(lines), {})
    assert done.size_bytes == sum(map(len, lines))
    assert done.partitions == Counter(each.partition() for each in found)


def test_line_ends_blank_lines_and_a_byte_order_mark_are_no_records(
    broker: Broker, tmp_path: Path
) -> None:
    path = tmp_path / "events.json.gz"
    text = b"\xef\xbb\xbf" + event(1) + b"\r\n\n  \n" + event(2)
    path.write_bytes(gzip.compress(text))
    kst.produce(path, "line-ends", bootstrap=broker.bootstrap, **COLUMNS)
    assert values(read_all(broker, "line-ends")) == [event(1), event(2)]


def test_the_key_is_the_user_and_the_time_is_the_events(broker: Broker, tmp_path: Path) -> None:
    lines = [event(place, user) for place, (_, user) in enumerate(HOSTILE)]
    kst.produce(written(tmp_path, lines), "keys", bootstrap=broker.bootstrap, **COLUMNS)
    found = by_value(read_all(broker, "keys"))
    texts = [user if isinstance(user, str) else json.dumps(user) for _, user in HOSTILE]
    assert [found[line].key() for line in lines] == [text.encode() for text in texts]
    assert [found[line].timestamp()[1] - BEGAN_MS for line in lines] == list(range(len(lines)))


def test_a_record_whose_user_or_time_can_t_be_told_has_no_key_and_is_of_now(
    broker: Broker, tmp_path: Path
) -> None:
    before_ms = time.time_ns() // 1_000_000
    future = b'{"time": "2099-01-01", "user": "Ann"}'
    lines = [*RUBBISH, event(0, ""), event(0, None), b'{"time": -5, "user": "Ann"}', future]
    kst.produce(written(tmp_path, lines), "unkeyed", bootstrap=broker.bootstrap, **COLUMNS)
    found = by_value(read_all(broker, "unkeyed"))
    with_key = {line: each.key() for line, each in found.items() if each.key() is not None}
    assert with_key == {b'{"time": -5, "user": "Ann"}': b"Ann", future: b"Ann"}
    for line in (RUBBISH[0], RUBBISH[1], b'{"time": -5, "user": "Ann"}', future):
        assert found[line].timestamp()[1] >= before_ms


def test_each_user_has_the_partition_that_java_gives(broker: Broker, tmp_path: Path) -> None:
    users = [f"user {number}" for number in range(300)]
    users += [user for _, user in HOSTILE if isinstance(user, str)]
    lines = [event(place, user) for place, user in enumerate(users)]
    path = written(tmp_path, lines)
    kst.produce(path, "ours", bootstrap=broker.bootstrap, partitions=7, **COLUMNS)
    make_topic(broker, "javas", 7)
    theirs = send_by_java(broker, "javas", [user.encode() for user in users])
    assert {each.key(): each.partition() for each in read_all(broker, "ours")} == theirs
    assert set(theirs.values()) == set(range(7))


def test_rows_of_csv_are_objects_and_what_is_no_row_is_its_text(
    broker: Broker, tmp_path: Path
) -> None:
    path = tmp_path / "events.csv"
    rows = b'2026-03-01T00:00:01Z,"Ann ""A"", \nB",1.50\nonly one\n2026-03-01,Z\xff,2\n,Bob,\n'
    path.write_bytes(b"time,user,size\n" + rows)
    done = kst.produce(path, "csv", bootstrap=broker.bootstrap, **COLUMNS)
    found = by_value(read_all(broker, "csv"))
    objects = [json.loads(value) for value in found if value.startswith(b"{")]
    assert done.records == 4
    assert sorted(objects, key=str) == [
        {"time": "", "user": "Bob", "size": ""},
        {"time": "2026-03-01T00:00:01Z", "user": 'Ann "A", \nB', "size": "1.50"},
    ]
    assert found[b"only one"].key() is None
    assert found["2026-03-01,Z\N{REPLACEMENT CHARACTER},2".encode()].key() is None


def test_rows_of_parquet_are_objects_of_their_columns(broker: Broker, tmp_path: Path) -> None:
    times = pa.array([BEGAN_MS, None]).cast(pa.timestamp("ms", tz="UTC"))
    table = pa.table({"time": times, "user": ["Zoë", "Bob"], "size": [1.5, float("nan")]})
    pq.write_table(table, tmp_path / "events.parquet")
    kst.produce(tmp_path, "parquet", bootstrap=broker.bootstrap, **COLUMNS)
    found = {each.key(): each for each in read_all(broker, "parquet")}
    first = json.loads(value_of(found["Zoë".encode()]))
    assert first == {"time": "2015-09-12T00:46:58.000Z", "user": "Zoë", "size": 1.5}
    assert found["Zoë".encode()].timestamp()[1] == BEGAN_MS
    assert json.loads(value_of(found[b"Bob"])) == {"time": None, "user": "Bob", "size": None}


def test_a_simulation_sends_what_it_would_write(broker: Broker, tmp_path: Path) -> None:
    simulation = kst.simulate(event_count=2_000, users=50)
    (path, *_) = simulation.write(tmp_path / "events", compression=None)
    address = f"kafka://{broker.bootstrap}/simulated"
    assert kst.produce(simulation, address).records == len(read_all(broker, "simulated"))
    assert values(read_all(broker, "simulated")) == sorted(path.read_bytes().splitlines())


def test_several_files_and_a_source_go_the_same_way(broker: Broker, tmp_path: Path) -> None:
    one, two = (written(tmp_path, [event(n)], f"{n}.json") for n in (1, 2))
    kst.produce([one, two], "several", bootstrap=broker.bootstrap, **COLUMNS)
    source = kst.files(tmp_path, event_time="time", user="user", action="action")
    kst.produce(source, "several", bootstrap=broker.bootstrap)
    assert values(read_all(broker, "several")) == [event(1), event(1), event(2), event(2)]


def test_a_topic_is_made_with_as_many_partitions_and_keeps_its_records(
    broker: Broker, tmp_path: Path
) -> None:
    path = written(tmp_path, [event(1)])
    kst.produce(path, "made", bootstrap=broker.bootstrap, partitions=5, **COLUMNS)
    cluster = Cluster(broker.bootstrap)
    assert cluster.partitions("made") == [0, 1, 2, 3, 4]
    assert retention_ms(cluster, "made") is None
    kst.produce(path, "by-default", bootstrap=broker.bootstrap, **COLUMNS)
    assert cluster.partitions("by-default") == [0, 1, 2]


def test_a_topic_that_is_there_stays_as_it_is_and_that_is_said(
    broker: Broker, tmp_path: Path
) -> None:
    make_topic(broker, "there", 2)
    path, said = written(tmp_path, [event(1)]), list[str]()
    for number in (4, 2, None):
        target = f"kafka://{broker.bootstrap}/there"
        kst.produce(path, target, partitions=number, tell=said.append, **COLUMNS)
    assert said == ["Note: the topic there has 2 partitions, and keeps them as they are."]
    assert Cluster(broker.bootstrap).partitions("there") == [0, 1]


def test_a_topic_that_will_delete_old_events_is_said(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "forgetful", retention_ms="604800000")
    path, said = written(tmp_path, [event(1)] * 3), list[str]()
    target = f"kafka://{broker.bootstrap}/forgetful"
    kst.produce(path, target, tell=said.append, **COLUMNS)
    assert len(said) == 1
    assert "keeps a record for 7 days after its own time" in said[0]


def test_a_record_that_is_too_large_is_refused_and_the_others_are_not(
    broker: Broker, tmp_path: Path
) -> None:
    lines = [event(1), event(2, comment="x" * 2_000_000), event(3)]
    done = kst.produce(written(tmp_path, lines), "too-large", bootstrap=broker.bootstrap, **COLUMNS)
    assert (done.records, done.failed) == (2, 1)
    assert [number for why, number in done.failures.items() if "too large" in why] == [1]
    assert values(read_all(broker, "too-large")) == [event(1), event(3)]
    assert "1 record refused" in repr(done)
    assert "too large" in done._repr_html_()


def test_a_queue_that_is_full_is_waited_for(broker: Broker, tmp_path: Path) -> None:
    lines = [event(number) for number in range(500)]
    target, options = f"kafka://{broker.bootstrap}/full", {"queue.buffering.max.messages": "50"}
    done = kst.produce(written(tmp_path, lines), target, options=options, **COLUMNS)
    assert done.records == len(lines)
    assert values(read_all(broker, "full")) == sorted(lines)


def test_a_rate_is_never_exceeded(broker: Broker, tmp_path: Path) -> None:
    lines = [event(number) for number in range(300)]
    appended_ms, began_ms, done = _appended(broker, tmp_path, lines, "rated", rate=200)
    for place, at_ms in enumerate(appended_ms):
        assert at_ms >= began_ms + place * 5 - 2
    assert done.rate is not None
    assert done.rate <= 202


def test_a_speed_sends_no_event_before_its_time(broker: Broker, tmp_path: Path) -> None:
    minutes = [0, 1, 2, 3, 2, 4, 6]
    lines = [event(minute * 60_000, f"at {minute}") for minute in minutes]
    lines[3:3] = [b"rubbish", b'{"time": 1, "user": "Ann"}', b'{"time": "2099", "user": "Ann"}']
    appended_ms, began_ms, done = _appended(broker, tmp_path, lines, "sped-up", speed="240x")
    due_s = [0, 0.25, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.75, 1.25]
    for at_ms, least_s in zip(appended_ms, due_s, strict=True):
        assert at_ms >= began_ms + least_s * 1_000 - 2
    assert done.seconds < 30


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.parametrize(
    ("age_ms", "record_time"),
    [(60_000, "event"), pytest.param(OLD_MS, "now", marks=pytest.mark.long)],
)
def test_a_broker_that_is_killed_and_comes_back_has_each_record_once(
    age_ms: int, record_time: str, own_broker: Callable[[], Broker], tmp_path: Path
) -> None:
    lines, found, done, said = _killed_meanwhile(own_broker(), tmp_path, age_ms, record_time)
    assert found == lines
    assert (done.records, done.maybe_twice) == (len(lines), False)
    assert any("No Kafka broker answers" in line for line in said)


@pytest.mark.slow
@pytest.mark.kill
def test_a_replay_of_old_events_loses_none_to_a_killed_broker_and_says_that_some_may_be_twice(
    own_broker: Callable[[], Broker], tmp_path: Path
) -> None:
    lines, found, done, said = _killed_meanwhile(own_broker(), tmp_path, OLD_MS, "event")
    assert set(found) == set(lines)
    assert (done.records, done.maybe_twice) == (len(lines), True)
    assert "may be there twice" in said[-1]
    assert "some may be there twice" in repr(done)


def test_a_broker_that_does_not_come_back_is_said_with_what_it_has(
    own_broker: Callable[[], Broker], tmp_path: Path
) -> None:
    broker = own_broker()
    path = written(tmp_path, [event(number) for number in range(20_000)])

    def kill() -> None:
        _until_there_are(broker, "lost", 100)
        broker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(KafkaError, match=r"records are in .*/lost; the next ones are not") as told:
        kst.produce(
            path,
            f"kafka://{broker.bootstrap}/lost",
            rate=2_000,
            options={"delivery.timeout.ms": "2000"},
            tell=silent,
            **COLUMNS,
        )
    killer.join(60)
    assert "at most 2 seconds" in str(told.value.hint)


def test_no_broker_at_all_is_an_error_after_the_stated_time(tmp_path: Path) -> None:
    path, began = written(tmp_path, [event(1)]), time.monotonic()
    with pytest.raises(KafkaError, match=r"No Kafka broker answers at '127\.0\.0\.1:9'"):
        kst.produce(
            path,
            "nowhere",
            bootstrap=NOWHERE,
            options={"delivery.timeout.ms": "300"},
            tell=silent,
            **COLUMNS,
        )
    assert time.monotonic() - began < 60


def test_a_damaged_file_is_an_error_that_says_how_far_it_came(
    broker: Broker, tmp_path: Path
) -> None:
    written(tmp_path, [event(1), event(2)], "1.json")
    whole = gzip.compress(b"\n".join(event(number) for number in range(1_000)))
    (tmp_path / "2.json.gz").write_bytes(whole[: len(whole) // 2])
    said: list[str] = []
    target = f"kafka://{broker.bootstrap}/damaged"
    with pytest.raises(InputError, match=r"2\.json\.gz can't be read to its end"):
        kst.produce(tmp_path, target, tell=said.append, **COLUMNS)
    there = len(read_all(broker, "damaged"))
    assert there >= 2
    assert said == [f"{there:,} records are in {target} by now."]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"speed": "fast"}, "'fast' is no factor"),
        ({"speed": 0}, "0 is no factor"),
        ({"rate": 0}, "The rate is 0"),
        ({"rate": float("nan")}, "The rate is nan"),
        ({"partitions": 0}, "0 partitions"),
        ({"partitions": 1_000_000}, "1000000 partitions"),
        ({"partitions": 2.5}, r"2\.5 partitions"),
        ({"record_time": "then"}, "record_time is 'then'"),
        ({"user": None}, "which columns"),
        ({"user": "lower(user)"}, "plain names"),
        ({"options": {"delivery.timeout.ms": "soon"}}, "'soon'"),
        ({"options": {"no.such.setting": "1"}}, "no.such.setting"),
        ({"format": "xml"}, "'xml' is unknown"),
    ],
)
def test_what_makes_no_sense_is_said_before_a_broker_is_asked(
    given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, [event(1)])
    arguments: dict[str, Any] = {"bootstrap": NOWHERE, **COLUMNS, **given}
    with pytest.raises(ConfigurationError, match=said.replace("(", r"\(")):
        kst.produce(path, "mistaken", **arguments)


def test_secrets_are_in_no_message(tmp_path: Path) -> None:
    path, options = written(tmp_path, [event(1)]), {"sasl.password": "hush", "acks": "some"}
    with pytest.raises(ConfigurationError) as told:
        kst.produce(path, "secret", bootstrap=NOWHERE, options=options, **COLUMNS)
    assert "hush" not in str(told.value)


def test_no_events_a_wrong_column_and_other_things_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No events in"):
        kst.produce(tmp_path, "none", bootstrap=NOWHERE, **COLUMNS)
    path = written(tmp_path, [event(1)])
    with pytest.raises(ColumnError, match="Did you mean 'user'"):
        kst.produce(path, "none", bootstrap=NOWHERE, event_time="time", user="usr")
    with pytest.raises(ConfigurationError, match="dict can't be sent"):
        kst.produce({}, "none", bootstrap=NOWHERE, **COLUMNS)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="say by themselves"):
        kst.produce(kst.simulate(event_count=9, users=9), "none", bootstrap=NOWHERE, **COLUMNS)


def _appended(
    broker: Broker, folder: Path, lines: list[bytes], topic: str, **pace: Any
) -> tuple[list[int], int, Produced]:
    """Send lines to one partition; return when the broker had each, and when that began."""
    make_topic(broker, topic, message_timestamp_type="LogAppendTime")
    target, path = f"kafka://{broker.bootstrap}/{topic}", written(folder, lines)
    began_ms = time.time_ns() // 1_000_000
    done = kst.produce(path, target, **COLUMNS, **pace)
    found = read_all(broker, topic)
    assert [value_of(each) for each in found] == lines
    return [each.timestamp()[1] for each in found], began_ms, done


def _killed_meanwhile(
    broker: Broker, folder: Path, age_ms: int, record_time: str
) -> tuple[list[bytes], list[bytes], Produced, list[str]]:
    """Send events of so long ago; kill the broker meanwhile, and start it; return what is there."""
    first = time.time_ns() // 1_000_000 - age_ms - BEGAN_MS
    lines = [event(first + number, f"user {number % 50}") for number in range(16_000)]
    path, done, said = written(folder, lines), list[Produced](), list[str]()

    def work() -> None:
        told: dict[str, Any] = {"rate": 4_000, "tell": said.append, "record_time": record_time}
        done.append(kst.produce(path, "killed", bootstrap=broker.bootstrap, **COLUMNS, **told))

    thread = threading.Thread(target=work)
    thread.start()
    _until_there_are(broker, "killed", 1_000)
    broker.kill()
    noticed = time.monotonic() + 30
    while thread.is_alive() and not said and time.monotonic() < noticed:
        time.sleep(0.1)
    broker.start()
    thread.join(120)
    return sorted(lines), values(read_all(broker, "killed")), done[0], said


def _until_there_are(broker: Broker, topic: str, number: int) -> None:
    cluster, deadline = Cluster(broker.bootstrap), time.monotonic() + 60
    while time.monotonic() < deadline:
        if cluster.has(topic):
            reach = cluster.reach(topic, cluster.partitions(topic))
            if sum(each.end for each in reach.values()) >= number:
                return
        time.sleep(0.05)
    message = f"{topic} never had {number} records"
    raise AssertionError(message)
