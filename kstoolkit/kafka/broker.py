"""A real Kafka broker on this machine, for people who have none and for tests.

One node, which is broker and controller (KRaft), on loopback alone, without passwords: nobody but
the users of this machine reaches it. Its jars are fetched once; it needs Java and nothing else. It
runs by itself until it is stopped, and a start in the same folder goes on with the same records at
the same address, also after it was killed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kstoolkit.environment import find_java
from kstoolkit.errors import ConfigurationError, EnvironmentFault, InputError
from kstoolkit.kafka.brokerconfig import (
    BROKER_JARS,
    KAFKA_VERSION,
    PROPERTIES,
    java_options,
    properties,
)
from kstoolkit.kafka.brokerfolder import BrokerFolder, Identity, default_folder, is_free
from kstoolkit.kafka.brokerprocess import (
    await_ready,
    ended_unless,
    format_data,
    kill,
    run_detached,
    stop,
)
from kstoolkit.kafka.brokerstatus import BrokerStatus
from kstoolkit.kafka.jars import fetch, to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from kstoolkit.kafka.processes import Process


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
        path = default_folder() if folder is None else Path(folder).absolute()
        self._folder = BrokerFolder(path)
        self._tell, self._port = tell, port
        self._ran_before = False

    @property
    def folder(self) -> Path:
        """Where it lives."""
        return self._folder.path

    @property
    def bootstrap(self) -> str:
        """The address that clients are given: ``127.0.0.1`` and a port that stays.

        Raises
        ------
        InputError
            If it was never started.
        """
        return self._known().bootstrap

    def status(self) -> BrokerStatus:
        """Return what is known of it; nothing is started or asked over the network."""
        identity, ran = self._folder.identity(), self._folder.process()
        running = self._running()
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
            running = self._running()
            if running:
                await_ready(self._folder, running, self._known().port)
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
            running = self._running()
            if running:
                stop(running)

    def kill(self) -> None:
        """End it at once, as a crash would; nothing that it acknowledged is lost."""
        running = self._running()
        if running:
            kill(running)

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
        jars = fetch(BROKER_JARS, tell=self._tell)[0].parent
        java = [str(find_java().home / "bin" / "java"), *java_options(jars)]
        identity = self._with_free_ports()
        settings = properties(identity.port, identity.controller_port)
        (self.folder / PROPERTIES).write_text(settings, encoding="ascii")
        self._folder.begin_log()
        if not self._folder.is_formatted:
            format_data(self._folder, java, identity)
        process = run_detached(self._folder, java)
        with ended_unless(process):
            self._folder.keep_process(process, KAFKA_VERSION)
            await_ready(self._folder, process, identity.port)

    def _check_port(self) -> None:
        identity = self._folder.identity()
        if identity is not None and self._port not in {None, identity.port}:
            message = (
                f"The broker in {str(self.folder)!r} listens at port {identity.port}, "
                f"not at {self._port}."
            )
            hint = "Its address stays: leave the port out, or start one in another folder."
            raise ConfigurationError(message, hint=hint)

    def _with_free_ports(self) -> Identity:
        known = self._folder.identity()
        identity = Identity.new(self._port) if known is None else known
        for port in (identity.port, identity.controller_port):
            if not is_free(port):
                message = (
                    f"Another program listens at 127.0.0.1:{port}, which belongs to the broker in "
                    f"{str(self.folder)!r}."
                )
                hint = "End that program, or start a broker in another folder."
                raise EnvironmentFault(message, hint=hint)
        if known is None:
            self._folder.keep(identity)
        return identity
