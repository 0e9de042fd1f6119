"""A topic to write to: made where it is missing, and left as it is where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.kafka.librdkafka import ANSWER_SECONDS, clients, said
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.kafka.cluster import Cluster


PARTITIONS = 3
"""How many a new topic has, unless told otherwise: so many tasks can read it at once."""

_MOST_PARTITIONS = 100_000  # that librdkafka asks for

_CONFIG = {
    # Events that are replayed are old: by their own times they would be deleted as they come in.
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}


def check_partitions(number: object) -> None:
    """Raise unless a topic can be made with so many partitions; ``None`` leaves it to us.

    Raises
    ------
    ConfigurationError
        If it is no whole number from 1 up to 100,000.

    Examples
    --------
    >>> check_partitions(3)
    >>> check_partitions(None)
    """
    if number is None or (type(number) is int and 0 < number <= _MOST_PARTITIONS):
        return
    message = f"A topic of {number!r} partitions can't be made."
    raise ConfigurationError(message, hint=f"Give 1 to {_MOST_PARTITIONS}, or leave it out.")


def topic_made(
    cluster: Cluster,
    topic: str,
    partitions: int | None,
    tell: Callable[[str], None],
    *,
    cleanup: str = "delete",
) -> bool:
    """Make a topic whose records no age deletes, unless there is one; return whether it was made.

    Parameters
    ----------
    cluster
        Where.
    topic
        Its name.
    partitions
        How many it shall have; :data:`PARTITIONS` if not given.
    tell
        Told if a topic that is there has another number of them.
    cleanup
        What the broker does with old records of a new one: ``"delete"``, or ``"compact"``, which
        keeps the last of each key.

    Raises
    ------
    ConfigurationError
        If there are no topics of so many partitions.
    KafkaError
        If the cluster does not make it.
    """
    check_partitions(partitions)
    if not cluster.has(topic) and _make(cluster, topic, partitions or PARTITIONS, cleanup):
        return True
    has = len(cluster.partitions(topic))
    if partitions not in {None, has}:
        number = f"{format_count(has)} partition{'s' * (has != 1)}"
        tell(f"Note: the topic {topic} has {number}, and keeps them as they are.")
    return False


def retention_ms(cluster: Cluster, topic: str) -> int | None:
    """Return how long a topic keeps a record after the record's own time; ``None`` for ever.

    ``None`` too where it goes by another time, or this is not for everyone to know.
    """
    lib = clients()
    asked = lib.admin.ConfigResource(lib.admin.ConfigResource.Type.TOPIC, topic)
    admin = cluster.admin()  # held until the answers are there: they come by its thread
    try:
        answers = admin.describe_configs([asked], request_timeout=ANSWER_SECONDS)
        told = {name: each.value for name, each in answers[asked].result().items()}
    except lib.KafkaException:
        return None
    kept = int(told.get("retention.ms") or -1)
    is_own_time = told.get("message.timestamp.type") == "CreateTime"
    return kept if is_own_time and kept >= 0 and "delete" in told["cleanup.policy"] else None


def _make(cluster: Cluster, topic: str, partitions: int, cleanup: str) -> bool:
    """Make a topic, and return whether it was this that made it."""
    lib = clients()
    config = _CONFIG | {"cleanup.policy": cleanup}
    wanted = lib.admin.NewTopic(topic, num_partitions=partitions, config=config)
    admin = cluster.admin()
    try:
        admin.create_topics([wanted], request_timeout=ANSWER_SECONDS)[topic].result()
    except lib.KafkaException as error:
        if error.args[0].code() == lib.KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise said(error) from error
    return True
