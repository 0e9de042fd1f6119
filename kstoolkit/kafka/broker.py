"""A real Kafka broker on this machine, for people who have none and for tests.

One node, which is broker and controller (KRaft), on loopback alone, without passwords: nobody but
the users of this machine reaches it. Its jars are fetched once; it needs Java and nothing else. It
runs by itself until it is stopped, and a start in the same folder goes on with the same records at
the same address, also after it was killed. What of it outlives its process lies in its folder::

    broker.json         ports and cluster id, chosen once: clients keep the address
    process.json        the process that runs it, or ran it last
    server.properties   Kafka's settings, written at each start
    data/               its records
    broker.log          warnings and errors since its last start; broker.log.1 from before it

Whoever starts or stops the broker holds a lock of the kernel on ``.lock`` meanwhile.

A process may be known longer than it lives, and its number is given again. The moment at which it
started is not, so nothing is taken for a broker, let alone ended, that merely has the number that a
broker had. That moment is counted in ticks since the system started: psutil's is a time of day,
which moves when the clock is set.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import socket
import subprocess
import time
import uuid
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any, Self

from kstoolkit.environment import find_java, own_folder
from kstoolkit.errors import (
    ConfigurationError,
    EnvironmentFault,
    FormatError,
    InputError,
    KafkaError,
    OutputError,
    local_folder,
    to_stderr,
)
from kstoolkit.kafka.jars import Artifact, alone, fetch
from kstoolkit.kafka.servers import is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from os import PathLike

_KAFKA_VERSION = "4.3.1"  # the newest release whose parts are all published
_BROKER_JARS = (
    Artifact("org.apache.kafka", "kafka_2.13", _KAFKA_VERSION),
    # Without it Kafka logs nothing at all. The version is that of the slf4j-api that Kafka brings.
    Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
)

_DATA = "data"  # where in its folder the broker keeps its records
PROPERTIES = "server.properties"

_PROPERTIES = """\
# Written at each start of the broker: what is changed here is lost.
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT

# Relative to the folder, in which the broker runs: it takes a comma in a name for two folders.
log.dirs={data}

# One broker, so one replica of everything; and few partitions of what the first consumer waits for.
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0

# After a kill -9 the next start waits until the dead broker's session has run out: 9 s by default.
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300

# A mistyped topic is an error, not a new topic.
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=2
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216

# Nothing is deleted for its age, and event times of long ago or of the future are let in.
log.retention.hours=-1
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
"""


def _java_options(jars: Path) -> list[str]:
    logger = "-Dorg.slf4j.simpleLogger"
    return [
        *("-Xms256m", "-Xmx512m", "-XX:+UseG1GC"),
        *("-Dfile.encoding=UTF-8", "-Duser.timezone=UTC"),
        *(f"{logger}.defaultLogLevel=warn", f"{logger}.showDateTime=true"),
        f"{logger}.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
        *("-cp", f"{jars}/*"),
    ]


@dataclass(frozen=True, slots=True, repr=False)
class BrokerStatus:
    """What is known of a broker.

    Clients are given the ``bootstrap`` address, the same at each start; ``version`` is the one of
    Kafka that runs, or ran last. Both are ``None`` before the first start, and ``pid`` if it is
    stopped. ``log`` has its warnings and errors.

    >>> from pathlib import Path
    >>> BrokerStatus("127.0.0.1:21000", True, 42, Path("b"), "4.3.1", Path("b/broker.log"))
    Kafka 4.3.1 is running at 127.0.0.1:21000 (process 42), in b
    """

    bootstrap: str | None
    running: bool
    pid: int | None
    folder: Path
    version: str | None
    log: Path

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values, as ``kstoolkit broker status --json`` prints them."""
        told = asdict(self) | {"folder": str(self.folder), "log": str(self.log)}
        return {"dir" if name == "folder" else name: value for name, value in told.items()}

    def __repr__(self) -> str:
        if self.bootstrap is None:
            return f"stopped: no broker was ever started in {self.folder}"
        if not self.running:
            return f"stopped: its address is {self.bootstrap}, its folder {self.folder}"
        where = f"at {self.bootstrap} (process {self.pid}), in {self.folder}"
        return f"Kafka {self.version} is running {where}"


