"""Why a store does not shrink, measured beside the kernel's thread at the press of a button."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ipywidgets import Button, VBox

from kstoolkit.markup import Html, element
from kstoolkit.widgets.background import Background
from kstoolkit.widgets.showing import Shown
from kstoolkit.widgets.stoppable import StoppableSource, StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from kstoolkit.stores.growth.growth import Growth
    from kstoolkit.stores.opening import OpenedStore


class StoreGrowth(VBox):  # type: ignore[misc] # ipywidgets carries no types
    """A button, and the verdict on the store that somebody wants measured.

    Parameters
    ----------
    opening
        Returns what opens the store, held by the ExitStack that it is given, and nobody else's; or
        None, as long as there is no store.

    Examples
    --------
    >>> measuring = StoreGrowth(lambda: None)
    >>> measuring.button.click()
    >>> measuring.shown.value
    '<p role="status">Choose a store first.</p>'
    >>> measuring.close()
    """

    def __init__(self, opening: Callable[[], Callable[[ExitStack], OpenedStore] | None]) -> None:
        self.growth: Growth | None = None
        self._opening, self._turn = opening, 0
        self.shown = Shown()
        self._background = Background(lambda why: self.shown.say(" ".join(why.splitlines())))
        self.button = Button(description="Growth", tooltip="Why the store does not shrink")
        self.button.on_click(lambda _: self.measure())
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
        from kstoolkit.stores.growth.growth import growth  # noqa: PLC0415 - at the press of a button

        with ExitStack() as held:
            store: Any = opened(held)
            store.source = StoppableSource(store.source, is_stopped)
            try:
                found = growth(store)
            except StoppedError:
                return
        if not is_stopped():
            self.growth = found
            self.shown.put(element("ol", *(element("li", each) for each in found.verdict)))
