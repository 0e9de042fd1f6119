"""One counting from the command line: made, waited for, told, and ended as a terminal expects.

It loads Spark; :mod:`kstoolkit.cli.run`, which says what can be asked for, does not.
"""

from __future__ import annotations

import shlex
import signal
import socketserver
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli.results import say_findings
from kstoolkit.cli.terminal import INTERRUPTED, TERMINATED, Terminated, note, say
from kstoolkit.errors import InputError
from kstoolkit.events.topics import Topic
from kstoolkit.pipeline.failure import Restart
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder, newest_commit
from kstoolkit.units import format_count, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from kstoolkit.pipeline.pipeline import Pipeline


_EVERY_SECONDS = 2.0
_LEAST_SECONDS, _TRIGGERS = 300.0, 10


class AliveFile:
    """Touches a file while batches end.

    Parameters
    ----------
    path
        The file; it is made.
    trigger_ms
        How often a batch begins: the run is well for ten times that after one ended, and for five
        minutes in any case.
    """

    def __init__(self, path: Path, trigger_ms: int) -> None:
        self._path = path
        self._well_seconds = max(_LEAST_SECONDS, _TRIGGERS * trigger_ms / 1_000)
        self._batch: int | None = None
        self._ended = time.monotonic()
        self._due = self._ended

    def look(self, run: Run) -> None:
        """Touch the file if it is time to, and the run is well.

        Raises
        ------
        InputError
            If the file can't be written.
        """
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_SECONDS
        batch = newest_commit(run.folder.checkpoint)
        if batch != self._batch:
            self._batch, self._ended = batch, now
        if now - self._ended <= self._well_seconds:
            self._touch()

    def _touch(self) -> None:
        try:
            self._path.touch()
        except OSError as error:
            message = f"The alive file {str(self._path)!r} can't be written: {error.strerror}."
            raise InputError(message, hint="Give another --alive-file.") from error


_TOP = 5
_LOOK_SECONDS = 0.5
_GO_ON = "The same command goes on from here."


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A pipeline to run, and how.

    Parameters
    ----------
    pipeline, out
        What, and the output folder.
    master, max_files_per_batch
        As the pipeline's own verbs take them.
    shown
        Whether to show progress on stderr.
    metrics_port
        Where to serve the run's figures meanwhile; 0 is any port that is free, ``None`` none.
    restarts_per_hour
        How often what died is started again within an hour; ``None`` for not at all.
    alive_file
        What is touched while a run without an end is well.
    """

    pipeline: Pipeline
    out: str
    master: str | None
    max_files_per_batch: int | None
    shown: bool
    metrics_port: int | None = None
    restarts_per_hour: int | None = None
    alive_file: str | None = None

    def events_before(self) -> int | None:
        """Return how many events earlier runs counted; ``None`` if there was none."""
        run = self._run()
        return None if run.folder.settings() is None else run.summary().events

    def finish(self) -> Run:
        """Run to the end of the input, and return the run.

        Raises
        ------
        typer.Exit
            If Ctrl-C stopped it.
        """
        _quieten_pyspark()
        words = f"Stopped; nothing is lost. {_GO_ON}"
        with self._serving(), _interruptible(INTERRUPTED, words):
            return self.pipeline.run(
                self.out,
                master=self.master,
                max_files_per_batch=self.max_files_per_batch,
                progress=self.shown,
            )

    def follow(self, trigger: str) -> Run:
        """Keep counting what arrives until SIGINT or SIGTERM comes, and return the run.

        Raises
        ------
        typer.Exit
            If it was stopped before it began.
        KstoolkitError
            Why it can't go on.
        """
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # while it starts, both do alike
        _quieten_pyspark()
        with self._serving():
            with _interruptible(0, f"Stopped before it began. {_GO_ON}"):
                run = self.pipeline.start(
                    self.out,
                    trigger=trigger,
                    master=self.master,
                    max_files_per_batch=self.max_files_per_batch,
                    progress=self.shown,
                    restart=_restart(self.restarts_per_hour),
                )
            try:
                _wait(run, self._alive(trigger))
            finally:
                run.stop()
        note(f"Stopped. {_GO_ON}")
        return run

    def _alive(self, trigger: str) -> AliveFile | None:
        if self.alive_file is None:
            return None
        return AliveFile(Path(self.alive_file), parse_duration(trigger))

    def _run(self) -> Run:
        """Return the run as its folder has it."""
        return Run(RunFolder(Path(self.out).absolute()))

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """Serve the run's figures meanwhile, if that is asked for, and say where."""
        if self.metrics_port is None:
            yield
            return
        source = self.pipeline.source
        options = source.options if isinstance(source, Topic) else None
        with self._run().serve_metrics(self.metrics_port, options=options) as server:
            if self.shown or not self.metrics_port:  # nobody else could say which port was free
                note(f"Metrics: {server.url}")
            yield


@contextmanager
def _interruptible(code: int, words: str) -> Iterator[None]:
    """Say something and end with a code if Ctrl-C comes, whatever Spark makes of it."""
    try:
        yield
    except BaseException as error:
        stopped = _interruption(error)
        if stopped is None:
            raise
        note(words)
        raise typer.Exit(TERMINATED if isinstance(stopped, Terminated) else code) from None


def _quieten_pyspark() -> None:
    """Print nothing where pyspark's own server would print a traceback, when Java ends first."""
    socketserver.BaseServer.handle_error = _pass_over  # type: ignore[method-assign]


def _pass_over(*_: Any, **__: Any) -> None:
    pass


def _interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the Ctrl-C that it came of, even if stopping Spark met with an error of its own."""
    seen: set[int] = set()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        if id(error) in seen:  # errors may be each other's causes
            return None
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return error


def _restart(per_hour: int | None) -> Restart | bool:
    return False if per_hour is None else Restart(most_per_hour=per_hour)


def _wait(run: Run, alive: AliveFile | None) -> None:
    """Wait until somebody asks a live run to stop; who asks twice does not wait for the batch."""
    asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, ask)
    while not asked.wait(_LOOK_SECONDS):
        if not run.is_active and not asked.is_set():
            raise run.failure()
        if alive is not None:
            alive.look(run)


def tell(run: Run, out: str, events_before: int | None) -> None:
    """Print what a run came to, its foremost findings, and what to type next."""
    summary = run.summary()
    for line in str(summary).splitlines():
        say(line)
    if events_before:
        say()
        say(_added(summary.events - events_before))
    say()
    found = run.findings
    say(_heading(len(found)))
    say_findings(found, _TOP)
    say()
    say("Next:")
    steps = _next_steps(run, out)
    width = max(len(command) for command, _ in steps)
    for command, what in steps:
        say(f"  {command:<{width}}  {what}")


def _added(events: int) -> str:
    if not events:
        return "No events were added: every file there had been counted before."
    return f"{format_count(events)} of the events are new; the rest was counted before."


def _heading(found: int) -> str:
    if not found:
        return "Nothing was found: no count breaks a rule."
    if found <= _TOP:
        return "Found:"
    return f"Found (the {_TOP} that most deserve a look, of {format_count(found)}):"


def _next_steps(run: Run, out: str) -> list[tuple[str, str]]:
    name = shlex.quote(out)
    window = shlex.quote(run.settings.windows[len(run.settings.windows) // 2])
    html = shlex.quote(str(Path(out) / "report.html"))
    return [
        (f"kstoolkit findings {name}", "what was found"),
        (f"kstoolkit users {name}", "who to look at, most abnormal first"),
        (f"kstoolkit counts {name} --window {window}", "the counts"),
        (f"kstoolkit report {name} --html {html}", "all of it to read, print and share"),
    ]
