"""What the tests do as clients of a broker: make a topic, write to it, read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.kafka.broker import Broker

_SECONDS = 90


def make_topic(broker: Broker, name: str, partitions: int = 1, **config: str) -> None:
    """Make a topic with settings, whose dots are underscores here; wait until it is there.

    What an earlier try of the same test left under this name is deleted.
    """
    told = {each.replace("_", "."): value for each, value in config.items()}
    wanted = NewTopic(name, partitions, 1, config=told)
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": broker.bootstrap,
        "log_level": 0,
    }
    admin = AdminClient(settings)
    while not _made(admin, wanted):
        delete_topic(admin, name)


def delete_topic(admin: AdminClient, name: str) -> None:
    """Delete a topic if it is there, and wait until the broker knows."""
    try:
        admin.delete_topics([name])[name].result(_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


def _made(admin: AdminClient, wanted: NewTopic) -> bool:
    try:
        admin.create_topics([wanted])[wanted.topic].result(_SECONDS)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise
    return True


def topics_of(broker: Broker) -> set[str]:
    """Return the topics that there are, less Kafka's own."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return {name for name in admin.list_topics(timeout=_SECONDS).topics if name[:2] != "__"}


def settings_of(broker: Broker) -> dict[str, str]:
    """Return the settings that the broker runs with."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (asked,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    return {name: each.value for name, each in asked.result(_SECONDS).items()}


def write(broker: Broker, topic: str, values: Iterable[bytes], *, time_ms: int = 0) -> None:
    """Write records, and wait until each is acknowledged."""
    failures = []

    def delivered(failure: object, _: Message) -> None:
        failures.extend([failure] if failure else [])

    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, on_delivery=delivered, timestamp=time_ms)
    assert producer.flush(_SECONDS) == 0
    assert not failures


def read(broker: Broker, topic: str, count: int) -> list[Message]:
    """Return so many records of partition 0, from the first on."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "tests"}
    consumer = Consumer(settings | {"enable.auto.commit": "false"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = consumer.consume(count, timeout=_SECONDS)
        return found
    finally:
        consumer.close()


def read_all(broker: Broker, topic: str) -> list[Message]:
    """Return every record of a topic, partition by partition."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "tests"}
    told = {"enable.auto.commit": "false", "enable.partition.eof": "true"}
    consumer = Consumer(settings | told)
    try:
        partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        found: list[Message] = []
        for number in sorted(partitions):
            consumer.assign([TopicPartition(topic, number, 0)])
            message = consumer.poll(_SECONDS)
            while message and not message.error():
                found.append(message)
                message = consumer.poll(_SECONDS)
            end = message and message.error()
            assert end
            assert end.code() == KafkaError._PARTITION_EOF
        return found
    finally:
        consumer.close()