_PROC = Path("/proc")
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """A process, alive or not any more: its number, and its start, good for comparing alone."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        """Return whether it still runs; one that only waits to be buried does not."""
        return _process_with(self.pid) == self

    def signal(self, number: int) -> None:
        """Send it a signal, unless it is gone."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def is_gone_within(self, seconds: float) -> bool:
        """Wait for it to end, at most so long, and return whether it did."""
        deadline = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
        return True


def _process_with(pid: int) -> Process | None:
    """Return the process that has this number now, if there is one and it runs."""
    state, started = _linux(pid) if (_PROC / "self" / "stat").exists() else _posix(pid)
    return Process(pid, started) if started and state not in "ZX" else None


def _linux(pid: int) -> tuple[str, str]:
    """Return the state and the start, in clock ticks since this system was started."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    # The second field is the program's name in brackets, and may have brackets and spaces in it.
    fields = stat.rpartition(")")[2].split()
    state, num_threads, started = fields[0], int(fields[17]), fields[19]
    # The first thread may be dead while others still end, and keep the ports of all open.
    return ("R" if num_threads > 1 else state), started


def _posix(pid: int) -> tuple[str, str]:
    """Return the same where there is no ``/proc``, as on macOS."""
    asked = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    environment = os.environ | {"LC_ALL": "C", "TZ": "UTC"}
    done = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)  # noqa: S603 - our own
    state, _, started = done.stdout.strip().partition(" ")
    return state[:1], started.strip()


_HOST = "127.0.0.1"
_PORTS = range(20_000, 30_000)
"""Below those that systems give to outgoing connections: a client that keeps asking for a broker
that is down could be given the very port, and the broker would never have it again."""
_NAME, _FORMAT = "broker folder", 1
_OURS = {".lock", "broker.json", ".broker.json.part"}  # what a start that failed may leave


@dataclass(frozen=True, slots=True)
class Identity:
    """What a broker keeps for life: its two ports on loopback, and 22 characters for Kafka."""

    port: int
    controller_port: int
    cluster_id: str

    @property
    def bootstrap(self) -> str:
        """The address that clients are given."""
        return f"{_HOST}:{self.port}"

    @classmethod
    def new(cls, port: int | None = None) -> Identity:
        """Choose one, with ports that are free, or with this one for clients."""
        free = filter(_is_free, random.sample(_PORTS, len(_PORTS)))
        try:
            controller_port, port = next(free), next(free) if port is None else port
        except StopIteration as error:
            message = f"No port from {_PORTS.start} to {_PORTS.stop - 1} is free."
            raise EnvironmentFault(message, hint="End programs that listen there.") from error
        number = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Kafka's tools would take a leading hyphen for an option.
        return cls(port, controller_port, number.replace("-", "k"))


@dataclass(frozen=True, slots=True)
class BrokerFolder:
    """The folder of one broker; it need not exist."""

    path: Path

    @property
    def log(self) -> Path:
        """What the broker says."""
        return self.path / "broker.log"

    def begin_log(self) -> None:
        """Begin the log anew, and keep the last one: it may tell how a broker died."""
        if self.log.exists():
            self.log.replace(self.log.with_name("broker.log.1"))
        self.log.touch()

    def identity(self) -> Identity | None:
        """Return the broker's, or ``None`` if none was ever started here."""
        facts = _read(self.path / "broker.json")
        if facts is None:
            return None
        version = facts.pop("format", None)
        if isinstance(version, int) and version > _FORMAT:
            raise FormatError.version(_NAME, version, _FORMAT)
        try:
            return Identity(**facts)
        except TypeError as error:
            raise _foreign(self.path / "broker.json") from error

    def keep(self, identity: Identity) -> None:
        """Keep it for all starts to come."""
        _write(self.path / "broker.json", {"format": _FORMAT, **asdict(identity)})

    def process(self) -> tuple[Process, str] | None:
        """Return the process that runs the broker, or ran it last, and its version of Kafka."""
        facts = _read(self.path / "process.json")
        # The copy of a folder tells of a process that works in another one.
        if facts is None or facts.get("inode") != self.path.stat().st_ino:
            return None
        try:
            return Process(int(facts["pid"]), str(facts["started"])), str(facts["version"])
        except (KeyError, ValueError) as error:
            raise _foreign(self.path / "process.json") from error

    def keep_process(self, process: Process, version: str) -> None:
        """Keep which process runs the broker, and with which Kafka."""
        facts = {**asdict(process), "version": version, "inode": self.path.stat().st_ino}
        _write(self.path / "process.json", facts)

    def make(self) -> None:
        """Make the folder, unless it is there already; it must hold no others' files."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            others = {each.name for each in self.path.iterdir()} - _OURS
            if others and not (self.path / "broker.json").exists():
                message = f"{str(self.path)!r} holds other files: {min(others)!r}."
                raise OutputError(message, hint="Give a folder that is new or empty.")
        except OSError as error:
            message = f"No broker can live in {str(self.path)!r}: {error.strerror}."
            raise OutputError(message, hint="Give another folder.") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for whoever starts or stops this broker, and keep the next waiting."""
        with ExitStack() as lock:
            try:
                lock.enter_context(alone(self.path / ".lock"))
            except OSError as error:
                message = f"The broker's folder {str(self.path)!r} is not yours: {error.strerror}."
                raise OutputError(message, hint="Give another folder.") from error
            yield


