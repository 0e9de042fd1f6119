"""What a side of a comparison is: an open store, a folder of one or of its partitions, or rows.

A folder may be kstoolkit's own counts, too: a changelog, a run's output, a level of a replica. Rows
that lie in memory are what a topic held, or what is expected.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError, InputError, naming
from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.replica.windowstore import WindowReader
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.discovery.places import is_replica_level
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.counts import changelog_counts, replica_counts
from kstoolkit.stores.rows.readable import HasRows, NamedRows, Readable, Rows
from kstoolkit.windows import length_label

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from kstoolkit.stores.rows.counts import Counted
    from kstoolkit.stores.rows.readable import RowSource, SerdeLike
    from kstoolkit.units import Duration


@contextmanager
def own_counts(
    path: str, *, window_size: Duration | None = None, **counted: Unpack[Counted]
) -> Iterator[Readable | None]:
    """Yield the counts of a changelog, of a run, or of a level of a replica; None of other paths.

    No such windows, or none told of several, is a ConfigurationError; a level of a replica has
    windows of one length.
    """
    folder = Path(path).absolute()
    if is_replica_level(folder):
        with WindowReader.open(folder.parent) as replica:
            yield replica_counts(replica, window=length_label(int(folder.name)), **counted)
        return
    changelog = _changelog(folder)
    if changelog is None:
        yield None
        return
    if window_size is None:
        known = ", ".join(length_label(each) for each in changelog.window_lengths_ms())
        message = f"The changelog {changelog.path} has counts of windows of {known}."
        raise ConfigurationError(message, hint=naming("Say of which, by {window_size}."))
    yield changelog_counts(changelog, window=window_size, **counted)


def is_own_counts(path: str) -> bool:
    """Return whether a folder is one that :func:`own_counts` reads."""
    folder = Path(path).absolute()
    return is_replica_level(folder) or _changelog(folder) is not None


def _changelog(folder: Path) -> Changelog | None:
    try:
        return Changelog.open(folder)
    except InputError:
        return None


def _together(stores: Sequence[HasRows]) -> Readable:
    """Return the rows of stores of one kind as those of one; the first that has some reads all."""
    if not stores:
        message = "There is no store among those to take together."
        raise ConfigurationError(message, hint="Give one or more, such as a store's partitions.")
    sources = [each.source for each in stores]
    has_rows = (each for each in stores if any(map(len, each.source.read(Asked()))))
    first = next(has_rows, stores[0])
    names = dict.fromkeys(source.name for source in sources)
    source = Together(", ".join(names), sources)
    return Readable(source, key_serde=first.key_serde, value_serde=first.value_serde)


@dataclass(frozen=True, slots=True)
class Together:
    """Where the rows of several stores lie."""

    name: str
    sources: Sequence[RowSource]

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield the rows of one after the other."""
        for source in self.sources:
            yield from source.read(asked)


_TOPIC = "kafka://"


@contextmanager
def both_opened(
    a: HasRows | Rows | str | os.PathLike[str],
    b: HasRows | Rows | str | os.PathLike[str],
    *,
    store: str | None = None,
    window_size: Duration | None = None,
    **counted: Unpack[Counted],
) -> Iterator[tuple[HasRows | Rows, HasRows | Rows]]:
    """Yield two sides of a comparison, of which folders are opened, and closed at the end.

    ``store`` is the name of one that lies in several partitions below a folder. It is a
    ConfigurationError if ``action``, ``total`` or ``where`` is given, and neither is a folder of
    kstoolkit's counts; or anything, and none is a folder; or if one is the address of a topic.
    """
    _check_is_used((a, b), counted, store=store, window_size=window_size)
    with ExitStack() as opening:

        def opened(side: HasRows | Rows | str | os.PathLike[str]) -> HasRows | Rows:
            if isinstance(side, HasRows | Rows):
                return side
            found = _opened(str(side), counted, store=store, window_size=window_size)
            return opening.enter_context(found)

        yield opened(a), opened(b)


@contextmanager
def opened_partitions(folder: str | os.PathLike[str], name: str, **told: Any) -> Iterator[Readable]:
    """Yield the rows of all partitions of a store, found by its name below a folder.

    As a state directory of Kafka Streams; ``told`` as :func:`kstoolkit.open_store` takes it. No
    such name is an InputError; one that several have, a ConfigurationError.

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
        yield _together([opening.enter_context(open_store(each.path, **told)) for each in mine])


@contextmanager
def _opened(
    path: str, counted: Counted, *, store: str | None, window_size: Duration | None
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


def _check_is_used(given: tuple[object, object], counted: Counted, **told: Any) -> None:
    """Refuse what would do nothing: counts of others have no actions, what is open its own size."""
    folders = [str(each) for each in given if not isinstance(each, HasRows | Rows)]
    names = [name for name, each in told.items() if each is not None]
    if names and not folders:
        message = f"Both stores are open already: {' and '.join(names)} can't be told of them."
        raise ConfigurationError(message, hint="Tell kst.open_store, or give their folders.")
    if any(counted.values()) and not any(map(is_own_counts, folders)):
        message = "Neither side is a folder of kstoolkit's counts."
        raise ConfigurationError(message, hint="Leave action, total and where out.")


def listed(
    name: str,
    rows: Iterable[tuple[bytes, bytes | None]],
    *,
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
) -> Readable:
    """Return pairs of the application's own keys and values, which may be None, as a store's rows.

    >>> print(*listed("latest", [(b"anna", b"3")], value_serde="json").rows())
    'anna': 3
    """
    pairs = list(rows)
    part = RowColumns.whole(*(ByteColumn.of([pair[at] for pair in pairs]) for at in (0, 1)))
    source = NamedRows(name, lambda _: iter([part]))
    return Readable(source, key_serde=key_serde, value_serde=value_serde)
