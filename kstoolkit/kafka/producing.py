"""Events into a topic: those of files or of a simulation, as they are."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Literal

import numpy as np
from tqdm import tqdm

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.topics import address_of, options_given
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.jars import to_stderr
from kstoolkit.kafka.newtopic import check_partitions, retention_ms, topic_made
from kstoolkit.kafka.outgoing import outgoing
from kstoolkit.kafka.pacing import Pace, parse_speed
from kstoolkit.kafka.produced import Produced
from kstoolkit.kafka.sending import Sender, patience_of
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from kstoolkit.events.event import TimeUnit
    from kstoolkit.events.records import RawRecords
    from kstoolkit.kafka.outgoing import Events

    RecordTimes = NDArray[np.int64]


_FUTURE_MS = 3_600_000
"""Brokers refuse a record that is later than this, unless told otherwise."""

_REMEMBERED_MS = 86_400_000
"""How long after a producer's last record, by that record's time, a broker knows what it sent."""

_SHORTEST_REST_S, _LONGEST_REST_S = 0.005, 0.5


def produce(
    events: Events,
    topic: str,
    *,
    bootstrap: str | None = None,
    event_time: str | None = None,
    user: str | None = None,
    format: str | None = None,  # noqa: A002 - what files() calls it
    time_unit: TimeUnit | None = None,
    partitions: int | None = None,
    rate: float | None = None,
    speed: float | str | None = None,
    record_time: Literal["event", "now"] = "event",
    options: Mapping[str, str] | None = None,
    progress: bool | None = None,
    tell: Callable[[str], None] = to_stderr,
) -> Produced:
    """Send events to a Kafka topic, and return what came of it.

    Records are sent as they are, also those that are no events: whoever reads them judges. A line
    of JSON goes byte by byte; a row of CSV or Parquet as a JSON object of its columns, and what is
    no row of CSV as its text. The key is the user, in UTF-8; a record whose user can't be told has
    none. Users have the partitions that Java's clients give them (murmur2). The record's time is
    the event time; it is now where that can't be read, is before 1970, or is more than an hour in
    the future, which brokers refuse.

    Each record is written once and in order, also if a broker goes away meanwhile: it is waited for
    as long as ``delivery.timeout.ms`` says, 5 minutes by default. But brokers forget, when they
    start, who sent records whose time is more than a day ago (``producer.id.expiration.ms``): of a
    replay of old events, the last ones before such an outage may be there twice, which is said.
    With ``record_time="now"`` they are not.

    Parameters
    ----------
    events
        What to send: :func:`~kstoolkit.events.sources.files`, a path (a file, folder or glob) or
        several, or a simulation.
    topic
        Where to: its name, or ``"kafka://host:port/name"``, which tells the servers too. A topic
        that is missing is made, and keeps its records for ever.
    bootstrap
        Servers to ask first, as ``"host:port"``, with commas between.
    event_time, user, format, time_unit
        As of :func:`~kstoolkit.events.sources.files`, for paths: which columns are what, by plain
        names; how the files are written; what epoch times are counted in.
    partitions
        How many partitions a topic that is made gets; 3 by default. One that is there keeps its
        own.
    rate
        At most so many records a second.
    speed
        How much faster than they were recorded events are sent: ``"60x"`` or ``60`` for a minute in
        a second. A step of more than a day between two events takes no time.
    record_time
        What the time of a record is: the event's, or now.
    options
        Settings of the connection and of librdkafka's producer; by default those of the file that
        ``KSTOOLKIT_KAFKA_CONFIG`` names. Never shown.
    progress
        Whether to show progress on stderr; by default if that is a terminal.
    tell
        Called with a line when no broker answers, and of what is odd about the topic.

    Raises
    ------
    ConfigurationError
        If one of them makes no sense.
    InputError
        If there are no events, or a file can't be read to its end; what it had is sent by then.
    ColumnError
        If none of the first records has a column.
    KafkaError
        If no broker answers for too long, or it does not take records.
    EnvironmentFault
        If confluent-kafka is not installed.

    Examples
    --------
    >>> produce("data/sample", "edits", event_time="time", user="user")
    Traceback (most recent call last):
    kstoolkit.errors.ConfigurationError: The topic 'edits' needs its servers named once.
    Hint: Give bootstrap='host:port', or kafka://host:port/…
    """
    address = address_of(topic, bootstrap)
    settings = options_given(options)
    check_partitions(partitions)
    _check_record_time(record_time)
    pace = _pace(rate, speed)
    what = outgoing(
        events, event_time=event_time, user=user, file_format=format, time_unit=time_unit
    )
    with (
        _bar(progress) as bar,
        Sender(address, settings, tell=tell, shown=lambda n: bar.update(n - bar.n)) as sender,
    ):
        cluster = Cluster(address.bootstrap, settings)
        cluster.wait(patience_of(settings), tell)
        topic_made(cluster, address.topic, partitions, tell)
        kept_ms = retention_ms(cluster, address.topic)
        oldest_ms = time.time_ns() // 1_000_000
        for records in what.records():
            times_ms = _record_times(records, record_time)
            oldest_ms = _oldest(times_ms, oldest_ms)
            kept_ms = _warned(oldest_ms, kept_ms, tell)
            _send(sender, records, times_ms, pace)
        sender.finish()
    maybe_twice = sender.had_outage and oldest_ms < time.time_ns() // 1_000_000 - _REMEMBERED_MS
    if maybe_twice:
        tell("Note: a broker was away for a while; the last records before may be there twice.")
    return Produced(
        address=address,
        records=sender.records,
        size_bytes=sender.size_bytes,
        seconds=sender.seconds,
        partitions=dict(sender.partitions),
        failures=dict(sender.failures),
        maybe_twice=maybe_twice,
    )


def _pace(rate: float | None, speed: float | str | None) -> Pace | None:
    if rate is None and speed is None:
        return None
    return Pace(rate=rate, speed=None if speed is None else parse_speed(speed))


def _bar(progress: bool | None) -> tqdm:  # noqa: FBT001 - whether to show it, or as it is fit
    return tqdm(
        desc="producing",
        unit=" records",
        unit_scale=True,
        disable=None if progress is None else not progress,
        file=sys.stderr,
        dynamic_ncols=True,
        leave=False,
    )


def _check_record_time(record_time: str) -> None:
    if record_time not in {"event", "now"}:
        message = f"record_time is {record_time!r}."
        raise ConfigurationError(message, hint="Give 'event' or 'now'.")


def _send(sender: Sender, records: RawRecords, record_ms: RecordTimes, pace: Pace | None) -> None:
    """Send records, each when it is due."""
    values, users, times_ms = records.values, records.users, record_ms.tolist()
    if pace is None:
        sender.send(values, users, times_ms)
        return
    due_s = pace.schedule(records.time_ms, records.has_time)
    at = 0
    while at < len(records):
        wait_s = float(due_s[at]) - pace.elapsed_s
        if wait_s > 0:
            sender.rest(min(max(wait_s, _SHORTEST_REST_S), _LONGEST_REST_S))
            continue
        pace.forgive(float(due_s[at]))
        here = slice(at, max(int(np.searchsorted(due_s, pace.elapsed_s, "right")), at + 1))
        sender.send(values[here], users[here], times_ms[here])
        at = here.stop


def _record_times(records: RawRecords, record_time: str) -> RecordTimes:
    """Return each record's own time; 0, which is now, where the event's will not do."""
    if record_time == "now":
        return np.zeros(len(records), np.int64)
    latest_ms = time.time_ns() // 1_000_000 + _FUTURE_MS
    times_ms = records.time_ms
    fit = records.has_time & (times_ms > 0) & (times_ms <= latest_ms)
    return np.where(fit, times_ms, 0)


def _oldest(record_ms: RecordTimes, now_ms: int) -> int:
    return int(np.where(record_ms == 0, now_ms, record_ms).min(initial=now_ms))


def _warned(oldest_ms: int, kept_ms: int | None, tell: Callable[[str], None]) -> int | None:
    """Say once that a topic will delete records soon; return what there is still to warn of."""
    if kept_ms is None or oldest_ms >= time.time_ns() // 1_000_000 - kept_ms:
        return kept_ms
    kept = format_duration(kept_ms)
    tell(f"Note: the topic keeps a record for {kept} after its own time: older ones will go.")
    return None
