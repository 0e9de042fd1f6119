"""A level of a replica as a store: a row for each user and window, with each action's count."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

from kstoolkit.stores.rows.counts import replica_counts
from kstoolkit.stores.rows.readable import HasRows, ReadAs
from kstoolkit.stores.windowreader import WindowReader
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kstoolkit.stores.rows.rowview import RowSource

__all__ = ["ReplicaLevel"]


class ReplicaLevel(HasRows):
    """The windows of one length in a replica; made by :func:`kstoolkit.open_store`.

    Parameters
    ----------
    path
        The level's folder; an attribute too.
    read_as
        How to read its keys and values, if not as users and counts.
    """

    kind = "window"

    def __init__(self, path: Path, read_as: ReadAs) -> None:
        self.path = path
        self.window = format_duration(int(path.name))
        self.read_as = ReadAs(
            key_serde=read_as.key_serde or "string", value_serde=read_as.value_serde or "json"
        )
        self.replica = WindowReader.open(path.parent)

    @property
    def name(self) -> str:
        """The length of its windows: ``"1 hour"``."""
        return self.window

    @cached_property
    def source(self) -> RowSource:
        """Where its rows lie."""
        return replica_counts(self.replica, window=self.window).source

    def close(self) -> None:
        """Close the replica; a second time does nothing."""
        self.replica.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ReplicaLevel({str(self.path)!r}, windows of {self.window})"
