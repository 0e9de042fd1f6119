"""What a segment of a replica can be asked, on disk or in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.changelog.news import Position


Pairs = tuple[list[bytes], list[bytes]]
"""Keys, and the bundle of each."""


class Mark(NamedTuple):
    """What is in a segment: everything up to a batch, in so many writes.

    A pass of many records writes to a segment again and again as of the same batch; by the writes
    it is told whether all of them are there, and whether there are more than before.
    """

    epoch: int
    batch: int
    writes: int = 0


class Segment(Protocol):
    """Bundles by key, and the texts that their ids stand for."""

    @property
    def actions(self) -> list[str]:
        """The texts of actions, by id."""

    @property
    def mark(self) -> Mark | None:
        """What is in it; ``None`` if nothing whole is."""

    def get(self, key: bytes) -> bytes | None:
        """Return the bundle of a key."""

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the bundles of some keys."""

    def write(self, rows: Pairs, actions: Sequence[str], position: Position) -> Mark:
        """Write bundles, which may use some actions that are new; return what is in it then."""

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
