"""Stores to look into: which there are, what each is, its rows in pages, and why it grows.

They are looked for beside the kernel's thread, and stand in a tree, by engine, application and task
or operator. Of each is said whose it is, how surely, its size, and how it was left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipywidgets import Layout, Select, Text, VBox

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.markup import Html, element, isolated, plain, shortened
from kstoolkit.records import counted
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.rows.readable import Estimating, HasRows
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.units import format_bytes, format_count
from kstoolkit.widgets.panel import (
    FIRST_LOOK_SECONDS,
    Background,
    Panel,
    Shown,
    button,
    pictures,
    table_html,
    wrapping,
)
from kstoolkit.widgets.storerows import StoreGrowth, StoreRows

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from threading import Event

    from kstoolkit.stores.discovery.discovering import FoundStores
    from kstoolkit.stores.discovery.found import FoundStore
    from kstoolkit.stores.growth.verdict import Growth
    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.widgets.storerows import Cells


_MOST_LISTED = 500  # more lines than anybody scrolls through: a filter finds the others
_LONGEST_NAME = 48
_INDENT = "\u00a0" * 4  # a list drops spaces that are plain
_SURE = 0.5


@dataclass(frozen=True, slots=True)
class _Node:
    """A line of the tree: a store, or what several have in common; ``path`` can be opened."""

    name: str
    depth: int
    stores: tuple[FoundStore, ...]
    path: str | None = None

    @property
    def place(self) -> tuple[int, str, str]:
        """What tells it from other lines, also after another look."""
        return self.depth, self.name, self.path or self.stores[0].path

    @property
    def label(self) -> str:
        name = shortened(plain(self.name), _LONGEST_NAME)
        size = format_bytes(sum(each.size_bytes for each in self.stores))
        if self.is_store:
            return f"{_INDENT * self.depth}{name} ({_kind(self.stores[0])}, {size})"
        return f"{_INDENT * self.depth}{name}: {counted(len(self.stores), 'stores')}, {size}"

    @property
    def is_store(self) -> bool:
        return len(self.stores) == 1 and self.path == self.stores[0].path


def _matching(stores: Iterable[FoundStore], text: str) -> list[FoundStore]:
    """Return the stores of which something that a person would look for has each of some words."""
    words = text.casefold().split()
    return [each for each in stores if all(word in _looked_for(each) for word in words)]


def _below(stores: Sequence[FoundStore], depth: int, root: Path) -> Iterator[_Node]:
    """Yield the lines of a tree; what has no name of its own is called from ``root`` on."""
    if not stores or depth == len(_groups(stores[0])):
        yield from (_Node(_name(each), depth, (each,), each.path) for each in stores)
        return
    for name, group in groupby(stores, key=lambda each: _groups(each)[depth]):
        together = tuple(group)
        yield _Node(_from(root, name), depth, together, _opened_as_one(together, depth))
        yield from _below(together, depth + 1, root)


def _from(root: Path, name: str) -> str:
    """Return a folder as it is called from ``root``, and any other name as it is."""
    folder = Path(name)
    if not folder.is_absolute() or not folder.is_relative_to(root):
        return name
    return folder.name if folder == root else str(folder.relative_to(root))


def _groups(found: FoundStore) -> tuple[str, ...]:
    """Return the names of the groups that a store is in, the outermost first."""
    whose = found.application or str(Path(found.path).parent)
    if found.operator is not None:
        return found.engine, whose, f"operator {found.operator}"
    if found.engine == "kafka-streams" and found.application is not None:
        return found.engine, whose, "global" if found.task is None else f"task {found.task}"
    return found.engine, whose


def _order(found: FoundStore) -> tuple[str | int, ...]:
    numbers = (found.subtopology, found.operator, found.partition if found.task else None)
    place = (-1 if each is None else each for each in numbers)
    part = -1 if found.partition is None else found.partition
    whose = _groups(found)[1]
    # Replicas' levels are named by their lengths: their folders are these, in milliseconds.
    length = Path(found.path).name if found.engine == "kstoolkit" else ""
    in_order = int(length) if length.isdecimal() else 0
    within = (in_order, found.store, part, found.path)
    return found.engine, whose, found.topology or "", *place, *within


def _name(found: FoundStore) -> str:
    in_part = found.engine == "spark" and found.partition is not None
    return f"{found.store}, partition {found.partition}" if in_part else found.store


def _opened_as_one(stores: tuple[FoundStore, ...], depth: int) -> str | None:
    """Return the folder of an operator of Spark's, which opens all of its partitions."""
    number = stores[0].operator
    if number is None or depth != len(_groups(stores[0])) - 1:
        return None
    folders = Path(stores[0].path).parents
    return next((str(each) for each in folders if each.parent.name == "state"), None)


def _kind(found: FoundStore) -> str:
    if found.kind is None:
        return "kind unknown"
    sure = found.confidence is None or found.confidence >= _SURE
    return found.kind if sure else f"{found.kind}?"


