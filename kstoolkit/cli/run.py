"""The main command: count events, judge the counts, say what was found.

The command that keeps a run alive, for whoever starts it once and looks no more.

A file whose time says that a run is well, for whoever watches processes by such files.

A pipeline run in a terminal: to the end of its input, or until somebody stops it.
"""

from __future__ import annotations

import inspect
import shlex
import signal
import socketserver
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from kstoolkit.cli.options import (
    AS_JSON_OBJECT,
    BLOCKS,
    CHANGELOG,
    FILE_FORMAT,
    FINDINGS_TO,
    GIVE_UP_AFTER,
    KAFKA_CONFIG,
    MAX_RECORDS,
    QUIET,
    SCHEMA,
    STARTING,
    TIME_UNIT,
    VALUE,
    Format,
    Unit,
    changelog_given,
    findings_given,
    topic_given,
)
from kstoolkit.cli.results import say_findings
from kstoolkit.cli.terminal import INTERRUPTED, TERMINATED, Terminated, note, print_json, say
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.topics import Topic
from kstoolkit.pipeline.failure import Restart
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder, newest_commit
from kstoolkit.units import format_count, parse_duration
from kstoolkit.windows import Cascade

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from kstoolkit.pipeline.pipeline import Pipeline


_TRIGGER = "10 seconds"


def run(
    source: str = typer.Argument(
        ...,
        metavar="INPUT",
        help="Events: a file, a folder (searched to the bottom) or a quoted glob; JSON lines, CSV "
        "or Parquet; plain, gzip or zstd. Or a topic: kafka://host:port/topic, read up to where it "
        "ends now.",
        show_default=False,
    ),
    *,
    event_time: str = typer.Option(
        ..., metavar="COLUMN", help="The time of an event: a column, or a Spark SQL expression."
    ),
    user: str = typer.Option(..., metavar="COLUMN", help="Who: a column, or an expression."),
    action: str = typer.Option(..., metavar="COLUMN", help="What: a column, or an expression."),
    out: str = typer.Option(
        ...,
        metavar="OUT",
        help="The output folder: new, empty, or an earlier run's. Then what is new in INPUT is "
        "added; a file counts once, by its path.",
    ),
    windows: str = typer.Option(
        "1 minute,1 hour,1 day",
        metavar="LENGTHS",
        help="Windows to count in, with commas between. Each length divides the next; '5 minutes "
        "every 1 minute' is one that hops.",
    ),
    rules: str | None = typer.Option(
        None,
        metavar="FILE",
        help="A TOML file of rules.  [default: unusual counts in an hour, 5 false alarms a day]",
        show_default=False,
    ),
    file_format: Format | None = FILE_FORMAT,
    time_unit: Unit | None = TIME_UNIT,
    max_files_per_batch: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="A micro-batch takes in no more files.  [default: 10000, and 256 MiB]",
        show_default=False,
    ),
    follow: bool = typer.Option(
        False, "--follow", help="Keep counting what arrives, until Ctrl-C.  [default: to the end]"
    ),
    trigger: str | None = typer.Option(
        None,
        metavar="DURATION",
        help="With --follow: how often a micro-batch begins.  [default: 10 seconds]",
        show_default=False,
    ),
    restarts_per_hour: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="With --follow: start again what dies, so often within an hour, then end with code "
        "75.  [default: don't; supervise: 5]",
        show_default=False,
    ),
    alive_file: str | None = typer.Option(
        None,
        metavar="FILE",
        help="With --follow: a file whose time is set anew every two seconds while batches end; "
        "five minutes without one (ten triggers, if that is longer), and it is left to age.  "
        "[default: no such file]",
        show_default=False,
    ),
    lateness: str | None = typer.Option(
        None,
        metavar="DURATION",
        help="How long after its end a window takes events.  [default: no end; with --follow, as "
        "long as it is retained]",
        show_default=False,
    ),
    retention: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="With --follow: how many windows of each length stay in state.  [default: 3]",
        show_default=False,
    ),
    min_count: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="Counts below this stay out of the changelog.  [default: 1, none does]",
        show_default=False,
    ),
    buckets: int = typer.Option(
        8, min=1, metavar="N", help="How many tasks can count at once; fixed by the first run."
    ),
    processing_time: bool = typer.Option(
        False,
        "--processing-time",
        help="Count by when an event is processed.  [default: by its own time]",
    ),
    max_future: str = typer.Option(
        "1 day",
        metavar="DURATION",
        help="An event whose time is further in the future than this is set aside.",
    ),
    value: str | None = VALUE,
    schema: str | None = SCHEMA,
    starting: str | None = STARTING,
    max_records_per_batch: int | None = MAX_RECORDS,
    changelog: str | None = CHANGELOG,
    blocks: bool = BLOCKS,
    findings_to: str | None = FINDINGS_TO,
    give_up_after: str | None = GIVE_UP_AFTER,
    kafka_config: str | None = KAFKA_CONFIG,
    master: str | None = typer.Option(
        None,
        metavar="URL",
        help="Where Spark runs: local[4], spark://host:port, yarn, k8s://…  [default: here, on "
        "all cores]",
        show_default=False,
    ),
    metrics_port: int | None = typer.Option(
        None,
        min=0,
        max=65_535,
        metavar="PORT",
        help="Serve the run's figures to Prometheus at http://127.0.0.1:PORT/metrics while it "
        "counts; 0 takes any port that is free, and says which.  [default: don't]",
        show_default=False,
    ),
    quiet: bool = QUIET,
    as_json: bool = AS_JSON_OBJECT,
) -> None:
    """Count events in windows, and find the abnormal users.

    It ends with the run's figures and the findings that most deserve a look; with --json, with the
    figures alone, as summary --json prints them.
    """
    if not follow:
        _check_bounded(trigger=trigger, restarts_per_hour=restarts_per_hour, alive_file=alive_file)
    from kstoolkit.events.sources import files  # noqa: PLC0415 - loads Arrow
    from kstoolkit.findings.rules import load_rules  # noqa: PLC0415
    from kstoolkit.pipeline.pipeline import Pipeline  # noqa: PLC0415

    columns: dict[str, Any] = {
        "event_time": event_time,
        "user": user,
        "action": action,
        "max_future": max_future,
        "time_unit": None if time_unit is None else time_unit.value,
    }
    topic = topic_given(
        source,
        kafka_config,
        value=value,
        schema=schema,
        starting=starting,
        max_records_per_batch=max_records_per_batch,
        give_up_after=give_up_after,
        **columns,
    )
    if give_up_after is not None and topic is None and changelog is None and findings_to is None:
        message = "--give-up-after is for topics, and there is none."
        raise ConfigurationError(message, hint="Leave it out, or give kafka://host:port/topic.")
    pipeline = Pipeline(
        source=topic or files(source, format=file_format, **columns),
        changelog=changelog_given(
            changelog, kafka_config, blocks=blocks, give_up_after=give_up_after
        ),
        findings_to=findings_given(findings_to, kafka_config, give_up_after),
        cascade=Cascade(
            *_lengths(windows), retention=retention, min_count=min_count, lateness=lateness
        ),
        rules=None if rules is None else load_rules(rules),
        buckets=buckets,
        time="processing" if processing_time else "event",
    )
    work = Work(
        pipeline=pipeline,
        out=out,
        master=master,
        max_files_per_batch=max_files_per_batch,
        shown=not quiet,
        metrics_port=metrics_port,
        restarts_per_hour=restarts_per_hour,
        alive_file=alive_file,
    )
    before = work.events_before()
    done = work.follow(trigger or _TRIGGER) if follow else work.finish()
    if as_json:
        print_json([done.summary().to_dict()])
    elif not quiet:
        _tell(done, out, before)


