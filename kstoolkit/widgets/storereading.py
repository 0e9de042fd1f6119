"""The store that a panel reads: opened as it is wanted, its rows in pages, closed in the end."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.widgets.storepages import Pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.stores.rows.readable import SerdeLike
    from kstoolkit.widgets.storepages import Cells


PAGE_ROWS = 20
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows of which store are wanted, and how to read them; None as the store tells itself.

    Parameters
    ----------
    path
        The store's folder.
    version
        Which state of a store of Spark's; None: the latest.
    window_size, family
        As :func:`kstoolkit.open_store` takes them.
    key_serde, value_serde
        How to read keys and values.
    sought
        The key, or how it begins, as a person types it: ``0x…`` is in hex, and of Spark's stores a
        key with braces is JSON.
    is_prefix
        Whether it is how keys begin.
    """

    path: str
    version: int | None = None
    window_size: str | None = None
    family: str | None = None
    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    sought: str = ""
    is_prefix: bool = False

    @property
    def opening(self) -> tuple[Any, ...]:
        """What the store has to be opened anew for."""
        return self.path, self.version, self.window_size, self.family

    @property
    def reading(self) -> dict[str, Any]:
        """What rows are asked by, but for what is sought."""
        return {"key_serde": self.key_serde, "value_serde": self.value_serde}


class StoreReading:
    """A store that is read in pages; it is one thread's at a time.

    Parameters
    ----------
    given
        A store that somebody else opened, and closes; it is read as it is as long as nothing else
        is wanted. None: there is none.

    Examples
    --------
    >>> import tempfile
    >>> from rocksdict import Options, Rdict
    >>> folder = tempfile.mkdtemp()
    >>> written = Rdict(folder, Options(raw_mode=True))
    >>> written[b"anna"] = b"seen"
    >>> written.close()
    >>> reading = StoreReading()
    >>> reading.begin(Wanted(folder, sought="an", is_prefix=True))
    >>> reading.page(0)[0]["value"]
    "'seen'"
    >>> reading.close()
    """

    def __init__(self, given: OpenedStore | None = None) -> None:
        self.store: OpenedStore | None = None
        self.wanted: Wanted | None = None
        self.pages: Pages | None = None
        self._given = given
        self._held = ExitStack()

    def begin(self, wanted: Wanted) -> None:
        """Come to the rows that are wanted: the store is opened if it is not yet, or otherwise.

        Raises
        ------
        KstoolkitError
            If there is no such store or version, or nothing can be asked so.
        """
        if self.wanted is None or self.wanted.opening != wanted.opening:
            self.close()
            self.store = self._opened(wanted)
        self._let_rows_go()
        self.wanted = wanted
        self.pages = Pages(self._rows(wanted), PAGE_ROWS)

    def page(self, number: int, is_stale: Callable[[], bool] = lambda: False) -> list[Cells]:
        """Return a page of the rows: see :meth:`kstoolkit.widgets.storepages.Pages.page`."""
        return [] if self.pages is None else self.pages.page(number, is_stale)

    def opened_anew(self, wanted: Wanted, held: ExitStack) -> OpenedStore:
        """Return a store once more, as it is wanted, beside the one that is read."""
        given = self._given if self._is_given(wanted) else None
        told = {} if given is None else _told(given)
        now = {"window_size": wanted.window_size, "column_family": wanted.family}
        told |= {name: value for name, value in now.items() if value is not None}
        store = open_store(wanted.path, **told)
        held.enter_context(store)
        version = given.version if isinstance(given, SparkStore) else None
        version = version if wanted.version is None else wanted.version
        return store if version is None else held.enter_context(_at(store, version))

    def close(self) -> None:
        """Close the store, unless somebody else opened it; a second time does nothing."""
        self._let_rows_go()
        self.store = self.wanted = None
        self._held.close()

    def _opened(self, wanted: Wanted) -> OpenedStore:
        """Return a store open as it is wanted; the one that was given, if that is so."""
        given = self._given if self._is_given(wanted) else None
        if given is None or wanted.window_size or wanted.family:
            return self.opened_anew(wanted, self._held)
        if wanted.version is None:
            return given
        return self._held.enter_context(_at(given, wanted.version))

    def _is_given(self, wanted: Wanted) -> bool:
        return self._given is not None and str(self._given.path) == wanted.path

    def _let_rows_go(self) -> None:
        if self.pages is not None:
            self.pages.close()
            self.pages = None

    def _rows(self, wanted: Wanted) -> Any:
        store: Any = self.store
        asked = wanted.reading
        if wanted.sought:
            asked |= _sought(wanted, store)
        return store.rows(**asked)


def _at(store: OpenedStore, version: int) -> SparkStore:
    if isinstance(store, SparkStore):
        return store.at(version)
    message = f"There is no version {version} of {store.path}."
    raise ConfigurationError(message, hint="Only Spark's checkpoints keep several.")


def _told(given: OpenedStore) -> dict[str, Any]:
    """Return how a store was told to be read, for opening it once more."""
    told = given.read_as
    named = {
        "kind": told.kind,
        "key_serde": told.key_serde,
        "value_serde": told.value_serde,
        "window_size": told.window_size_ms,
        "column_family": told.column_family,
    }
    return {name: value for name, value in named.items() if value is not None}


def _sought(wanted: Wanted, store: OpenedStore) -> dict[str, Any]:
    text = wanted.sought
    what = "prefix" if wanted.is_prefix else "key"
    if _HEX.fullmatch(text):
        return {what: bytes.fromhex(text[2:])}
    serde = wanted.key_serde or store.key_serde
    if getattr(serde, "name", serde) == "bytes":
        return {what: text.encode()}
    if wanted.is_prefix or not isinstance(store, SparkStore) or not text.startswith("{"):
        return {what: text}
    try:
        return {what: json.loads(text)}
    except ValueError as error:
        message = f"The key {text!r:.80} is no JSON: {error}."
        raise ConfigurationError(message, hint='Write it as {"user": "anna"}.') from None
