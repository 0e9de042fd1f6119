"""Rows of a store in pages, as some controls want them; and why it does not shrink.

Both are read beside the kernel's thread: rows as they are turned to, and kept as the texts that are
shown; why a store does not shrink at the press of a button, until nobody wants to know any more.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ipywidgets import Dropdown, Text, VBox

from kstoolkit.errors import ConfigurationError, KstoolkitError
from kstoolkit.formats.serdes import SERDE_NAMES
from kstoolkit.markup import Html, element, plain, shortened
from kstoolkit.moments import moment_text
from kstoolkit.records import counted
from kstoolkit.stores.growth.growth import growth
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.asking import typed_key
from kstoolkit.stores.rows.rows import value_text
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.widgets.panel import (
    Background,
    Newest,
    Shown,
    button,
    field_look,
    table_html,
    tick_box,
    wrapping,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from threading import Event

    from ipywidgets import Widget

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.growth.verdict import Growth
    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.readable import Rows, SerdeLike
    from kstoolkit.stores.rows.rows import StoreRow


Cells = dict[str, str]  # a row as texts, by the names of its columns; what it has not is left out
_TIMES = ("window start, UTC", "window end, UTC", "time, UTC")
_COLUMNS = ("family", "partition", "key", *_TIMES, "value", "headers")
_RAW = ("key, raw", "value, raw")
_LONGEST_CELL, _RAW_BYTES, _PAGE_ROWS = 120, 24, 20


class _Pages:
    """Rows in pages, of which those that were seen can be turned back to."""

    def __init__(self, rows: Rows) -> None:
        self._batches: Any = rows.batches()  # a generator, which can be closed
        self._batch: Iterator[StoreRow] = iter(())
        self._cells: list[Cells] = []

    def come_to(self, number: int, is_stale: Callable[[], bool]) -> None:
        """Read up to a page, the first one is 0; less of it, if nobody wants it any more."""
        # One row more than is shown tells whether there is another page.
        while not self.has(number + 1) and not is_stale():
            found = [_cells(each) for each in islice(self._batch, _PAGE_ROWS)]
            self._cells += found
            if not found and not self._comes_another_batch():
                break

    def read(self, number: int) -> list[Cells]:
        return self._cells[number * _PAGE_ROWS : (number + 1) * _PAGE_ROWS]

    def has(self, number: int) -> bool:
        return len(self._cells) > number * _PAGE_ROWS

    def close(self) -> None:
        """Read no more: what the rows hold of the store is let go."""
        self._batches.close()

    def _comes_another_batch(self) -> bool:
        batch = next(self._batches, None)
        self._batch = iter(()) if batch is None else iter(batch)
        return batch is not None


def _page_html(rows: Sequence[Cells], note: str, *, raw: bool) -> Html:
    """Return rows as a table, with the columns that one of them has; ``raw`` are bytes, too."""
    shown = (*_COLUMNS, *(_RAW if raw else ()), "problem")
    names = [name for name in shown if any(name in row for row in rows)]
    cells = [[row.get(name) for name in names] for row in rows]
    return table_html(names, cells, note, longest=2 * _LONGEST_CELL)  # they are short already


def _cells(row: StoreRow) -> Cells:
    times = (row.window_start_ms, row.window_end_ms, row.timestamp_ms)
    headers = None if row.headers is None else value_text([list(each) for each in row.headers])
    cells = {
        "family": getattr(row, "family", None),
        "partition": getattr(row, "partition", None),
        "key": value_text(row.key),
        **dict(zip(_TIMES, map(_moment, times), strict=True)),
        "value": value_text(row.value),
        "headers": headers,
        "key, raw": _hex(row.key_bytes),
        "value, raw": _hex(row.value_bytes),
        "problem": row.problem,
    }
    known = {name: str(value) for name, value in cells.items() if value is not None}
    return {name: shortened(value, _LONGEST_CELL) for name, value in known.items()}


def _moment(time_ms: int | None) -> str | None:
    return None if time_ms is None else moment_text(time_ms).removesuffix(" UTC")


def _hex(raw: bytes | None) -> str:
    if raw is None:
        return "none"
    first = raw[:_RAW_BYTES].hex(" ")
    return first if len(raw) <= _RAW_BYTES else f"{first} … ({len(raw):,} bytes)"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which rows of which store are wanted, and how to read them; None as the store tells itself.

    ``sought`` is the key, or how it begins, as a person types it.
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


class _Reading:
    """A store that is read in pages; it is one thread's at a time."""

    def __init__(self, given: OpenedStore | None) -> None:
        self.store: OpenedStore | None = None
        self.wanted: _Wanted | None = None
        self.pages: _Pages | None = None
        self._given = given
        self._held = ExitStack()

    def begin(self, wanted: _Wanted) -> _Pages:
        """Return the rows that are wanted: the store is opened if it is not yet, or otherwise."""
        if self.pages is not None and self.wanted == wanted:
            return self.pages
        if self.store is None or self.wanted is None or self.wanted.opening != wanted.opening:
            self.close()
            self.store = self._opened(wanted)
        self._let_rows_go()
        self.wanted = wanted
        asked: dict[str, Any] = {"key_serde": wanted.key_serde, "value_serde": wanted.value_serde}
        asked |= _sought(wanted, self.store) if wanted.sought else {}
        self.pages = _Pages(self.store.rows(**asked))
        return self.pages

    def opened_anew(self, wanted: _Wanted, held: ExitStack) -> OpenedStore:
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

    def _opened(self, wanted: _Wanted) -> OpenedStore:
        """Return a store open as it is wanted; the one that was given, if that is so."""
        given = self._given if self._is_given(wanted) else None
        if given is None or wanted.window_size or wanted.family:
            return self.opened_anew(wanted, self._held)
        if wanted.version is None:
            return given
        return self._held.enter_context(_at(given, wanted.version))

    def _is_given(self, wanted: _Wanted) -> bool:
        return self._given is not None and str(self._given.path) == wanted.path

    def _let_rows_go(self) -> None:
        if self.pages is not None:
            self.pages.close()
            self.pages = None