def _lengths(windows: str) -> list[str]:
    """Return the windows that a text names, with commas between.

    Raises
    ------
    ConfigurationError
        If there is nothing between two commas.

    Examples
    --------
    >>> _lengths("1 minute, 5 minutes every 1 minute")
    ['1 minute', '5 minutes every 1 minute']
    """
    named = [part.strip() for part in windows.split(",")]
    if not all(named):
        message = f"--windows {windows!r} has an empty place."
        raise ConfigurationError(message, hint="Write '1 minute,1 hour,1 day'.")
    return named


def _check_bounded(**options: object) -> None:
    """Raise if an option is given that means nothing without --follow."""
    for name, given in options.items():
        if given is not None:
            flag = f"--{name.replace('_', '-')}"
            message = f"{flag} is for a run without an end, but --follow is missing."
            raise ConfigurationError(message, hint="Add --follow, or leave it out.")


_RESTARTS_PER_HOUR = 5


def supervise(**options: Any) -> None:
    """Keep counting what arrives, and start again what dies.

    As run --follow does, with all its options; but a query that dies is started again, its Java
    too, after pauses that grow. Why, each time, is in OUT/restarts.jsonl. SIGTERM and Ctrl-C end
    it after the batch at hand.

    \b
    It ends with
      0   when it was asked to,
      1   when something can't be mended by starting again: a broker that stays away, say,
      2   when something given is wrong, or the topic is not what it was: don't try again,
      75  when the restarts of an hour are spent: try again later.
    """  # noqa: D301 - \b keeps the lines of the table apart
    if options["restarts_per_hour"] is None:
        options["restarts_per_hour"] = _RESTARTS_PER_HOUR
    run(**options, follow=True)


def _as_run_takes_them() -> inspect.Signature:
    """Return the options of ``run``, but for the one that is given here."""
    kinds = get_type_hints(run)
    given = inspect.signature(run)
    taken = [
        each.replace(annotation=kinds[name])
        for name, each in given.parameters.items()
        if name != "follow"
    ]
    return given.replace(parameters=taken, return_annotation=None)


supervise.__signature__ = _as_run_takes_them()  # type: ignore[attr-defined] # as inspect reads it
supervise.__annotations__ = {
    name: each.annotation for name, each in _as_run_takes_them().parameters.items()
}


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


def _tell(run: Run, out: str, events_before: int | None) -> None:
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
