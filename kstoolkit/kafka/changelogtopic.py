"""A topic that holds a run's latest counts: where it is, and how it is written."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.topics import Address, address_of
from kstoolkit.kafka.cluster import Cluster, Tell
from kstoolkit.kafka.connection import read_options
from kstoolkit.kafka.mirror import TopicMirror

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kstoolkit.kafka.cluster import TopicFacts

__all__ = ["CONFIG_FILE", "KafkaChangelog", "kafka_changelog", "options_of_environment"]

CONFIG_FILE = "KSTOOLKIT_KAFKA_CONFIG"
"""The environment variable that names a file with settings of the connection."""

PARTITIONS = 4
_FOR_EVER = "-1"


@dataclass(frozen=True, slots=True)
class KafkaChangelog:
    """A changelog topic. Made by :func:`kafka_changelog`.

    Parameters
    ----------
    address
        Where it is.
    blocks
        Whether many counts share a record.
    partitions
        How many it gets if it has to be made.
    patience_ms
        How long to wait for a broker that does not answer.
    options
        Settings of the connection; never shown, never written.
    """

    address: Address
    blocks: bool = False
    partitions: int = PARTITIONS
    patience_ms: int = 600_000
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def cluster(self) -> Cluster:
        """Where to ask about it."""
        return Cluster(self.address.bootstrap, self.options)

    def made(self, tell: Tell) -> TopicFacts:
        """Make the topic if it is missing, and return what it is.

        Raises
        ------
        KafkaError
            If no broker answers, or it can't be made.
        """
        cluster, name = self.cluster, self.address.topic
        cluster.wait(self.patience_ms, tell)
        if not cluster.has(name):
            policy = "delete" if self.blocks else "compact"
            settings = {"cleanup.policy": policy, "retention.ms": _FOR_EVER}
            cluster.create(name, self.partitions, settings)
            tell(f"Made the topic {name!r}: {self.partitions} partitions, cleanup by {policy}.")
        return cluster.facts(name)

    def mirrored_in(self, folder: Path) -> TopicMirror:
        """Return the changelog as a folder, which is brought up to the topic when it is read.

        Raises
        ------
        InputError
            If there is no such topic, or the folder mirrors another one.
        """
        return TopicMirror.of(self.cluster, self.address.topic, folder)


def kafka_changelog(
    topic: str,
    *,
    bootstrap: str | None = None,
    blocks: bool = False,
    partitions: int = PARTITIONS,
    options: Mapping[str, str] | None = None,
) -> KafkaChangelog:
    """Return a Kafka topic as the home of a changelog: to write to, or to restore from.

    Each record is a user's window: its key the salted user and the window, its value a version byte
    and all counts of that user in that window, so that compaction keeps just the latest. When the
    window expires, a tombstone follows. The formats are drawn in
    :mod:`kstoolkit.formats.topickey` and :mod:`kstoolkit.formats.topicbundle`.

    Parameters
    ----------
    topic
        Its name, or ``"kafka://host:port/name"``. It is made if it is missing.
    bootstrap
        Servers to ask first, as ``"host:port"``, with commas between.
    blocks
        Whether to put many counts into one record: a tenth of the bytes, but compaction can't fold
        them, so the topic keeps every change.
    partitions
        How many the topic gets if it has to be made.
    options
        Settings of the connection; by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG``
        names.

    Raises
    ------
    ConfigurationError
        If one of them makes no sense.

    Examples
    --------
    >>> kafka_changelog("counts", bootstrap="127.0.0.1:9092").address.topic
    'counts'
    """
    if type(partitions) is not int or partitions < 1:
        message = f"partitions is {partitions!r}: a topic has at least one."
        raise ConfigurationError(message, hint="Give 1 or more.")
    given = options_of_environment() if options is None else dict(options)
    return KafkaChangelog(address_of(topic, bootstrap), blocks, partitions, options=given)


def options_of_environment() -> dict[str, str]:
    """Return the settings of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names, if it does."""
    path = os.environ.get(CONFIG_FILE)
    return read_options(path) if path else {}