def _at(store: OpenedStore, version: int) -> SparkStore:
    if isinstance(store, SparkStore):
        return store.at(version)
    message = f"There is no version {version} of {store.path}."
    raise ConfigurationError(message, hint="Only Spark's checkpoints keep several.")


def _told(given: OpenedStore) -> dict[str, Any]:
    """Return how a store was told to be read, for opening it once more."""
    told = given.read_as
    alike = ("kind", "key_serde", "value_serde", "column_family")
    named = {name: getattr(told, name) for name in alike} | {"window_size": told.window_size_ms}
    return {name: value for name, value in named.items() if value is not None}


def _sought(wanted: _Wanted, store: OpenedStore) -> dict[str, Any]:
    serde = wanted.key_serde or store.key_serde
    in_bytes = getattr(serde, "name", serde) == "bytes"
    in_columns = isinstance(store, SparkStore) and not (in_bytes or wanted.is_prefix)
    key = typed_key(wanted.sought, in_columns=in_columns)
    is_text = in_bytes and isinstance(key, str)
    return {"prefix" if wanted.is_prefix else "key": key.encode() if is_text else key}


_AS_TOLD = "as it seems"
_NONE = ""  # None as a value is no choice at all, and a control without text
_SERDES = (*SERDE_NAMES, "time-windowed(string)", "session-windowed(string)")
_LONGEST_NAME = 40