def _default_folder() -> Path:
    """Return this user's own: ``kstoolkit/broker`` in ``XDG_DATA_HOME`` or ``~/.local/share``."""
    data = own_folder("XDG_DATA_HOME", ".local/share")
    if not data.is_absolute():
        message = f"There is no place for a broker: {str(data.parent)!r} is no whole path."
        raise ConfigurationError(message, hint="Give its folder.")
    return data / "broker"


def _is_free(port: int) -> bool:
    """Return whether a program could listen at this port of loopback now."""
    with socket.socket() as asked:
        # As Java does: a connection that was closed a moment ago is in nobody's way.
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            asked.bind((_HOST, port))
            asked.listen()
        except OSError:
            return False
    return True


def _read(path: Path) -> dict[str, Any] | None:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _foreign(path) from error
    if not isinstance(facts, dict):
        raise _foreign(path)
    return facts


def _write(path: Path, facts: dict[str, Any]) -> None:
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        message = f"No broker can live in {str(path.parent)!r}: {error.strerror}."
        raise OutputError(message, hint="Make room there, or give another folder.") from error


def _foreign(path: Path) -> FormatError:
    message = f"{str(path)!r} is not as a broker's folder has it."
    return FormatError(message, hint="Give another folder, or remove this one with its records.")


_READY_S = 90.0
_STOP_S = 30.0
_KILL_S = 10.0
_POLL_S = 0.05
_LAST_LINES = 12
_LAST_BYTES = 64 << 10

_DETACH = '"$@" </dev/null >>broker.log 2>&1 & echo $!'
"""Leaves the broker to the system: it is nobody's child, so that nobody has to wait for its end."""


def _format_data(folder: BrokerFolder, java: Sequence[str], identity: Identity) -> None:
    """Make the folder Kafka's own, which is done once."""
    soon = "-XX:TieredStopAtLevel=1"  # it is over before better machine code would pay
    command = [*java, soon, "kafka.tools.StorageTool", "format"]
    command += ["-t", identity.cluster_id, "-c", PROPERTIES]
    with folder.log.open("ab") as log:
        done = subprocess.run(  # noqa: S603 - our own command line
            command, cwd=folder.path, stdin=DEVNULL, stdout=log, stderr=log, check=False
        )
    if done.returncode:
        raise _failure(folder, "could not be formatted")


