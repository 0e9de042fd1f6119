"""What a bucket remembers beside its counts: a version byte and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from kstoolkit.errors import FormatError

NEVER, FOREVER = -(1 << 62), 1 << 62
"""Before and after all times."""

_NAME = "bucket's memory"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Meta:
    """What a bucket remembers beside its counts; but for the first, one figure a level.

    Parameters
    ----------
    stream_ms
        Stream time: the latest pane that any event of this bucket lay in.
    flushed_ms
        When the level was last flushed, by the batches' clock.
    expired_ms
        Windows that begin before this are no longer in state.
    held_since_ms
        What the stream time was when the first of the level's pending deltas came.
    held_from_ms
        The earliest window among the level's pending deltas.
    """

    stream_ms: int
    flushed_ms: tuple[int, ...]
    expired_ms: tuple[int, ...]
    held_since_ms: tuple[int, ...]
    held_from_ms: tuple[int, ...]

    @classmethod
    def new(cls, levels: int) -> Meta:
        """Return the memory of a bucket that has seen nothing."""
        never, forever = (NEVER,) * levels, (FOREVER,) * levels
        return cls(NEVER, never, never, forever, forever)

    def at(self, level: int, **figures: int) -> Meta:
        """Return the same with other figures of one level.

        Examples
        --------
        >>> Meta.new(2).at(1, flushed_ms=60_000).flushed_ms[1]
        60000
        """
        changed: dict[str, Any] = {}
        for name, figure in figures.items():
            before = getattr(self, name)
            changed[name] = (*before[:level], figure, *before[level + 1 :])
        return replace(self, **changed)

    def encode(self) -> bytes:
        """Return a version byte and JSON."""
        return bytes([_VERSION]) + json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, block: bytes) -> Meta:
        """Read what :meth:`encode` wrote.

        Raises
        ------
        FormatError
            If the version is unknown, or the bytes are damaged.

        Examples
        --------
        >>> Meta.decode(Meta.new(2).encode()) == Meta.new(2)
        True
        """
        if not block or block[0] != _VERSION:
            raise FormatError.version(_NAME, block[0] if block else 0, _VERSION)
        try:
            read = json.loads(block[1:])
            stream_ms = int(read.pop("stream_ms"))
            return cls(stream_ms, **{name: tuple(each) for name, each in read.items()})
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            message = f"{len(block):,} bytes that are no {_NAME}: {error}."
            raise FormatError(
                message, hint="They are damaged; restore them from a copy."
            ) from error
