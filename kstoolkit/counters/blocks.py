"""Where a bucket's blocks lie: Spark's state store in a run, a plain dict elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Blocks(Protocol):
    """A mapping from short text to bytes."""

    def get(self, key: str) -> bytes | None:
        """Return the block, or ``None``."""

    def put(self, key: str, block: bytes) -> None:
        """Keep the block."""

    def remove(self, key: str) -> None:
        """Forget the block."""

    def keys(self) -> Iterator[str]:
        """Yield the keys of all blocks."""


@dataclass(slots=True)
class DictBlocks:
    """Blocks in memory: for trying out, and for tests.

    Examples
    --------
    >>> blocks = DictBlocks()
    >>> blocks.put("meta", b"...")
    >>> blocks.get("meta"), blocks.get("other"), list(blocks.keys())
    (b'...', None, ['meta'])
    """

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
