"""A course of time to go through: a slider, and buttons that go on step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipywidgets import Button, HBox, Layout

from kstoolkit.widgets.background import Background
from kstoolkit.widgets.slider import Slider

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event


_STEP_SECONDS = 0.25


class Replay(HBox):  # type: ignore[misc] # ipywidgets carries no types
    """A slider over times, buttons that go a step on or back, and one that plays them.

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
    >>> replay.choice.label
    '0.25 s'
    >>> replay.step(-1)
    >>> replay.at_ms
    0
    >>> replay.close()
    """

    def __init__(self, show: Callable[[], object], tell: Callable[[str], object]) -> None:
        self._show = show
        self._player = Background(tell)
        look = {"layout": Layout(width="216px")}
        slider = Slider([("0.00 s", 0)], "After", look=look, continuous_update=False)
        self.choice = slider.choice
        self.button = _button("Play", "Go through it step by step")
        self.button.on_click(lambda _: self.pause() if self.is_playing else self.play())
        self.back, self.on = (
            _button(*told)
            for told in (("Step back", "The step before"), ("Step on", "The step after"))
        )
        self.back.on_click(lambda _: self.step(-1))
        self.on.on_click(lambda _: self.step(+1))
        self.choice.observe(self._stepped, "value")
        super().__init__([slider, self.back, self.on, self.button])
        self.add_class("kst-wraps")

    @property
    def at_ms(self) -> int:
        """The time that is chosen."""
        return int(self.choice.value)

    @property
    def is_playing(self) -> bool:
        """Whether it goes on by itself."""
        return self._player.is_busy

    def take(self, times_ms: Sequence[int]) -> None:
        """Take other times, and stand at the last of them; nothing is shown yet."""
        self.pause()
        self.choice.unobserve(self._stepped, "value")
        self.choice.options = [(f"{each / 1e3:.2f} s", each) for each in times_ms]
        self.choice.index = len(times_ms) - 1
        self.choice.observe(self._stepped, "value")

    def go_to(self, at_ms: int) -> None:
        """Go to the last step by a time."""
        times = [value for _, value in self.choice.options]
        self.choice.index = max(sum(each <= at_ms for each in times) - 1, 0)

    def step(self, by: int) -> None:
        """Go so many steps on, not beyond the last or the first; what plays is paused."""
        self.pause()
        last = len(self.choice.options) - 1
        self.choice.index = min(max(self.choice.index + by, 0), last)

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
        last = len(self.choice.options) - 1
        if self.choice.index == last:
            self.choice.index = 0
        while self.choice.index < last and not stop.wait(_STEP_SECONDS):
            self.choice.index += 1
        self.button.description = "Play"


def _button(name: str, tooltip: str) -> Button:
    return Button(description=name, tooltip=tooltip, layout=Layout(width="92px"))
