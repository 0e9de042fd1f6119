"""Topic to topic to replica, while driver, broker and follower are killed: still exact."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

import kstoolkit as kst
from tests.kafka.clients import make_topic
from tests.pipeline.harness import (
    check_exact,
    events,
    finish,
    kill_group,
    newest,
    oracle,
    spawned,
    until,
    write_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import Popen

    from kstoolkit.kafka.broker import Broker

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.kill,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(500),
]

EVENTS = events(2_000)

DRIVER = """
    import sys
    import kstoolkit as kst
    bootstrap, out = sys.argv[1:]
    kst.Pipeline(
        source=kst.kafka_topic(
            "events", bootstrap=bootstrap, event_time="time", user="user", action="action",
            max_records_per_batch=250, give_up_after="3 minutes",
        ),
        cascade=kst.Cascade("1 minute", "1 hour"),
        changelog=kst.kafka_changelog("counts", bootstrap=bootstrap),
    ).run(out, progress=False)
"""

FOLLOWER = """
    import sys, time
    import kstoolkit as kst
    log = kst.kafka_changelog("counts", bootstrap=sys.argv[1])
    with kst.WindowStore.restore(log, path=sys.argv[2], progress=False) as replica:
        with replica.follow(log) as standby:
            while True:
                standby.step()
                time.sleep(0.2)
"""


def test_whoever_is_killed_on_the_way_the_replica_is_exact(
    own_broker: Callable[[], Broker], tmp_path: Path
) -> None:
    broker, out, replica = own_broker(), tmp_path / "out", tmp_path / "replica"
    make_topic(broker, "events", 3)
    send(broker)
    bootstrap = broker.bootstrap

    with spawned(DRIVER, bootstrap, out) as driver:
        committed(driver, out, 1)
        kill_group(driver)
    with spawned(FOLLOWER, bootstrap, replica) as follower:
        until(lambda: any((replica / "mirror").glob("epoch=*/batch=*/_done")), "the follower")
        kill_group(follower)
    with spawned(FOLLOWER, bootstrap, replica) as follower:
        with spawned(DRIVER, bootstrap, out) as driver:
            committed(driver, out, newest(out / "checkpoint" / "commits") + 2)
            broker.kill()
            broker.start()
            code, _, errors = finish(driver, timeout=300)
            assert code == 0, errors
        kill_group(follower)

    lines = write_lines(tmp_path / "events.json", EVENTS)
    check_exact(kst.load_run(out), [lines])
    log = kst.kafka_changelog("counts", bootstrap=bootstrap)
    with kst.WindowStore.restore(log, path=replica, progress=False) as restored:
        for (start_ms, user, action), count in list(oracle([lines], "1 hour").items())[:50]:
            assert restored.get(user, window="1 hour", at=start_ms).counts[action] == count
    with kst.diff_stores(str(out), str(replica / "3600000"), window_size="1 hour") as diff:
        assert (diff.added, diff.removed, diff.changed) == (0, 0, 0)


def send(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for event in EVENTS:
        producer.produce("events", json.dumps(event, ensure_ascii=False), key=event["user"])
    assert producer.flush(90) == 0


def committed(driver: Popen[str], out: Path, batch: int) -> None:
    """Wait until a batch is committed; the driver must not have come to its end."""
    commits = out / "checkpoint" / "commits"
    until(lambda: driver.poll() is not None or newest(commits) >= batch, "a batch", seconds=240)
    assert driver.poll() is None, driver.communicate()
