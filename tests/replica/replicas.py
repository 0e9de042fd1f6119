"""What the tests of replicas share: changelogs with windows in their places, replicas as rows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kstoolkit.replica.windowstore import WindowStore
from kstoolkit.windows import as_window
from tests.changelog.changelogs import HOUR, MINUTE, Rows, levels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.replica.records import UserCounts

Told = dict[int, Rows]

_APART = {MINUTE: 25 * MINUTE, HOUR: HOUR}


def _in_place(told: Told) -> Told:
    """Return counts whose windows begin where windows do, in several segments."""
    return {
        length: {(n * _APART[length], who, what): count for (n, who, what), count in rows.items()}
        for length, rows in told.items()
    }


told = levels.map(_in_place)
"""What a batch tells, by window length."""


def restored(root: Path, path: Path, **options: Any) -> WindowStore:
    """Restore a replica without a progress bar."""
    return WindowStore.restore(root, path=path, progress=False, **options)


def held(store: WindowStore) -> Told:
    """Return all that a replica holds, by window length."""
    found = {as_window(window).size_ms: _rows(_scanned(store, window)) for window in store.windows}
    return {length: rows for length, rows in found.items() if rows}


def segment(replica: Path, window_ms: int, start_ms: int = 0) -> Path:
    """Return the folder of a segment."""
    return replica / str(window_ms) / f"{window_ms}.{start_ms}"


def flip_a_byte(path: Path) -> None:
    """Change one bit of a file, well inside."""
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 0x40
    path.write_bytes(data)


def cut_in_half(path: Path) -> None:
    """Take away the second half of a file."""
    os.truncate(path, path.stat().st_size // 2)


def _scanned(store: WindowStore, window: str) -> Iterator[UserCounts]:
    for state in store.segments():
        if state.window == window:
            for at in range(state.start_ms, state.end_ms, as_window(window).size_ms):
                for page in store.scan(window=window, at=at, page=3):
                    yield from page


def _rows(found: Iterator[UserCounts]) -> Rows:
    return {
        (one.window_start_ms, one.user, action): count
        for one in found
        for action, count in one.counts.items()
    }
