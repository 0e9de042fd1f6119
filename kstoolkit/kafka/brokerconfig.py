"""How a broker alone on one machine is run: its properties, its jars, and Java's options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.kafka.artifacts import Artifact

if TYPE_CHECKING:
    from pathlib import Path


KAFKA_VERSION = "4.3.1"
"""The newest release whose parts are all published."""

BROKER_JARS = (
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # Without it Kafka logs nothing at all. The version is that of the slf4j-api that Kafka brings.
    Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
)

DATA = "data"
"""Where in its folder the broker keeps its records."""

PROPERTIES = "server.properties"

_PROPERTIES = """\
# Written at each start of the broker: what is changed here is lost.
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT

# Relative to the folder, in which the broker runs: it takes a comma in a name for two folders.
log.dirs={data}

# One broker, so one replica of everything; and few partitions of what the first consumer waits for.
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0

# After a kill -9 the next start waits until the dead broker's session has run out: 9 s by default.
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300

# A mistyped topic is an error, not a new topic.
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=2
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216

# Nothing is deleted for its age, and event times of long ago or of the future are let in.
log.retention.hours=-1
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
"""


def properties(port: int, controller_port: int) -> str:
    """Return the text of ``server.properties``.

    Parameters
    ----------
    port
        Where clients connect to, on loopback.
    controller_port
        Where the broker speaks to itself.

    Examples
    --------
    >>> print(properties(21_000, 21_001).splitlines()[5])
    advertised.listeners=PLAINTEXT://127.0.0.1:21000
    """
    return _PROPERTIES.format(port=port, controller_port=controller_port, data=DATA)


def java_options(jars: Path) -> list[str]:
    """Return the options with which Java runs the broker out of a folder of jars.

    Examples
    --------
    >>> from pathlib import Path
    >>> java_options(Path("cache"))[-2:]
    ['-cp', 'cache/*']
    """
    logger = "-Dorg.slf4j.simpleLogger"
    return [
        *("-Xms256m", "-Xmx512m", "-XX:+UseG1GC"),
        *("-Dfile.encoding=UTF-8", "-Duser.timezone=UTC"),
        *(f"{logger}.defaultLogLevel=warn", f"{logger}.showDateTime=true"),
        f"{logger}.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
        *("-cp", f"{jars}/*"),
    ]
