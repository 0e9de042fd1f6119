"""Levels and segments of a replica as stores: for a user and a window, each action's count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from kstoolkit.formats.serdes import serde_of
from kstoolkit.replica.replicafile import segment_span_ms
from kstoolkit.replica.windowstore import WindowReader
from kstoolkit.stores.rows.counts import replica_counts
from kstoolkit.stores.rows.readable import HasRows, ReadAs
from kstoolkit.stores.rows.statestore import StateStore
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.serdes import Serde
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.rowview import RowSource


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

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ReplicaLevel({str(self.path)!r}, windows of {self.window})"


class ReplicaSegment(StateStore):
    """One segment of a replica: what RocksDB tells of it, and its rows as users and counts."""

    kind = "window"

    @property
    def name(self) -> str:
        """The length of its windows: ``"1 hour"``."""
        return format_duration(self._window_ms)

    @property
    def key_serde(self) -> Serde:
        """How keys are read: as users, if not told otherwise."""
        return serde_of(self.read_as.key_serde or "string")

    @property
    def value_serde(self) -> Serde:
        """How values are read: as counts by action, if not told otherwise."""
        return serde_of(self.read_as.value_serde or "json")

    @cached_property
    def source(self) -> RowSource:
        """Where its rows lie."""
        level = replica_counts(self._replica, window=self.name).source
        start_ms = int(self.path.absolute().name.partition(".")[2])
        return _Part(level, segment_span_ms(self._window_ms, start_ms))

    def close(self) -> None:
        """Close the segment, and the replica that it is of; a second time does nothing."""
        self._replica.close()
        super().close()

    @cached_property
    def _replica(self) -> WindowReader:
        return WindowReader.open(self.path.absolute().parents[1])

    @property
    def _window_ms(self) -> int:
        return int(self.path.absolute().parent.name)


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a source that lie in a span of time."""

    whole: RowSource
    span_ms: range

    @property
    def name(self) -> str:
        return self.whole.name

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        since, until = asked.since_ms, asked.until_ms
        first = self.span_ms.start if since is None else max(since, self.span_ms.start)
        last = self.span_ms.stop if until is None else min(until, self.span_ms.stop)
        narrow = replace(asked, since_ms=first, until_ms=last)
        for rows in self.whole.read(narrow):
            yield rows.take(narrow.chosen(rows))
