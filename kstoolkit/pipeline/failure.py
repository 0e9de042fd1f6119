"""Why Spark gave up, and how often a query that died may be started again.

The cause is said in one sentence, with where the rest of Spark's words are. Each restart is a line
of the run's ``restarts.jsonl``.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import asdict, dataclass
from shutil import disk_usage
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from kstoolkit.errors import ConfigurationError, KafkaError, KstoolkitError, RunFailed
from kstoolkit.events.ledger import JsonLines
from kstoolkit.units import Duration, check_whole, format_bytes, parse_duration

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.runfolder import RunFolder

JAVA_IS_GONE = (Py4JError, ConnectionError)
"""What any call of Spark raises once its Java has ended."""

_CAUSE = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)*(\w+(?:Error|Exception|Fault))(?:: (.+))?")
_OF_QUERY = re.compile(r"\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_WRAPPERS = {"Py4JJavaError", "PythonException", "SparkException", "StreamingQueryException"}
"""Errors that only carry another one."""
_LITTLE_BYTES = 64 << 20
_OF_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH|No module named")

_PASSING = (
    r"Timeout|Disconnect|Network|UnknownTopic\w*|LeaderNotAvailable|NotLeader\w*|\w*NotAvailable|"
    r"\w*LeaderEpoch|KafkaStorage|OffsetOutOfRange|NoOffsetForPartition|NotEnoughReplicas\w*"
)
_KAFKAS = re.compile(
    rf"org\.apache\.kafka\.[\w.]*\.(?:{_PASSING})Exception"
    # Of its own accord, or of Spark's source
    r"|Cannot fetch record|Some data may have been lost|KAFKA_DATA_LOSS|No resolvable bootstrap"
    # A task's error of a class that came by ADD JAR, which the driver can't read: the connector's.
    r"|UnknownReason"
)
_HOUR_MS = 3_600_000


def run_failed(error: object, folder: RunFolder) -> RunFailed:
    """Return what Spark said as one sentence, and where the rest of it is."""
    message = f"Spark gave up: {cause_in_words(error)}."
    free_bytes = disk_usage(folder.path).free
    # A state store that can't write breaks off without a word to the Python that waits for it.
    if free_bytes < _LITTLE_BYTES:
        message += f" Only {format_bytes(free_bytes)} are free where {str(folder.path)!r} lies."
    hint = "Nothing is lost: mend it and run again, it goes on from the last whole batch."
    if _OF_PYTHON.search(message):
        version = "{}.{}".format(*sys.version_info)
        hint += f" PYSPARK_PYTHON names the workers' Python: it is to be {version}, with pyarrow."
    return RunFailed(message, hint=hint + _own_words(folder))


def _own_words(folder: RunFolder) -> str:
    """Return where Spark's log is; a session of the user's has its own place for it."""
    return f" Spark's own words are in {folder.log}." if folder.log.exists() else ""


def java_ended(folder: RunFolder) -> RunFailed:
    """Return that Spark's Java ended without a word: the usual reason is the system's."""
    return RunFailed(
        "Spark's Java ended while it counted; systems do that to whoever takes most memory.",
        hint="Nothing is lost: run again, it goes on from the last whole batch. If it happens "
        "again, set KSTOOLKIT_DRIVER_MEMORY=2g, say, or max_files_per_batch." + _own_words(folder),
    )


def is_kafkas(error: object) -> bool:
    """Return whether it is of the kind that passes when Kafka's brokers answer again.

    >>> is_kafkas("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node.")
    True
    >>> is_kafkas("org.apache.kafka.common.errors.SaslAuthenticationException: no such user")
    False
    """
    return isinstance(error, KafkaError) or _KAFKAS.search(_trace(error)) is not None


def cause_in_words(error: object) -> str:
    """Return the cause of an error, ours or Spark's, without a full stop.

    >>> cause_in_words("org.apache.kafka.common.errors.TimeoutException: Timed out.")
    'TimeoutException: Timed out'
    """
    if isinstance(error, KstoolkitError):
        return error.message.rstrip(".")
    if "UnknownReason" in _trace(error):
        return "a task could not read its records"
    return _root_cause(str(error))


def _trace(error: object) -> str:
    """Return what was said of an error, without which query it was, and its plan."""
    said = _OF_QUERY.sub("", str(error)).partition("=== Streaming Query ===")[0]
    return said.rstrip().removesuffix("SQLSTATE: XXKST")


def _root_cause(said: str) -> str:
    """Return the error at the bottom of Python's and Java's traces, which wrap one another."""
    lines = [line.strip() for line in _trace(said).splitlines() if line.strip()]
    causes = [found for line in lines if (found := _CAUSE.fullmatch(line))]
    known = [cause for cause in causes if cause[1] not in _WRAPPERS]
    if not known:
        return next(iter(lines), "no reason given")
    return f"{known[-1][1]}: {known[-1][2] or 'a worker lost its connection'}".rstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """How often a query that died is started again, and after which pauses.

    Parameters
    ----------
    most_per_hour
        When it has died more often than this within an hour, the run gives up.
    first_pause, longest_pause
        The first pause; it doubles with each further death after the same batch, up to the longest.

    Raises
    ------
    ConfigurationError
        If one of them makes no sense.

    Examples
    --------
    >>> Restart(most_per_hour=3, longest_pause="10 seconds").pause_ms(deaths=9)
    10000
    """

    most_per_hour: int = 5
    first_pause: Duration = "1 second"
    longest_pause: Duration = "1 minute"

    def __post_init__(self) -> None:
        hint = "Give 1 or more, or leave restart= out."
        check_whole("most_per_hour", self.most_per_hour, least=1, hint=hint)
        if parse_duration(self.first_pause) > parse_duration(self.longest_pause):
            message = f"first_pause is {self.first_pause}, longest_pause {self.longest_pause}."
            raise ConfigurationError(message, hint="The longest has to be no shorter.")

    def pause_ms(self, deaths: int) -> int:
        """Return the pause after so many deaths without a batch between them, in milliseconds."""
        grown = parse_duration(self.first_pause) << min(deaths - 1, 20)
        return min(grown, parse_duration(self.longest_pause))


@dataclass(frozen=True, slots=True)
class Restarted:
    """A time that a run was started again, after the last whole batch, ``None`` before the first.

    It ``counts`` towards the ceiling, unless its query had ended since a broker was away.
    """

    at_ms: int
    reason: str
    batch: int | None
    counts: bool


@dataclass(frozen=True, slots=True)
class RestartLog:
    """The file of a run's folder that has a line for each restart; it need not be there."""

    path: Path

    def add(self, reason: str, batch: int | None, *, counts: bool) -> None:
        """Take in that the run is started again now."""
        told = Restarted(time.time_ns() // 1_000_000, reason, batch, counts)
        JsonLines(self.path, "list of restarts").append([asdict(told)])

    def read(self) -> list[Restarted]:
        """Return each restart, the oldest first; a line that a crash cut off is none."""
        return [*JsonLines(self.path, "list of restarts").read(lambda line: Restarted(**line))]

    def within_an_hour(self) -> int:
        """Return how many within the last hour count towards the ceiling."""
        since_ms = time.time_ns() // 1_000_000 - _HOUR_MS
        return sum(each.counts and each.at_ms > since_ms for each in self.read())
