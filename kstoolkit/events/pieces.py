"""A piece of a file: some records as columns, and a way back to their raw text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Columns", "Piece", "Raw"]

Raw = Callable[["NDArray[np.intp]"], list[str]]
"""From row numbers to the raw texts of these records."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns (or SQL expressions) are the event time, the user and the action."""

    event_time: str
    user: str
    action: str

    def __iter__(self) -> Iterator[str]:
        return iter((self.event_time, self.user, self.action))


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some records of a file.

    Parameters
    ----------
    times, users, actions
        One value a record, as the file has them.
    raw
        From row numbers to the records' raw text.
    unparseable
        (raw text, what the parser said) of records that are in no row.
    size_bytes
        How much of the file this was, uncompressed.
    """

    times: pa.Array
    users: pa.Array
    actions: pa.Array
    raw: Raw
    unparseable: list[tuple[str, str]] = field(default_factory=list)
    size_bytes: int = 0
