"""One counting from the command line: waited for, told, and ended as a terminal expects.

What is counted is a :class:`~kstoolkit.pipeline.pipeline.Pipeline`, and what comes of it a
:class:`~kstoolkit.pipeline.run.Run`: this has no record of its own. It loads Spark;
:mod:`kstoolkit.cli.run`, which says what can be asked for, does not.
"""

from __future__ import annotations

import shlex
import signal
import socketserver
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli import terminal
from kstoolkit.cli.results import nothing_found
from kstoolkit.cli.terminal import Terminated, asked_to_stop, note, say, say_lines
from kstoolkit.errors import InputError, RunFailed, local_folder
from kstoolkit.events.topics import Topic
from kstoolkit.pipeline.failure import Restart
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder, newest_commit
from kstoolkit.units import format_count, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.pipeline.pipeline import Pipeline

_EVERY_SECONDS = 2.0
_LEAST_SECONDS, _TRIGGERS = 300.0, 10
_TOP = 5
_LOOK_SECONDS = 0.5
_GO_ON = "The same command goes on from here."


class _AliveFile:
    """Touches a file while a run is well: it rests, or ended a batch not long ago.

    That is ten triggers, and five minutes at least.
    """

    def __init__(self, path: str, trigger: str) -> None:
        self._path = Path(path)
        self._well_seconds = max(_LEAST_SECONDS, _TRIGGERS * parse_duration(trigger) / 1_000)
        self._batch: int | None = None
        self._ended = time.monotonic()
        self._due = self._ended

    def look(self, run: Run) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_SECONDS
        batch = newest_commit(run.folder.checkpoint)
        if batch != self._batch or run.rests:
            self._batch, self._ended = batch, now
        if now - self._ended <= self._well_seconds:
            try:
                self._path.touch()
            except OSError as error:
                message = f"The alive file {str(self._path)!r} can't be written: {error.strerror}."
                raise InputError(message, hint="Give another --alive-file.") from error


def events_before(out: str) -> int | None:
    """Return how many events earlier runs counted into a folder; ``None`` if there was none."""
    run = Run(RunFolder.at(out))
    return None if run.folder.settings() is None else run.summary().events


def finish(
    pipeline: Pipeline, out: str, *, metrics_port: int | None, progress: bool, **limits: Any
) -> Run:
    """Run to the end of the input, and return the run; ``limits`` are as :meth:`Pipeline.run`'s."""
    _quieten_pyspark()
    words = f"Stopped; nothing is lost. {_GO_ON}"
    serving = _serving(pipeline, out, metrics_port, progress=progress)
    with serving, _interruptible(terminal.INTERRUPTED, words):
        return pipeline.run(out, progress=progress, **limits)


def follow(
    pipeline: Pipeline,
    out: str,
    trigger: str,
    *,
    metrics_port: int | None,
    progress: bool,
    restarts_per_hour: int | None,
    alive_file: str | None,
    **limits: Any,
) -> Run:
    """Keep counting what arrives until SIGINT or SIGTERM comes, and return the run."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # while it starts, both do alike
    _quieten_pyspark()
    restart = False if restarts_per_hour is None else Restart(most_per_hour=restarts_per_hour)
    with _serving(pipeline, out, metrics_port, progress=progress):
        with _interruptible(0, f"Stopped before it began. {_GO_ON}"):
            run = pipeline.start(out, trigger=trigger, progress=progress, restart=restart, **limits)
        with asked_to_stop() as asked:
            try:
                alive = None if alive_file is None else _AliveFile(alive_file, trigger)
                while not asked.wait(_LOOK_SECONDS):
                    if not run.is_active and not asked.is_set():
                        ended = RunFailed("The run has ended by itself.", hint=_GO_ON)
                        raise run.failure() or ended
                    if alive is not None:
                        alive.look(run)
            finally:
                run.stop()
    note(f"Stopped. {_GO_ON}")
    return run


@contextmanager
def _serving(pipeline: Pipeline, out: str, port: int | None, *, progress: bool) -> Iterator[None]:
    """Serve the run's figures meanwhile, if that is asked for, and say where."""
    if port is None:
        yield
        return
    source = pipeline.source
    options = source.options if isinstance(source, Topic) else None
    with Run(RunFolder.at(out)).serve_metrics(port, options=options) as server:
        if progress or not port:  # nobody else could say which port was free
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
        code = terminal.TERMINATED if isinstance(stopped, Terminated) else code
        raise typer.Exit(code) from None


def _quieten_pyspark() -> None:
    """Print nothing where pyspark's own server would print a traceback, when Java ends first."""
    socketserver.BaseServer.handle_error = lambda *_: None  # type: ignore[method-assign]


def _interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the Ctrl-C that it came of, even if stopping Spark met with an error of its own."""
    seen: set[int] = set()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        if id(error) in seen:  # errors may be each other's causes
            return None
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return error


def tell(run: Run, out: str, events_before: int | None) -> None:
    """Print what a run came to, its foremost incidents, and what to type next."""
    summary = run.summary()
    say_lines(str(summary))
    if events_before:
        say()
        events = summary.events - events_before
        new = f"{format_count(events)} of the events are new; the rest was counted before."
        say(new if events else "No events were added: every file there had been counted before.")
    say()
    found = run.incidents()
    say(_heading(len(found), summary.unjudged))
    for number, incident in enumerate(found.top(_TOP), start=1):
        say(f"{number:>2}. {incident.sentence}")
    say()
    say("Next:")
    steps = _next_steps(run, out)
    width = max(len(command) for command, _ in steps)
    for command, what in steps:
        say(f"  {command:<{width}}  {what}")


def _heading(found: int, unjudged: int) -> str:
    if not found:
        return nothing_found(unjudged)
    if found <= _TOP:
        return "Found:"
    return f"Found (of {format_count(found)} incidents, the {_TOP} that most deserve a look):"


def _next_steps(run: Run, out: str) -> list[tuple[str, str]]:
    name = shlex.quote(out)
    window = shlex.quote(run.settings.windows[len(run.settings.windows) // 2])
    html = shlex.quote(str(local_folder(out) / "report.html"))
    return [
        (f"kstoolkit incidents {name}", "what was found, each story once"),
        (f"kstoolkit users {name}", "who to look at, most abnormal first"),
        (f"kstoolkit counts {name} --window {window}", "the counts"),
        (f"kstoolkit report {name} --html {html}", "all of it to read, print and share"),
    ]
