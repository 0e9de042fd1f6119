"""Which Kafka topic events come from, where it is, and how it is reached.

Settings of the connection may come from a file: what is secret stands in no command line. They
belong to servers: to those that they name, or else to those whose address is given beside them.
What a folder says, which may come from anybody, gets them only if its servers are among these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.event import Columns, limits_of
from kstoolkit.units import Duration, check_whole, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.events.event import Limits
    from kstoolkit.events.times import TimeUnit

_CONFIG_FILE = "KSTOOLKIT_KAFKA_CONFIG"
"""The environment variable that names a file with settings of the connection."""


def read_options(path: str | Path) -> dict[str, str]:
    r"""Return the settings that a file has, one ``name=value`` a line, as Kafka's own tools read.

    What begins with ``#`` or ``!`` is a comment. A line that ends with a backslash goes on in the
    next one, whose indent does not count. Elsewhere a backslash stands for itself. What can't be
    read, or has a line that is no setting, is an InputError.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w") as file:
    ...     print("# ours\nclient.id = count\\\n  er", file=file, flush=True)
    ...     read_options(file.name)
    {'client.id': 'counter'}
    """
    told: dict[str, str] = {}
    for number, line in _lines(text_of(str(path))):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            message = f"Line {number} of {str(path)!r} is no setting."  # what it says may be secret
            raise InputError(message, hint="Write name=value, one a line.")
        told[name.strip()] = value.strip()
    return told


def options_of_environment() -> dict[str, str]:
    """Return the settings of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names, if it does."""
    path = os.environ.get(_CONFIG_FILE)
    return read_options(path) if path else {}


_SERVERS_SETTING = "bootstrap.servers"
_ITS_NAMES = {
    f"{client}{name}"
    for client in ("", "java.", "librdkafka.")
    for name in (_SERVERS_SETTING, "metadata.broker.list")
}
"""The setting that says whose the others are, as one client or the other calls it."""


def options_given(options: object, bootstrap: str) -> dict[str, str]:
    """Return settings as texts; of none, those of the file that the environment names.

    They map names to texts, numbers or truth values, and are from then on of the servers in
    ``bootstrap``, too. If they are no settings, or are those of other servers, it is a
    ConfigurationError, which does not show them: they may be secret.

    >>> options_given({"security.protocol": "SSL", "linger.ms": 20}, "a:9092")
    {'security.protocol': 'SSL', 'linger.ms': '20', 'bootstrap.servers': 'a:9092'}
    >>> options_given({"bootstrap.servers": "prod:9092"}, "dev:9092")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: The settings of the connection are of the servers \
'prod:9092', and 'dev:9092' is given.
    Hint: Give those of these servers, or an address of theirs.
    """
    told = _as_texts(options)
    if not told:
        return told
    own, beside = _owners(told), _split(bootstrap)
    if own and own.isdisjoint(beside):
        whose = f"of the servers {','.join(sorted(own))!r}"
        message = f"The settings of the connection are {whose}, and {bootstrap!r} is given."
        hint = "Give those of these servers, or an address of theirs."
        raise ConfigurationError(message, hint=hint)
    return without_servers(told) | {_SERVERS_SETTING: ",".join(sorted(own | beside))}


def options_of_folder(options: object, bootstrap: str, folder: str) -> dict[str, str]:
    """Return settings for servers that a folder names, which may have come from anybody.

    Settings that are not said to be of all these servers are a ConfigurationError.

    >>> options_of_folder({}, "a:9092", "out")
    {}
    >>> options_of_folder({"sasl.password": "secret"}, "a:9092", "out")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: 'out' names the servers 'a:9092', and the settings of the \
