"""Events into a topic, as they are: of files or of a simulation, in time or as fast as it goes.

Records are batched, compressed, sent each just once, and answered for. Each is due at most so many
a second, or as its event time passes, only faster.
"""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from tqdm import tqdm

from kstoolkit.errors import ConfigurationError, InputError, KafkaError, to_stderr
from kstoolkit.events.event import is_plain
from kstoolkit.events.files import Listing, check_columns
from kstoolkit.events.json import LONGEST_LINE_BYTES
from kstoolkit.events.records import read_raw_records, records_of
from kstoolkit.events.simulator import Simulation
from kstoolkit.events.sources import Files, files
from kstoolkit.events.topics import address_of, options_given
from kstoolkit.kafka.cluster import Cluster, check_partitions, clients, retention_ms, topic_made
from kstoolkit.kafka.connection import for_librdkafka
from kstoolkit.records import counted, facts_html
from kstoolkit.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from numpy.typing import NDArray

    from kstoolkit.events.records import RawRecords
    from kstoolkit.events.times import TimeUnit
    from kstoolkit.events.topics import Address

    Times = NDArray[np.int64]

_PATIENCE_MS = 300_000
_PATIENCE = ("delivery.timeout.ms", "message.timeout.ms")
"""One setting: as Java's client calls it, and as librdkafka does."""

_SETTINGS = {
    # Nothing twice, nothing lost and nothing out of order, whatever is sent again.
    "enable.idempotence": True,
    # Java's default partitioner: a user's events are where a Java client would have put them.
    "partitioner": "murmur2_random",
    "compression.type": "zstd",
    "linger.ms": 20,
    "queue.buffering.max.kbytes": 256 << 10,
    "log_level": 0,  # what goes wrong is raised
}
_AT_A_TIME = 5_000
_ROOM_S, _FLUSH_S, _LAST_S = 0.1, 0.5, 2.0


def _patience_of(options: Mapping[str, str]) -> int:
    """Return how long a record may take to be acknowledged, in milliseconds."""
    told = next((options[name] for name in _PATIENCE if name in options), str(_PATIENCE_MS))
    if not str(told).isdecimal() or not int(told):
        message = f"delivery.timeout.ms is {told!r}."
        raise ConfigurationError(message, hint="Give milliseconds, such as 300000.")
    return int(told)