def _looked_for(found: FoundStore) -> str:
    told = (found.engine, *_groups(found)[1:], _name(found), found.kind or "", found.path)
    return " ".join(told).casefold()


_LABELS = {"description_width": "88px"}
_MOST_OPENED = 100


class _StoreList(VBox):  # type: ignore[misc] # ipywidgets carries no types
    def __init__(
        self, root: Path, on_choice: Callable[[_Node], object], on_again: Callable[[], object]
    ) -> None:
        self.root, self._on_choice = root, on_choice
        self.found: FoundStores | None = None
        self.nodes: list[_Node] = []
        self._is_quiet = False
        self.said = Shown()
        self._looking = Background(self.said.say)
        placeholder = "by name, kind or application"
        self.filter = Text(description="Filter", placeholder=placeholder, style=_LABELS)
        look = {"style": _LABELS, "layout": Layout(width="auto", max_width="760px")}
        self.tree = Select(description="Store", rows=8, index=None, **look)
        self.filter.observe(self._list, "value")
        self.tree.observe(self._pick, "index")
        self.again = button("Read again", "Look for what was written since", on_again, "auto")
        # In JupyterLab the arrow keys go to the notebook's cells, not to a list that has the focus.
        self.above = button("Store above", "Choose the line above", lambda: self.go(-1), "auto")
        self.below = button("Store below", "Choose the line below", lambda: self.go(+1), "auto")
        steps = wrapping(self.filter, self.above, self.below, self.again)
        super().__init__([steps, self.tree, self.said])

    def look(self) -> None:
        """Begin to look for stores; a store that stands alone is chosen."""
        self._looking.start(self._look)

    def choose(self, store: str) -> _Node | None:
        """Choose a store by its name or its folder; return its line, None if it is not listed."""
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
        self._looking.close()

    def wait(self, seconds: float = 10) -> None:
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
        kept = _matching(self.found, self.filter.value)
        nodes = [*_below(sorted(kept, key=_order), 0, self.root)]
        self.said.say(self._told(len(kept), len(nodes)))
        self._is_quiet = True  # other lines are no choice of anybody's
        self.nodes = nodes[:_MOST_LISTED]
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
        if num_lines > _MOST_LISTED:
            told.append(f"the first {_MOST_LISTED} lines are listed: a filter finds the others")
        hidden = {} if self.found is None else self.found.unreadable
        if hidden:
            folder, why = next(iter(hidden.items()))
            folders = counted(len(hidden), "folders")
            told.append(f"{folders} could not be looked into, {folder} among them: {why}")
        return f"{'; '.join(told)}."


_MOST_SEGMENTS = 50
_LONGEST_FACT = 500
_Fact = tuple[str, str]  # what it is about, and what is so


def _facts_of_path(path: str, is_stopped: Callable[[], bool]) -> list[_Fact]:
    """Return what a look tells of a store; of an operator of Spark's, what its partitions share."""
    found = discover(path, look=True, is_stopped=is_stopped)
    here = [each for each in found if each.path == path]
    if here:
        return _facts_of_store(here[0])
    kinds = sorted({each.kind or "unknown" for each in found})
    size = format_bytes(sum(each.size_bytes for each in found))
    facts = [("kind", ", ".join(kinds)), ("stores and partitions", format_count(len(found)))]
    return [*facts, ("size", size), ("folder", path)]


def _facts_of_store(found: FoundStore) -> list[_Fact]:
    facts: list[_Fact] = [("engine", found.engine)]
    for name in ("application", "topology", "task", "operator", "partition"):
        value = getattr(found, name)
        facts += [] if value is None else [(name, str(value))]
    facts.append(("kind", _kind_and_confidence(found)))
    facts += [("why", each) for each in found.reasons]
    size, disk = format_bytes(found.size_bytes), format_bytes(found.disk_bytes)
    facts.append(("size", f"{size}, {disk} on the disk"))
    if found.segments:
        facts.append(("segments", format_count(len(found.segments))))
    facts.append(("entries in its files", _known(found, "num_entries")))
    if found.versions is not None:
        facts.append(("versions", " to ".join(str(each) for each in found.versions)))
    if found.engine == "kafka-streams":
        facts.append(("changelog offset", _known(found, "offset")))
        facts.append(("closed", _known(found, "closed")))
    facts.append(("in use", _known(found, "is_locked")))
    return [*facts, ("folder", found.path)]


def _facts_of_reading(store: OpenedStore) -> list[_Fact]:
    told = store.read_as
    why_key = "as it was told" if told.key_serde is not None else _guessed(store, 0)
    why_value = "as it was told" if told.value_serde is not None else _guessed(store, 1)
    return [
        ("keys read as", f"{store.key_serde.name}, {why_key}"),
        ("values read as", f"{store.value_serde.name}, {why_value}"),
        ("rows", _rows(store)),
    ]


