"""A run as it goes: how fast, how far behind, what its state takes; and a button to stop it."""

from __future__ import annotations

import time
from threading import Condition, Event, Lock
from typing import TYPE_CHECKING

from ipywidgets import BoundedFloatText

from kstoolkit.errors import KstoolkitError
from kstoolkit.markup import Html, shortened
from kstoolkit.pipeline.status import RunState, RunWatch
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

if TYPE_CHECKING:
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.status import RunStatus


_TICK_SECONDS = 0.1
_CONFIRM_SECONDS = 10.0
_DRAWING_SHARE = 0.1
"""How much of the time drawing may take, as it takes that from the notebook's cells."""
_SIZE_INCHES = (7.2, 3.5)
_LONGEST_FIGURE = 1_000
"""Characters: a sentence with the number of each reason for a dead letter, and there are ten."""
_LABELS = {"description_width": "initial"}


class RunMonitor(Panel):
    """Watch a run: events/s, where a batch's time goes, lag, what is late, what its state takes.

    A live run of this process can be stopped. Any other is watched by what lies in its folder, also
    while another process counts; what only that process knows is said to be unknown. Closing the
    panel does not stop the run. It is looked at every so many seconds.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.run import Run
    >>> from kstoolkit.pipeline.runfolder import RunFolder, Settings
    >>> folder = RunFolder(Path(tempfile.mkdtemp()))
    >>> folder.save(Settings(("1 hour",), 1, {}, "event", "files", 1, "[]", "events"))
    >>> with RunMonitor(Run(folder)) as monitor:
    ...     monitor.look()
    ...     monitor
    RunMonitor(not counting at present, 0 events in 0 batches)
    """

    def __init__(self, run: Run, *, seconds: float = 2.0) -> None:
        self._run, self._watch = run, RunWatch(run)
        self._status: RunStatus | None = None
        self._asked_at: float | None = None
        self._failed = False
        self._wanted, self._looks, self._showing = Event(), Condition(), Lock()
        self._begun = self._shown = 0
        self._drawn: RunStatus | None = None
        self._drawn_at = self._drawing_took = 0.0
        self._said, self._figures, self._plot = Shown(), Shown(), Shown()
        self._looking, self._stopping = Background(self._said.say), Background(self._said.say)
        self._make_controls(seconds)
        row = wrapping(self.every, self.again, self.button, self.keep)
        name = shortened(run.folder.path.name, 60)
        children = [row, self._said, self._figures, self._plot]
        super().__init__(f"Run {name}", children, self._static)
        self.on_close(self._stopping.close)
        self.on_close(self._looking.close)
        self._figures.say("Reading how the run stands …")
        self._looking.start(self._keep_looking)
        with self._looks:
            self._looks.wait_for(lambda: self._shown > 0, FIRST_LOOK_SECONDS)

    def _make_controls(self, seconds: float) -> None:
        self.every = BoundedFloatText(
            value=seconds, min=0.2, max=3600, step=0.5, description="Look every, s", style=_LABELS
        )
        self.every.tooltip = "Seconds between two looks"
        self.again = button("Look now", "Look without waiting", self._wanted.set)
        tip = "End it; it can be started again"
        self.button = button("Stop the run", tip, self._ask_or_stop)
        self.keep = button("Keep counting", "Do not stop it", self._keep_counting)
        self.keep.layout.display = "none"
        self.button.disabled = self._run.query is None
        self.every.observe(lambda _: self._wanted.set(), "value")

    @property
    def status(self) -> RunStatus | None:
        """The run as it stood at the last look; None before the first."""
        return self._status

    def look(self) -> None:
        """Look now, and wait until that is shown, ten seconds at most."""
        with self._looks:
            wanted = self._begun + 1
            self._wanted.set()
            if not self._has_ended() and not self.is_closed:
                self._looking.start(self._keep_looking)  # unless it still runs, as it should
                self._looks.wait_for(lambda: self._shown >= wanted or self._has_ended(), 10)

    def set(self, seconds: float) -> None:
        """Look so often from now on."""
        self.every.value = seconds

    def stop(self) -> None:
        """Stop the run, without asking; wait for it with :meth:`wait`."""
        if self._run.query is None:
            self._said.say("Only the process that counts can stop this run.")
            return
        if self.is_closed:
            self._run.stop()
            return
        self._settle()
        self.button.disabled = True
        self._said.say("Stopping: the micro-batch that runs comes to its end …")
        self._stopping.start(self._stop)

    def wait(self) -> None:
        """Wait until a run that is being stopped has ended."""
        self._stopping.wait()

    def _stop(self, _: Event) -> None:
        self._run.stop()
        self._said.say("Stopped. Started again, it goes on from the last whole batch.")
        self._wanted.set()

    def _ask_or_stop(self) -> None:
        if self._asked_at is not None:
            self.stop()
            return
        self._asked_at = time.monotonic()
        self.button.description, self.button.button_style = "Really stop it", "danger"
        self.keep.layout.display = ""
        self._said.say("Stop the run? Press once more to stop it.")

    def _keep_counting(self) -> None:
        self._settle()
        self._said.put(Html())

    def _settle(self) -> None:
        self._asked_at = None
        self.button.description, self.button.button_style = "Stop the run", ""
        self.keep.layout.display = "none"

    def _keep_looking(self, stop: Event) -> None:
        while not stop.is_set():
            is_wanted = self._wanted.is_set()
            self._wanted.clear()
            self._begun += 1
            try:
                self._run.folder.check()
                status = self._watch.look()
                with self._showing:
                    self._show(status, is_wanted=is_wanted)
            except (KstoolkitError, OSError) as error:  # the next look may be a better one
                self._failed = True
                self._said.say(f"This look failed, and older figures are shown: {error}")
            with self._looks:
                self._shown = self._begun
                self._looks.notify_all()
            if self._has_ended():
                return
            self._rest(stop)

    def _rest(self, stop: Event) -> None:
        """Wait for the next look: its time, or that somebody wants one."""
        end = time.monotonic() + self.every.value
        while time.monotonic() < end and not self._wanted.is_set():
            if stop.wait(_TICK_SECONDS):
                return
            asked_at = self._asked_at
            if asked_at is not None and time.monotonic() > asked_at + _CONFIRM_SECONDS:
                self._keep_counting()

    def _has_ended(self) -> bool:
        ended = {RunState.STOPPED, RunState.FAILED}
        return self._status is not None and self._status.state in ended

    def _show(self, status: RunStatus, *, is_wanted: bool) -> None:
        before, self._status = self._status, status
        if self._failed:
            self._failed = False
            self._said.put(Html())
        if status.state is RunState.STOPPED:
            self._settle()
            self.button.disabled = True
        if status.state is RunState.FAILED:
            self._said.say(f"{self._run.failure()} Stop the run to let go of its folder.")
        told = table_html(("what", "figure"), status.rows(), longest=_LONGEST_FIGURE)
        self._figures.put(told)
        is_new = before is None or before.state is not status.state
        rested = time.monotonic() - self._drawn_at
        if is_wanted or is_new or rested > self._drawing_took / _DRAWING_SHARE:
            self._draw(status)

    def _draw(self, status: RunStatus) -> None:
        began = time.monotonic()
        self._plot.draw(lambda ax: status.plot(ax=ax), _SIZE_INCHES)
        self._drawn = status
        self._drawn_at = time.monotonic()
        self._drawing_took = self._drawn_at - began

    def __repr__(self) -> str:
        told = "not looked at yet" if self._status is None else repr(self._status)[10:-1]
        return f"RunMonitor({told})"

    def _static(self) -> Html:
        with self._showing:  # figures and plot of one look
            if self._status is not None and self._drawn is not self._status:
                self._draw(self._status)
            return pictures(self._said, self._figures, self._plot)
