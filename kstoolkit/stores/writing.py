"""Segments that are open for writing: many, but not too many at once."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from kstoolkit.rocksdb.faults import DamagedStoreError
from kstoolkit.stores.disksegment import DiskSegment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rocksdict import Options

    from kstoolkit.stores.segment import Mark


MOST_OPEN = 64


class Writing:
    """Opens segments as they are written; what it closes is on disk.

    Parameters
    ----------
    options
        How segments are opened.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._open: OrderedDict[Path, DiskSegment] = OrderedDict()

    def segment(self, folder: Path, mark: Mark | None) -> DiskSegment:
        """Return a segment that is open for writing.

        Parameters
        ----------
        folder
            Which.
        mark
            What must be in it already; ``None`` if it may have to be made.

        Raises
        ------
        DamagedStoreError
            If it lacks what must be there, or is damaged otherwise.
        """
        if folder in self._open:
            self._open.move_to_end(folder)
            return self._open[folder]
        if mark is not None and not (folder / "CURRENT").exists():
            message = f"The segment {folder} is damaged: it has no CURRENT file."
            raise DamagedStoreError(message)
        segment = self._open[folder] = DiskSegment(folder, self.options, writing=True)
        if mark is not None:
            segment.check_holds(mark)
        if len(self._open) > MOST_OPEN:
            self._close_oldest()
        return segment

    def flush(self, folders: Iterable[Path]) -> None:
        """Have on disk what was written to some segments; closed ones have it."""
        for folder in folders:
            if folder in self._open:
                self._open[folder].flush()

    def let_go(self, folder: Path) -> None:
        """Close a damaged segment, whatever was written to it."""
        segment = self._open.pop(folder, None)
        if segment is not None:
            segment.close()

    def close(self) -> None:
        """Close all."""
        with ExitStack() as all_of_them:  # whichever of them fails
            for segment in self._open.values():
                all_of_them.callback(_finish, segment)
            self._open.clear()

    def _close_oldest(self) -> None:
        _, segment = self._open.popitem(last=False)
        _finish(segment)


def _finish(segment: DiskSegment) -> None:
    with closing(segment):
        segment.flush()
