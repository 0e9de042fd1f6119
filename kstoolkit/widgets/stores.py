"""Stores to look into: which there are, what each is, its rows, why it grows, what it takes.

They are looked for beside the kernel's thread, and stand in a tree, by engine, application and task
or operator. Of what is chosen a tab at a time is read, in a thread too; another choice ends it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, InputError, KstoolkitError
from kstoolkit.markup import plain, shortened
from kstoolkit.records import Records, counted
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.units import parse_bytes
from kstoolkit.views import stores
from kstoolkit.views.parts import buttons, facts, field, form, said, seen, sentence, tabs
from kstoolkit.widgets import storerows
from kstoolkit.widgets.panel import Background, Face, Newest, Panel
from kstoolkit.widgets.storerows import Reading, Wanted, told_of_reading

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from threading import Event

    from kstoolkit.records import Viewed
    from kstoolkit.stores.growth.verdict import Growth
    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.views.parts import Part
    from kstoolkit.views.stores import Node, ShownRow, StoreTree

    Stale = Callable[[], bool]

_SHOWN = tuple(f"shown{n}" for n in range(16))
_ROWS = ("form", "turn", "rows", "row", "bytes")
_COLUMNS = (("found", "look", "tree"), ("name", "tabs", "said", *_ROWS, *_SHOWN))
OVERVIEW, ROWS, GROWTH, CHECKUP = "Overview", "Rows", "Growth", "Checkup"
_OF_STORE = (OVERVIEW, ROWS, GROWTH, "Levels", "Memory", "Log", "Advice")
_OF_GROUP = (OVERVIEW, CHECKUP)
_AGAIN, _NEXT, _PREVIOUS = "again", "next", "previous"
_BOUND, _SIZE = "bound", {"hint": "8GiB"}
_SHARED = "What they share counts once in the formula for all of them."
_NO_ADVICE = "Nothing to do, by its files and its log. Why expired rows stay, Growth tells."
_MOST_OPENED = 100
_LONGEST_TITLE = 120
_END_SECONDS = 10


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be shown: a tab of a store, or of what several have in common; a page of rows."""

    tab: str
    node: Node | None
    wanted: Wanted | None
    number: int = 0

    @property
    def name(self) -> str:
        if self.wanted is not None:
            return Path(self.wanted.path).name
        return "" if self.node is None else self.node.name

    @property
    def tabs(self) -> tuple[str, ...]:
        return _OF_GROUP if self.wanted is None else _OF_STORE

    def turned(self, tab: str) -> _Asked:
        return replace(self, tab=tab if tab in self.tabs else OVERVIEW, number=0)


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
        self.root, self._name = Path(folder).absolute(), str(folder)
        if not self.root.is_dir():
            message = f"There is no folder {str(folder)!r}."
            raise InputError(message, hint="Give a store's folder, or one above some stores.")
        self.tree: StoreTree | None = None
        self._asked = _Asked(OVERVIEW, None, None)
        self._growths: dict[str, Growth] = {}
        self._bound = ""
        self._lock, self._reading = RLock(), Reading(given)
        self.face = Face(_COLUMNS, self._heard)
        self._newest = Newest(lambda why: self.face.say("said", why))
        self._looking = Background(lambda why: self.face.say("found", why))
        super().__init__(f"Stores in {_short(str(folder))}", [self.face], self.face.still)
        for end in (self._end, self._looking.close):
            self.on_close(end)
        self.face.put("look", buttons("Stores", {"name": _AGAIN, "label": "Read again"}))
        if given is not None:
            self._ask(_Asked(OVERVIEW, None, Wanted(str(given.path))))
        self._looking.start(self._look)

    @property
    def page(self) -> list[dict[str, str]]:
        """The rows on the present page as the texts that are shown, by column."""
        return [each.cells for each in self._rows]

    @property
    def store(self) -> OpenedStore | None:
        """The store that is open; the panel closes it when another one is chosen."""
        return self._reading.store

    @property
    def tab(self) -> str:
        """What is shown of the store: Overview, Rows, Growth, Levels, Memory, Log, Advice."""
        return self._asked.tab

    @property
    def growth(self) -> Growth | None:
        """Why the store does not shrink, once it is measured."""
        wanted = self._asked.wanted
        return None if wanted is None else self._growths.get(wanted.path)

    def choose(self, store: str | os.PathLike[str]) -> None:
        """Show a store: by its folder, or by its name; if several are called so, it is said.

        Stores that are still being looked for are waited for.
        """
        if self.tree is None:
            self._looking.wait()
        at = [] if self.tree is None else self.tree.named(str(store))
        if len(at) > 1:
            told = f"{counted(len(at), 'stores')} are called {str(store)!r:.80}."
            self.face.say("said", f"{told} Give the folder of one of them.")
        elif at:
            self._pick(at[0])
        else:
            self._ask(_Asked(self.tab, None, Wanted(str(Path(store).absolute()))))

    def turn(self, tab: str) -> None:
        """Show another tab: Overview, Rows, Growth, Levels, Memory, Log, Advice.

        Of what several stores have in common there are Overview and Checkup.
        """
        self._await_chosen()
        if tab not in self._asked.tabs:
            message = f"There is no tab {tab!r:.80} here."
            raise ConfigurationError(message, hint=f"There are {', '.join(self._asked.tabs)}.")
        self._ask(self._asked.turned(tab))

    def search(self, text: str, *, prefix: bool = False) -> None:
        """Show the rows of a key, or those whose keys begin so; of no text, all.

        The text is as a person types it: ``0x…`` is in hex, and of Spark's stores a key of several
        columns is JSON: ``{"user": "anna"}``. With ``prefix`` it is how keys begin.
        """
        self._want(sought=text, is_prefix=prefix)

    def read_as(self, **told: Any) -> None:
        """Read it otherwise: key_serde, value_serde, window_size, version, family.

        None is as the store tells; what is no choice, a ConfigurationError.
        """
        storerows.check_choices(told, self.store)
        self._want(**told)

    def next(self) -> None:
        """Turn to the next page, if there is one."""
        self._turn_page(1)

    def previous(self) -> None:
        """Turn to the previous page, if there is one."""
        self._turn_page(-1)

    def refresh(self) -> None:
        """Look again for stores, and for what was written to the one that is shown."""
        self._growths.clear()
        self._looking.start(self._look)
        self._ask(self._asked, anew=True)

    def grow(self) -> None:
        """Measure why the store does not shrink."""
        with self.face.telling("said"):
            self.turn(GROWTH)

    def wait(self) -> None:
        """Wait until the stores are found, and what was asked for is shown."""
        self._looking.wait()
        self._newest.wait()

    def _await_chosen(self) -> None:
        """Wait, if nothing is chosen, until stores were looked for: one that stands alone is."""
        if self.tree is None and not self._asked.name:
            self._looking.wait()

    def _await_look(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        self._looking.wait(seconds)
        self._newest.wait(max(ends - time.monotonic(), 0))

    def __repr__(self) -> str:
        tree, wanted = self.tree, self._asked.wanted
        told = "looking for stores" if tree is None else counted(len(tree.found), "stores")
        chosen = "none chosen" if wanted is None else _short(Path(wanted.path).name)
        rows = f", {self._told_rows()}" if self._rows else ""
        return f"StorePanel({_short(self._name)}, {told}; {chosen}{rows})"

    @property
    def _rows(self) -> list[ShownRow]:
        pages = self._reading.pages
        return [] if pages is None or self.tab != ROWS else pages.read(self._asked.number)

    def _told_rows(self) -> str:
        pages, number = self._reading.pages, self._asked.number
        first, more = number * storerows.PAGE_ROWS + 1, pages is not None and pages.has(number + 1)
        return f"rows {first:,} to {first + len(self._rows) - 1:,}{', and more' * more}"

    def _heard(self, told: dict[str, Any]) -> None:
        with self._lock, self.face.telling("said"):
            if "chosen" in told:
                place, row, word = told["chosen"]
                (self._choose_row if place == "rows" else self._choose_line)(row, word)
            elif "field" in told:
                _, name, value = told["field"]
                if name == _BOUND:
                    self._bound = value.strip()
                    self._ask(replace(self._asked))
                    return
                is_sought = name in {"sought", "is_prefix"}
                self._want(**{name: value}) if is_sought else self.read_as(**{name: value or None})
            elif told.get("pressed", [""])[0] == "tabs":
                self.turn(told["pressed"][1])
            elif "pressed" in told:
                pressed = {_AGAIN: self.refresh, _NEXT: self.next, _PREVIOUS: self.previous}
                pressed[told["pressed"][1]]()

    def _choose_line(self, row: int, word: str) -> None:
        nodes = () if self.tree is None else self.tree.nodes
        if row < len(nodes) and seen(nodes[row].name) == word:  # else it is of an older table
            self._pick(row)

    def _choose_row(self, row: int, word: str) -> None:
        rows = self._rows
        if row < len(rows) and word in {*map(seen, rows[row].cells.values()), ""}:
            self.face.mark("rows", row)
            with self.face.hold_sync():
                for place, part in zip(("row", "bytes"), stores.whole_row(rows[row]), strict=True):
                    self.face.put(place, part)

    def _look(self, stop: Event) -> None:
        self.face.say("found", f"Looking for stores in {self._name} …")
        from kstoolkit.stores.discovery.discovering import discover  # noqa: PLC0415 - as below

        found = discover(self.root, is_stopped=stop.is_set)
        if stop.is_set():
            return
        self._list(stores.StoreTree(found, self.root, self._name))
        if len(found) <= _MOST_OPENED:
            # Where no place tells what kind a store is, its rows do.
            looked_into = discover(self.root, look=True, is_stopped=stop.is_set)
            if not stop.is_set():
                self._list(stores.StoreTree(looked_into, self.root, self._name))

    def _list(self, tree: StoreTree) -> None:
        """Show a tree; a store that stands alone is chosen."""
        with self._lock:
            self.tree = tree
            self._list_again()
            lines = [at for at, each in enumerate(tree.nodes) if each.is_store]
            if len(lines) == 1 and not self._asked.name:
                self._pick(lines[0])

    def _list_again(self) -> None:
        """Show the tree with what was measured since."""
        tree = self.tree
        if tree is None:
            return
        tree.expired = {path: stores.expired_share(each) for path, each in self._growths.items()}
        with self._lock, self.face.hold_sync():
            self.face.chosen = {}
            asked, row = self._asked, tree.row_of(self._asked.node)
            self.face.put("tree", tree.table(row) if tree.nodes else {})
            self.face.say("found", tree.told())
            if row is not None and asked.wanted is None and asked.node != tree.nodes[row]:
                self._ask(replace(asked, node=tree.nodes[row]))  # more is known of its stores

    def _pick(self, row: int) -> None:
        """Show what a line of the tree stands for, by the tab that is shown, if it has that."""
        tree = self.tree
        if tree is None:
            return
        node = tree.nodes[row]
        wanted = None if node.path is None else Wanted(node.path)
        self.face.mark("tree", row)
        self._ask(_Asked(OVERVIEW, node, wanted).turned(self.tab))

    def _want(self, **told: Any) -> None:
        self._await_chosen()
        asked = self._asked
        if asked.wanted is not None:
            self._ask(replace(asked, tab=ROWS, wanted=replace(asked.wanted, **told), number=0))

    def _turn_page(self, by: int) -> None:
        pages, number = self._reading.pages, self._asked.number + by
        if self.tab == ROWS and pages is not None and number >= 0 and pages.has(number):
            self._ask(replace(self._asked, number=number))

    def _ask(self, asked: _Asked, *, anew: bool = False) -> None:
        """Have something shown, instead of what is being read."""
        self._asked = asked
        if asked.name:
            self._newest.ask(lambda: self._show(asked, anew=anew))

    def _show(self, asked: _Asked, *, anew: bool) -> None:
        """Show what is asked for, unless something else is by then; in a thread."""

        def is_stale() -> bool:
            return self._asked is not asked

        self._begin(asked)
        if anew or asked.wanted is None:
            self._reading.close()
        try:
            parts = self._parts(asked, is_stale)
        except storerows.StoppedError:
            return
        except KstoolkitError as error:
            parts = {name: {} for name in _ROWS} | {"said": said(str(error))}
        if asked.tab == ROWS and asked.wanted is not None:
            parts["form"] = asked.wanted.form(self.store)
        if asked.tab == CHECKUP:
            parts["form"] = form("Checkup", field(_BOUND, "Memory there is", self._bound, **_SIZE))
        with self._lock, self.face.hold_sync():
            for place, part in () if is_stale() else parts.items():
                self.face.put(place, part)

    def _begin(self, asked: _Asked) -> None:
        """Say what is being read, and take away what is not of it."""
        kept = {ROWS: ("form", "turn", "rows"), CHECKUP: ("form",)}.get(asked.tab, ())
        with self.face.hold_sync():
            self.face.put("name", sentence(asked.name, asked.name))
            self.face.put("tabs", tabs("What is shown", asked.tabs, asked.tab))
            self.face.say("said", "Reading …")
            for place in (*_ROWS, *_SHOWN):
                if place not in kept:
                    self.face.put(place, {})

    def _parts(self, asked: _Asked, is_stale: Stale) -> dict[str, Part]:
        wanted, tab = asked.wanted, asked.tab
        if wanted is None:
            parts = self._of_group(asked.node, tab)
        elif tab == OVERVIEW:
            parts = self._overview(wanted, is_stale)
        elif tab == ROWS:
            return self._page(wanted, asked.number, is_stale)
        elif tab == GROWTH:
            parts = self._measured(wanted, is_stale)
        else:
            parts = _VIEWS[tab](self._reading.opened(wanted))
        told = [each for each in parts if each]
        shown = dict(zip(_SHOWN, told, strict=False))
        return shown | {"said": said("" if told else "Nothing is to be told of it.")}

    def _of_group(self, node: Node | None, tab: str) -> list[Part]:
        if node is None:
            return []
        if tab == OVERVIEW:
            return [stores.told_of_group(node.stores, self._called(str(node.folder)))]
        from kstoolkit.operations.checkup import checkup  # noqa: PLC0415 - a panel appears sooner

        found = checkup(node.folder, bound_bytes=parse_bytes(self._bound) if self._bound else None)
        killed = sum(each.closed == "not cleanly" for each in found.stores)
        told = [f"{counted(killed, 'stores')} closed not cleanly."] * bool(killed)
        told += [] if len(found.steps) else ["Nothing to do, as far as could be judged."]
        return [*map(sentence, told), *_told(found)]

    def _overview(self, wanted: Wanted, is_stale: Stale) -> list[Part]:
        from kstoolkit.stores.discovery.discovering import discover  # noqa: PLC0415 - as above

        found = discover(wanted.path, look=True, is_stopped=is_stale)
        here = [each for each in found if each.path == wanted.path]
        store = self._reading.opened(wanted)
        if not here:  # an operator of Spark's: what its partitions share
            told = stores.told_of_group(found, self._called(wanted.path))
            return [told, facts(told_of_reading(store))]
        folder = ("folder", self._called(wanted.path))
        told = stores.told_of_store(here[0], *told_of_reading(store), folder)
        return [told, stores.segments_of(here[0])]

    def _called(self, path: str) -> str:
        """Return a folder as it is called from the one that was given."""
        is_below = Path(path).is_relative_to(self.root)
        return str(Path(self._name) / Path(path).relative_to(self.root)) if is_below else path

    def _page(self, wanted: Wanted, number: int, is_stale: Stale) -> dict[str, Part]:
        pages = self._reading.begin(wanted)
        pages.come_to(number, is_stale)
        rows = pages.read(number)
        turned = [
            {"name": _PREVIOUS, "label": "Previous", "disabled": number == 0},
            {"name": _NEXT, "label": "Next", "disabled": not pages.has(number + 1)},
        ]
        none = "No such rows." if wanted.sought else "It has no rows."
        told = " ".join(each for each in (self._reading.left_out(), "" if rows else none) if each)
        return {
            "said": said(told),
            "rows": stores.rows_table(rows, f"{self._told_rows().capitalize()}.") if rows else {},
            "turn": buttons("Pages", *turned) if pages.has(1) or number else {},
        }

    def _measured(self, wanted: Wanted, is_stale: Stale) -> list[Part]:
        """Measure why a store does not shrink, beside the one that is open; it may take long."""
        from kstoolkit.stores.growth.growth import growth  # noqa: PLC0415 - as above

        self.face.say("said", "Reading all rows …")
        if wanted.path not in self._growths:
            with ExitStack() as held:
                store: Any = self._reading.opened_anew(wanted, held)
                store.source = storerows.StoppableSource(store.source, is_stale)
                self._growths[wanted.path] = growth(store)
            self._list_again()
        found = self._growths[wanted.path]
        return [*map(sentence, found.verdict), *_told(found, "line", "facts")]

    def _end(self) -> None:
        self._asked = _Asked(OVERVIEW, None, None)
        self._newest.ask(self._reading.close)
        if self._newest.wait(_END_SECONDS):  # else its thread closes the store, once it is done
            self._newest.stop()


def _told(record: Viewed, *but: str) -> list[Part]:
    from kstoolkit.widgets.records import parts_of  # noqa: PLC0415 - draws: only when asked

    return [part for name, part in parts_of(record).items() if name not in but]


def _log(store: Any) -> list[Part]:
    found = store.log()
    logs = list(found) if isinstance(found, Records) else [found]
    why = logs[0].flushes().unknown or "nothing of it happened"
    none = f"No flush, compaction, stall or error is told of: {why}."
    return [stores.timeline(logs) or sentence(none), *_told(found)]


def _memory(store: Any) -> list[Part]:
    found = store.memory()
    each = [row.formula_bytes or 0 for row in found] if isinstance(found, Records) else []
    total = getattr(getattr(found, "total", None), "formula_bytes", None)
    is_shared = total is not None and sum(each) > total
    return [*_told(found), *([sentence(_SHARED, tone="note")] if is_shared else [])]


_VIEWS: dict[str, Callable[[Any], list[Part]]] = {
    "Levels": lambda store: [*_told(store.levels()), *_told(store.summary(), "line")],
    "Memory": _memory,
    "Log": _log,
    "Advice": lambda store: _told(a) if len(a := store.advice()) else [sentence(_NO_ADVICE)],
}


def _short(name: str) -> str:
    return shortened(plain(name), _LONGEST_TITLE)
