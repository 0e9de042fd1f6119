"""Which function draws which record."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.records import Records

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

__all__ = ["DRAWN_BY", "draw", "drawer"]

DRAWN_BY: dict[str, str] = {
    "Records[Records]": "axes.plot_nothing",
}
"""The function of each class, as ``module.function`` in this package.

A class of records counts for those derived from it; ``Records[Level]`` stands for several records
of one kind, ``Records[Records]`` for none of any. Names, not classes: what is not drawn is not
imported.
"""


def draw(record: object, ax: Axes | None = None, **options: Any) -> Axes:
    """Return the plot of a record, or of several of one kind.

    Raises
    ------
    ConfigurationError
        If nothing of this kind can be drawn, or there is no such option.
    """
    function = drawer(record)
    known = inspect.signature(function).parameters
    for name in options:
        if name not in known:
            message = f"{function.__name__} takes no {name!r}."
            hint = f"It takes {', '.join(list(known)[1:])}."
            raise ConfigurationError(message, hint=hint)
    return function(record, ax=ax, **options)


def drawer(record: object) -> Callable[..., Axes]:
    """Return the function that draws a record.

    Raises
    ------
    ConfigurationError
        If nothing of this kind can be drawn.
    """
    for name in _names(record):
        if name in DRAWN_BY:
            module, _, function = DRAWN_BY[name].rpartition(".")
            found: Callable[..., Axes] = getattr(
                import_module(f"kstoolkit.plots.{module}"), function
            )
            return found
    message = f"There is no plot of {type(record).__name__}."
    raise ConfigurationError(message, hint="to_pandas() gives the figures, for a plot of your own.")


def _names(record: object) -> list[str]:
    names = [each.__name__ for each in type(record).__mro__]
    if not isinstance(record, Records):
        return names
    of = type(record[0]).__mro__ if len(record) else (Records,)
    return [*names, *(f"Records[{each.__name__}]" for each in of)]
