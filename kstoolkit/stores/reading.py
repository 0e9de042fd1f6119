"""The segments of a replica, open for reading while somebody else may be writing it.

What is open is a view of what was on disk then. ``replica.json`` says when there is more: it is
looked at no more often than every :data:`LOOK_AGAIN_SECONDS`, and segments that have changed are
opened anew.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import StoreClosedError, StoreFault
from kstoolkit.stores.disksegment import DiskSegment
from kstoolkit.stores.levels import segment_folder
from kstoolkit.stores.replicafile import FILE, LevelState, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocksdict import Options

    from kstoolkit.stores.levels import MemoryLevel
    from kstoolkit.stores.segment import Mark, Segment


LOOK_AGAIN_SECONDS = 0.1
MOST_OPEN = 256
_TRIES = 5

Answer = TypeVar("Answer")


class Reading:
    """Opens segments as they are asked for.

    Parameters
    ----------
    folder
        The replica.
    options
        How segments are opened.
    memory
        Levels that are in memory, by window length.
    """

    def __init__(self, folder: Path, options: Options, memory: Mapping[int, MemoryLevel]) -> None:
        self.folder, self.options, self.memory = folder, options, memory
        self.state = ReplicaState.load(folder)
        self._seen = self._stamp()
        self._looked = time.monotonic()
        self._open: OrderedDict[tuple[int, int], tuple[Mark, DiskSegment]] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def levels(self) -> dict[int, LevelState]:
        """All levels, on disk and in memory, the shortest windows first.

        Whoever asks for windows in memory may name some that the changelog does not tell of.
        """
        in_memory = {each: level.state for each, level in self.memory.items() if level.has_begun}
        return dict(sorted((self.state.levels | in_memory).items()))

    def starts_ms(self, window_ms: int) -> list[int]:
        """Return where the segments of a level begin, the earliest first."""
        if window_ms in self.memory:
            return sorted(self.memory[window_ms].segments)
        self.refresh()
        level = self.state.levels.get(window_ms)
        return [] if level is None else list(level.segments)

    def ask(
        self, window_ms: int, start_ms: int, question: Callable[[Segment], Answer], default: Answer
    ) -> Answer:
        """Ask the segment that begins at a time; ``default`` if there is none.

        A segment may change while it is opened: it is then opened once more.
        """
        if window_ms in self.memory:
            held = self.memory[window_ms].segments.get(start_ms)
            return default if held is None else question(held)
        for _ in range(_TRIES - 1):
            try:
                segment = self._segment(window_ms, start_ms)
                return default if segment is None else question(segment)
            except (FormatError, StoreFault):
                self._forget(window_ms, start_ms)
                time.sleep(0.02)
                self.refresh(now=True)
        segment = self._segment(window_ms, start_ms)
        return default if segment is None else question(segment)

    def refresh(self, *, now: bool = False) -> None:
        """Look whether there is more than when we last looked."""
        clock = time.monotonic()
        if not now and clock - self._looked < LOOK_AGAIN_SECONDS:
            return
        self._looked = clock
        if self._closed:
            message = f"The replica {str(self.folder)!r} is closed."
            raise StoreClosedError(message, hint="Open it again: WindowStore.open(path).")
        stamp = self._stamp()
        if stamp != self._seen:
            self.state = ReplicaState.load(self.folder)
            self._seen = stamp

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            self._open.clear()
            self._closed = True
            self._looked = -LOOK_AGAIN_SECONDS

    def _stamp(self) -> tuple[int, int] | None:
        try:
            there = (self.folder / FILE).stat()
        except OSError:  # reading it says why
            return None
        return there.st_ino, there.st_mtime_ns

    def _segment(self, window_ms: int, start_ms: int) -> DiskSegment | None:
        self.refresh()
        level = self.state.levels.get(window_ms)
        mark = None if level is None else level.segments.get(start_ms)
        if mark is None:
            return None
        name = (window_ms, start_ms)
        with self._lock:
            held = self._open.get(name)
            if held is not None and held[0] == mark:
                self._open.move_to_end(name)
                return held[1]
            folder = segment_folder(self.folder, window_ms, start_ms)
            # Whoever still reads from the older view keeps it: it closes once nobody does.
            segment = DiskSegment(folder, self.options)
            segment.check_holds(mark)
            self._open[name] = (mark, segment)
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            return self._open[name][1]

    def _forget(self, window_ms: int, start_ms: int) -> None:
        with self._lock:
            self._open.pop((window_ms, start_ms), None)
