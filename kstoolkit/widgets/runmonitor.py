"""A run as it goes: how fast, how far behind, what its state takes; and a button to stop it."""

from __future__ import annotations

import time
from collections import deque
from threading import Condition, Event, RLock
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, KstoolkitError
from kstoolkit.markup import shortened
from kstoolkit.pipeline.run import sampled_letters
from kstoolkit.pipeline.status import RunState, RunWatch
from kstoolkit.views.findings import People
from kstoolkit.views.parts import badge, buttons, field, form, said, sentence
from kstoolkit.views.runs import figures, letters, samples, tiles
from kstoolkit.widgets.panel import Background, Face, Panel

if TYPE_CHECKING:
    from kstoolkit.findings.incidents import Incident
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.status import RunStatus
    from kstoolkit.views.parts import Part

_COLUMNS = (
    ("badge", "every", "buttons", "said", "tiles", "figures"),
    ("people", "incident", "letters", "samples"),
)
_LOOK, _STOP, _KEEP = "look", "stop", "keep"
_TICK_SECONDS = 0.1
_CONFIRM_SECONDS = 10.0
_READING_SHARE = 0.1
"""How much of the time reading incidents may take, as it takes that from the notebook's cells."""
_MOST_SAMPLES, _MOST_LAGS = 20, 300
_LEAST_SECONDS, _MOST_SECONDS = 0.2, 3600.0


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
        self._wanted, self._looks = Event(), Condition()
        self._begun = self._shown = 0
        self._lags: deque[tuple[int, int]] = deque(maxlen=_MOST_LAGS)
        self._people: People | None = None
        self._chosen: Incident | None = None
        self._opened: str | None = None  # the reason whose dead letters are shown
        self._read_at, self._rests_until = -1, 0.0
        self._lock = RLock()
        self.face = Face(_COLUMNS, self._heard)
        self._looking, self._stopping = Background(self._say), Background(self._say)
        self._every = seconds
        name = shortened(run.folder.path.name, 60)
        super().__init__(f"Run {name}", [self.face], lambda: self.face.still(self._status))
        self.on_close(self._stopping.close)
        self.on_close(self._looking.close)
        self._say("Reading how the run stands …")
        self._offer()
        self._looking.start(self._keep_looking)

    def _await_look(self, seconds: float) -> None:
        with self._looks:
            self._looks.wait_for(lambda: self._shown > 0, seconds)

    def _say(self, sentence: str) -> None:
        self.face.say("said", sentence)

    def _offer(self) -> None:
        stopped = self._status is not None and self._status.state is RunState.STOPPED
        ended = self._run.query is None or stopped or self._stopping.is_busy
        stop = {"name": _STOP, "label": "Stop the run", "title": "End it; it can be started again"}
        every = field("every", "Look every, s", f"{self._every:g}")
        self.face.put("every", {} if self._has_ended() else form("Looks", every))
        made: list[Part] = [{"name": _LOOK, "label": "Look now", "title": "Look without waiting"}]
        made.append(stop | {"disabled": ended})
        if self._asked_at is not None:
            made[-1] = stop | {"label": "Really stop it"}
            made.append({"name": _KEEP, "label": "Keep counting", "title": "Do not stop it"})
        self.face.put("buttons", buttons("The run", *made))

    def _heard(self, told: dict[str, Any]) -> None:
        name, what = told.get("pressed", ("", None))
        with self._lock:
            if "chosen" in told and self._people and self._people.has(*told["chosen"][1:]):
                self.face.mark(*told["chosen"][:2])
                self._tell(told["chosen"][1])
            elif "field" in told:
                with self.face.telling("said"):
                    self.set(_seconds(told["field"][2]))
            elif name == "letters":
                self._open(str(what))
            elif what == _LOOK:
                self._wanted.set()
            elif what == _STOP:
                self._ask_or_stop()
            elif what == _KEEP:
                self._keep_counting()

    def _open(self, reason: str) -> None:
        """Show some dead letters of a reason as they came, or none if they are shown."""
        counts = {} if self._status is None else self._status.dead_letters
        self._opened = None if reason == self._opened else reason
        self.face.put("samples", {})
        self.face.put("letters", letters(counts, self._opened))
        if self._opened is not None:
            with self.face.telling("samples"):
                number, out = counts.get(reason, 0), self._run.folder.path
                found = sampled_letters(out, {reason: number}, _MOST_SAMPLES)
                self.face.put("samples", samples(number, found))

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
        if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
            message = f"{seconds:g} seconds between two looks are not from 0.2 to 3,600."
            raise ConfigurationError(message, hint="Give 2, for example.")
        self._every = seconds
        self._wanted.set()
        self._offer()

    def stop(self) -> None:
        """Stop the run, without asking; wait for it with :meth:`wait`."""
        if self._run.query is None:
            self._say("Only the process that counts can stop this run.")
            return
        if self.is_closed:
            self._run.stop()
            return
        self._asked_at = None
        self._say("Stopping: the micro-batch that runs comes to its end …")
        self._stopping.start(self._stop)
        self._offer()

    def wait(self) -> None:
        """Wait until a run that is being stopped has ended."""
        self._stopping.wait()

    def _stop(self, _: Event) -> None:
        self._run.stop()
        self._say("Stopped. Started again, it goes on from the last whole batch.")
        self._wanted.set()

    def _ask_or_stop(self) -> None:
        if self._asked_at is not None:
            self.stop()
            return
        self._asked_at = time.monotonic()
        self._say("Stop the run? Press once more to stop it.")
        self._offer()

    def _keep_counting(self) -> None:
        self._asked_at = None
        self._say("")
        self._offer()

    def _keep_looking(self, stop: Event) -> None:
        while not stop.is_set():
            is_wanted = self._wanted.is_set()
            self._wanted.clear()
            self._begun += 1
            try:
                self._run.folder.check()
                status = self._watch.look()
                self._show(status)
                self._read_incidents(status, is_wanted=is_wanted)
            except (KstoolkitError, OSError) as error:  # the next look may be a better one
                self._failed = True
                self._say(f"This look failed, and older figures are shown: {error}")
            with self._looks:
                self._shown = self._begun
                self._looks.notify_all()
            if self._has_ended():
                return
            self._rest(stop)

    def _rest(self, stop: Event) -> None:
        """Wait for the next look: its time, or that somebody wants one."""
        end = time.monotonic() + self._every
        while time.monotonic() < end and not self._wanted.is_set():
            if stop.wait(_TICK_SECONDS):
                return
            asked_at = self._asked_at
            if asked_at is not None and time.monotonic() > asked_at + _CONFIRM_SECONDS:
                self._keep_counting()

    def _has_ended(self) -> bool:
        ended = {RunState.STOPPED, RunState.FAILED}
        return self._status is not None and self._status.state in ended

    def _show(self, status: RunStatus) -> None:
        is_first, self._status = self._status is None, status
        if self._failed or is_first:
            self._failed = False
            self._say("")
        if status.state is RunState.STOPPED:
            self._asked_at = None
        if status.state is RunState.FAILED:
            self._say(f"{self._run.failure()} Stop the run to let go of its folder.")
        if status.lag_ms is not None:
            self._lags.append((status.at_ms, status.lag_ms))
        with self._lock, self.face.hold_sync():  # all of it in one message
            self.face.put("badge", badge(status.state, status.state.name.lower()))
            self.face.put("tiles", tiles(status, self._lags))
            self.face.put("figures", figures(status))
            self.face.put("letters", letters(status.dead_letters, self._opened))
            self._offer()

    def _read_incidents(self, status: RunStatus, *, is_wanted: bool) -> None:
        """Show incidents as they are, if a batch has ended since; the one that is told stays."""
        began = time.monotonic()
        rests = began < self._rests_until and not (is_wanted or self._has_ended())
        if rests or status.num_batches == self._read_at:
            return
        with self.face.telling("people"):  # marks that make no sense hide no figures
            people = People(self._run.incidents()) if status.findings else None
            table = people.table() if people else said("No incident so far.")
            self._read_at, took = status.num_batches, time.monotonic() - began
            self._rests_until = began + took / _READING_SHARE
            with self._lock, self.face.hold_sync():
                row = people.row_of(self._chosen) if people and self._chosen else None
                self._people, self.face.chosen = people, {}  # the table tells: its rows are others
                self.face.put("people", table | {"chosen": row})
                self._tell(row)

    def _tell(self, row: int | None) -> None:
        """Tell the foremost incident of a row of the table."""
        of = self._people
        self._chosen = told = of.of(row)[0] if of and row is not None and row < len(of) else None
        self.face.put("incident", sentence(told.sentence, told.who, told.peak.what) if told else {})

    def __repr__(self) -> str:
        told = "not looked at yet" if self._status is None else repr(self._status)[10:-1]
        return f"RunMonitor({told})"


def _seconds(typed: str) -> float:
    try:
        return float(typed)
    except ValueError as error:
        message = f"{typed!r:.40} is no number of seconds."
        raise ConfigurationError(message, hint="Write 2, or 0.5.") from error