class Sender:
    """Sends records to a topic, and counts what becomes of them.

    As a context it lets go of what is still on its way if it ends with an error. Options, of the
    connection and of the producer, have the last word. ``tell`` is called with a line when no
    broker answers and when it ends early, ``shown`` with how many records were acknowledged so far.
    """

    def __init__(
        self,
        address: Address,
        options: Mapping[str, str],
        *,
        tell: Callable[[str], None],
        shown: Callable[[int], object],
    ) -> None:
        self.address = address
        self.partitions: Counter[int] = Counter()
        self.failures: Counter[str] = Counter()
        self.size_bytes = 0
        self.seconds = 0.0
        self._tell, self._shown = tell, shown
        self._patience = format_duration(max(_patience_of(options) // 1_000, 1) * 1_000)
        self._lib = clients()
        error = self._lib.KafkaError
        self._of_the_record = {error.MSG_SIZE_TOO_LARGE, error.INVALID_MSG, error.INVALID_RECORD}
        self._of_the_record |= {error.INVALID_TIMESTAMP, error.RECORD_LIST_TOO_LARGE}
        self._fault: Any = None
        self._is_away = False
        self.had_outage = False
        self._began: float | None = None
        self._producer = self._connected(options)

    @property
    def records(self) -> int:
        """How many records were acknowledged."""
        return self.partitions.total()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, _trace: TracebackType | None
    ) -> None:
        """Let go of what is still on its way, and say what is there, if this is an early end."""
        has_begun = self._began is not None and self._fault is None
        if kind is not None and issubclass(kind, InputError):  # what came before it is all right
            with suppress(KafkaError):
                self.finish()
        if kind is not None:
            self._producer.purge(in_flight=False)
            self._producer.flush(_LAST_S)
            self._producer.purge()
        if kind is not None and has_begun:
            self._tell(f"{format_count(self.records)} records are in {self.address} by now.")
        del self._producer  # which holds on to this object, and would not be closed

    def send(
        self, values: Sequence[bytes], keys: Sequence[bytes | None], times_ms: Sequence[int]
    ) -> None:
        """Send some records; a time of 0 is now. Raises if some were given up by now."""
        self._began = self._began or time.monotonic()
        for start in range(0, len(values), _AT_A_TIME):
            here = slice(start, start + _AT_A_TIME)
            self._queue(values[here], keys[here], times_ms[here])
            self.rest(0)

    def rest(self, seconds: float) -> None:
        """Do nothing for so long but hear what became of records."""
        deadline = time.monotonic() + seconds
        self._producer.poll(seconds)
        while (left := deadline - time.monotonic()) > 0:
            self._producer.poll(left)
        self._look()

    def finish(self) -> None:
        """Wait until each record is acknowledged or refused."""
        while self._producer.flush(_FLUSH_S):
            self._look()
        self._look()
        self.seconds = 0.0 if self._began is None else time.monotonic() - self._began

    def _connected(self, options: Mapping[str, str]) -> Any:
        told = {"bootstrap.servers": self.address.bootstrap, **_SETTINGS, **for_librdkafka(options)}
        # Of a longer line there is but a beginning, which must not be taken for the line.
        largest = str(told.get("message.max.bytes", "1000000"))
        if largest.isdecimal():
            told["message.max.bytes"] = min(int(largest), LONGEST_LINE_BYTES)
        try:
            return self._lib.Producer(told | {"error_cb": self._heard})
        except self._lib.KafkaException as error:
            message = f"Kafka's client does not take these settings: {error.args[0].str()}."
            hint = "Its settings are those of librdkafka, or of a Java client's connection."
            raise ConfigurationError(message, hint=hint) from error

    def _queue(
        self, values: Sequence[bytes], keys: Sequence[bytes | None], times_ms: Sequence[int]
    ) -> None:
        produce, topic, answered = self._producer.produce, self.address.topic, self._answered
        for value, key, time_ms in zip(values, keys, times_ms, strict=True):
            try:
                produce(topic, value, key, on_delivery=answered, timestamp=time_ms)
            except BufferError:
                self._queue_when_there_is_room(value, key, time_ms)
            except self._lib.KafkaException as error:
                self._answered(error.args[0], None)

    def _queue_when_there_is_room(self, value: bytes, key: bytes | None, time_ms: int) -> None:
        told = {"on_delivery": self._answered, "timestamp": time_ms}
        while True:
            self._producer.poll(_ROOM_S)
            self._look()
            with suppress(BufferError):
                self._producer.produce(self.address.topic, value, key, **told)
                return

    def _answered(self, error: Any, message: Any) -> None:
        """Take in what became of a record."""
        if error is None:
            self.partitions[message.partition()] += 1
            self.size_bytes += len(message)
            self._is_away = False
        elif error.code() in self._of_the_record:
            self.failures[error.str()] += 1
        else:
            self._fault = self._fault or error

    def _heard(self, error: Any) -> None:
        """Take in what is wrong with the connection: librdkafka tries again by itself."""
        self.had_outage |= len(self._producer) > 0
        if error.fatal():
            self._fault = self._fault or error
            return
        is_down = error.code() == self._lib.KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - its name
        if is_down and not self._is_away and len(self._producer):
            self._is_away = True
            silent = f"No Kafka broker answers at {self.address.bootstrap}"
            self._tell(f"{silent}; it is waited for, at most {self._patience}.")

    def _look(self) -> None:
        self._shown(self.records)
        if self._fault is None:
            return
        there = f"{format_count(self.records)} records are in {self.address}"
        message = f"{there}; the next ones are not: {self._fault.str().rstrip('.')}."
        hint = f"Is the broker up? It is waited for at most {self._patience} (delivery.timeout.ms)."
        raise KafkaError(message, hint=hint)


Events = Files | Simulation | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""What can be sent: files, a path or several, or a simulation."""


def _outgoing(
    events: Events,
    *,
    event_time: str | None,
    user: str | None,
    file_format: str | None,
    unit: TimeUnit | None,
) -> Callable[[], Iterator[RawRecords]]:
    """Return what yields the records that are to be sent, after a look at them."""
    if isinstance(events, Simulation | Files):
        if any(each is not None for each in (event_time, user, file_format, unit)):
            message = f"{type(events).__name__} say by themselves which columns are what."
            raise ConfigurationError(message, hint="Say it there alone.")
        if isinstance(events, Files):
            return _of_files(events, [events.path])
        return lambda: records_of(events.events())
    if event_time is None or user is None:
        message = "Of files it must be said which columns are the event time and the user."
        raise ConfigurationError(message, hint="Give event_time= and user=.")
    given = _paths(events)
    source = files(
        given[0], event_time=event_time, user=user, action=user, format=file_format, time_unit=unit
    )
    return _of_files(source, given)


def _paths(events: object) -> list[str]:
    paths = [events] if isinstance(events, str | os.PathLike) else events
    if not isinstance(paths, Sequence) or not paths:
        message = f"{type(events).__name__} can't be sent."
        raise ConfigurationError(message, hint="Give files, a path or several, or a simulation.")
    return [os.fspath(path) for path in paths]


def _of_files(source: Files, given: list[str]) -> Callable[[], Iterator[RawRecords]]:
    if not is_plain(source.columns):
        named = ", ".join(map(repr, dict.fromkeys(source.columns)))
        message = f"Not all of these columns are plain names: {named}."
        raise ConfigurationError(message, hint="Name columns of the files: no Spark is asked here.")
    found = [path for each in given for path in sorted(Listing(each, source.file_format))]
    paths = tuple(dict.fromkeys(found))
    if not any(Path(path).stat().st_size for path in paths):
        why = "all files are empty" if paths else "no file there has a known format"
        message = f"No events in {', '.join(map(repr, given))}: {why}."
        hint = "Files end in .json, .jsonl, .csv or .parquet (and .gz, .zst)."
        raise InputError(message, hint=hint)
    check_columns(paths, source.columns, source.file_format)
    return lambda: chain.from_iterable(_of_file(path, source) for path in paths)


def _of_file(path: str, source: Files) -> Iterator[RawRecords]:
    file_format, unit = source.file_format, source.limits.time_unit
    try:
        yield from read_raw_records(path, source.columns, file_format=file_format, time_unit=unit)
    except OSError as error:
        message = f"{path} can't be read to its end: {error.strerror or error}."
        raise InputError(message, hint="Mend it, or leave it out.") from error


_LONGEST_GAP_MS = 86_400_000
"""A step of event time that is longer, either way, is passed over: nobody waits for a record whose
time is 1970 or 2099, nor through a week in which nothing was recorded."""

_MOST_BEHIND_S = 0.25
_SPEED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*x?\s*", re.IGNORECASE)


def _parse_speed(speed: float | str) -> float:
    """Return how many seconds of event time pass in one: ``"60x"`` or ``60`` for a minute."""
    match = _SPEED.fullmatch(str(speed))
    factor = float(match[1]) if match else 0.0
    if not 0 < factor < math.inf:
        message = f"The speed {speed!r} is no factor of event time."
        raise ConfigurationError(message, hint="Write '60x' for a minute in a second.")
    return factor


class Pace:
    """When records are due, at most ``rate`` a second, ``speed`` seconds of event time in one."""

    def __init__(self, *, rate: float | None, speed: float | None) -> None:
        if rate is not None and not 0 < rate < math.inf:
            message = f"The rate is {rate!r} records a second."
            raise ConfigurationError(message, hint="Give a number above 0.")
        self._apart_s = 0.0 if rate is None else 1 / rate
        self._speed = speed
        self._began: float | None = None
        self._scheduled = 0
        self._latest_s = -math.inf
        self._last_ms: int | None = None
        self._event_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """How long ago the beginning was: that is when this is asked for the first time."""
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        return now - self._began

    def schedule(self, time_ms: Times, has_time: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return when the next records are due; none is before the one before it."""
        rows = len(time_ms)
        spread = (self._scheduled + np.arange(rows)) * self._apart_s
        told = np.zeros(rows) if self._speed is None else self._told(time_ms, has_time, self._speed)
        # No record before its time, and each at least so long after the one before it.
        latest = np.maximum.accumulate(np.r_[self._latest_s, told - spread])[1:]
        self._scheduled += rows
        self._latest_s = float(latest[-1]) if rows else self._latest_s
        return np.asarray(latest + spread)

    def forgive(self, due_s: float) -> None:
        """Begin later if a record is overdue and there is a rate: it isn't made up for."""
        behind = self.elapsed_s - due_s
        if self._apart_s and self._began is not None and behind > _MOST_BEHIND_S:
            self._began += behind

    def _told(
        self, time_ms: Times, has_time: NDArray[np.bool_], speed: float
    ) -> NDArray[np.float64]:
        """Return when records are due by their event time; one without goes with its neighbour."""
        known = time_ms[has_time]
        if not known.size:
            return np.full(len(time_ms), self._event_s)
        steps = np.diff(known, prepend=known[0] if self._last_ms is None else self._last_ms)
        steps[np.abs(steps) > _LONGEST_GAP_MS] = 0
        seconds = self._event_s + np.cumsum(steps) / 1_000 / speed
        places = np.cumsum(has_time)
        told: NDArray[np.float64] = np.r_[self._event_s, seconds][places]
        self._last_ms, self._event_s = int(known[-1]), float(seconds[-1])
        return told


@dataclass(frozen=True, slots=True, repr=False)
class Produced:
    """What came of producing records to a topic.

    Parameters
    ----------
    records
        How many records it has acknowledged.
    size_bytes
        How much their values are.
    seconds
        How long that took, from the first one sent to the last acknowledgement.
    partitions
        How many of them went to each partition.
    failures
        How many records were refused, by the reason; the other ones are there all the same.
    maybe_twice
        Whether some of the last records before an outage may be there twice: a broker that comes
        back knows no more who sent records whose own time is more than a day ago.

    Examples
    --------
    >>> from kstoolkit.events.topics import Address
    >>> Produced(Address("127.0.0.1:9092", "edits"), 3000, 6 << 20, 0.5, {0: 2000, 2: 1000}, {})
    3,000 records (6.0 MiB) to 2 partitions of kafka://127.0.0.1:9092/edits in 0.5 s: 6,000 a second
    """

    address: Address
    records: int
    size_bytes: int
    seconds: float
    partitions: Mapping[int, int]
    failures: Mapping[str, int]
    maybe_twice: bool = False

    @property
    def rate(self) -> float | None:
        """Records a second; ``None`` if there were none."""
        return self.records / self.seconds if self.records and self.seconds else None

    @property
    def failed(self) -> int:
        """How many records were refused."""
        return sum(self.failures.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values, as ``kstoolkit produce --json`` prints them."""
        return {
            "topic": str(self.address),
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 6),
            "rate": None if self.rate is None else round(self.rate, 1),
            "partitions": {str(each): self.partitions[each] for each in sorted(self.partitions)},
            "failures": dict(self.failures),
            "maybe_twice": self.maybe_twice,
        }

    def __repr__(self) -> str:
        where = f"{counted(len(self.partitions), 'partitions')} of {self.address}"
        what = f"{counted(self.records, 'records')} ({format_bytes(self.size_bytes)})"
        rate = "" if self.rate is None else f": {format_count(self.rate)} a second"
        refused = f"; {counted(self.failed, 'records')} refused" if self.failures else ""
        twice = "; some may be there twice" if self.maybe_twice else ""
        return f"{what} to {where} in {self.seconds:,.1f} s{rate}{refused}{twice}"

    def _repr_html_(self) -> str:
        told = [(f"partition {each}", number) for each, number in sorted(self.partitions.items())]
        told += [(f"refused: {why}", number) for why, number in self.failures.items()]
        return facts_html([(name, format_count(number)) for name, number in told], repr(self))


_FUTURE_MS = 3_600_000  # brokers refuse a record that is later than this, unless told otherwise
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
    topic, bootstrap
        Where to, as of :func:`~kstoolkit.events.topics.kafka_topic`. A topic that is missing is
        made, and keeps its records for ever.
    event_time, user, format, time_unit
        As of :func:`~kstoolkit.events.sources.files`, for paths: which columns are what, by plain
        names; how the files are written; what epoch times are counted in.
    partitions
        How many partitions a topic that is made gets; 3 by default. One that is there keeps its.
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
    settings = options_given(options, address.bootstrap)
    check_partitions(partitions)
    if record_time not in {"event", "now"}:
        message = f"record_time is {record_time!r}."
        raise ConfigurationError(message, hint="Give 'event' or 'now'.")
    factor = None if speed is None else _parse_speed(speed)
    pace = None if rate is None and factor is None else Pace(rate=rate, speed=factor)
    what = _outgoing(events, event_time=event_time, user=user, file_format=format, unit=time_unit)
    looks = {"desc": "producing", "unit": " records", "unit_scale": True, "dynamic_ncols": True}
    is_hidden = None if progress is None else not progress
    with (
        tqdm(**looks, disable=is_hidden, file=sys.stderr, leave=False) as bar,
        Sender(address, settings, tell=tell, shown=lambda n: bar.update(n - bar.n)) as sender,
    ):
        cluster = Cluster(address.bootstrap, settings)
        cluster.wait(_patience_of(settings), tell)
        topic_made(cluster, address.topic, partitions, tell)
        kept_ms = retention_ms(cluster, address.topic)
        oldest_ms = time.time_ns() // 1_000_000
        for records in what():
            times_ms = _record_times(records, record_time)
            oldest_ms = int(times_ms.min(where=times_ms != 0, initial=oldest_ms))
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


def _send(sender: Sender, records: RawRecords, record_ms: Times, pace: Pace | None) -> None:
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


def _record_times(records: RawRecords, record_time: str) -> Times:
    """Return each record's own time; 0, which is now, where the event's will not do."""
    if record_time == "now":
        return np.zeros(len(records), np.int64)
    latest_ms = time.time_ns() // 1_000_000 + _FUTURE_MS
    times_ms = records.time_ms
    fit = records.has_time & (times_ms > 0) & (times_ms <= latest_ms)
    return np.where(fit, times_ms, 0)


def _warned(oldest_ms: int, kept_ms: int | None, tell: Callable[[str], None]) -> int | None:
    """Say once that a topic will delete records soon; return what there is still to warn of."""
    if kept_ms is None or oldest_ms >= time.time_ns() // 1_000_000 - kept_ms:
        return kept_ms
    kept = format_duration(kept_ms)
    tell(f"Note: the topic keeps a record for {kept} after its own time: older ones will go.")
    return None