def _run_detached(folder: BrokerFolder, java: Sequence[str]) -> Process:
    """Run the broker in a session of its own: Ctrl-C in this terminal is not meant for it."""
    command = ["/bin/sh", "-c", _DETACH, "sh", *java, "kafka.Kafka", PROPERTIES]
    started = subprocess.run(  # noqa: S603 - our own command line
        command, cwd=folder.path, stdin=DEVNULL, stdout=PIPE, start_new_session=True, check=True
    )
    process = _process_with(int(started.stdout))
    if process is None:
        raise _failure(folder, "ended at once")
    return process


def _await_ready(folder: BrokerFolder, process: Process, port: int) -> None:
    deadline = time.monotonic() + _READY_S
    while not is_ready(port):
        if not process.is_alive():
            raise _failure(folder, "ended before it was ready")
        if time.monotonic() >= deadline:
            raise _failure(folder, f"doesn't answer after {_READY_S:g} s")
        time.sleep(_POLL_S)


def _kill(process: Process) -> None:
    process.signal(signal.SIGKILL)
    if not process.is_gone_within(_KILL_S):
        message = f"The broker's process {process.pid} does not end, not even by kill -9."
        raise KafkaError(message, hint="It waits for a disk, most likely: look at what dmesg says.")


def _failure(folder: BrokerFolder, what: str) -> KafkaError:
    message = f"The broker in {str(folder.path)!r} {what}. It said last:\n{_last_words(folder)}"
    return KafkaError(message, hint=f"All that it said is in {folder.log}.")


