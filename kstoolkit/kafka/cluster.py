"""A Kafka cluster, asked about its topics: what they are, where they end, what is in them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from kstoolkit.errors import InputError
from kstoolkit.kafka.answering import Rest, Tell, answered, wait_for
from kstoolkit.kafka.connection import for_librdkafka
from kstoolkit.kafka.librdkafka import ANSWER_SECONDS, clients, made, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient


_PAUSE_SECONDS = 0.25
_EARLIEST, _LATEST = "earliest", "latest"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Reach:
    """The offsets of a partition: the first that is there, and the one after the last.

    The last is the last that may be read: what a transaction holds back that is still open does not
    count, unless it was asked for.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a topic is at present.

    Parameters
    ----------
    name
        Its name.
    topic_id
        What tells it from another one of that name; ``None`` if the brokers are too old to say.
    reach
        The offsets of each partition.
    """

    name: str
    topic_id: str | None
    reach: Mapping[int, Reach]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, reached through some of its servers.

    Parameters
    ----------
    bootstrap
        ``host:port``, with commas between.
    options
        Settings of the connection.
    """

    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def wait(self, patience_ms: int, tell: Tell, rest: Rest = time.sleep) -> None:
        """Wait until a broker answers, with growing pauses, and say so.

        Parameters
        ----------
        patience_ms
            For how long.
        tell
            Called with a line each time that none answers.
        rest
            Waits so many seconds; it may raise, which ends it all within two seconds.

        Raises
        ------
        KafkaError
            If none does for that long.
        ConfigurationError
            If one is there that does not let this client in, by a password or a certificate, say.
        """
        wait_for(self, patience_ms, tell, rest)

    def facts(self, topic: str, *, committed: bool = True) -> TopicFacts:
        """Return what a topic is.

        Parameters
        ----------
        topic
            Its name.
        committed
            Whether open transactions hold back what comes after them, as :meth:`reach` takes it.

        Raises
        ------
        InputError
            If there is none of that name.
        KafkaError
            If no broker answers.
        """
        partitions = self.partitions(topic)
        reach = self.reach(topic, partitions, committed=committed)
        return TopicFacts(topic, self.topic_id(topic), reach)

    def topic_id(self, topic: str) -> str | None:
        """Return what tells a topic from another one of its name; ``None`` if brokers are too old.

        Raises
        ------
        KafkaError
            If no broker answers, or there is no such topic.
        """
        lib = clients()
        names = lib.TopicCollection([topic])
        admin = self.admin()
        try:
            asked = admin.describe_topics(names, request_timeout=ANSWER_SECONDS)
            return str(asked[topic].result(2 * ANSWER_SECONDS).topic_id)
        except lib.KafkaException as error:
            if error.args[0].code() == lib.KafkaError._UNSUPPORTED_FEATURE:  # noqa: SLF001 - its name
                return None
            raise said(error) from error

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions.

        Raises
        ------
        InputError
            If there is no such topic.
        KafkaError
            If no broker answers.
        """
        found = answered(self).topics
        if topic not in found:
            near = get_close_matches(topic, list(found), n=1)
            guess = f"Did you mean {near[0]!r}?" if near else "Make it first."
            message = f"No topic {topic!r} at {self.bootstrap!r}."
            raise InputError(message, hint=guess)
        return sorted(found[topic].partitions)

    def has(self, topic: str) -> bool:
        """Return whether there is a topic of that name."""
        return topic in answered(self).topics

    def reach(
        self, topic: str, partitions: list[int], *, committed: bool = True
    ) -> dict[int, Reach]:
        """Return the offsets of partitions, each asked of its leader.

        Parameters
        ----------
        topic, partitions
            Which.
        committed
            Whether a partition ends before the first transaction that is still open, which is as
            far as those come who read what is committed, as everything here does.
        """
        first = self._offsets(topic, partitions, _EARLIEST)
        ends = self._offsets(topic, partitions, _LATEST, committed=committed)
        return {each: Reach(first[each], ends[each]) for each in partitions}

    def offsets_at(self, topic: str, partitions: list[int], moment_ms: int) -> dict[int, int]:
        """Return the first offset of each partition whose record is no older, else its end."""
        # Kafka knows no time before 1970, and takes a negative one for a word, such as "latest".
        found = self._offsets(topic, partitions, max(moment_ms, 0))
        ends = self._offsets(topic, partitions, _LATEST)
        return {each: found[each] if found[each] >= 0 else ends[each] for each in partitions}

    def sample(self, topic: str, most: int) -> list[bytes]:
        """Return the values of a partition's last records, at most so many of each partition."""
        lib = clients()
        reach = self.reach(topic, self.partitions(topic))
        places = [
            lib.TopicPartition(topic, each, max(at.first, at.end - most))
            for each, at in reach.items()
            if at.end > at.first
        ]
        consumer = self.consumer()
        try:
            consumer.assign(places)
            return _values(consumer, len(places), most)
        finally:
            consumer.close()

    def admin(self, **more: Any) -> AdminClient:
        """Return a client that manages.

        Raises
        ------
        ConfigurationError
            If librdkafka takes no such settings.
        """
        return made(clients().admin.AdminClient, self._settings() | more)  # type: ignore[no-any-return]

    def consumer(self, group: str = "kstoolkit", **more: Any) -> Consumer:
        """Return a client that reads; it commits nothing of its own accord.

        Raises
        ------
        ConfigurationError
            If librdkafka takes no such settings.
        """
        told = {"group.id": group, "enable.auto.commit": False, "enable.partition.eof": True}
        return made(clients().Consumer, self._settings() | told | more)  # type: ignore[no-any-return]

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "log_level": 0,  # what goes wrong is raised
            **for_librdkafka(self.options),
        }

    def _offsets(
        self, topic: str, partitions: list[int], what: str | int, *, committed: bool = True
    ) -> dict[int, int]:
        lib = clients()
        level = lib.IsolationLevel
        seen = level.READ_COMMITTED if committed else level.READ_UNCOMMITTED
        spec = {_EARLIEST: lib.admin.OffsetSpec.earliest, _LATEST: lib.admin.OffsetSpec.latest}
        chosen = lib.admin.OffsetSpec.for_timestamp(what) if isinstance(what, int) else spec[what]()
        asked = {lib.TopicPartition(topic, each): chosen for each in partitions}
        admin = self.admin()  # held until the answers are there: they come by its thread

        def ask() -> dict[int, int]:
            answers = admin.list_offsets(
                asked, request_timeout=ANSWER_SECONDS, isolation_level=seen
            )
            return {
                place.partition: answer.result(2 * ANSWER_SECONDS).offset
                for place, answer in answers.items()
            }

        return _patiently(ask)


def _values(consumer: Consumer, partitions: int, most: int) -> list[bytes]:
    """Return the values of records until each partition has come to its end."""
    found: list[bytes] = []
    ended = 0
    deadline = time.monotonic() + ANSWER_SECONDS
    while ended < partitions and time.monotonic() < deadline:
        for message in consumer.consume(most, timeout=0.5):
            error = message.error()
            if error is not None and error.code() == clients().KafkaError._PARTITION_EOF:  # noqa: SLF001
                ended += 1
            elif error is None and (value := message.value()) is not None:
                found.append(value)
    return found


def _patiently(ask: Callable[[], Answer]) -> Answer:
    """Ask until the answer is one: of a topic that was just made, not every server knows yet."""
    lib = clients()
    codes = lib.KafkaError
    unsettled = {
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_FOR_PARTITION,
        codes.UNKNOWN_TOPIC_OR_PART,
    }
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return ask()
        except lib.KafkaException as error:
            if error.args[0].code() not in unsettled or time.monotonic() > deadline:
                raise said(error) from error
        time.sleep(_PAUSE_SECONDS)
