"""A damaged segment is rebuilt from the changelog, beside its place, and the others stay."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import sync
from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import NoStoreError, StoreFault
from kstoolkit.stores.disksegment import DiskSegment
from kstoolkit.stores.filling import Filling
from kstoolkit.stores.levels import set_aside

if TYPE_CHECKING:
    from pathlib import Path

    from rocksdict import Options

    from kstoolkit.changelog.news import News, Position
    from kstoolkit.stores.segment import Mark


DAMAGE = (FormatError, StoreFault, NoStoreError)
"""What a damaged segment raises; a lock, a full disk or missing permission is no damage."""


def is_whole(folder: Path, options: Options, mark: Mark) -> bool:
    """Return whether every block of a segment can be read, and all that is said to be in it is."""
    try:
        with closing(DiskSegment(folder, options)) as segment:
            segment.check()
            segment.check_holds(mark)
    except DAMAGE:
        return False
    return True


def rebuild(
    folder: Path, news: News, options: Options, *, window_ms: int, starts: range, position: Position
) -> Mark:
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

    Returns
    -------
    Mark
        What is in it now.
    """
    building = folder.with_name(f"{folder.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    with closing(DiskSegment(building, options, writing=True)) as segment:
        pieces = news.pieces(window_ms)
        for piece in range(pieces):
            dated = news.read(window_ms, bucket=(piece, pieces), starts=starts)
            mark = Filling.of(dated).into(segment, position, fresh=True)
        segment.flush()
    if folder.exists():
        set_aside(folder)
    building.rename(folder)
    sync(folder.parent)
    return mark
