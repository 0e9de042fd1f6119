"""Which store a folder is a segment of: by the folder that it lies in, or by its own name alone.

A copy of a store may be called anything, but its segments still say whose they are: in ``copy``,
``counts.1700002800000`` is a segment of ``counts``. That is less certain than in ``counts``: others
put a time into the name of a folder, too.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.formats.streams.places import segment_start_ms

if TYPE_CHECKING:
    from collections.abc import Iterable


BY_NAME_ALONE = 0.8
"""What is left of the confidence in a kind where only its own name says that it is a segment."""

_OWN = re.compile(r"(?P<store>.+)(?:[.:]-?[0-9]{1,19}|-[0-9]{12})")
_SHORTEST_MS = 60_000  # that a segment can be
_WHOLE_MS = 1_000  # of which the lengths of segments that people choose are multiples


@dataclass(frozen=True, slots=True)
class SegmentName:
    """What the name of a segment's folder says.

    Parameters
    ----------
    store
        The store's name.
    start_ms
        Where the segment begins, epoch ms UTC.
    is_in_its_store
        Whether the folder that it lies in has the store's name.
    """

    store: str
    start_ms: int
    is_in_its_store: bool = True


def by_name_alone(store: str, folder: str) -> str:
    """Return what speaks for a store that only its segments name, in a folder of another name."""
    return f"its segments are named as those of {store!r}, though they lie in {folder!r}"


def segment_name(folder: Path) -> SegmentName | None:
    """Return what the name of an absolute path says of a segment; None if it is that of none.

    Examples
    --------
    >>> segment_name(Path("/copy/counts.1700002800000")).store
    'counts'
    >>> segment_name(Path("/counts/counts.1700002800000")).is_in_its_store
    True
    >>> segment_name(Path("/counts/counts.old")) is None
    True
    """
    start_ms = segment_start_ms(folder.parent.name, folder.name)
    if start_ms is not None:
        return SegmentName(folder.parent.name, start_ms)
    match = _OWN.fullmatch(folder.name)
    start_ms = None if match is None else segment_start_ms(match["store"], folder.name)
    if match is None or start_ms is None:
        return None
    return SegmentName(match["store"], start_ms, is_in_its_store=False)


def are_segments(starts_ms: Iterable[int]) -> bool:
    """Return whether the starts that some names tell can be those of a store's segments.

    Segments begin at multiples of their length, and that is a minute at least.

    Examples
    --------
    >>> are_segments([0, 90_000]), are_segments([1_700_002_800_000]), are_segments([1, 2])
    (True, True, False)
    """
    starts = list(starts_ms)
    length_ms = gcd(*starts)
    return length_ms >= _SHORTEST_MS and (len(starts) > 1 or length_ms % _WHOLE_MS == 0)


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return where a path leads to, through all links: names there are those that an engine gave.

    Examples
    --------
    >>> real_path("/proc/self/root/x/../y").as_posix()
    '/y'
    """
    # Path.resolve raises RuntimeError at links that go in circles.
    return Path(os.path.realpath(path))
