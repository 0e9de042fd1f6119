"""One side of a comparison, by its folder: a store, its partitions, or what kstoolkit counted."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.stores.comparing.owncounts import is_own_counts, own_counts
from kstoolkit.stores.comparing.together import together
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.rows.opening import open_store
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.rowview import Rows

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from kstoolkit.stores.rows.readable import Readable
    from kstoolkit.units import Duration


_TOPIC = "kafka://"


@contextmanager
def both_opened(
    a: HasRows | Rows | str | os.PathLike[str],
    b: HasRows | Rows | str | os.PathLike[str],
    *,
    store: str | None = None,
    window_size: Duration | None = None,
    action: str | None = None,
    total: bool = False,
) -> Iterator[tuple[HasRows | Rows, HasRows | Rows]]:
    """Yield two sides of a comparison, of which folders are opened, and closed at the end.

    Parameters
    ----------
    a, b
        What has rows, which is yielded as it is; or the folder of a store, of a changelog, of a
        run's output, or of a level of a replica.
    store
        The name of a store that lies in several partitions below a folder.
    window_size
        How long windows are, where a store does not tell; of a changelog or a run, which are meant.
    action, total
        How to count what kstoolkit counted: see :func:`own_counts
        <kstoolkit.stores.comparing.owncounts.own_counts>`.

    Raises
    ------
    ConfigurationError
        If ``action`` or ``total`` is given, and neither is a folder of kstoolkit's counts; or
        anything, and none is a folder; or if one is the address of a topic.
    KstoolkitError
        If there is no such store, or it can't be read.
    """
    counted: dict[str, Any] = {"action": action, "total": total}
    _check_is_used((a, b), counted, store=store, window_size=window_size)
    with ExitStack() as opening:
        one, other = (
            each
            if isinstance(each, HasRows | Rows)
            else opening.enter_context(
                _opened(str(each), counted, store=store, window_size=window_size)
            )
            for each in (a, b)
        )
        yield one, other


@contextmanager
def opened_partitions(folder: str | os.PathLike[str], name: str, **told: Any) -> Iterator[Readable]:
    """Yield the rows of all partitions of a store, found by its name below a folder.

    Parameters
    ----------
    folder
        Such as a state directory of Kafka Streams.
    name
        The store's name.
    told
        As :func:`kstoolkit.open_store` takes it.

    Raises
    ------
    InputError
        If there is none of that name.
    ConfigurationError
        If several applications, or queries, have one of that name.

    Examples
    --------
    >>> import tempfile
    >>> with opened_partitions(tempfile.mkdtemp(), "counts"):
    ...     pass
    Traceback (most recent call last):
    kstoolkit.errors.InputError: There is no store 'counts' in ...
    """
    found = discover(folder)
    mine = [each for each in found if each.store == name]
    if not mine:
        known = ", ".join(dict.fromkeys(each.store for each in found)) or "none"
        message = f"There is no store {name!r} in {folder}."
        raise InputError(message, hint=f"There are: {known}.")
    whose = {(each.application, each.topology, each.operator) for each in mine}
    if len(whose) > 1:
        message = f"{len(whose)} applications or operators in {folder} have a store {name!r}."
        raise ConfigurationError(message, hint="Give the folder of one of them.")
    with ExitStack() as opening:
        yield together([opening.enter_context(open_store(each.path, **told)) for each in mine])


@contextmanager
def _opened(
    path: str, counted: dict[str, Any], *, store: str | None, window_size: Duration | None
) -> Iterator[HasRows]:
    if path.startswith(_TOPIC):
        message = f"{path} is a topic, which no store's folder is."
        raise ConfigurationError(message, hint="Give what kst.open_topic returns for it.")
    with own_counts(path, window_size=window_size, **counted) as ours:
        if ours is not None:
            yield ours
        elif store is not None:
            with opened_partitions(path, store, window_size=window_size) as parts:
                yield parts
        else:
            with open_store(path, window_size=window_size) as opened:
                yield opened


def _check_is_used(given: tuple[object, object], counted: dict[str, Any], **told: Any) -> None:
    """Refuse what would do nothing: counts of others have no actions, what is open its own size."""
    folders = [str(each) for each in given if not isinstance(each, HasRows | Rows)]
    names = [name for name, each in told.items() if each is not None]
    if names and not folders:
        message = f"Both stores are open already: {' and '.join(names)} can't be told of them."
        raise ConfigurationError(message, hint="Tell kst.open_store, or give their folders.")
    if any(counted.values()) and not any(map(is_own_counts, folders)):
        message = "Neither side is a folder of kstoolkit's counts."
        raise ConfigurationError(message, hint="Leave action and total out.")
