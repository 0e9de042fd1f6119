"""Stores to look into: which there are, what each is, its rows in pages, and why it grows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.markup import Html, joined, plain, shortened
from kstoolkit.records import counted
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.widgets.panel import Panel
from kstoolkit.widgets.showing import Shown
from kstoolkit.widgets.storegrowth import StoreGrowth
from kstoolkit.widgets.storelist import StoreList
from kstoolkit.widgets.storerows import StoreRows
from kstoolkit.widgets.storesummary import (
    facts_html,
    facts_of_group,
    facts_of_path,
    facts_of_reading,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.widgets.storepages import Cells
    from kstoolkit.widgets.storesummary import Fact
    from kstoolkit.widgets.storetree import Node


_LONGEST_TITLE = 120
_FIRST_LOOK_SECONDS = 0.6
"""How long a cell may wait, so that its saved picture shows more than that it is being read."""


class StorePanel(Panel):
    """Choose one of the stores below a folder, and see what it is and what is in it.

    Stores are looked for, opened and read beside the kernel's thread; none of them is changed.

    Parameters
    ----------
    store
        A folder: a store's, or one above stores of any engine; or a store that is open, which stays
        open when the panel is closed.

    Raises
    ------
    InputError
        If there is no such folder.

    Examples
    --------
    >>> import tempfile
    >>> from rocksdict import Options, Rdict
    >>> folder = tempfile.mkdtemp()
    >>> written = Rdict(folder, Options(raw_mode=True))
    >>> for user in (b"anna", b"bo"):
    ...     written[user] = (3).to_bytes(8, "big")
    >>> written.close()
    >>> with StorePanel(folder) as panel:
    ...     panel.wait()
    ...     panel.search("an", prefix=True)
    ...     panel.wait()
    ...     [row["value"] for row in panel.page]
    ['3']
    """

    def __init__(self, store: str | os.PathLike[str] | OpenedStore) -> None:
        given: Any = store if isinstance(store, HasRows) else None
        folder: Any = store if given is None else given.path
        root = Path(folder).absolute()
        if not root.is_dir():
            message = f"There is no folder {str(folder)!r}."
            raise InputError(message, hint="Give a store's folder, or one above some stores.")
        self._facts: dict[str, list[Fact]] = {}
        self._summary = Shown()
        self.list, self.rows = StoreList(root, self._pick), StoreRows(given, self._describe)
        self.growing = StoreGrowth(self.rows.opening)
        self.controls = self.rows.controls
        children = [self.list, self._summary, self.rows, self.growing]
        super().__init__(f"Stores in {_short(str(folder))}", children, self._static)
        for end in (self.rows.stop, self.growing.stop, self.growing.forget, self.list.stop):
            self.on_close(end)
        if given is not None:
            self._show(str(given.path))
        self.list.again.on_click(lambda _: self.refresh())
        self.list.look()
        began = time.monotonic()
        self.list.wait(_FIRST_LOOK_SECONDS)
        self.rows.wait(max(began + _FIRST_LOOK_SECONDS - time.monotonic(), 0))

    @property
    def page(self) -> list[Cells]:
        """The rows on the present page as the texts that are shown, by column."""
        return self.rows.page

    @property
    def store(self) -> OpenedStore | None:
        """The store that is open; the panel closes it when another one is chosen."""
        return self.rows.store

    @property
    def growth(self) -> Growth | None:
        """Why the store does not shrink, once it is measured."""
        return self.growing.growth

    def choose(self, store: str | os.PathLike[str]) -> None:
        """Show a store: by its folder, or by its name; if several are called so, it is said.

        Stores that are still being looked for are waited for.
        """
        if self.list.found is None:
            self.list.wait()
        try:
            node = self.list.choose(str(store))
        except ConfigurationError as error:
            self.rows.said.say(str(error).replace("\n", " "))
            return
        if node is None:
            self._show(str(Path(store).absolute()))
        else:
            self._pick(node)

    def search(self, text: str, *, prefix: bool = False) -> None:
        """Show the rows of a key, or those whose keys begin so; of no text, all.

        Parameters
        ----------
        text
            As a person types it: ``0x…`` is in hex, and of Spark's stores a key of several columns
            is JSON: ``{"user": "anna"}``.
        prefix
            Whether it is how keys begin.
        """
        self.rows.search(text, prefix=prefix)

    def read_as(self, **told: Any) -> None:
        """Read it otherwise: key_serde, value_serde, window_size, version, family.

        What is None is as the store tells itself.

        Raises
        ------
        ConfigurationError
            If there is no such choice.
        """
        self.rows.read_as(**told)

    def next(self) -> None:
        """Turn to the next page, if there is one."""
        self.rows.turn(1)

    def previous(self) -> None:
        """Turn to the previous page, if there is one."""
        self.rows.turn(-1)

    def refresh(self) -> None:
        """Look again for stores, and for what was written to the one that is shown."""
        self._facts.clear()
        self.rows.refresh()
        self.list.look()

    def grow(self) -> None:
        """Measure why the store does not shrink, unless something is being measured."""
        self.growing.measure()

    def wait(self) -> None:
        """Wait until the stores are found, and what was asked for is shown."""
        for each in (self.list, self.rows, self.growing):
            each.wait()

    def __repr__(self) -> str:
        found, path = self.list.found, self.rows.path
        told = "looking for stores" if found is None else counted(len(found), "stores")
        chosen = "none chosen" if path is None else _short(Path(path).name)
        rows = f", {self.rows.told}" if self.rows.told else ""
        return f"StorePanel({_short(str(self.list.root))}, {told}; {chosen}{rows})"

    def _pick(self, node: Node) -> None:
        if node.path is not None:
            self._show(node.path)
            return
        self.rows.forget()
        self.growing.forget()
        self._summary.put(facts_html(node.name, facts_of_group(node)))

    def _show(self, path: str) -> None:
        self.growing.forget()
        self.rows.show(path)

    def _describe(self, path: str, store: OpenedStore | None, is_stale: Callable[[], bool]) -> None:
        """Say what a store is; in a thread."""
        if path not in self._facts:
            told = facts_of_path(path, is_stale)
            if is_stale():
                return
            self._facts[path] = told
        facts = self._facts[path]
        if store is not None and not is_stale():
            facts = facts + facts_of_reading(store)
        if not is_stale():
            self._summary.put(facts_html(Path(path).name, facts))

    def _static(self) -> Html:
        shown = (self.list.said, self._summary, self.rows.said, self.rows.shown)
        return joined(*(each.html() for each in (*shown, self.growing.shown)))


def _short(name: str) -> str:
    return shortened(plain(name), _LONGEST_TITLE)
