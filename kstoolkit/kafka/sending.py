"""Records on their way to a topic: batched, compressed, each just once, and answered for."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from kstoolkit.errors import ConfigurationError, InputError, KafkaError
from kstoolkit.events.json import LONGEST_LINE_BYTES
from kstoolkit.kafka.connection import for_librdkafka
from kstoolkit.kafka.librdkafka import clients
from kstoolkit.units import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from kstoolkit.events.topics import Address


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


def patience_of(options: Mapping[str, str]) -> int:
    """Return how long a record may take to be acknowledged, in milliseconds.

    Raises
    ------
    ConfigurationError
        If what is said of it is no number.
    """
    told = next((options[name] for name in _PATIENCE if name in options), str(_PATIENCE_MS))
    if not str(told).isdecimal() or not int(told):
        message = f"delivery.timeout.ms is {told!r}."
        raise ConfigurationError(message, hint="Give milliseconds, such as 300000.")
    return int(told)


class Sender:
    """Sends records to a topic, and counts what becomes of them.

    As a context it lets go of what is still on its way if it ends with an error.

    Parameters
    ----------
    address
        The topic.
    options
        Settings of the connection and of the producer; they have the last word.
    tell
        Called with a line when no broker answers, and when it ends early.
    shown
        Called with how many records were acknowledged so far.

    Raises
    ------
    ConfigurationError
        If librdkafka does not know a setting, or not its value.
    EnvironmentFault
        If confluent-kafka is not installed.
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
        self._patience = format_duration(max(patience_of(options) // 1_000, 1) * 1_000)
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
        """Take it as it is."""
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
        """Send some records; a time of 0 is now.

        Raises
        ------
        KafkaError
            If records of this call or an earlier one were given up.
        """
        self._began = self._began or time.monotonic()
        for start in range(0, len(values), _AT_A_TIME):
            here = slice(start, start + _AT_A_TIME)
            self._queue(values[here], keys[here], times_ms[here])
            self.rest(0)

    def rest(self, seconds: float) -> None:
        """Do nothing for so long but hear what became of records.

        Raises
        ------
        KafkaError
            If some were given up.
        """
        deadline = time.monotonic() + seconds
        self._producer.poll(seconds)
        while (left := deadline - time.monotonic()) > 0:
            self._producer.poll(left)
        self._look()

    def finish(self) -> None:
        """Wait until each record is acknowledged or refused.

        Raises
        ------
        KafkaError
            If some were given up.
        """
        while self._producer.flush(_FLUSH_S):
            self._look()
        self._look()
        self.seconds = 0.0 if self._began is None else time.monotonic() - self._began

    def _connected(self, options: Mapping[str, str]) -> Any:
        told = {"bootstrap.servers": self.address.bootstrap, **_SETTINGS}
        told |= for_librdkafka(options)
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
        elif error.code() == self._lib.KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - its name
            self._say_that_it_is_away()

    def _say_that_it_is_away(self) -> None:
        if self._is_away or not len(self._producer):
            return
        self._is_away = True
        self._tell(
            f"No Kafka broker answers at {self.address.bootstrap}; it is waited for, at most "
            f"{self._patience}."
        )

    def _look(self) -> None:
        self._shown(self.records)
        if self._fault is None:
            return
        there = f"{format_count(self.records)} records are in {self.address}"
        message = f"{there}; the next ones are not: {self._fault.str().rstrip('.')}."
        hint = f"Is the broker up? It is waited for at most {self._patience} (delivery.timeout.ms)."
        raise KafkaError(message, hint=hint)
