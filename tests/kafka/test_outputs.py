"""A changelog topic as a folder: what is read of it, again and again, and after a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition

import kstoolkit as kst
from kstoolkit.changelog.changelog import DONE
from kstoolkit.changelog.topic import _blocks_of, _records_of
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import FormatError, InputError
from kstoolkit.formats.countblock import BlockKey
from kstoolkit.kafka import outputs as reading
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.reading import read_records
from tests.kafka.clients import make_topic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.kafka.outputs import TopicMirror

pytestmark = pytest.mark.kafka

MINUTE, HOUR = 60_000, 3_600_000


def counters(users: list[str], count: int, start_ms: int = 0) -> Counters:
    who = pa.array(users)
    number = np.full(len(users), count, np.uint64)
    return Counters.of(np.full(len(users), start_ms), who, pa.array(["read"] * len(users)), number)


def send(broker: Broker, topic: str, records: Iterable[tuple[bytes, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for key, value in records:
        producer.produce(topic, value, key=key)
    assert producer.flush(90) == 0


def told(counted: Counters, size_ms: int = MINUTE) -> list[tuple[bytes, bytes]]:
    keys, values = _records_of(counted, size_ms=size_ms, changed_ms=7)
    return list(zip(keys.to_pylist(), values.to_pylist(), strict=True))


def mirrored(broker: Broker, topic: str, folder: Path) -> TopicMirror:
    return kst.kafka_changelog(topic, bootstrap=broker.bootstrap).mirrored_in(folder)


def counts(mirror: TopicMirror, size_ms: int = MINUTE) -> dict[str, int]:
    rows = mirror.counters(size_ms).to_table().to_pylist()
    return {row["user"]: row["count"] for row in rows}


def removed_before(broker: Broker, topic: str, offset: int) -> None:
    admin = Cluster(broker.bootstrap).admin()
    (done,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    done.result(60)


def test_the_last_record_of_each_window_counts(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "mirror-last", 2)
    send(broker, "mirror-last", told(counters(["Ann", "Bo"], 1)))
    mirror = mirrored(broker, "mirror-last", tmp_path / "mirror")

    assert mirror.behind() == 2
    assert mirror.refresh() == 2
    send(broker, "mirror-last", [*told(counters(["Bo"], 5)), *told(counters(["Cy"], 9), HOUR)])
    again = mirrored(broker, "mirror-last", tmp_path / "mirror")

    assert again.refresh() == 2
    assert again.refresh() == again.behind() == 0
    assert counts(again) == {"Ann": 1, "Bo": 5}
    assert counts(again, HOUR) == {"Cy": 9}


def test_what_a_kill_left_unmarked_is_read_again(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "mirror-kill", 1)
    send(broker, "mirror-kill", told(counters(["Ann"], 1)))
    mirrored(broker, "mirror-kill", tmp_path).refresh()
    send(broker, "mirror-kill", told(counters(["Bo"], 2)))
    mirror = mirrored(broker, "mirror-kill", tmp_path)
    mirror.refresh()
    (mirror.batches[-1].folder / DONE).unlink()  # written last: the kill came just before

    assert mirrored(broker, "mirror-kill", tmp_path).refresh() == 1
    assert counts(mirror) == {"Ann": 1, "Bo": 2}


def test_many_batches_are_folded_and_the_place_is_kept(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_FOLDED_AT", 3)
    make_topic(broker, "mirror-fold", 1)
    mirror = mirrored(broker, "mirror-fold", tmp_path)
    for number in range(1, 6):
        send(broker, "mirror-fold", told(counters(["Ann", f"user {number}"], number)))
        assert mirror.refresh() == 2

    assert len(mirror.batches) <= 3
    assert mirrored(broker, "mirror-fold", tmp_path).refresh() == 0
    assert counts(mirror) == {"Ann": 5, **{f"user {number}": number for number in range(1, 6)}}


def test_a_tombstone_leaves_what_was_read(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "mirror-tombstone", 1)
    records = told(counters(["Ann"], 3))
    send(broker, "mirror-tombstone", [*records, (records[0][0], None)])
    later = mirrored(broker, "mirror-tombstone", tmp_path / "later")
    later.refresh()
    assert counts(later) == {}

    make_topic(broker, "mirror-tombstone-2", 1)
    send(broker, "mirror-tombstone-2", records)
    before = mirrored(broker, "mirror-tombstone-2", tmp_path / "before")
    before.refresh()
    send(broker, "mirror-tombstone-2", [(records[0][0], None)])
    before.refresh()
    assert counts(before) == {"Ann": 3}


def test_blocks_are_read_too(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "mirror-blocks", 1)
    for batch, count in enumerate([1, 4]):
        key = BlockKey(bucket=0, epoch=0, batch=batch, part=0, size_ms=MINUTE)
        send(broker, "mirror-blocks", _blocks_of(counters(["Ann"], count), key))
    mirror = mirrored(broker, "mirror-blocks", tmp_path)
    mirror.refresh()
    assert counts(mirror) == {"Ann": 4}


def test_records_of_others_are_refused(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "mirror-others", 1)
    send(broker, "mirror-others", [(b"a key of somebody else", b"{}")])
    with pytest.raises(FormatError, match="'mirror-others'"):
        mirrored(broker, "mirror-others", tmp_path).refresh()


def test_a_topic_that_was_made_again_is_another_one(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "mirror-again", 1)
    send(broker, "mirror-again", told(counters(["Ann"], 1)))
    mirrored(broker, "mirror-again", tmp_path).refresh()
    admin = Cluster(broker.bootstrap).admin()
    admin.delete_topics(["mirror-again"])["mirror-again"].result(60)
    make_topic(broker, "mirror-again", 1)
    with pytest.raises(InputError, match="was deleted and made again"):
        mirrored(broker, "mirror-again", tmp_path)


def test_a_replica_that_lost_records_of_its_topic_says_which(
    broker: Broker, tmp_path: Path
) -> None:
    make_topic(broker, "mirror-lost", 1)
    send(broker, "mirror-lost", told(counters(["Ann"], 1)))
    mirror = mirrored(broker, "mirror-lost", tmp_path)
    mirror.refresh()
    send(broker, "mirror-lost", told(counters(["Bo", "Cy", "Di"], 2)))
    removed_before(broker, "mirror-lost", 3)

    with pytest.raises(InputError, match="not read yet: offsets 1 to 2 of partition 0"):
        mirror.refresh()
    assert counts(mirror) == {"Ann": 1}


def test_records_that_go_while_they_are_read_are_missed(broker: Broker) -> None:
    make_topic(broker, "mirror-going", 1)
    send(broker, "mirror-going", told(counters(["Ann", "Bo", "Cy"], 1)))
    removed_before(broker, "mirror-going", 2)

    with pytest.raises(InputError, match="'mirror-going' has lost records"):
        list(read_records(Cluster(broker.bootstrap), "mirror-going", {0: 0}, {0: 3}, 10))


def test_a_topic_named_by_mistake_leaves_no_trace(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "mirror-mistake", 1)
    make_topic(broker, "mirror-meant", 1)
    send(broker, "mirror-mistake", [(b"a key of somebody else", b"{}")])
    send(broker, "mirror-meant", told(counters(["Ann"], 1)))
    with pytest.raises(FormatError):
        mirrored(broker, "mirror-mistake", tmp_path).refresh()

    mirror = mirrored(broker, "mirror-meant", tmp_path)
    mirror.refresh()
    assert counts(mirror) == {"Ann": 1}


def test_an_open_transaction_is_where_a_topic_ends(broker: Broker, tmp_path: Path) -> None:
    make_topic(broker, "mirror-open", 1)
    send(broker, "mirror-open", told(counters(["Ann"], 1)))
    writing = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "mirror-open"})
    writing.init_transactions()
    writing.begin_transaction()
    ((key, value),) = told(counters(["Bo"], 2))
    writing.produce("mirror-open", value, key=key)
    assert writing.flush(90) == 0
    mirror = mirrored(broker, "mirror-open", tmp_path)

    assert mirror.refresh() == 1
    assert mirror.behind() == 0
    assert Cluster(broker.bootstrap).reach("mirror-open", [0], committed=False)[0].end == 2
    writing.commit_transaction()
    assert mirror.refresh() == 1
    assert counts(mirror) == {"Ann": 1, "Bo": 2}
