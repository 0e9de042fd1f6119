"""What is known of a broker, as a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, repr=False)
class BrokerStatus:
    """What is known of a broker.

    Parameters
    ----------
    bootstrap
        The address that clients are given, the same at each start; ``None`` before the first one.
    running
        Whether its process is alive.
    pid
        That process; ``None`` if it is stopped.
    folder
        Where it lives.
    version
        The version of Kafka that runs, or ran last; ``None`` before the first start.
    log
        The file with its warnings and errors.

    Examples
    --------
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
        return {
            "bootstrap": self.bootstrap,
            "running": self.running,
            "pid": self.pid,
            "dir": str(self.folder),
            "version": self.version,
            "log": str(self.log),
        }

    def __repr__(self) -> str:
        if self.bootstrap is None:
            return f"stopped: no broker was ever started in {self.folder}"
        if not self.running:
            return f"stopped: its address is {self.bootstrap}, its folder {self.folder}"
        where = f"at {self.bootstrap} (process {self.pid}), in {self.folder}"
        return f"Kafka {self.version} is running {where}"
