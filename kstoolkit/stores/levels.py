"""Where the segments of a replica lie: on disk by level, or in memory."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import sync
from kstoolkit.stores.replicafile import LevelState, segment_length_ms

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.stores.memorysegment import MemorySegment
    from kstoolkit.stores.replicafile import ReplicaState


_SEGMENT = re.compile(r"(\d+)\.(-?\d+)(\.building)?")


@dataclass(slots=True)
class MemoryLevel:
    """A level that is kept in memory: how far it is, and its segments by their start."""

    state: LevelState
    segments: dict[int, MemorySegment] = field(default_factory=dict)

    @property
    def has_begun(self) -> bool:
        """Whether any of its windows was ever told of."""
        return bool(self.segments) or self.state.expired_before_ms is not None


def segment_folder(replica: Path, window_ms: int, start_ms: int) -> Path:
    """Return where a segment lies: ``<level>/<level>.<segment start ms>``.

    Examples
    --------
    >>> from pathlib import Path
    >>> segment_folder(Path("out"), 60_000, 3_600_000).as_posix()
    'out/60000/60000.3600000'
    """
    return replica / str(window_ms) / f"{window_ms}.{start_ms}"


def segment_span_ms(window_ms: int, start_ms: int) -> range:
    """Return the span in which a segment's windows begin, epoch ms UTC."""
    return range(start_ms, start_ms + segment_length_ms(window_ms))


def set_aside(folder: Path) -> Path:
    """Rename a damaged segment, so that somebody may look into it; return where it is now."""
    for number in count(1):
        aside = folder.with_name(f"{folder.name}.damaged-{number}")
        if not aside.exists():
            folder.rename(aside)
            sync(folder.parent)
            return aside
    raise AssertionError  # count() does not end


def remove_leftovers(replica: Path, state: ReplicaState) -> None:
    """Remove segments that the replica doesn't name: nothing that it counts on lies in there.

    They are of a restore that was ended before it could say so, or have expired.
    """
    for folder in replica.glob("*/*"):
        match = _SEGMENT.fullmatch(folder.name)
        if match is None or folder.parent.name != match[1]:
            continue
        level = state.levels.get(int(match[1]))
        if match[3] or level is None or int(match[2]) not in level.segments:
            shutil.rmtree(folder)