class _Controls:
    """Which store, how to read it, what to look for, and which page."""

    def __init__(self, turn: Callable[[int], object]) -> None:
        serdes = [(_AS_TOLD, _NONE), *((name, name) for name in _SERDES)]
        self.key_serde = Dropdown(options=serdes, **_look("Keys as"))
        self.value_serde = Dropdown(options=serdes, **_look("Values as"))
        self.window_size = _typed("Window size", "such as 1 minute")
        self.version = Dropdown(options=[("latest", _NONE)], **_look("Version"))
        self.family = Dropdown(options=[(_AS_TOLD, _NONE)], **_look("Family"))
        self.sought = _typed("Search", "a key, or 0x and hex")
        beginnings = [("of this key", False), ("keys that begin so", True)]
        self.by = Dropdown(options=beginnings, **_look("Rows"))
        self.raw = tick_box("Raw bytes")
        self.previous = button("Previous", "The page before", lambda: turn(-1))
        self.next = button("Next", "The next page", lambda: turn(1))
        self.previous.disabled = self.next.disabled = True
        self.choices_of(None)

    def asking(self) -> list[Widget]:
        return [*self.rows()[0], self.sought, self.by]

    def rows(self) -> list[list[Widget]]:
        return [
            [self.key_serde, self.value_serde, self.window_size, self.version, self.family],
            [self.sought, self.by, self.raw],
            [self.previous, self.next],
        ]

    def wanted(self, path: str) -> _Wanted:
        return _Wanted(
            path,
            version=_chosen(self.version),
            window_size=self.window_size.value.strip() or None,
            family=_chosen(self.family),
            key_serde=_chosen(self.key_serde),
            value_serde=_chosen(self.value_serde),
            sought=self.sought.value,
            is_prefix=self.by.value,
        )

    def tell(self, **told: Any) -> None:
        names = ("key_serde", "value_serde", "window_size", "version", "family")
        for name, value in told.items():
            if name not in names:
                message = f"Nothing is called {name!r} here."
                raise ConfigurationError(message, hint=f"There are {', '.join(names)}.")
            control = getattr(self, name)
            offered = [each for _, each in getattr(control, "options", ())]
            chosen = _NONE if value is None else value
            if offered and chosen not in offered:
                message = f"{name}={value!r:.80} is none of the choices."
                listed = ", ".join(repr(each) for each in offered[:20])
                raise ConfigurationError(message, hint=f"There are {listed}.")
            control.value = chosen

    def anew(self) -> None:
        """Forget what was said of the store before: its version, its family, what was sought."""
        self.version.options, self.family.options = [("latest", _NONE)], [(_AS_TOLD, _NONE)]
        self.sought.value = ""
        self.window_size.value = ""
        self.key_serde.value = self.value_serde.value = _NONE

    def choices_of(self, store: OpenedStore | None) -> None:
        versions = store.versions if isinstance(store, SparkStore) else []
        names = [] if store is None else _families(store)
        _offer(self.version, "latest", [(str(each), each) for each in reversed(versions)])
        shown = [(shortened(plain(each), _LONGEST_NAME), each) for each in names]
        _offer(self.family, _AS_TOLD, shown)
        is_streams = store is None or not isinstance(store, SparkStore)
        self.window_size.layout.display = "" if is_streams else "none"


def _look(label: str) -> dict[str, Any]:
    return field_look(label, 88, 250)


def _chosen(control: Dropdown) -> Any:
    return None if control.value == _NONE else control.value


def _typed(label: str, placeholder: str) -> Text:
    # Each letter would be a search of its own.
    return Text(placeholder=placeholder, continuous_update=False, **_look(label))


def _offer(control: Dropdown, first: str, others: Sequence[tuple[str, Any]]) -> None:
    options = ((first, _NONE), *others)
    if tuple(control.options) != options:
        kept = control.value
        control.options = options
        if kept in [value for _, value in others]:
            control.value = kept
    control.layout.display = "" if len(others) > 1 else "none"


def _families(store: OpenedStore) -> list[str]:
    if isinstance(store, SparkStore):
        return list(store.families)
    if isinstance(store, SegmentedStore):
        return list(store.segments.largest()[1].column_families)
    return list(getattr(store, "column_families", ()))


_END_SECONDS = 10
_NAMED = 3  # how many of the parts that are left out are named


