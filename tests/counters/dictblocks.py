"""Blocks in a dict: what a bucket keeps its state in where no Spark is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class DictBlocks:
    """Blocks in memory."""

    held: dict[str, bytes] = field(default_factory=dict)

    def get(self, key: str) -> bytes | None:
        """Return the block, or ``None``."""
        return self.held.get(key)

    def put(self, key: str, block: bytes) -> None:
        """Keep the block."""
        self.held[key] = block

    def remove(self, key: str) -> None:
        """Forget the block."""
        self.held.pop(key, None)

    def keys(self) -> Iterator[str]:
        """Yield the keys of all blocks."""
        yield from list(self.held)
