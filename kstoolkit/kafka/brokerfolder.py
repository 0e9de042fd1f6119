"""A broker's folder: what of it outlives its process.

::

    broker.json         ports and cluster id, chosen once: clients keep the address
    process.json        the process that runs it, or ran it last
    server.properties   Kafka's settings, written at each start
    data/               its records
    broker.log          warnings and errors since its last start; broker.log.1 from before it

Whoever starts or stops the broker holds a lock of the kernel on ``.lock`` meanwhile.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import random
import socket
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, EnvironmentFault, FormatError, OutputError
from kstoolkit.kafka.brokerconfig import DATA
from kstoolkit.kafka.processes import Process

if TYPE_CHECKING:
    from collections.abc import Iterator


_HOST = "127.0.0.1"
_PORTS = range(20_000, 30_000)
"""Below those that systems give to outgoing connections: a client that keeps asking for a broker
that is down could be given the very port, and the broker would never have it again."""
_FORMAT = 1
_OURS = {".lock", "broker.json", ".broker.json.part"}
"""What a start that failed may leave."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a broker keeps for life.

    Parameters
    ----------
    port, controller_port
        Where clients connect to, and where the broker speaks to itself; on loopback.
    cluster_id
        What Kafka calls it: 22 characters.
    """

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
        free, controller_port = _free_ports(2)
        port = free if port is None else port
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

    @property
    def is_formatted(self) -> bool:
        """Whether Kafka has made it its own: that is done once."""
        return (self.path / DATA / "meta.properties").is_file()

    def identity(self) -> Identity | None:
        """Return the broker's, or ``None`` if none was ever started here.

        Raises
        ------
        FormatError
            If the file is not one of ours.
        """
        facts = _read(self.path / "broker.json")
        if facts is None:
            return None
        version = facts.pop("format", None)
        if isinstance(version, int) and version > _FORMAT:
            what = "broker folder"
            raise FormatError.version(what, version, _FORMAT)
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
        """Make the folder, unless it is there already.

        Raises
        ------
        OutputError
            If it can't be made, or holds files that are no broker's.
        """
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
        try:
            lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            message = f"The broker's folder {str(self.path)!r} is not yours: {error.strerror}."
            raise OutputError(message, hint="Give another folder.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def default_folder() -> Path:
    """Return this user's own: ``kstoolkit/broker`` in ``XDG_DATA_HOME`` or ``~/.local/share``.

    Raises
    ------
    ConfigurationError
        If there is no home folder.
    """
    # Path.expanduser() would raise for a user without a home folder, as some containers have.
    home = os.path.expanduser("~")  # noqa: PTH111
    data = Path(os.environ.get("XDG_DATA_HOME") or f"{home}/.local/share")
    if not data.is_absolute():
        message = f"There is no place for a broker: {str(data)!r} is no whole path."
        raise ConfigurationError(message, hint="Give its folder.")
    return data / "kstoolkit" / "broker"


def is_free(port: int) -> bool:
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


def _free_ports(count: int) -> list[int]:
    shuffled = random.sample(_PORTS, len(_PORTS))
    free = list(islice(filter(is_free, shuffled), count))
    if len(free) < count:
        message = f"No port from {_PORTS.start} to {_PORTS.stop - 1} is free."
        raise EnvironmentFault(message, hint="End programs that listen there.")
    return free


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
