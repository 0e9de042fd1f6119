"""A Kafka cluster, asked: whether it answers, what its topics are, where they end; and new ones.

confluent-kafka is loaded where it is asked for, and what it says of a failure becomes an error of
ours. A topic to write to is made where it is missing, and left as it is where it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kstoolkit.errors import (
    ConfigurationError,
    EnvironmentFault,
    InputError,
    KafkaError,
    guessed,
    to_stderr,
)
from kstoolkit.events.topics import address_of, options_given
from kstoolkit.kafka.connection import for_librdkafka
from kstoolkit.kafka.servers import last_words, refusal
from kstoolkit.records import counted
from kstoolkit.units import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

    from kstoolkit.units import Duration

ANSWER_SECONDS = 10.0  # how long an answer may take


def clients() -> Any:
    """Return confluent-kafka, with its parts; an EnvironmentFault if it is not installed."""
    try:
        import confluent_kafka  # noqa: PLC0415 - an extra: missing only where it is asked for
        import confluent_kafka.admin  # noqa: PLC0415
    except ImportError as error:
        message = "The package confluent-kafka is missing."
        raise EnvironmentFault(message, hint="Run: pip install 'kstoolkit[kafka]'") from error
    return confluent_kafka


def _made(kind: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
    """Return a client with such settings; librdkafka may refuse some."""
    try:
        return kind(settings)
    except clients().KafkaException as error:
        if error.args[0].code() != clients().KafkaError._INVALID_ARG:  # noqa: SLF001 - its name
            raise
        message = f"The connection to Kafka can't be set so: {error.args[0].str()}"
        hint = "What Java's client alone knows begins with java., as java.default.api.timeout.ms."
        raise ConfigurationError(message, hint=hint) from error


def said(error: Any) -> KafkaError:
    """Return what librdkafka said, as an error of ours."""
    is_silent = _is_silence(error)
    hint = "Is the broker up, and the address right?" if is_silent else "So the broker says itself."
    return KafkaError(str(error.args[0].str()), hint=hint)


@contextmanager
def translated() -> Iterator[None]:
    """Raise what librdkafka says as an error of ours."""
    try:
        yield
    except clients().KafkaException as error:
        raise said(error) from error


def _is_silence(error: Any) -> bool:
    """Return whether it was nobody's answer: of a broker that is down, far off, or not there."""
    codes = clients().KafkaError
    silent = {codes._TRANSPORT, codes._TIMED_OUT, codes._ALL_BROKERS_DOWN, codes._RESOLVE}  # noqa: SLF001 - their names
    return error.args[0].code() in silent


_FIRST_SECONDS = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
_GLANCES, _GLANCE_SECONDS, _LOOK_SECONDS = 3, 0.5, 2.0

Log = Callable[[str], None]
Sleep = Callable[[float], None]


def _answered(cluster: Cluster) -> Any:
    """Return what a cluster says of itself; if it lets nobody in, why comes after a second."""
    lib, heard = clients(), list[str]()
    admin = cluster.admin(error_cb=lambda error: heard.append(error.str()))
    try:
        return admin.list_topics(timeout=_FIRST_SECONDS)
    except lib.KafkaException:
        _check_let_in(cluster, admin, heard)
    try:
        return admin.list_topics(timeout=max(cluster.answer_seconds - _FIRST_SECONDS, 0))
    except lib.KafkaException as error:
        _check_let_in(cluster, admin, heard)
        why = last_words(heard) or str(error.args[0].str())
        message = f"No Kafka broker answers at {cluster.bootstrap!r} ({why})."
        raise KafkaError(message, hint="Start it, or mend the address.") from error


def _silence(cluster: Cluster, sleep: Sleep) -> str | None:
    """Return why no broker answers; ``None`` if one does."""
    lib, heard = clients(), list[str]()
    admin = cluster.admin(error_cb=lambda error: heard.append(error.str()))
    deadline = time.monotonic() + ANSWER_SECONDS
    for glances in count(1):
        try:
            # A broker that is far off takes its time; one that is down is noticed sooner.
            admin.list_topics(timeout=_GLANCE_SECONDS if glances <= _GLANCES else _LOOK_SECONDS)
        except lib.KafkaException as error:  # meanwhile, the client goes on trying
            is_last = time.monotonic() > deadline or not _is_silence(error)
            if is_last or glances == _GLANCES:
                _check_let_in(cluster, admin, heard)
            if is_last:
                return last_words(heard) or said(error).message
        else:
            return None
        sleep(0)
    return None


