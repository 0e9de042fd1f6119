"""Whether a cluster answers: what it says of itself, and waiting while it says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import KafkaError
from kstoolkit.kafka.connection import for_librdkafka
from kstoolkit.kafka.librdkafka import ANSWER_SECONDS, clients, is_silence, said
from kstoolkit.kafka.refusal import last_words, refusal
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from kstoolkit.kafka.cluster import Cluster


_FIRST_SECONDS = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
_GLANCES, _GLANCE_SECONDS, _LOOK_SECONDS = 3, 0.5, 2.0

Tell = Callable[[str], None]
Rest = Callable[[float], None]


def answered(cluster: Cluster) -> Any:
    """Return what a cluster says of itself; if it lets nobody in, why comes after a second.

    Raises
    ------
    KafkaError
        If no broker answers.
    ConfigurationError
        If one does, and these settings are why it is not heard.
    """
    lib, heard = clients(), list[str]()
    admin = cluster.admin(error_cb=lambda error: heard.append(error.str()))
    try:
        return admin.list_topics(timeout=_FIRST_SECONDS)
    except lib.KafkaException:
        _check_let_in(cluster, admin, heard)
    try:
        return admin.list_topics(timeout=ANSWER_SECONDS - _FIRST_SECONDS)
    except lib.KafkaException as error:
        _check_let_in(cluster, admin, heard)
        why = last_words(heard) or str(error.args[0].str())
        message = f"No Kafka broker answers at {cluster.bootstrap!r} ({why})."
        raise KafkaError(message, hint="Start it, or mend the address.") from error


def wait_for(cluster: Cluster, patience_ms: int, tell: Tell, rest: Rest) -> None:
    """Wait until a broker answers, as :meth:`~kstoolkit.kafka.cluster.Cluster.wait` says."""
    began, pause = time.monotonic(), _SHORTEST_PAUSE
    while (why := _silence(cluster, rest)) is not None:
        waited_ms = round((time.monotonic() - began) * 1_000)
        if waited_ms >= patience_ms:
            waited = format_duration(max(waited_ms // 1_000, 1) * 1_000)
            message = f"No Kafka broker answers at {cluster.bootstrap!r} ({why}); tried {waited}."
            raise KafkaError(message, hint="Start it, or mend the address, and run again.")
        tell(f"No Kafka broker answers at {cluster.bootstrap} ({why}); trying again.")
        rest(min(pause, max((patience_ms - waited_ms) / 1_000, 0.05)))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _silence(cluster: Cluster, rest: Rest) -> str | None:
    """Return why no broker answers; ``None`` if one does."""
    lib, heard = clients(), list[str]()
    admin = cluster.admin(error_cb=lambda error: heard.append(error.str()))
    deadline = time.monotonic() + ANSWER_SECONDS
    for glances in count(1):
        try:
            # A broker that is far off takes its time; one that is down is noticed sooner.
            admin.list_topics(timeout=_GLANCE_SECONDS if glances <= _GLANCES else _LOOK_SECONDS)
        except lib.KafkaException as error:  # meanwhile, the client goes on trying
            is_last = time.monotonic() > deadline or not is_silence(error)
            if is_last or glances == _GLANCES:
                _check_let_in(cluster, admin, heard)
            if is_last:
                return last_words(heard) or said(error).message
        else:
            return None
        rest(0)
    return None


def _check_let_in(cluster: Cluster, admin: AdminClient, heard: list[str]) -> None:
    admin.poll(0)  # which is when errors are heard of
    why = refusal(cluster.bootstrap, for_librdkafka(cluster.options), heard)
    if why is not None:
        raise why
