"""How far a run or a consumer group is behind its topics, and when it will have caught up."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from kstoolkit.operations.lagfigures import lag_of
from kstoolkit.operations.readers import reader_of
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from kstoolkit.operations.lagrecord import LagOfPartition, TopicLag
    from kstoolkit.operations.readers import Positions
    from kstoolkit.pipeline.run import Run
    from kstoolkit.units import Duration


_KEPT_SECONDS = 60.0
"""Rates are of the last minute: consumers commit some seconds apart, and batches come in gusts."""


def lag(
    what: Run | str | os.PathLike[str],
    *,
    bootstrap: str | None = None,
    topic: str | None = None,
    over: Duration = "5 seconds",
    options: Mapping[str, str] | None = None,
) -> TopicLag:
    """Return how far a run or a consumer group is behind, by partition.

    Parameters
    ----------
    what
        A run that reads a topic, or its folder: its position is where the newest batch ended that
        Spark has committed. With ``bootstrap``, a consumer group; a Kafka Streams application is
        one, called as its ``application.id``: its position is what it has committed.
    bootstrap
        Of a group: servers to ask first, as ``"host:port"``, with commas between.
    topic
        Of a group: only this topic; by default all that it reads or has committed.
    over
        How long to measure rates, if anything waits: how fast records arrive, and how fast a group
        commits. How fast a run is, its batches tell. Longer than the time between two commits, or
        it is unknown: consumers commit every 5 seconds by default, Kafka Streams every 30. With 0,
        nothing is measured.
    options
        Settings of the connection; by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG``
        names.

    Raises
    ------
    InputError
        If there is no such run, group or topic.
    ConfigurationError
        If the run reads no topic.
    KafkaError
        If no broker answers.

    Examples
    --------
    >>> lag("billing", bootstrap="127.0.0.1:1", over="soon")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: 'soon' is not a duration.
    Hint: Write a number and a unit: '30 seconds', '5 minutes', '1 hour', '1 day'.
    """
    over_ms = parse_duration(over, allow_zero=True)
    watch = LagWatch(what, bootstrap=bootstrap, topic=topic, options=options)
    first = watch.look()
    if not over_ms or not first.lag_records:
        return first
    time.sleep(over_ms / 1_000)
    return watch.look()


class LagWatch:
    """Looks at the lag again and again, and measures rates from one look to another.

    Parameters
    ----------
    what, bootstrap, topic, options
        As of :func:`lag`.

    Raises
    ------
    InputError
        If there is no such run.
    ConfigurationError
        If the run reads no topic.
    """

    def __init__(
        self,
        what: Run | str | os.PathLike[str],
        *,
        bootstrap: str | None = None,
        topic: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._reader = reader_of(what, bootstrap=bootstrap, topic=topic, options=options)
        self._looks: deque[Positions] = deque()

    def look(self) -> TopicLag:
        """Return the lag as it is now; rates are since the looks of the last minute.

        Raises
        ------
        InputError
            If the run, group or topic is gone.
        KafkaError
            If no broker answers.
        """
        now = self._reader.look()
        while self._looks and now.at_seconds - self._looks[0].at_seconds > _KEPT_SECONDS:
            self._looks.popleft()
        before = self._looks[0] if self._looks else None
        self._looks.append(now)
        found = lag_of(self._reader, before, now)
        if before is None:
            return found
        return replace(found, measured_seconds=now.at_seconds - before.at_seconds)

    def partitions(self) -> tuple[LagOfPartition, ...]:
        """Return what :meth:`look` finds by partition, as metrics take it."""
        return self.look().partitions

    def __repr__(self) -> str:
        return f"LagWatch({self._reader.name})"