def _check_let_in(cluster: Cluster, admin: AdminClient, heard: list[str]) -> None:
    admin.poll(0)  # which is when errors are heard of
    why = refusal(cluster.bootstrap, for_librdkafka(cluster.options), heard)
    if why is not None:
        raise why


_PAUSE_SECONDS = 0.25

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Reach:
    """The offsets of a partition: the first that is there, and the one after the last.

    The last is the last readable one: what an open transaction holds back counts only if asked for.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a topic is at present, and the offsets of each partition.

    ``topic_id`` tells it from another one of that name; ``None`` if the brokers are too old to say.
    """

    name: str
    topic_id: str | None
    reach: Mapping[int, Reach]


def check_offsets(
    what: str, named: Mapping[int, int], topic: str, reach: Mapping[int, Reach]
) -> None:
    """Raise unless each partition reaches the offset that ``what`` names of it."""
    for partition, at in named.items():
        there = reach.get(partition)
        if there is None or not there.first <= at <= there.end:
            message = f"{what} has offset {at} of partition {partition}, which is not there."
            held = "; ".join(f"{each}: {r.first} to {r.end}" for each, r in sorted(reach.items()))
            raise ConfigurationError(message, hint=f"{topic!r} has {held}.")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, reached through some of its servers: ``host:port``, with commas between.

    The first answer may take ``answer_seconds``: that of a broker that may be away.
    """

    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    answer_seconds: float = field(default=ANSWER_SECONDS, repr=False)

    def wait(self, patience_ms: int, tell: Log, sleep: Sleep = time.sleep) -> None:
        """Wait until a broker answers, with growing pauses, and say so each time that none does.

        ``sleep`` may raise, which ends it all within two seconds. If none answers for
        ``patience_ms``, it is a KafkaError; one that refuses this client, a ConfigurationError.
        """
        began, pause = time.monotonic(), _SHORTEST_PAUSE
        while (why := _silence(self, sleep)) is not None:
            waited_ms = round((time.monotonic() - began) * 1_000)
            if waited_ms >= patience_ms:
                waited = format_duration(max(waited_ms // 1_000, 1) * 1_000)
                message = f"No Kafka broker answers at {self.bootstrap!r} ({why}); tried {waited}."
                raise KafkaError(message, hint="Start it, or mend the address, and run again.")
            tell(f"No Kafka broker answers at {self.bootstrap} ({why}); trying again.")
            sleep(min(pause, max((patience_ms - waited_ms) / 1_000, 0.05)))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def facts(self, topic: str, *, committed: bool = True) -> TopicFacts:
        """Return what a topic is, with its :meth:`reach`; if there is none, it is an InputError."""
        reach = self.reach(topic, self.partitions(topic), committed=committed)
        return TopicFacts(topic, self.topic_id(topic), reach)

    def topic_id(self, topic: str) -> str | None:
        """Return what tells a topic from another one of its name; ``None`` from brokers too old."""
        lib, admin = clients(), self.admin()
        names = lib.TopicCollection([topic])
        try:
            asked = admin.describe_topics(names, request_timeout=ANSWER_SECONDS)
            return str(asked[topic].result(2 * ANSWER_SECONDS).topic_id)
        except lib.KafkaException as error:
            if error.args[0].code() == lib.KafkaError._UNSUPPORTED_FEATURE:  # noqa: SLF001 - its name
                return None
            raise said(error) from error

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions; if there is none, it is an InputError."""
        found = _answered(self).topics
        if topic not in found:
            message = f"No topic {topic!r} at {self.bootstrap!r}."
            raise InputError(message, hint=guessed(topic, found).strip() or "Make it first.")
        return sorted(found[topic].partitions)

    def has(self, topic: str) -> bool:
        """Return whether there is a topic of that name."""
        return topic in _answered(self).topics

    def reach(
        self, topic: str, partitions: list[int], *, committed: bool = True
    ) -> dict[int, Reach]:
        """Return the offsets of partitions, each asked of its leader.

        ``committed``: a partition ends before the first transaction that is still open, which is as
        far as those come who read what is committed, as everything here does.
        """
        first = self._offsets(topic, partitions, "earliest")
        ends = self._offsets(topic, partitions, "latest", committed=committed)
        return {each: Reach(first[each], ends[each]) for each in partitions}

    def offsets_at(self, topic: str, partitions: list[int], moment_ms: int) -> dict[int, int]:
        """Return the first offset of each partition whose record is no older, else its end."""
        # Kafka knows no time before 1970, and takes a negative one for a word, such as "latest".
        found = self._offsets(topic, partitions, max(moment_ms, 0))
        ends = self._offsets(topic, partitions, "latest")
        return {each: found[each] if found[each] >= 0 else ends[each] for each in partitions}

    def admin(self, **more: Any) -> AdminClient:
        """Return a client that manages."""
        return _made(clients().admin.AdminClient, self._settings() | more)  # type: ignore[no-any-return]

    def consumer(self, group: str = "kstoolkit", **more: Any) -> Consumer:
        """Return a client that reads; it commits nothing of its own accord."""
        told = {"group.id": group, "enable.auto.commit": False, "enable.partition.eof": True}
        return _made(clients().Consumer, self._settings() | told | more)  # type: ignore[no-any-return]

    def _settings(self) -> dict[str, Any]:
        silent = {"log_level": 0}  # what goes wrong is raised
        return {"bootstrap.servers": self.bootstrap} | silent | for_librdkafka(self.options)

    def _offsets(
        self, topic: str, partitions: list[int], what: str | int, *, committed: bool = True
    ) -> dict[int, int]:
        lib = clients()
        level, spec = lib.IsolationLevel, lib.admin.OffsetSpec
        seen = level.READ_COMMITTED if committed else level.READ_UNCOMMITTED
        chosen = spec.for_timestamp(what) if isinstance(what, int) else getattr(spec, what)()
        asked = {lib.TopicPartition(topic, each): chosen for each in partitions}
        admin = self.admin()  # held until the answers are there: they come by its thread
        told = {"request_timeout": ANSWER_SECONDS, "isolation_level": seen}

        def ask() -> dict[int, int]:
            answers = admin.list_offsets(asked, **told).items()
            return {at.partition: each.result(2 * ANSWER_SECONDS).offset for at, each in answers}

        codes = lib.KafkaError
        unknown, moved = codes.UNKNOWN_TOPIC_OR_PART, codes.NOT_LEADER_FOR_PARTITION
        with translated():  # of a topic that was just made, not every server knows yet
            return settled(ask, codes.LEADER_NOT_AVAILABLE, moved, unknown)


