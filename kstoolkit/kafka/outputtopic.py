"""A topic that a run writes to: where it is, and how it is made."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.newtopic import check_partitions, topic_made

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.events.topics import Address
    from kstoolkit.kafka.answering import Rest, Tell
    from kstoolkit.kafka.cluster import TopicFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopic:
    """A topic to write to.

    Parameters
    ----------
    address
        Where it is.
    partitions
        How many it gets if it has to be made; :data:`~kstoolkit.kafka.newtopic.PARTITIONS` if not
        said.
    patience_ms
        How long to wait for a broker that does not answer.
    options
        Settings of the connection; never shown, never written.
    """

    address: Address
    partitions: int | None = None
    patience_ms: int = 600_000
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_partitions(self.partitions)

    @property
    def cluster(self) -> Cluster:
        """Where to ask about it."""
        return Cluster(self.address.bootstrap, self.options)

    @property
    def cleanup(self) -> str:
        """What the broker does with old records."""
        return "delete"

    def made(self, tell: Tell, rest: Rest = time.sleep) -> TopicFacts:
        """Make the topic if it is missing, and return what it is.

        Parameters
        ----------
        tell
            Called with a line when no broker answers, and when it was made.
        rest
            Waits so many seconds for a broker.

        Raises
        ------
        KafkaError
            If no broker answers, or it can't be made.
        """
        cluster, name = self.cluster, self.address.topic
        cluster.wait(self.patience_ms, tell, rest)
        if topic_made(cluster, name, self.partitions, tell, cleanup=self.cleanup):
            tell(f"Made the topic {name!r}, with cleanup.policy={self.cleanup}.")
        return cluster.facts(name)
