"""Blocks of bytes in a map of Spark's state store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class StateBlocks:
    """Spark's map state as blocks."""

    __slots__ = ("state",)

    def __init__(self, state: Any) -> None:
        self.state = state

    def get(self, key: str) -> bytes | None:
        """Return the block, or ``None``."""
        row = self.state.getValue((key,))
        return None if row is None else bytes(row[0])

    def put(self, key: str, block: bytes) -> None:
        """Keep the block."""
        self.state.updateValue((key,), (block,))

    def remove(self, key: str) -> None:
        """Forget the block."""
        self.state.removeKey((key,))

    def keys(self) -> Iterator[str]:
        """Yield the keys of all blocks."""
        return iter([row[0] for row in self.state.keys()])  # noqa: SIM118 - Spark's own method