class StoreRows(VBox):  # type: ignore[misc] # ipywidgets carries no types
    """The rows of one store at a time; one that is given was opened, and is closed, elsewhere.

    ``on_shown`` is given the folder of the store whose rows are shown, in the thread that reads
    them, the store, None if it could not be opened, and what says whether another is wanted by now.
    """

    def __init__(
        self,
        given: OpenedStore | None,
        on_shown: Callable[[str, OpenedStore | None, Callable[[], bool]], object],
    ) -> None:
        self._on_shown, self._reading = on_shown, _Reading(given)
        self.path: str | None = None
        self._wanted: _Wanted | None = None
        self._number, self._is_quiet = 0, False
        self.said, self.shown = Shown(), Shown()
        self._newest, self.controls = Newest(self.said.say), _Controls(self.turn)
        for control in self.controls.asking():
            control.observe(self._change, "value")
        self.controls.raw.observe(self._redraw, "value")
        reading, asking, paging = (wrapping(*each) for each in self.controls.rows())
        super().__init__([reading, asking, self.said, self.shown, paging])

    @property
    def page(self) -> list[Cells]:
        """The rows on the present page as the texts that are shown, by column."""
        pages = self._reading.pages
        return [] if pages is None else pages.read(self._number)

    @property
    def store(self) -> OpenedStore | None:
        """The store that is open."""
        return self._reading.store

    @property
    def told(self) -> str:
        """Which rows are shown: ``"rows 21 to 40, and more"``; empty if none are."""
        rows, first = self.page, self._number * _PAGE_ROWS + 1
        more = "" if self.controls.next.disabled else ", and more"
        return f"rows {first:,} to {first + len(rows) - 1:,}{more}" if rows else ""

    def show(self, path: str) -> None:
        """Show the rows of a store, and forget what was asked of the one before."""
        self.path, self._wanted = path, None
        self._is_quiet = True
        self.controls.anew()
        self._hear()

    def forget(self) -> None:
        """Show nothing, and close the store."""
        self.path = self._wanted = None
        self._newest.ask(self._reading.close)
        for shown in (self.said, self.shown):
            shown.put(Html())

    def search(self, text: str, *, prefix: bool) -> None:
        """Show the rows of a key, or those whose keys begin so."""
        self._is_quiet = True
        self.controls.by.value, self.controls.sought.value = prefix, text
        self._hear()

    def read_as(self, **told: Any) -> None:
        """Read the rows otherwise."""
        self.controls.tell(**told)
        self._change()

    def turn(self, by: int) -> None:
        """Turn so many pages on, if there is such a page."""
        wanted, pages, number = self._wanted, self._reading.pages, self._number + by
        if wanted is not None and pages is not None and number >= 0 and pages.has(number):
            self._ask(wanted, number)

    def refresh(self) -> None:
        """Show the same page of what is in the store by now: it is opened anew."""
        wanted, number = self._wanted, self._number
        if wanted is not None:
            self._newest.ask(lambda: self._show_anew(wanted, number))

    def opening(self) -> Callable[[ExitStack], OpenedStore] | None:
        """Return what opens the store that is wanted once more; None if none is."""
        wanted = self._wanted
        return None if wanted is None else lambda held: self._reading.opened_anew(wanted, held)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until what was asked for is shown, not longer than told."""
        self._newest.wait(seconds)

    def stop(self) -> None:
        """Read no more, and close the store."""
        self.path = self._wanted = None
        self._newest.ask(self._reading.close)
        if self._newest.wait(_END_SECONDS):  # else its thread closes the store, once it is done
            self._newest.stop()

    def _hear(self) -> None:
        """Hear again what is done to the controls, and what was done meanwhile."""
        self._is_quiet = False
        self._change()

    def _change(self, _: object = None) -> None:
        if self._is_quiet or self.path is None:
            return
        wanted = self.controls.wanted(self.path)
        if wanted != self._wanted:
            self._ask(wanted, 0)

    def _ask(self, wanted: _Wanted, number: int) -> None:
        self._wanted, self._number = wanted, number
        self._newest.ask(lambda: self._show(wanted, number))

    def _show_anew(self, wanted: _Wanted, number: int) -> None:
        self._reading.close()
        self._show(wanted, number)

    def _show(self, wanted: _Wanted, number: int) -> None:
        """Show a page of a store; in a thread."""

        def is_stale() -> bool:
            return (self._wanted, self._number) != (wanted, number)

        self.said.say("Reading …")
        with self.said.telling():
            pages = self._reading.begin(wanted)
            pages.come_to(number, is_stale)
            self._say_left_out()
        if not is_stale():
            self._redraw()
            self._is_quiet = True
            self.controls.choices_of(self.store)
            self._hear()
            self._on_shown(wanted.path, self.store, is_stale)

    def _redraw(self, _: object = None) -> None:
        pages, rows, controls = self._reading.pages, self.page, self.controls
        controls.previous.disabled = self._number == 0
        controls.next.disabled = pages is None or not pages.has(self._number + 1)
        if rows:
            self.shown.put(_page_html(rows, f"{self.told.capitalize()}.", raw=controls.raw.value))
        elif pages is None:
            self.shown.put(Html())
        else:
            self.shown.say("No such rows." if controls.sought.value else "It has no rows.")

    def _say_left_out(self) -> None:
        """Say what of the store is not among the rows, as far as it has come to light."""
        parts = [*getattr(self.store, "left_out", ())]
        told = " ".join(f"{each.path.name}: {each.why.rstrip('.')}." for each in parts[:_NAMED])
        more = f" And {len(parts) - _NAMED} more." if len(parts) > _NAMED else ""
        if parts:
            self.said.say(f"{counted(len(parts), 'parts')} left out. {told}{more}")
        else:
            self.said.put(Html())


class _StoppedError(KstoolkitError):
    """Nobody wants the rows any more."""


class _StoppableSource:
    """A source of rows that asks, between some thousands of them, whether to end."""

    def __init__(self, whole: Any, is_stopped: Callable[[], bool]) -> None:
        self._whole, self._is_stopped = whole, is_stopped

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        for rows in self._whole.read(asked):
            if self._is_stopped():
                message = f"{self._whole.name} is not read any further."
                raise _StoppedError(message)
            yield rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


class StoreGrowth(VBox):  # type: ignore[misc] # ipywidgets carries no types
    """A button, and the verdict on the store that somebody wants measured.

    ``opening`` returns what opens the store, held by the ExitStack that it is given, and nobody
    else's; or None, as long as there is no store.
    """

    def __init__(self, opening: Callable[[], Callable[[ExitStack], OpenedStore] | None]) -> None:
        self.growth: Growth | None = None
        self._opening, self._turn = opening, 0
        self.shown = Shown()
        self._background = Background(self.shown.say)
        self.button = button("Growth", "Why the store does not shrink", self.measure)
        super().__init__([self.button, self.shown])

    def measure(self) -> None:
        """Begin to measure, unless something is being measured."""
        opened = self._opening()
        if opened is None:
            self.shown.say("Choose a store first.")
            return
        turn = self._turn
        self._background.start(lambda stop: self._measure(opened, stop, turn))

    def forget(self) -> None:
        """Show nothing, and let what is being measured be: another store is looked at."""
        self._turn += 1
        self.growth = None
        self.shown.put(Html())

    def wait(self) -> None:
        """Wait until it is measured."""
        self._background.wait()

    def stop(self) -> None:
        """Measure no further, and never again."""
        self._background.close()

    def _measure(self, opened: Callable[[ExitStack], OpenedStore], stop: Event, turn: int) -> None:
        def is_stopped() -> bool:
            return stop.is_set() or self._turn != turn

        if not is_stopped():
            self.shown.say("Reading all rows …")
        with ExitStack() as held:
            store: Any = opened(held)
            store.source = _StoppableSource(store.source, is_stopped)
            try:
                found = growth(store)
            except _StoppedError:
                return
        if not is_stopped():
            self.growth = found
            self.shown.put(element("ol", *(element("li", each) for each in found.verdict)))
