"""A folder for a replica: an empty one, or one that is a replica already."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import MIRROR
from kstoolkit.errors import OutputError
from kstoolkit.stores.lock import LOCK
from kstoolkit.stores.replicafile import FILE, ReplicaState
from kstoolkit.units import parse_duration
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from kstoolkit.units import Duration
    from kstoolkit.windows import Window


def prepare(
    folder: Path,
    *,
    in_memory: Collection[int],
    kept_ms: dict[int, int] | None,
) -> None:
    """Make a replica's file, or bring it in line with what is asked.

    Parameters
    ----------
    folder
        The replica.
    in_memory
        Lengths of the windows that are kept in memory from now on: what is on disk of them goes,
        as nobody would keep it up to date.
    kept_ms
        How long segments are kept, by window length; ``None``: as was said before.

    Raises
    ------
    OutputError
        If the folder holds something else.
    """
    state = _known(folder)
    levels = {length: level for length, level in state.levels.items() if length not in in_memory}
    retention = state.retention_ms if kept_ms is None else kept_ms
    changed = replace(state, levels=levels, retention_ms=retention)
    if changed != state or not (folder / FILE).exists():
        changed.save(folder)
    for length in state.levels.keys() - levels.keys():
        shutil.rmtree(folder / str(length), ignore_errors=True)


def _known(folder: Path) -> ReplicaState:
    if (folder / FILE).exists():
        return ReplicaState.load(folder)
    ours = {LOCK, f".{FILE}", MIRROR}
    others = sorted(path.name for path in folder.iterdir() if path.name not in ours)
    if others:
        message = f"{str(folder)!r} is not empty, and no replica: it holds {others[0]!r}."
        raise OutputError(message, hint="Give an empty folder, or a new one.")
    return ReplicaState()


def retention_ms(retention: Mapping[Duration | Window, Duration]) -> dict[int, int]:
    """Return how long windows are kept, by their length.

    Raises
    ------
    ConfigurationError
        If one of them is no window, or no duration.

    Examples
    --------
    >>> retention_ms({"1 minute": "2 hours", "5 minutes every 1 minute": 0})
    {60000: 7200000, 300000: 0}
    """
    return {
        as_window(window).size_ms: parse_duration(kept, allow_zero=True)
        for window, kept in retention.items()
    }
