"""A piece of a file: some records as columns, and a way back to their raw text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


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


def require(columns: Columns, names: Sequence[str], where: str) -> None:
    """Check that each column is among the names, once.

    Raises
    ------
    ColumnError
        If one is missing, or there twice.

    Examples
    --------
    >>> require(Columns("time", "user", "user"), ["time", "user", "page"], "a.csv")
    """
    for name in columns:
        if name not in names:
            raise ColumnError.missing(name, names, where)
        if names.count(name) > 1:
            message = f"{where} has {names.count(name)} columns {name!r}."
            raise ColumnError(message, hint="Give each column a name of its own.")
