"""A damaged segment is rebuilt from the changelog, beside its place, and the others stay."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kstoolkit.changelog.batches import sync
from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import NoStoreError, StoreFault
from kstoolkit.stores.disksegment import DiskSegment
from kstoolkit.stores.filling import Filling
from kstoolkit.stores.levels import set_aside

if TYPE_CHECKING:
    from pathlib import Path

    from rocksdict import Options

    from kstoolkit.stores.batches import News, Position

__all__ = ["DAMAGE", "is_whole", "rebuild"]

DAMAGE = (FormatError, StoreFault, NoStoreError)
"""What a damaged segment raises; a lock, a full disk or missing permission is no damage."""


def is_whole(folder: Path, options: Options, position: Position) -> bool:
    """Return whether every block of a segment can be read, and all up to a position is in it."""
    try:
        segment = DiskSegment(folder, options)
        segment.check()
        found = segment.position()
        segment.close()
    except DAMAGE:
        return False
    return found is not None and found >= position


def rebuild(
    folder: Path, news: News, options: Options, *, window_ms: int, starts: range, position: Position
) -> None:
    """Make a segment anew from a whole changelog, and set aside what is in its place.

    Parameters
    ----------
    folder
        Where it belongs.
    news
        The whole changelog.
    options
        How it is opened.
    window_ms
        The length of its windows.
    starts
        Where its windows begin, epoch ms UTC.
    position
        Up to where the changelog is.
    """
    building = folder.with_name(f"{folder.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    segment = DiskSegment(building, options, writing=True)
    pieces = news.pieces(window_ms)
    for piece in range(pieces):
        dated = news.read(window_ms, bucket=(piece, pieces), starts=starts)
        Filling.of(dated).into(segment, position, fresh=True)
    segment.flush()
    segment.close()
    if folder.exists():
        set_aside(folder)
    building.rename(folder)
    sync(folder.parent)
