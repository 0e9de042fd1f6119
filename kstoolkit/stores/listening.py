"""Who is told how a restore goes: a listener of one's own, and a progress bar."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from tqdm import tqdm

from kstoolkit.errors import KstoolkitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class RestoreListener(Protocol):
    """What is called while a replica is restored, as Kafka Streams' StateRestoreListener is.

    ``what`` is a level (``"1 hour"``), or a segment that is rebuilt alone (``"1 hour from
    2015-09-12T10:00:00+00:00"``). Each call comes from the thread that restores.
    """

    def on_start(self, what: str, *, total: int) -> None:
        """Take in that so many records of the changelog are going to be read."""

    def on_batch(self, what: str, *, records: int) -> None:
        """Take in that so many more have been read, and what they told is written."""

    def on_end(self, what: str, *, records: int) -> None:
        """Take in that all is restored, from so many records."""

    def on_failure(self, what: str, *, error: Exception) -> None:
        """Take in that it can't be restored; the error is raised afterwards."""


@contextmanager
def telling(listener: RestoreListener, what: str, total: int) -> Iterator[None]:
    """Tell a listener that something begins, and how it ends."""
    listener.on_start(what, total=total)
    try:
        yield
    except (KstoolkitError, OSError) as error:
        listener.on_failure(what, error=error)
        raise
    listener.on_end(what, records=total)


class Everyone:
    """Several listeners as one."""

    def __init__(self, listeners: Sequence[RestoreListener]) -> None:
        self.listeners = tuple(listeners)

    def on_start(self, what: str, *, total: int) -> None:
        """Tell everyone."""
        for each in self.listeners:
            each.on_start(what, total=total)

    def on_batch(self, what: str, *, records: int) -> None:
        """Tell everyone."""
        for each in self.listeners:
            each.on_batch(what, records=records)

    def on_end(self, what: str, *, records: int) -> None:
        """Tell everyone."""
        for each in self.listeners:
            each.on_end(what, records=records)

    def on_failure(self, what: str, *, error: Exception) -> None:
        """Tell everyone."""
        for each in self.listeners:
            each.on_failure(what, error=error)


class ProgressBar:
    """Shows each level's records, records/s and the time that is left, on stderr.

    Parameters
    ----------
    shown
        Whether to show anything; ``None``: if stderr is a terminal.
    """

    def __init__(self, *, shown: bool | None = None) -> None:
        self._disable = None if shown is None else not shown
        self._bar: tqdm | None = None

    def on_start(self, what: str, *, total: int) -> None:
        """Begin a bar."""
        self._bar = tqdm(
            desc=f"restoring {what}",
            total=total,
            unit=" records",
            unit_scale=True,
            disable=self._disable,
            file=sys.stderr,
            dynamic_ncols=True,
            leave=False,
        )

    def on_batch(self, what: str, *, records: int) -> None:  # noqa: ARG002 - the bar says it
        """Move it on."""
        if self._bar is not None:
            self._bar.update(records)

    def on_end(self, what: str, *, records: int) -> None:  # noqa: ARG002
        """Take it away."""
        self._close()

    def on_failure(self, what: str, *, error: Exception) -> None:  # noqa: ARG002
        """Take it away."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
