"""The latest counts of one level, in blocks of neighbouring windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.counters.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kstoolkit.counters.blocks import Blocks
    from kstoolkit.windows import Cascade


WINDOWS_PER_SEGMENT = 60


def segment_ms(cascade: Cascade, level: int) -> int:
    """Return how long a segment is: as many windows as the next length has, but sixty at most.

    Examples
    --------
    >>> from kstoolkit.windows import Cascade
    >>> [segment_ms(Cascade("1 minute", "1 hour", "1 day"), level) // 60_000 for level in range(3)]
    [60, 1440, 1440]
    """
    every_ms, size_ms = cascade.windows[level].every_ms, cascade.windows[level].size_ms
    longer = [w.size_ms for w in cascade.windows if w.is_tumbling and w.size_ms > every_ms]
    ratio = min(longer, default=size_ms) // every_ms
    most = min(ratio, WINDOWS_PER_SEGMENT)
    fitting = (count for count in range(most, 0, -1) if ratio % count == 0)
    return every_ms * next(fitting, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """What adding a delta did.

    Parameters
    ----------
    changed
        The counters that changed.
    old
        What they were before; 0 where new.
    whole
        All counters of the users' windows that changed.
    gone
        Counters that were dropped from the blocks, as nothing is kept for so long.
    """

    changed: Counters
    old: NDArray[np.uint64]
    whole: Counters
    gone: Counters


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of a level.

    Parameters
    ----------
    blocks
        Where they lie.
    level
        Whose they are.
    length_ms
        How long each one is, see :func:`segment_ms`.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from kstoolkit.counters.blocks import DictBlocks
    >>> segments = Segments(DictBlocks(), 0, 3_600_000)
    >>> came = Counters.of(np.array([0, 60_000]), pa.array(["a", "a"]), pa.array(["x", "x"]))
    >>> added = segments.add(came)
    >>> added = segments.add(came)
    >>> added.changed.count.tolist(), added.old.tolist()
    ([2, 2], [1, 1])
    """

    blocks: Blocks
    level: int
    length_ms: int

    def __iter__(self) -> Iterator[Counters]:
        """Yield the latest counts, the earliest segment first."""
        for start_ms in self._starts():
            block = self.blocks.get(self._key(start_ms))
            if block is not None:
                yield Counters.decode(block)

    def add(self, delta: Counters, *, from_ms: int | None = None, whole: bool = False) -> Added:
        """Add a delta; return the counters that it changed, and what they were before.

        Parameters
        ----------
        delta
            What came; not empty.
        from_ms
            Windows that begin before this are dropped from the blocks that are written anyway.
        whole
            Whether to return also all counters of the windows that changed, and those dropped.
        """
        changed, old, beside, gone = [], [], [], []
        for start_ms, part in delta.by_segment(self.length_ms):
            block = self.blocks.get(self._key(start_ms))
            known = Counters.empty() if block is None else Counters.decode(block)
            retained = known if from_ms is None else known.take(known.start_ms >= from_ms)
            now, part_changed, part_old = retained.add(part)
            self.blocks.put(self._key(start_ms), now.encode())
            changed.append(part_changed)
            old.append(part_old)
            if whole:
                beside.append(now.of_same_windows(part_changed))
                if from_ms is not None:
                    gone.append(known.take(known.start_ms < from_ms))
        joined, was = _side_by_side(changed, old)
        return Added(joined, was, Counters.merge(beside), Counters.merge(gone))

    def drop(self, before_ms: int, *, whole: bool = False) -> Counters:
        """Forget the segments of which all windows begin before this; return them if ``whole``."""
        gone = []
        for start_ms in self._starts():
            if start_ms + self.length_ms <= before_ms:
                block = self.blocks.get(self._key(start_ms)) if whole else None
                gone.append(Counters.empty() if block is None else Counters.decode(block))
                self.blocks.remove(self._key(start_ms))
        return Counters.merge(gone)

    def _key(self, start_ms: int) -> str:
        return f"counts/{self.level}/{start_ms}"

    def _starts(self) -> list[int]:
        prefix = f"counts/{self.level}/"
        keys = [key for key in self.blocks.keys() if key.startswith(prefix)]  # noqa: SIM118 - no dict
        return sorted(int(key.removeprefix(prefix)) for key in keys)


def _side_by_side(
    changed: list[Counters], old: list[NDArray[np.uint64]]
) -> tuple[Counters, NDArray[np.uint64]]:
    """Join segments, which share no key, and their old counts, in one order."""
    if len(changed) == 1:
        return changed[0], old[0]
    joined, order = Counters.join(changed)
    return joined, np.concatenate(old)[order]
