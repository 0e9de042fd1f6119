"""Topics that are made for whoever writes to them with a client of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

import kstoolkit as kst
from kstoolkit.errors import KafkaError
from tests.kafka.clients import topics_of

if TYPE_CHECKING:
    from kstoolkit.kafka.broker import Broker

pytestmark = pytest.mark.kafka


def test_a_topic_is_made_once_and_stays_as_it_is(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kst.ensure_topic("made-once", bootstrap=broker.bootstrap, partitions=2, compact=True)
    assert "made-once" in topics_of(broker)
    asked = ConfigResource(ConfigResource.Type.TOPIC, "made-once")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    told = admin.describe_configs([asked])[asked].result(60)
    assert told["cleanup.policy"].value == "compact"
    assert told["retention.ms"].value == "-1"
    assert not kst.ensure_topic(f"kafka://{broker.bootstrap}/made-once", partitions=2)
    assert capsys.readouterr().err == ""
    assert not kst.ensure_topic("made-once", bootstrap=broker.bootstrap, partitions=5)
    assert (
        "the topic made-once has 2 partitions, and keeps them as they are"
        in capsys.readouterr().err
    )


def test_no_broker_is_an_error_after_the_stated_time() -> None:
    with pytest.raises(KafkaError, match=r"No Kafka broker answers at '127\.0\.0\.1:1'"):
        kst.ensure_topic("made", bootstrap="127.0.0.1:1", give_up_after="1 second")
