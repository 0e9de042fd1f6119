"""Arguments and options of the commands that read rows of stores, and the store they choose."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli.remarks import left_out_as_notes
from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.stores.rows.readable import HasRows


SERDES = "string, long, integer, short, double, float, boolean, uuid, bytes, json or void"

DETAILS = typer.Option(
    False,
    "--details",
    help="With --json: what rows tell beside key and value, where they do.",
    show_default=False,
)
STORE = typer.Argument(
    ...,
    metavar="PATH",
    help="One store: the folder of a RocksDB, the one that holds the segments of a store, a level "
    "of a replica, or of a checkpoint of Spark's the folder of a partition, of an operator, or the "
    "checkpoint's own, if it has one operator.",
    show_default=False,
)
KEY_SERDE = typer.Option(
    None,
    metavar="NAME",
    help=f"How to read keys: {SERDES}.  [default: guessed]",
    show_default=False,
)
VALUE_SERDE = typer.Option(
    None, metavar="NAME", help="How to read values.  [default: guessed]", show_default=False
)
KIND = typer.Option(
    None,
    metavar="NAME",
    help="What kind of store it is: key-value, window, session, versioned, and more.  "
    "[default: recognised]",
    show_default=False,
)
WINDOW_SIZE = typer.Option(
    None,
    metavar="W",
    help="How long its windows are, as '60 seconds'.  [default: not known]",
    show_default=False,
)
FAMILY = typer.Option(
    None,
    "--column-family",
    metavar="NAME",
    help="Only this column family; of Spark's state, a variable, or a store of a join.  "
    "[default: those that the application writes to]",
    show_default=False,
)
OTHER_FOLDERS = typer.Option(
    None,
    "--other-folder",
    metavar="PATH",
    help="A folder elsewhere with files of the store; may be given several times.  [default: those "
    "that the store names]",
    show_default=False,
)
VERSION = typer.Option(
    None,
    metavar="N",
    help="Spark's state as it was at this version: stores tells which there are.  "
    "[default: the latest]",
    show_default=False,
)
BATCH = typer.Option(
    None,
    metavar="N",
    help="Spark's state as this micro-batch left it: batch 6 leaves version 7.  "
    "[default: the latest]",
    show_default=False,
)

VERSIONS = typer.Option(
    None,
    metavar="N N",
    help="Spark's state at these versions, of A and of B.  [default: the latest]",
    show_default=False,
)
BATCHES = typer.Option(
    None,
    metavar="N N",
    help="Spark's state as these micro-batches left it, of A and of B.  [default: the latest]",
    show_default=False,
)
ACTION = typer.Option(
    None,
    metavar="NAME",
    help="Of kstoolkit's counts, compare those of one action, as a long.  [default: each, as JSON]",
    show_default=False,
)
NAMED = typer.Option(
    None,
    "--store",
    metavar="NAME",
    help="Of a folder that is not one store, such as a state directory: all partitions of the "
    "store of this name.  [default: the folder is the store]",
    show_default=False,
)
TOTAL = typer.Option(
    False, "--total", help="Of kstoolkit's counts, compare the sums of all actions, as a long."
)
SINCE = typer.Option(
    None,
    metavar="T",
    help="Only rows from this moment on, as 2026-03-03T12:00Z or in epoch ms: that of the window's "
    "start, or without windows the row's own.  [default: all]",
    show_default=False,
)
UNTIL = typer.Option(
    None, metavar="T", help="Only rows before this moment.  [default: all]", show_default=False
)


@contextmanager
def opened_store(
    path: str, *, version: int | None = None, batch: int | None = None, **told: Any
) -> Iterator[OpenedStore]:
    """Yield a store, at the version that is asked for.

    Parameters
    ----------
    path, told
        As :func:`kstoolkit.open_store` takes them.
    version, batch
        Which state, of a store of Spark's; None: the latest.

    Raises
    ------
    ConfigurationError
        If the path is empty, there are no versions to choose from, or both are given.
    KstoolkitError
        If there is no such store or version.
    """
    from kstoolkit.stores.opening import open_store  # noqa: PLC0415 - loads RocksDB
    from kstoolkit.stores.spark.sparkstore import SparkStore  # noqa: PLC0415 - as above

    check_not_empty(path)
    with left_out_as_notes(), open_store(path, **told) as store:
        if isinstance(store, SparkStore) and (version, batch) != (None, None):
            yield store.at(version, batch=batch)
            return
        _check_is_latest(path, version=version, batch=batch)
        yield store


@contextmanager
def opened_side(
    path: str,
    counted: dict[str, Any],
    *,
    store: str | None = None,
    version: int | None = None,
    batch: int | None = None,
    **told: Any,
) -> Iterator[HasRows]:
    """Yield one side of a comparison: what kstoolkit counted, or a store of any engine.

    Parameters
    ----------
    path, version, batch, told
        As :func:`opened_store` takes them.
    counted
        How to count: see :func:`kstoolkit.stores.comparing.folders.own_counts`.
    store
        The name of a store, of which all partitions below ``path`` are meant.

    Raises
    ------
    ConfigurationError
        If there are no versions to choose from, or no such windows.
    KstoolkitError
        If it can't be read.
    """
    from kstoolkit.stores.comparing.folders import (  # noqa: PLC0415
        opened_partitions,
        own_counts,
    )

    check_not_empty(path)
    with left_out_as_notes(), own_counts(path, window_size=told["window_size"], **counted) as ours:
        if ours is None and store is None:
            with opened_store(path, version=version, batch=batch, **told) as found:
                yield found
            return
        _check_is_latest(path, version=version, batch=batch)
        if ours is not None:
            yield ours
            return
        with opened_partitions(path, str(store), **told) as parts:
            yield parts


def check_not_empty(path: str) -> None:
    """Refuse an empty path, which would be this folder: a variable of the shell's is not set.

    Raises
    ------
    ConfigurationError
        If it is empty.
    """
    if not path:
        message = "The path is empty."
        raise ConfigurationError(message, hint="Give a folder; this one is a dot.")


def _check_is_latest(path: str, *, version: int | None, batch: int | None) -> None:
    for what, number in (("version", version), ("batch", batch)):
        if number is not None:
            message = (
                f"There is no {what} {number} of {path}: only Spark's checkpoints keep several."
            )
            raise ConfigurationError(message, hint="Leave it out: the state as it is now is read.")
