"""A course of time to go through: a slider, and a button that goes on step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipywidgets import Button, HBox, SelectionSlider

from kstoolkit.widgets.background import Background

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

__all__ = ["Replay"]

_STEP_SECONDS = 0.25


class Replay(HBox):  # type: ignore[misc] # ipywidgets carries no types
    """A slider over times, and a button that plays them.

    Parameters
    ----------
    show
        Called after each step; in a thread while it plays.
    tell
        Takes a sentence for the user: why playing failed.

    Examples
    --------
    >>> replay = Replay(lambda: None, print)
    >>> replay.take([0, 250, 500])
    >>> replay.at_ms
    500
    >>> replay.go_to(250)
    >>> replay.slider.label
    '0.25 s'
    >>> replay.close()
    """

    def __init__(self, show: Callable[[], object], tell: Callable[[str], object]) -> None:
        self._show = show
        self._player = Background(tell)
        self.slider = SelectionSlider(
            options=[("0.00 s", 0)], description="After", continuous_update=False
        )
        self.button = Button(description="Play", tooltip="Go through it step by step")
        self.button.on_click(lambda _: self.pause() if self.is_playing else self.play())
        self.slider.observe(self._stepped, "value")
        super().__init__([self.slider, self.button])
        self.add_class("kst-wraps")

    @property
    def at_ms(self) -> int:
        """The time that is chosen."""
        return int(self.slider.value)

    @property
    def is_playing(self) -> bool:
        """Whether it goes on by itself."""
        return self._player.is_busy

    def take(self, times_ms: Sequence[int]) -> None:
        """Take other times, and stand at the last of them; nothing is shown yet."""
        self.pause()
        self.slider.unobserve(self._stepped, "value")
        self.slider.options = [(f"{each / 1e3:.2f} s", each) for each in times_ms]
        self.slider.index = len(times_ms) - 1
        self.slider.observe(self._stepped, "value")

    def go_to(self, at_ms: int) -> None:
        """Go to the last step by a time."""
        times = [value for _, value in self.slider.options]
        self.slider.index = max(sum(each <= at_ms for each in times) - 1, 0)

    def play(self) -> None:
        """Go on step by step, from the first one if the last is shown."""
        if self._player.start(self._go_on):
            self.button.description = "Pause"

    def pause(self) -> None:
        """Stay at the step that is shown."""
        self._player.stop()
        self.button.description = "Play"

    def stop(self) -> None:
        """Stay at the step that is shown, for good."""
        self._player.close()

    def wait(self) -> None:
        """Wait until it has been played, ten seconds at most."""
        self._player.wait()

    def _stepped(self, _: object) -> None:
        self._show()

    def _go_on(self, stop: Event) -> None:
        last = len(self.slider.options) - 1
        if self.slider.index == last:
            self.slider.index = 0
        while self.slider.index < last and not stop.wait(_STEP_SECONDS):
            self.slider.index += 1
        self.button.description = "Play"