connection are not said to be theirs.
    Hint: If you know these servers, add to the settings: bootstrap.servers=a:9092
    """
    told = _as_texts(options)
    if told and not _split(bootstrap) <= _owners(told):
        why = "the settings of the connection are not said to be theirs"
        message = f"{folder!r} names the servers {bootstrap!r}, and {why}."
        hint = f"If you know these servers, add to the settings: {_SERVERS_SETTING}={bootstrap}"
        raise ConfigurationError(message, hint=hint)
    return told


def shared(options: Mapping[str, str], others: Mapping[str, str]) -> Mapping[str, str]:
    """Return settings as those of the servers of both, if it is in their servers that they differ.

    >>> here, there = {"bootstrap.servers": "a:1"}, {"bootstrap.servers": "b:1"}
    >>> shared(here | {"client.id": "me"}, there | {"client.id": "me"})
    {'client.id': 'me', 'bootstrap.servers': 'a:1,b:1'}
    >>> shared(here | {"client.id": "me"}, there | {"client.id": "you"})["bootstrap.servers"]
    'a:1'
    """
    same = without_servers(options)
    if not same or same != without_servers(others):
        return options
    return same | {_SERVERS_SETTING: ",".join(sorted(_owners(options) | _owners(others)))}


def without_servers(options: Mapping[str, str]) -> dict[str, str]:
    """Return settings without the one that says whose they are: a client is told where to go.

    >>> without_servers({"bootstrap.servers": "a:9092", "client.id": "me"})
    {'client.id': 'me'}
    """
    return {name: each for name, each in options.items() if name not in _ITS_NAMES}


def _owners(options: Mapping[str, str]) -> set[str]:
    """Return the servers whose settings these are, as far as they say."""
    return {each for name in _ITS_NAMES & options.keys() for each in _split(options[name])}


def _split(servers: str) -> set[str]:
    named = (each.strip().rpartition("://")[2].lower() for each in servers.split(","))
    return {each for each in named if each}


def _as_texts(options: object) -> dict[str, str]:
    """Return settings as texts; of none, those of the file that the environment names."""
    if options is None:
        return options_of_environment()
    hint = "Give a mapping of texts, as {'security.protocol': 'SSL'}."
    if not isinstance(options, Mapping):
        message = f"The options of the connection are of type {type(options).__name__}."
        raise ConfigurationError(message, hint=hint)
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            message = f"The option {name!r} is of type {type(value).__name__}."
            raise ConfigurationError(message, hint=hint)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def text_of(path: str) -> str:
    """Return what a file says; one that can't be read, or is no text, is an InputError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path!r} can't be read: {getattr(error, 'strerror', None) or error}."
        raise InputError(message, hint="Give a text file that you may read.") from error


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield whole lines without comments and empty ones, and the number of each one's first."""
    number, begun = 0, ""
    for at, line in enumerate(text.splitlines(), 1):
        part = line.strip()
        if not begun and (not part or part[0] in "#!"):
            continue
        number = number if begun else at
        begun += part
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
        else:
            yield number, begun
            begun = ""
    if begun:
        yield number, begun


RECORD_COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
"""What a record brings beside the fields of its value."""

Reader = Callable[[pa.RecordBatch], "pa.RecordBatch | pa.Table"]
"""From records, as columns :data:`RECORD_COLUMNS`, to the columns that events are made of."""

_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):(?P<port>[0-9]{1,5})")
_SCHEME = "kafka://"


