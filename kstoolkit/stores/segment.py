"""What a segment of a replica can be asked, on disk or in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.stores.batches import Position

__all__ = ["Pairs", "Segment", "check_ids"]

Pairs = tuple[list[bytes], list[bytes]]
"""Keys, and the bundle of each."""


class Segment(Protocol):
    """Bundles by key, and the texts that their ids stand for."""

    @property
    def actions(self) -> list[str]:
        """The texts of actions, by id."""

    def get(self, key: bytes) -> bytes | None:
        """Return the bundle of a key."""

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the bundles of some keys."""

    def write(self, rows: Pairs, actions: Sequence[str], position: Position) -> None:
        """Write bundles, which may use some actions that are new, as of a position."""

    def pages(self, rows: int) -> Iterator[Pairs]:
        """Yield keys and bundles, so many at a time."""


def check_ids(largest: int, actions: Sequence[str]) -> None:
    """Check that an id of an action has a text.

    Raises
    ------
    FormatError
        If it has none.
    """
    if largest >= len(actions):
        message = f"A bundle names action {largest}; the segment has {len(actions)} actions."
        raise FormatError(message, hint="The segment is damaged: restore the replica.")