def settled(ask: Callable[[], Answer], *unsettled: int) -> Answer:
    """Ask until what comes is none of some errors, which pass by themselves."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return ask()
        except clients().KafkaException as error:
            if error.args[0].code() not in unsettled or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


_PARTITIONS = 3
"""How many a new topic has, unless told otherwise: so many tasks can read it at once."""

_MOST_PARTITIONS = 100_000  # that librdkafka asks for

_CONFIG = {
    # Events that are replayed are old: by their own times they would be deleted as they come in.
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
}


def check_partitions(number: object) -> None:
    """Raise unless a topic can be made with so many partitions; ``None`` leaves it to us."""
    if number is None or (type(number) is int and 0 < number <= _MOST_PARTITIONS):
        return
    message = f"A topic of {number!r} partitions can't be made."
    raise ConfigurationError(message, hint=f"Give 1 to {_MOST_PARTITIONS}, or leave it out.")


def topic_made(
    cluster: Cluster, topic: str, partitions: int | None, tell: Log, *, cleanup: str = "delete"
) -> bool:
    """Make a topic whose records no age deletes, unless there is one; return whether it was made.

    Told is if one that is there has another number of partitions. ``cleanup`` is a new one's
    policy, ``"delete"`` or ``"compact"``.
    """
    check_partitions(partitions)
    if not cluster.has(topic) and _make(cluster, topic, partitions or _PARTITIONS, cleanup):
        return True
    has = len(cluster.partitions(topic))
    if partitions not in {None, has}:
        number = counted(has, "partitions")
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

    No age deletes its records. A topic that is there stays; another number of partitions is said.

    Parameters
    ----------
    topic, bootstrap, give_up_after, options
        As of :func:`~kstoolkit.events.topics.kafka_topic`.
    partitions
        How many a new topic gets; 3 by default.
    compact
        Whether the broker keeps just the last record of each key in it.

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
    cluster = Cluster(address.bootstrap, options_given(options, address.bootstrap))
    cluster.wait(patience_ms, to_stderr)
    cleanup = "compact" if compact else "delete"
    return topic_made(cluster, address.topic, partitions, to_stderr, cleanup=cleanup)


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int
