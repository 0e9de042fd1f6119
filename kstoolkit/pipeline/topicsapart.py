"""Whether the topics that a pipeline reads and writes are topics apart."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.topics import Topic

if TYPE_CHECKING:
    from kstoolkit.events.topics import Address
    from kstoolkit.kafka.outputs import OutputTopic


def check_apart(
    source: object, changelog: OutputTopic | None, findings_to: OutputTopic | None
) -> None:
    """Raise if two of a pipeline's topics are the same one: it would read what it wrote, say.

    Raises
    ------
    ConfigurationError
        Which two.
    """
    given = {"source": source if isinstance(source, Topic) else None}
    named = {**given, "changelog": changelog, "findings_to": findings_to}
    topics = {name: each.address for name, each in named.items() if each is not None}
    for (one, mine), (other, theirs) in combinations(topics.items(), 2):
        if _are_same(mine, theirs):
            message = f"{one} and {other} are the same topic, {mine}."
            raise ConfigurationError(message, hint="Give each a topic of its own.")


def _are_same(one: Address, other: Address) -> bool:
    servers = set(one.bootstrap.split(",")) & set(other.bootstrap.split(","))
    return one.topic == other.topic and bool(servers)
