"""What a serde makes of a column of bytes: values, and for some rows why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Bytes that a serde could not read, and why.

    Examples
    --------
    >>> Undecoded(b"xy", "2 bytes, not 8")
    Undecoded(7879: 2 bytes, not 8)
    """

    raw: bytes
    why: str

    def __repr__(self) -> str:
        return f"Undecoded({self.raw.hex()}: {self.why})"


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The values of a column.

    Parameters
    ----------
    values
        An Arrow array of one type, or a list of Python's values; null where the column is null,
        and where it could not be read.
    problems
        Why a row could not be read, by its position.
    """

    values: pa.Array | list[Any]
    problems: dict[int, str] = field(default_factory=dict)

    def take(self, chosen: NDArray[np.bool_]) -> Decoded:
        """Return the values of the rows that a mask chooses."""
        place = np.cumsum(chosen) - 1
        problems = {int(place[at]): why for at, why in self.problems.items() if chosen[at]}
        if isinstance(self.values, list):
            return Decoded([self.values[at] for at in np.flatnonzero(chosen)], problems)
        return Decoded(self.values.filter(pa.array(chosen)), problems)

    def to_list(self, column: ByteColumn) -> list[Any]:
        """Return one Python value a row, :class:`Undecoded` where ``column`` could not be read."""
        values = self.values if isinstance(self.values, list) else self.values.to_pylist()
        if self.problems:
            rows = np.array(sorted(self.problems), dtype=np.intp)
            for row, raw in zip(rows.tolist(), column.take(rows).to_list(), strict=True):
                values[row] = Undecoded(raw or b"", self.problems[row])
        return values


def each_cell(column: ByteColumn, read: Callable[[bytes], Any]) -> Decoded:
    """Ask about each cell: for what has no whole-column way, and for what others wrote.

    Whatever ``read`` raises is why that one cell could not be read.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> each_cell(ByteColumn.of([b"7", b"x"]), int).problems
    {1: "ValueError: invalid literal for int() with base 10: b'x'"}
    """
    values: list[Any] = []
    problems: dict[int, str] = {}
    for row, raw in enumerate(column.to_list()):
        value = None
        if raw is not None:
            try:
                value = read(raw)
            except Exception as error:  # noqa: BLE001 - a callable of the user's may raise anything
                problems[row] = _reason(error)
        values.append(value)
    return Decoded(values, problems)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8 at byte {error.start}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
