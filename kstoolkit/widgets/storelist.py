"""A list of stores to choose from: looked for beside the kernel's thread, grouped, filtered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipywidgets import Button, HBox, Layout, Select, Text, VBox

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import counted
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.units import format_bytes
from kstoolkit.widgets.background import Background
from kstoolkit.widgets.showing import Shown
from kstoolkit.widgets.storetree import MOST_LISTED, matching, store_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from kstoolkit.stores.discovery.found import FoundStores
    from kstoolkit.widgets.storetree import Node


_LABELS = {"description_width": "88px"}
_MOST_OPENED = 100


class StoreList(VBox):  # type: ignore[misc] # ipywidgets carries no types
    """The stores below a folder.

    Parameters
    ----------
    root
        The folder.
    on_choice
        Is given the line that somebody chooses.

    Examples
    --------
    >>> import tempfile
    >>> stores = StoreList(Path(tempfile.mkdtemp()), print)
    >>> stores.look()
    >>> stores.wait()
    >>> len(stores.found), "0 stores" in stores.said.value
    (0, True)
    >>> stores.close()
    """

    def __init__(self, root: Path, on_choice: Callable[[Node], object]) -> None:
        self.root, self._on_choice = root, on_choice
        self.found: FoundStores | None = None
        self.nodes: list[Node] = []
        self._is_quiet = False
        self.said = Shown()
        self._looking = Background(lambda why: self.said.say(" ".join(why.splitlines())))
        self.filter = Text(
            description="Filter",
            placeholder="by name, kind or application",
            style=_LABELS,
        )
        self.tree = Select(
            description="Store",
            rows=8,
            index=None,
            style=_LABELS,
            layout=Layout(width="auto", max_width="760px"),
        )
        self.filter.observe(self._list, "value")
        self.tree.observe(self._pick, "index")
        self.again = _step("Read again", "Look for what was written since")
        # In JupyterLab the arrow keys go to the notebook's cells, not to a list that has the focus.
        self.above = _step("Store above", "Choose the line above")
        self.below = _step("Store below", "Choose the line below")
        self.above.on_click(lambda _: self.go(-1))
        self.below.on_click(lambda _: self.go(+1))
        steps = HBox([self.filter, self.above, self.below, self.again])
        steps.add_class("kst-wraps")
        super().__init__([steps, self.tree, self.said])

    def look(self) -> None:
        """Begin to look for stores; a store that stands alone is chosen."""
        self._looking.start(self._look)

    def choose(self, store: str) -> Node | None:
        """Choose a store by its name or its folder; return its line, None if it is not listed.

        Raises
        ------
        ConfigurationError
            If several are called so.
        """
        whole = str(Path(store).absolute())
        at = [n for n, each in enumerate(self.nodes) if each.path in {store, whole}]
        at = at or [n for n, each in enumerate(self.nodes) if each.is_store and each.name == store]
        if len(at) > 1:
            message = f"{counted(len(at), 'stores')} are called {store!r:.80}."
            raise ConfigurationError(message, hint="Give the folder of one of them.")
        if not at:
            return None
        self._set_index(at[0])
        return self.nodes[at[0]]

    def go(self, lines: int) -> None:
        """Choose a line so many lines below the one that is chosen; first of all, the first."""
        index = 0 if self.tree.index is None else self.tree.index + lines
        if 0 <= index < len(self.nodes):
            self.tree.index = index

    def stop(self) -> None:
        """Look no further, and never again."""
        self._looking.close()

    def wait(self, seconds: float = 10) -> None:
        """Wait until the stores are found, not longer than told."""
        self._looking.wait(seconds)

    def _look(self, stop: Event) -> None:
        self.said.say(f"Looking for stores in {self.root} …")
        found = discover(self.root, is_stopped=stop.is_set)
        if stop.is_set():
            return
        self.found = found
        self._list()
        stores = [each for each in self.nodes if each.is_store]
        if len(stores) == 1 and self.tree.index is None:
            self.tree.index = self.nodes.index(stores[0])
        if len(found) <= _MOST_OPENED and not stop.is_set():
            # Where no place tells what kind a store is, its rows do.
            looked_into = discover(self.root, look=True, is_stopped=stop.is_set)
            if not stop.is_set():
                self.found = looked_into
                self._list()

    def _list(self, _: object = None) -> None:
        if self.found is None:
            return
        chosen = None if self.tree.index is None else self.nodes[self.tree.index].place
        kept = matching(self.found, self.filter.value)
        nodes = store_tree(kept, self.root)
        self.said.say(self._told(len(kept), len(nodes)))
        self._is_quiet = True  # other lines are no choice of anybody's
        self.nodes = nodes[:MOST_LISTED]
        self.tree.options = [(each.label, at) for at, each in enumerate(self.nodes)]
        places = [each.place for each in self.nodes]
        self._set_index(places.index(chosen) if chosen in places else None)

    def _set_index(self, index: int | None) -> None:
        self._is_quiet = True
        self.tree.index = index
        self._is_quiet = False

    def _pick(self, change: dict[str, Any]) -> None:
        if change["new"] is not None and not self._is_quiet:
            self._on_choice(self.nodes[change["new"]])

    def _told(self, num_kept: int, num_lines: int) -> str:
        found = self.found or ()
        size = format_bytes(sum(each.size_bytes for each in found))
        told = [f"{counted(len(found), 'stores')} in {self.root}, {size}"]
        if num_kept < len(found):
            told.append(f"{num_kept:,} of them match the filter")
        if num_lines > MOST_LISTED:
            told.append(f"the first {MOST_LISTED} lines are listed: a filter finds the others")
        hidden = {} if self.found is None else self.found.unreadable
        if hidden:
            folder, why = next(iter(hidden.items()))
            folders = counted(len(hidden), "folders")
            told.append(f"{folders} could not be looked into, {folder} among them: {why}")
        return f"{'; '.join(told)}."


def _step(description: str, tooltip: str) -> Button:
    return Button(description=description, tooltip=tooltip, layout=Layout(width="auto"))