def _last_words(folder: BrokerFolder) -> str:
    """Return the last lines of the log that are no places in a program."""
    with folder.log.open("rb") as log:
        size_bytes = log.seek(0, 2)
        log.seek(max(0, size_bytes - _LAST_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    words = [line for line in lines if line.strip() and not line.startswith("\tat ")]
    return "\n".join(words[-_LAST_LINES:]) or "nothing"


class Broker:
    """A Kafka broker that lives in a folder, running or stopped.

    As a context it runs from its begin to its end, where it is stopped unless it ran before.

    Parameters
    ----------
    folder
        Where it keeps its records, its address and its log; made at the first start. By default
        ``kstoolkit/broker`` in ``XDG_DATA_HOME`` or ``~/.local/share``: one for each user.
    port
        Where it listens, on loopback; by default one that is free at the first start. It stays.
    tell
        Called with a line when jars are downloaded.

    Raises
    ------
    ConfigurationError
        If no folder is given and there is no home folder, its name is empty, or the port is none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with Broker(folder) as broker:
    ...         print(broker.status().running)
    ...     print(broker.status().running)
    True
    False
    """

    def __init__(
        self,
        folder: str | PathLike[str] | None = None,
        *,
        port: int | None = None,
        tell: Callable[[str], object] = to_stderr,
    ) -> None:
        if port is not None and not 0 < port < 1 << 16:
            message = f"{port} is no port."
            raise ConfigurationError(message, hint="Give a number from 1 to 65535.")
        if folder is not None and not os.fspath(folder):
            message = "The broker's folder has no name: it is ''."
            raise ConfigurationError(message, hint="Name it, or leave it out for your own.")
        path = _default_folder() if folder is None else local_folder(folder).absolute()
        self._folder = BrokerFolder(path)
        self._tell, self._port = tell, port
        self._ran_before = False

    @property
    def folder(self) -> Path:
        """Where it lives."""
        return self._folder.path

    @property
    def bootstrap(self) -> str:
        """The address that clients are given from the first start on: ``127.0.0.1`` and a port."""
        return self._known().bootstrap

    def status(self) -> BrokerStatus:
        """Return what is known of it; nothing is started or asked over the network."""
        identity, ran, running = self._folder.identity(), self._folder.process(), self._running()
        return BrokerStatus(
            bootstrap=None if identity is None else identity.bootstrap,
            running=running is not None,
            pid=None if running is None else running.pid,
            folder=self.folder,
            version=None if ran is None else ran[1],
            log=self._folder.log,
        )

    def start(self) -> Self:
        """Start it unless it runs already, wait until it answers, and return it.

        It goes on when this process ends, until :meth:`stop`.

        Raises
        ------
        KafkaError
            If it ends, or does not answer for 90 s; with the last lines of its log.
        OutputError
            If it can't live in its folder.
        EnvironmentFault
            If its port is taken by another program, the jars can't be fetched, or there is no Java.
        ConfigurationError
            If it is told another port than it has had from its first start on.
        """
        self._folder.make()
        with self._folder.held():
            self._check_port()
            if running := self._running():
                _await_ready(self._folder, running, self._known().port)
            else:
                self._start_anew()
        return self

    def stop(self) -> None:
        """Stop it, if it runs, and wait for its end; its records stay.

        Raises
        ------
        InputError
            If there is no broker in the folder.
        KafkaError
            If its process does not end, not even when it is killed.
        """
        self._known()
        with self._folder.held():
            if running := self._running():
                running.signal(signal.SIGTERM)
                if not running.is_gone_within(_STOP_S):
                    _kill(running)

    def kill(self) -> None:
        """End it at once, as a crash would; nothing that it acknowledged is lost."""
        if running := self._running():
            _kill(running)

    def __enter__(self) -> Self:
        """Start it."""
        self._ran_before = self._running() is not None
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it, unless it ran before."""
        if not self._ran_before:
            self.stop()

    def __repr__(self) -> str:
        return f"Broker({str(self.folder)!r}): {self.status()!r}"

    def _known(self) -> Identity:
        identity = self._folder.identity()
        if identity is None:
            message = f"There is no broker in {str(self.folder)!r}: none was ever started there."
            raise InputError(message, hint="Start it first, or give the folder of another.")
        return identity

    def _running(self) -> Process | None:
        ran = self._folder.process()
        return ran[0] if ran and ran[0].is_alive() else None

    def _start_anew(self) -> None:
        jars = fetch(_BROKER_JARS, tell=self._tell)[0].parent
        java = [str(find_java().home / "bin" / "java"), *_java_options(jars)]
        identity = self._with_free_ports()
        (self.folder / PROPERTIES).write_text(self._properties(identity), encoding="utf-8")
        self._folder.begin_log()
        if not (self.folder / _DATA / "meta.properties").is_file():
            _format_data(self._folder, java, identity)
        process = _run_detached(self._folder, java)
        try:
            self._folder.keep_process(process, _KAFKA_VERSION)
            _await_ready(self._folder, process, identity.port)
        except BaseException:  # somebody may have lost patience with it
            _kill(process)
            raise

    def _properties(self, identity: Identity) -> str:
        return _PROPERTIES.format(**asdict(identity), data=_DATA)

    def _check_port(self) -> None:
        identity = self._folder.identity()
        if identity is not None and self._port not in {None, identity.port}:
            listens = f"listens at port {identity.port}, not at {self._port}"
            message = f"The broker in {str(self.folder)!r} {listens}."
            hint = "Its address stays: leave the port out, or start one in another folder."
            raise ConfigurationError(message, hint=hint)

    def _with_free_ports(self) -> Identity:
        known = self._folder.identity()
        identity = Identity.new(self._port) if known is None else known
        for port in (identity.port, identity.controller_port):
            if not _is_free(port):
                whose = f"which belongs to the broker in {str(self.folder)!r}"
                message = f"Another program listens at 127.0.0.1:{port}, {whose}."
                hint = "End that program, or start a broker in another folder."
                raise EnvironmentFault(message, hint=hint)
        if known is None:
            self._folder.keep(identity)
        return identity
