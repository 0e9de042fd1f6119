"""A topic that holds a run's latest counts: where it is, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.topics import address_of, options_given
from kstoolkit.kafka.mirror import TopicMirror
from kstoolkit.kafka.outputtopic import OutputTopic
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kstoolkit.units import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaChangelog(OutputTopic):
    """A changelog topic. Made by :func:`kafka_changelog`; the other fields are of its base.

    Parameters
    ----------
    blocks
        Whether many counts share a record.
    """

    blocks: bool = False

    @property
    def cleanup(self) -> str:
        """What the broker does with old records: of whole windows, the last alone is needed."""
        return "delete" if self.blocks else "compact"

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
    partitions: int | None = None,
    give_up_after: Duration = "10 minutes",
    options: Mapping[str, str] | None = None,
) -> KafkaChangelog:
    """Return a Kafka topic as the home of a changelog: to write to, or to restore from.

    Each record is a user's window: its key the salted user and the window, its value a version byte
    and all counts of that user in that window, so that compaction keeps just the latest. When the
    window expires, a tombstone follows. The formats are drawn in
    :mod:`kstoolkit.formats.keys` and :mod:`kstoolkit.formats.topicbundle`.

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
        How many the topic gets if it has to be made; 3 by default.
    give_up_after
        How long a run waits, with growing pauses, for brokers that do not take what it writes.
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
    if blocks not in {True, False}:
        message = f"blocks is {blocks!r}."
        raise ConfigurationError(message, hint="Give True or False.")
    given = options_given(options)
    address = address_of(topic, bootstrap)
    return KafkaChangelog(
        address=address,
        blocks=blocks,
        partitions=partitions,
        patience_ms=parse_duration(give_up_after, allow_zero=True),
        options=given,
    )
