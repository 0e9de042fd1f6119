"""A changelog as the writes of a store, for the lab to replay: batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.changelog.reader import ChangelogReader, Position
from kstoolkit.errors import InputError
from kstoolkit.replica.segments import Filling, MemorySegment
from kstoolkit.units import format_duration
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from kstoolkit.replica.records import Mark
    from kstoolkit.replica.segments import Pairs
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window


class _RecordingSegment(MemorySegment):
    """A segment that remembers what was last written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Pairs = ([], [])

    def write(self, rows: Pairs, actions: Sequence[str], position: Position) -> Mark:
        self.last = rows
        return super().write(rows, actions, position)


def changelog_rows(
    path: str | os.PathLike[str], *, window: Duration | Window
) -> Iterator[tuple[bytes, bytes]]:
    """Yield each key and bundle that following a changelog writes, in the order of its batches.

    A bundle has all that its key had before, as a replica's has; so the latest bundle of each key
    is kept in memory.

    Parameters
    ----------
    path
        A run's output folder, or its changelog folder.
    window
        The windows' length: those of each have a store of their own.

    Raises
    ------
    InputError
        If there is no changelog, or it tells of no such windows.
    FormatError
        If a file of it is damaged.

    Examples
    --------
    >>> list(changelog_rows("no/such", window="1 hour"))
    Traceback (most recent call last):
        ...
    kstoolkit.errors.InputError: No changelog in 'no/such': no epoch=<number> folder lies there.
    Hint: Give a run's output folder, or its changelog folder.
    """
    changelog, size_ms = Changelog.open(str(path)), as_window(window).size_ms
    known = changelog.window_lengths_ms()
    if size_ms not in known:
        message = f"The changelog {path} tells of no windows of {format_duration(size_ms)}."
        raise InputError(
            message, hint=f"It has: {', '.join(map(format_duration, known)) or 'none'}."
        )
    segment = _RecordingSegment()
    for batch in changelog.batches:
        position = Position(batch.epoch, batch.number)
        dated = ChangelogReader.of_one(changelog, position).read(size_ms, bucket=(0, 1))
        if len(dated):
            Filling.of(dated).into(segment, position, fresh=False)
            yield from zip(*segment.last, strict=True)
