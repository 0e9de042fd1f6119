"""A topic that a run's findings go to, as JSON: one record each, as soon as a batch has judged.

The key is the user. The value is one object with these fields, of which those that a rule knows
nothing of are null:

======================  =======  ==================================================================
field                   type     meaning
======================  =======  ==================================================================
``rule``, ``kind``      string   the rule's name, and which kind of rule it is
``user``, ``action``    string   who, and what
``window``              string   the window's length in words: ``1 hour``
``window_ms``           integer  the same in milliseconds
``window_start_ms``     integer  when the window begins, epoch ms UTC
``window_end_ms``       integer  when it ends
``count``               integer  how often the user did it in the window, as of this batch
``ceiling``             integer  the rule's ceiling
``expected_low``        integer  the range that was to be expected of this user at this time
``expected_high``       integer
``baseline_windows``    integer  how many earlier windows of the user that rests on
``peers``               integer  among how many users the range was pooled
``log10_probability``   number   how likely such a count is, as a power of ten
``first_seen_ms``       integer  the clock of the batch that found it, epoch ms UTC
======================  =======  ==================================================================

A window that goes on growing is found again with its newer count, and a batch that had to be
repeated tells again what it told: of each (rule, user, action, window_ms, window_start_ms) the last
record counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.events.topics import address_of, options_given
from kstoolkit.kafka.outputtopic import OutputTopic
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.units import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaFindings(OutputTopic):
    """A topic of findings. Made by :func:`kafka_findings`; the fields are of its base."""


def kafka_findings(
    topic: str,
    *,
    bootstrap: str | None = None,
    partitions: int | None = None,
    give_up_after: Duration = "10 minutes",
    options: Mapping[str, str] | None = None,
) -> KafkaFindings:
    """Return a Kafka topic as a place that findings go to, beside the run's folder.

    What a record looks like is said in :mod:`kstoolkit.kafka.findingstopic`.

    Parameters
    ----------
    topic
        Its name, or ``"kafka://host:port/name"``. It is made if it is missing.
    bootstrap
        Servers to ask first, as ``"host:port"``, with commas between.
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
    >>> str(kafka_findings("kafka://127.0.0.1:9092/found").address)
    'kafka://127.0.0.1:9092/found'
    """
    given = options_given(options)
    address = address_of(topic, bootstrap)
    patience_ms = parse_duration(give_up_after, allow_zero=True)
    return KafkaFindings(
        address=address, partitions=partitions, patience_ms=patience_ms, options=given
    )
