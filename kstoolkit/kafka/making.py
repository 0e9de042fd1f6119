"""A topic made where it is missing, for whoever writes to it with a client of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.events.topics import address_of, options_given
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.jars import to_stderr
from kstoolkit.kafka.newtopic import topic_made
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.units import Duration


def ensure_topic(
    topic: str,
    *,
    bootstrap: str | None = None,
    partitions: int | None = None,
    compact: bool = False,
    give_up_after: Duration = "1 minute",
    options: Mapping[str, str] | None = None,
) -> bool:
    """Make a topic unless there is one, and return whether it was made.

    No age deletes its records. A topic that is there stays as it is; that it has another number of
    partitions is said.

    Parameters
    ----------
    topic
        Its name, or ``"kafka://host:port/name"``.
    bootstrap
        Servers to ask first, as ``"host:port"``, with commas between.
    partitions
        How many a new topic gets; 3 by default.
    compact
        Whether the broker keeps just the last record of each key in it.
    give_up_after
        How long to wait, with growing pauses, for a broker that does not answer.
    options
        Settings of the connection; by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG``
        names.

    Raises
    ------
    ConfigurationError
        If one of them makes no sense.
    KafkaError
        If no broker answers, or the topic can't be made.

    Examples
    --------
    >>> ensure_topic("asks", bootstrap="127.0.0.1:9092", give_up_after="soon")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: 'soon' is not a duration.
    Hint: Write a number and a unit: '30 seconds', '5 minutes', '1 hour', '1 day'.
    """
    address = address_of(topic, bootstrap)
    patience_ms = parse_duration(give_up_after, allow_zero=True)
    given = options_given(options)
    cluster = Cluster(address.bootstrap, given)
    cluster.wait(patience_ms, to_stderr)
    cleanup = "compact" if compact else "delete"
    return topic_made(cluster, address.topic, partitions, to_stderr, cleanup=cleanup)
