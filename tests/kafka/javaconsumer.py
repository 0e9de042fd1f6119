"""Kafka's own consumer, run by a Java of its own: groups that are not made by librdkafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kafka.javaproducer import java

if TYPE_CHECKING:
    from kstoolkit.kafka.broker import Broker

__all__ = ["read_by_java"]

_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def read_by_java(broker: Broker, topic: str, group: str, number: int) -> None:
    """Read so many records of a topic as a group, commit, and leave."""
    with java() as gateway:
        settings = gateway.jvm.java.util.Properties()
        for name, value in {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "max.poll.records": str(number),
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
        }.items():
            settings.put(name, value)
        consumer = gateway.jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        names = gateway.jvm.java.util.ArrayList()
        names.add(topic)
        consumer.subscribe(names)
        read = 0
        while read < number:
            read += consumer.poll(gateway.jvm.java.time.Duration.ofSeconds(10)).count()
        consumer.commitSync()
        consumer.close()
