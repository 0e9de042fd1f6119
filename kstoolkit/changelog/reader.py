"""What a changelog tells after some position: the latest counts, and when they changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kstoolkit.changelog.changelog import ask_files, buckets_among, folded, lengths_among
from kstoolkit.counters.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from kstoolkit.changelog.changelog import Answer, Batch, Changelog
    from kstoolkit.changelog.countsfile import CountsFile

_AT_ONCE = 4_000_000  # records that are read at once


class Position(NamedTuple):
    """A place in a changelog: everything up to this batch, which is included."""

    epoch: int
    batch: int


@dataclass(frozen=True, slots=True, eq=False)
class Dated:
    """Counters, and when each was reported, epoch ms UTC."""

    counters: Counters
    changed_ms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.changed_ms)


def _newest(parts: list[Dated]) -> Dated:
    """Return the newest of every key; the parts come in the order that they were written."""
    parts = [Dated(Counters.empty(), np.zeros(0, np.int64)), *parts]
    counters, rows = Counters.newest_rows([part.counters for part in parts])
    return Dated(counters, np.concatenate([part.changed_ms for part in parts])[rows])


@dataclass(frozen=True, slots=True)
class ChangelogReader:
    """The batches of a changelog after some position, up to another one.

    Without the first they begin where the changelog does, without the second they end so.

    A compaction may fold them meanwhile. A fold has the highest number that it covers, so it counts
    as new if any of what it covers does; what is told twice is the latest value both times.
    """

    changelog: Changelog
    after: Position | None = None
    until: Position | None = None

    @classmethod
    def of_one(cls, changelog: Changelog, position: Position) -> ChangelogReader:
        """Return one batch alone: nothing, if it is not there, or not there any more."""
        before = Position(position.epoch, position.batch - 1)
        return cls(changelog, after=before, until=position)

    def newest(self) -> Position | None:
        """Return the position of the newest batch; ``None`` if there is none."""
        batches = self._batches()
        return Position(batches[-1].epoch, batches[-1].number) if batches else None

    def window_lengths_ms(self) -> set[int]:
        """Return the lengths of the windows that are told of."""
        return self._asked(lengths_among)

    def pieces(self, window_ms: int) -> int:
        """Return in how many pieces of users to read: one, if that fits into memory."""
        rows = self.rows(window_ms)
        if rows <= _AT_ONCE:
            return 1
        buckets = self._asked(buckets_among)
        return buckets if buckets > 1 else -(-rows // _AT_ONCE)

    def rows(self, window_ms: int | None = None) -> int:
        """Return how many records there are, of all windows or of one length."""
        return self._asked(lambda files: sum(file.rows(window_ms) for file in files))

    def lacks(self, lengths_ms: set[int]) -> set[int]:
        """Return those of some window lengths that nothing is told of."""

        def lacking(files: Iterable[CountsFile]) -> set[int]:
            left = set(lengths_ms)
            for file in files:
                left -= file.window_lengths_ms()
                if not left:
                    break
            return left

        return self._asked(lacking)

    def newest_change_ms(self) -> int | None:
        """Return the clock of the newest batch, epoch ms UTC; ``None`` if there is none."""

        def newest(files: Iterable[CountsFile]) -> int | None:
            spans = (file.span_ms("changed_at") for file in reversed(list(files)))
            return next((span[1] for span in spans if span is not None), None)

        return self._asked(newest)

    def read(
        self, window_ms: int, *, bucket: tuple[int, int], starts: range | None = None
    ) -> Dated:
        """Return the latest counts that are told of one window length, and of one bucket's users.

        ``bucket`` is its number, and of how many; ``starts``: where windows begin, epoch ms UTC.
        """
        return self._asked(
            lambda files: folded(
                (part for file in files for part in _parts(file, window_ms, bucket, starts)),
                _newest,
            )
        )

    def _batches(self) -> list[Batch]:
        return [
            batch
            for batch in self.changelog.batches
            if (self.after is None or (batch.epoch, batch.number) > self.after)
            and (self.until is None or (batch.epoch, batch.number) <= self.until)
        ]

    def _asked(self, question: Callable[[Iterable[CountsFile]], Answer]) -> Answer:
        return ask_files(self._batches, question)


def _parts(
    file: CountsFile, window_ms: int, bucket: tuple[int, int], starts: range | None
) -> Iterator[Dated]:
    # One file is of one micro-batch, or a fold: it has one clock.
    span = file.span_ms("changed_at", window_ms)
    for counters in file.read(window_ms, bucket=bucket if bucket[1] > 1 else None):
        part = counters
        if starts is not None:
            inside = (counters.start_ms >= starts.start) & (counters.start_ms < starts.stop)
            part = counters.take(inside)
        yield Dated(part, np.full(len(part), span[1] if span else 0, np.int64))
