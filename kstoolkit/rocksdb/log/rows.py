"""What a log tells of one kind, or why it can't tell: no rows is not the same as no knowledge."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kstoolkit.records import Record, Records, counted

if TYPE_CHECKING:
    from collections.abc import Sequence


_Row = TypeVar("_Row", bound=Record)


class LogRows(Records[_Row]):
    """Rows out of a log.

    Parameters
    ----------
    rows
        The records, in the order of the log.
    kind
        What they are: ``"stalls"``.
    unknown
        Why there may be more than these: None if the log would tell all.

    Examples
    --------
    >>> LogRows([], "stalls", "the writer logs at level ERROR")
    LogRows(stalls unknown: the writer logs at level ERROR)
    >>> LogRows([], "stalls")
    LogRows(0 stalls)
    """

    def __init__(self, rows: Sequence[_Row], kind: str, unknown: str | None = None) -> None:
        super().__init__(rows, kind)
        self.unknown = unknown

    def __repr__(self) -> str:
        if self.unknown is None:
            return f"LogRows({counted(len(self), self.kind)})"
        if not self.rows:
            return f"LogRows({self.kind} unknown: {self.unknown})"
        return f"LogRows({counted(len(self), self.kind)}; others unknown: {self.unknown})"