class Address(NamedTuple):
    """A topic's place: servers with commas between, and its name."""

    bootstrap: str
    topic: str

    def __str__(self) -> str:
        return f"{_SCHEME}{self.bootstrap}/{self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Kafka topic of events; the fields are as :func:`kafka_topic` takes them."""

    address: Address
    columns: Columns
    key: str
    value: str | Reader
    starting: str | datetime | Mapping[int, int]
    schema: str | None
    limits: Limits
    max_records_per_batch: int | None
    patience_ms: int
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def kafka_topic(
    topic: str,
    *,
    bootstrap: str | None = None,
    event_time: str,
    user: str,
    action: str | Sequence[str],
    key: str = "string",
    value: str | Reader = "json",
    starting: str | datetime | Mapping[int, int] = "earliest",
    schema: str | None = None,
    max_records_per_batch: int | None = None,
    give_up_after: Duration = "10 minutes",
    options: Mapping[str, str] | None = None,
    max_future: Duration | None = None,
    max_text_bytes: int = 1024,
    time_unit: TimeUnit | None = None,
    input_timezone: str | None = None,
) -> Topic:
    """Return a Kafka topic as a source of events.

    Parameters
    ----------
    topic
        Its name, or ``"kafka://host:port/name"``, which tells the servers too.
    bootstrap
        Servers to ask first, as ``"host:port"``, with commas between.
    event_time, user, action
        Which column is what: a name, or a Spark SQL expression. Columns are the fields of the value
        and, unless a field is called the same, those of the record: ``key``, ``value``,
        ``headers`` (an array of ``key`` and ``value``), ``topic``, ``partition``, ``offset`` and
        ``timestamp``. Plain names of fields are the fast way.
    key
        What the column ``key`` is: ``"string"`` (UTF-8), ``"bytes"``, or an SQL expression.
    value
        ``"json"`` (one object a record); an SQL expression, whose fields become columns if it gives
        a struct, such as ``"from_json(cast(value AS string), 'at long, who string')"``; or a
        function from an Arrow batch of the record's columns to a batch or table of as many rows, so
        Avro or protobuf come in. What it raises for a record makes that one a dead letter.
    starting
        Where a first run begins: ``"earliest"``, ``"latest"``, a time (aware datetime or ISO 8601),
        or ``{partition: offset}``, others from the start. Later runs go on where it ended.
    schema
        The types of a JSON value's fields for expressions, such as ``"at long, who string"``; by
        default told from records that the topic has.
    max_records_per_batch
        What a micro-batch may take in. By default a million, or what three triggers of a live run
        can count: that is measured in the run's latest batches as its query starts, no less than
        100,000 events a second, and at 200 bytes a record no more than a quarter of the memory.
    give_up_after
        How long to wait, with growing pauses, for a broker that does not answer.
    options
        Settings of the connection: ``security.protocol``, ``sasl.mechanism``, ``sasl.username``,
        ``sasl.password``, ``ssl.ca.location`` and what else librdkafka or Kafka's Java client
        knows; by default those of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names. They are never
        printed nor written to the run's folder.
    max_future, max_text_bytes, time_unit, input_timezone
        As of :func:`~kstoolkit.events.sources.files`.

    Raises
    ------
    ConfigurationError
        If one of them makes no sense.
    InputError
        If the file that ``KSTOOLKIT_KAFKA_CONFIG`` names can't be read.

    Examples
    --------
    >>> columns = {"event_time": "time", "user": "user", "action": "action"}
    >>> str(kafka_topic("kafka://127.0.0.1:9092/actions", **columns).address)
    'kafka://127.0.0.1:9092/actions'
    """
    if max_records_per_batch is not None:
        check_whole("max_records_per_batch", max_records_per_batch, least=1, hint="Give 1 or more.")
    if not callable(value):
        _check_text("value", value, "Give 'json', an SQL expression, or a function.")
    _check_text("key", key, "Give 'string', 'bytes', or an SQL expression.")
    actions = [action] if isinstance(action, str) else action
    given = [("event_time", event_time), ("user", user), *(("action", each) for each in actions)]
    for name, text in given:
        _check_text(name, text, "Name a field, or give an SQL expression.")
    address = address_of(topic, bootstrap)
    return Topic(
        address=address,
        columns=Columns.of(event_time, user, action),
        key=key,
        value=value,
        starting=where_given(starting, "starting"),
        schema=schema,
        limits=limits_of(max_future, max_text_bytes, time_unit, input_timezone),
        max_records_per_batch=max_records_per_batch,
        patience_ms=parse_duration(give_up_after, allow_zero=True),
        options=options_given(options, address.bootstrap),
    )