def _facts_html(name: str, facts: Sequence[_Fact]) -> Html:
    """Return facts as a table: why something is unknown may take more than a cell of the data."""
    names = ("store", isolated(name, _LONGEST_FACT))
    return element("div", table_html(names, facts, longest=_LONGEST_FACT), class_="kst-facts")


def _facts_of_group(node: _Node) -> list[_Fact]:
    largest = sorted(node.stores, key=lambda each: -each.size_bytes)[:10]
    size = format_bytes(sum(each.size_bytes for each in node.stores))
    facts = [("stores", format_count(len(node.stores))), ("size", size)]
    return facts + [("among the largest", repr(each)) for each in largest]


def _kind_and_confidence(found: FoundStore) -> str:
    if found.kind is None:
        return _known(found, "kind")
    return found.kind if found.confidence is None else f"{found.kind}, {found.confidence:.0%} sure"


def _known(found: FoundStore, name: str) -> str:
    value = getattr(found, name)
    if value is None:
        return f"unknown ({found.unknown.get(name, 'not told')})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_count(value) if isinstance(value, int) else str(value)


def _guessed(store: Any, number: int) -> str:
    if isinstance(store, SparkStore):
        return "by the schema in the checkpoint"
    if store.kind == "window" and not hasattr(store, "recognised"):
        return "as kstoolkit writes them"
    guess = store.guesses[number]
    return f"a guess, {guess.confidence:.0%} sure: {'; '.join(guess.reasons)}"


def _rows(store: OpenedStore) -> str:
    if isinstance(store, SegmentedStore) and len(store.segments) > _MOST_SEGMENTS:
        return "not estimated: each segment would have to be opened"
    source = store.source
    if isinstance(store, SparkStore):
        return str(store.count())
    estimate = source.estimated_rows() if isinstance(source, Estimating) else None
    if estimate is None:
        return "unknown (nothing estimates them)"
    return f"about {format_count(estimate)}, by RocksDB's estimate"


_LONGEST_TITLE = 120


class StorePanel(Panel):
    """Choose one of the stores below a folder, and see what it is and what is in it.

    Stores are looked for, opened and read beside the kernel's thread; none of them is changed.

    Parameters
    ----------
    store
        A folder: a store's, or one above stores of any engine; or a store that is open, which stays
        open when the panel is closed. That there is none is an InputError.

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
        self._facts: dict[str, list[_Fact]] = {}
        self._summary = Shown()
        self.list = _StoreList(root, self._pick, self.refresh)
        self.rows = StoreRows(given, self._describe)
        self.growing = StoreGrowth(self.rows.opening)
        self.controls = self.rows.controls
        children = [self.list, self._summary, self.rows, self.growing]
        super().__init__(f"Stores in {_short(str(folder))}", children, self._static)
        for end in (self.rows.stop, self.growing.stop, self.growing.forget, self.list.stop):
            self.on_close(end)
        if given is not None:
            self._show(str(given.path))
        self.list.look()
        began = time.monotonic()
        self.list.wait(FIRST_LOOK_SECONDS)
        self.rows.wait(max(began + FIRST_LOOK_SECONDS - time.monotonic(), 0))

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
        with self.rows.said.telling():
            node = self.list.choose(str(store))
            if node is None:
                self._show(str(Path(store).absolute()))
            else:
                self._pick(node)

    def search(self, text: str, *, prefix: bool = False) -> None:
        """Show the rows of a key, or those whose keys begin so; of no text, all.

        The text is as a person types it: ``0x…`` is in hex, and of Spark's stores a key of several
        columns is JSON: ``{"user": "anna"}``. With ``prefix`` it is how keys begin.
        """
        self.rows.search(text, prefix=prefix)

    def read_as(self, **told: Any) -> None:
        """Read it otherwise: key_serde, value_serde, window_size, version, family.

        None is as the store tells; what is no choice, a ConfigurationError.
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

    def _pick(self, node: _Node) -> None:
        if node.path is not None:
            self._show(node.path)
            return
        self.rows.forget()
        self.growing.forget()
        self._summary.put(_facts_html(node.name, _facts_of_group(node)))

    def _show(self, path: str) -> None:
        self.growing.forget()
        self.rows.show(path)

    def _describe(self, path: str, store: OpenedStore | None, is_stale: Callable[[], bool]) -> None:
        """Say what a store is; in a thread."""
        if path not in self._facts:
            told = _facts_of_path(path, is_stale)
            if is_stale():
                return
            self._facts[path] = told
        facts = self._facts[path]
        if store is not None and not is_stale():
            facts = facts + _facts_of_reading(store)
        if not is_stale():
            self._summary.put(_facts_html(Path(path).name, facts))

    def _static(self) -> Html:
        rows = self.rows
        return pictures(self.list.said, self._summary, rows.said, rows.shown, self.growing.shown)


def _short(name: str) -> str:
    return shortened(plain(name), _LONGEST_TITLE)
