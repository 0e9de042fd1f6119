"""Rows that end with an error once nobody wants them, so that what reads all of them ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.errors import KstoolkitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.rows.asking import Asked


class StoppedError(KstoolkitError):
    """Nobody wants the rows any more."""


class StoppableSource:
    """A source of rows that is asked, between some thousands of rows, whether to go on.

    Parameters
    ----------
    whole
        The source; whatever else it knows is asked of it.
    is_stopped
        Says whether to end.

    Examples
    --------
    >>> class Endless:
    ...     name = "counts"
    ...     def read(self, asked):
    ...         while True:
    ...             yield "some rows"
    >>> answers = iter([False, False, True])
    >>> source = StoppableSource(Endless(), lambda: next(answers))
    >>> rows = source.read(None)
    >>> source.name, next(rows), next(rows)
    ('counts', 'some rows', 'some rows')
    >>> next(rows)
    Traceback (most recent call last):
    kstoolkit.widgets.stoppable.StoppedError: counts is not read any further.
    """

    def __init__(self, whole: Any, is_stopped: Callable[[], bool]) -> None:
        self._whole, self._is_stopped = whole, is_stopped

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows until it is stopped.

        Raises
        ------
        StoppedError
            Once it is.
        """
        for rows in self._whole.read(asked):
            if self._is_stopped():
                message = f"{self._whole.name} is not read any further."
                raise StoppedError(message)
            yield rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)