def parse_address(text: str) -> Address | None:
    """Return the topic that ``kafka://host:port/name`` names; ``None`` for any other text.

    What begins like an address, and is none, is a ConfigurationError.

    >>> parse_address("kafka://a:9092,b:9092/actions")
    Address(bootstrap='a:9092,b:9092', topic='actions')
    >>> parse_address("data/sample") is None
    True
    """
    if text[: len(_SCHEME)].lower() != _SCHEME:
        return None
    servers, _, name = text[len(_SCHEME) :].partition("/")
    if "@" in servers:
        message = "A topic's address holds no user and password."
        raise ConfigurationError(message, hint="Give them as options of the connection.")
    if not servers or not _NAME.fullmatch(unquote(name)):
        message = f"{text!r} is no address of a topic."
        raise ConfigurationError(message, hint="Write it as kafka://host:port/topic.")
    return Address(_servers(servers), unquote(name))


def address_of(topic: str, bootstrap: str | None) -> Address:
    """Return where a topic is, given its name and servers, or an address that has both.

    If one of them is none, or the servers are named twice or not at all: a ConfigurationError.
    """
    _check_text("topic", topic, "Give its name, or kafka://host:port/name.")
    if bootstrap is not None:
        _check_text("bootstrap", bootstrap, "Write servers as 'host:port', with commas between.")
    found = parse_address(topic)
    if found is not None and bootstrap is None:
        return found
    if found is not None or bootstrap is None:
        message = f"The topic {topic!r} needs its servers named once."
        raise ConfigurationError(message, hint="Give bootstrap='host:port', or kafka://host:port/…")
    if not _NAME.fullmatch(topic):
        message = f"{topic!r} is no name of a topic."
        raise ConfigurationError(message, hint="Names have letters, digits, dots, _ and -.")
    return Address(_servers(bootstrap), topic)


def _servers(text: str) -> str:
    servers = [each.strip() for each in text.split(",")]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 1 << 16:
            message = f"{server!r} is no server."
            raise ConfigurationError(message, hint="Write servers as host:port.")
    return ",".join(servers)


_WHERE_HINT = "Give 'earliest', 'latest', a time such as 2026-01-31T08:00Z, or {partition: offset}."


def where_given(given: object, what: str) -> str | datetime | dict[int, int]:
    """Return a place in a topic: one of two words, a time in UTC, or offsets by partition.

    Of anything else, a time without a zone among it, it is a ConfigurationError.
    """
    if isinstance(given, Mapping) and given:
        found: dict[int, int] = {}
        for partition, offset in given.items():
            if type(partition) is not int or type(offset) is not int or min(partition, offset) < 0:
                message = f"{what} has {partition!r}: {offset!r}."
                raise ConfigurationError(message, hint="Give {partition: offset}, whole numbers.")
            found[partition] = offset
        return found
    if isinstance(given, str) and given in {"earliest", "latest"}:
        return given
    moment = _moment(given)
    if moment is None:
        message = f"{what} is {given!r}."
        raise ConfigurationError(message, hint=_WHERE_HINT)
    if moment.tzinfo is None:
        message = f"{what} is {moment.isoformat()}, a time without a zone."
        raise ConfigurationError(message, hint="Add one: 2026-01-31T08:00Z.")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        message = f"{what} is {moment.isoformat()}, for which UTC has no year."
        raise ConfigurationError(message, hint="Give a time such as 2026-01-31T08:00Z.") from None


def _check_text(name: str, given: object, hint: str) -> None:
    if not isinstance(given, str) or not given.strip():
        message = f"{name} is {given!r}."
        raise ConfigurationError(message, hint=hint)


def _moment(given: object) -> datetime | None:
    if isinstance(given, datetime):
        return given
    try:
        return datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        return None
