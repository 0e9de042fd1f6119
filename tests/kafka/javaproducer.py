"""Kafka's own producer, run by a Java of its own: what other clients are held against."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from kstoolkit.environment import find_java
from kstoolkit.kafka.broker import _BROKER_JARS
from kstoolkit.kafka.jars import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kstoolkit.kafka.broker import Broker

__all__ = ["java", "send_by_java"]

_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"


def send_by_java(broker: Broker, topic: str, keys: Iterable[bytes]) -> dict[bytes, int]:
    """Send a record for each key, and return the partition that it came to."""
    with java() as gateway:
        settings = gateway.jvm.java.util.Properties()
        settings.put("bootstrap.servers", broker.bootstrap)
        settings.put("key.serializer", _BYTES)
        settings.put("value.serializer", _BYTES)
        clients = gateway.jvm.org.apache.kafka.clients.producer
        producer = clients.KafkaProducer(settings)
        sent = {each: producer.send(clients.ProducerRecord(topic, each, b"")) for each in keys}
        found = {key: answer.get().partition() for key, answer in sent.items()}
        producer.close()
        return found


@contextmanager
def java() -> Iterator[JavaGateway]:
    """Start a Java with Kafka's clients, and end it."""
    jars = fetch(_BROKER_JARS)[0].parent
    (py4j_jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port = launch_gateway(
        jarpath=str(py4j_jar),
        classpath=f"{jars}/*",
        java_path=str(find_java().home / "bin" / "java"),
        javaopts=["-Xmx128m"],
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield gateway
    finally:
        gateway.shutdown()
