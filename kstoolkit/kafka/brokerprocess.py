"""The process behind a broker: started on its own, waited for, ended; and what it said last."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kstoolkit.errors import KafkaError
from kstoolkit.kafka.brokerconfig import PROPERTIES
from kstoolkit.kafka.processes import process_with
from kstoolkit.kafka.readiness import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.kafka.brokerfolder import BrokerFolder, Identity
    from kstoolkit.kafka.processes import Process


_READY_S = 90.0
_STOP_S = 30.0
_KILL_S = 10.0
_POLL_S = 0.05
_LAST_LINES = 12
_LAST_BYTES = 64 << 10

_DETACH = '"$@" </dev/null >>broker.log 2>&1 & echo $!'
"""Leaves the broker to the system: it is nobody's child, so that nobody has to wait for its end."""


def format_data(folder: BrokerFolder, java: Sequence[str], identity: Identity) -> None:
    """Make the folder Kafka's own, which is done once.

    Raises
    ------
    KafkaError
        If Kafka won't.
    """
    tool = ["kafka.tools.StorageTool", "format", "-t", identity.cluster_id, "-c", PROPERTIES]
    soon = "-XX:TieredStopAtLevel=1"  # it is over before better machine code would pay
    with folder.log.open("ab") as log:
        done = subprocess.run(  # noqa: S603 - our own command line
            [*java, soon, *tool],
            cwd=folder.path,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        raise _failure(folder, "could not be formatted")


def run_detached(folder: BrokerFolder, java: Sequence[str]) -> Process:
    """Run the broker in a session of its own, and return its process.

    Raises
    ------
    KafkaError
        If it ends at once.
    """
    started = subprocess.run(  # noqa: S603 - our own command line
        ["/bin/sh", "-c", _DETACH, "sh", *java, "kafka.Kafka", PROPERTIES],
        cwd=folder.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in this terminal is not meant for it
        check=True,
    )
    process = process_with(int(started.stdout))
    if process is None:
        raise _failure(folder, "ended at once")
    return process


def await_ready(folder: BrokerFolder, process: Process, port: int) -> None:
    """Wait until the broker answers.

    Raises
    ------
    KafkaError
        If it ends before, or has not answered after 90 s.
    """
    deadline = time.monotonic() + _READY_S
    while not is_ready(port):
        if not process.is_alive():
            raise _failure(folder, "ended before it was ready")
        if time.monotonic() >= deadline:
            raise _failure(folder, f"doesn't answer after {_READY_S:g} s")
        time.sleep(_POLL_S)


@contextmanager
def ended_unless(process: Process) -> Iterator[None]:
    """End the process if what is done meanwhile fails, or somebody loses patience with it."""
    try:
        yield
    except BaseException:
        kill(process)
        raise


def stop(process: Process) -> None:
    """Ask a broker to end, wait for it, and end it after 30 s if it does not."""
    process.signal(signal.SIGTERM)
    if not process.is_gone_within(_STOP_S):
        kill(process)


def kill(process: Process) -> None:
    """End a broker at once.

    Raises
    ------
    KafkaError
        If not even that ends it.
    """
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
