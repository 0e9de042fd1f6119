"""Rows of a store in pages, as some controls want them, read beside the kernel's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipywidgets import HBox, VBox

from kstoolkit.errors import KstoolkitError
from kstoolkit.markup import Html
from kstoolkit.records import counted
from kstoolkit.widgets.newest import Newest
from kstoolkit.widgets.showing import Shown
from kstoolkit.widgets.storecontrols import StoreControls
from kstoolkit.widgets.storepages import page_html
from kstoolkit.widgets.storereading import PAGE_ROWS, StoreReading

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.widgets.storepages import Cells
    from kstoolkit.widgets.storereading import Wanted


_END_SECONDS = 10
_NAMED = 3
"""How many of the parts that are left out are named."""


class StoreRows(VBox):  # type: ignore[misc] # ipywidgets carries no types
    """The rows of one store at a time.

    Parameters
    ----------
    given
        A store that somebody else opened, and closes; None: there is none.
    on_shown
        Is given the store whose rows are shown, in the thread that reads them, its folder, and what
        says whether another one is wanted by now; the store is None if it could not be opened.

    Examples
    --------
    >>> rows = StoreRows(None, print)
    >>> rows.page, rows.path
    ([], None)
    >>> rows.stop()
    >>> rows.close()
    """

    def __init__(
        self,
        given: OpenedStore | None,
        on_shown: Callable[[str, OpenedStore | None, Callable[[], bool]], object],
    ) -> None:
        self._on_shown, self._reading = on_shown, StoreReading(given)
        self.path: str | None = None
        self._wanted: Wanted | None = None
        self._number, self._is_quiet = 0, False
        self.said, self.shown = Shown(), Shown()
        self._newest, self.controls = Newest(self._tell), StoreControls()
        for control in self.controls.asking():
            control.observe(self._change, "value")
        self.controls.raw.observe(self._redraw, "value")
        self.controls.next.on_click(lambda _: self.turn(1))
        self.controls.previous.on_click(lambda _: self.turn(-1))
        reading, asking, paging = (HBox(each) for each in self.controls.rows())
        for row in (reading, asking, paging):
            row.add_class("kst-wraps")
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
        rows, first = self.page, self._number * PAGE_ROWS + 1
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
        self.controls.search(text, prefix=prefix)
        self._hear()

    def read_as(self, **told: Any) -> None:
        """Read the rows otherwise.

        Raises
        ------
        ConfigurationError
            If there is no such choice.
        """
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

    def _ask(self, wanted: Wanted, number: int) -> None:
        self._wanted, self._number = wanted, number
        self._newest.ask(lambda: self._show(wanted, number))

    def _show_anew(self, wanted: Wanted, number: int) -> None:
        self._reading.close()
        self._show(wanted, number)

    def _show(self, wanted: Wanted, number: int) -> None:
        """Show a page of a store; in a thread."""

        def is_stale() -> bool:
            return (self._wanted, self._number) != (wanted, number)

        self.said.say("Reading …")
        try:
            if self._reading.wanted != wanted:
                self._reading.begin(wanted)
            self._reading.page(number, is_stale)
            self._say_left_out()
        except KstoolkitError as error:
            self._tell(str(error))
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
            self.shown.put(page_html(rows, f"{self.told.capitalize()}.", raw=controls.raw.value))
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
            self._tell(f"{counted(len(parts), 'parts')} left out. {told}{more}")
        else:
            self.said.put(Html())

    def _tell(self, why: str) -> None:
        self.said.say(" ".join(why.splitlines()))
