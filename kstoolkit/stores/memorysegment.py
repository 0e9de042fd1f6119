"""One segment of a replica in memory: the same bundles by the same keys, for one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.stores.segment import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.changelog.news import Position
    from kstoolkit.stores.segment import Pairs


class MemorySegment:
    """A segment in memory, for short windows that are looked at often and never missed."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.mark: Mark | None = None
        self._rows: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> bytes | None:
        """Return the bundle of a key."""
        return self._rows.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the bundles of some keys."""
        return [self._rows.get(key) for key in keys]

    def write(self, rows: Pairs, actions: Sequence[str], position: Position) -> Mark:
        """Write bundles, which may use some actions that are new; return what is in it then."""
        self.mark = Mark(*position, (self.mark.writes if self.mark else 0) + 1)
        self.actions += actions
        self._rows |= zip(*rows, strict=True)
        return self.mark

    def pages(self, rows: int) -> Iterator[Pairs]:
        """Yield keys and bundles in the order of keys, so many at a time."""
        keys = sorted(self._rows)
        for first in range(0, len(keys), rows):
            chosen = keys[first : first + rows]
            yield chosen, [self._rows[key] for key in chosen]
