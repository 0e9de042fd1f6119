"""``kstoolkit run`` and ``supervise``: count, tell what was found, keep it alive."""

from __future__ import annotations

from typing import Any

import typer

from kstoolkit.cli import options
from kstoolkit.cli.options import Format, Unit, argument, optional, required, switch, taking
from kstoolkit.cli.terminal import print_json
from kstoolkit.errors import ConfigurationError, Option
from kstoolkit.windows import Cascade

_TRIGGER = "10 seconds"
_RESTARTS_PER_HOUR = 5


def run(
    source: str = argument(
        "INPUT",
        "Events: a file, a folder (searched to the bottom) or a quoted glob; JSON lines, CSV or "
        "Parquet; plain, gzip or zstd. Or a topic: kafka://host:port/topic, read up to where it "
        "ends now.",
    ),
    *,
    event_time: str = required(
        "COLUMN", "The time of an event: a column, or a Spark SQL expression."
    ),
    user: str = required("COLUMN", "Who: a column, or an expression."),
    action: list[str] = required(
        "COLUMN",
        "What: a column, or an expression. Several times, an action has these parts: columns, or "
        "expressions with names, as 'lower(op) AS operation'.",
    ),
    out: str = required(
        "OUT",
        "The output folder: new, empty, or an earlier run's. Then what is new in INPUT is added; "
        "a file counts once, wherever it is moved.",
    ),
    windows: str = typer.Option(
        "1 minute,1 hour,1 day",
        metavar="LENGTHS",
        help="Windows to count in, with commas between. Each length divides the next; '5 minutes "
        "every 1 minute' is one that hops, 'session 30 minutes' ends with a pause as long.",
    ),
    rules: str | None = options.RULES_FOLLOWED,
    file_format: Format | None = options.FILE_FORMAT,
    time_unit: Unit | None = options.TIME_UNIT,
    input_timezone: str | None = optional(
        "ZONE", "The zone of times that have none: Europe/Prague, say.", "UTC"
    ),
    max_files_per_batch: int | None = optional(
        "N", "A micro-batch takes in no more files.", "10000, and 256 MiB", min=1
    ),
    set_aside: str | None = optional(
        "GLOB",
        "Go on without these files, which keep failing: each becomes a dead letter.",
        "none of them",
    ),
    readmit: str | None = optional(
        "GLOB",
        "Take in again files that are dead letters as a whole: damaged, missing, set aside.",
        "none of them",
    ),
    follow: bool = switch(
        "--follow", "Keep counting what arrives, until Ctrl-C.  [default: to the end]"
    ),
    trigger: str | None = optional(
        "DURATION", "With --follow: how often a micro-batch begins.", _TRIGGER
    ),
    restarts_per_hour: int | None = optional(
        "N",
        "With --follow: start again what dies, so often within an hour, then end with code 75.",
        f"don't; supervise: {_RESTARTS_PER_HOUR}",
        min=1,
    ),
    alive_file: str | None = optional(
        "FILE",
        "With --follow: a file whose time is set anew every two seconds while batches end; five "
        "minutes without one (ten triggers, if that is longer), and it is left to age.",
        "no such file",
    ),
    lateness: str | None = optional(
        "DURATION",
        "How long after its end a window takes events.",
        "no end; with --follow, as long as it is retained, and ten minutes at least",
    ),
    retention: int | None = optional(
        "N", "With --follow: how many windows of each length stay in state.", "3", min=1
    ),
    min_count: int | None = optional(
        "N", "Counts below this stay out of the changelog.", "1, none does", min=1
    ),
    expire: str | None = options.EXPIRE,
    buckets: int = typer.Option(
        8, min=1, metavar="N", help="How many tasks can count at once; fixed by the first run."
    ),
    processing_time: bool = switch(
        "--processing-time", "Count by when an event is processed.  [default: by its own time]"
    ),
    max_future: str | None = optional(
        "DURATION",
        "An event whose time is further in the future than this is set aside.",
        "1 day; with --follow, 5 minutes",
    ),
    value: str | None = options.VALUE,
    schema: str | None = options.SCHEMA,
    starting: str | None = options.STARTING,
    max_records_per_batch: int | None = options.MAX_RECORDS,
    changelog: str | None = options.CHANGELOG,
    blocks: bool = options.BLOCKS,
    findings_to: str | None = options.FINDINGS_TO,
    alert_to: list[str] | None = options.ALERT_TO,
    give_up_after: str | None = options.GIVE_UP_AFTER,
    kafka_config: str | None = options.KAFKA_CONFIG,
    master: str | None = optional(
        "URL", "Where Spark runs: local[4], spark://host:port, yarn, k8s://…", "here, on all cores"
    ),
    metrics_port: int | None = options.metrics_port("run", "counts"),
    quiet: bool = options.QUIET,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Count events in windows, and find the abnormal users.

    It ends with the run's figures and the incidents that most deserve a look; with --json, with the
    figures alone, as summary --json prints them.
    """
    if not follow:
        _check_bounded(trigger=trigger, restarts_per_hour=restarts_per_hour, alive_file=alive_file)
    from kstoolkit.cli import counting  # noqa: PLC0415 - loads Spark
    from kstoolkit.events.sources import files  # noqa: PLC0415 - loads Arrow
    from kstoolkit.pipeline.alerting import load_alerts  # noqa: PLC0415
    from kstoolkit.pipeline.pipeline import Pipeline  # noqa: PLC0415

    columns: dict[str, Any] = {
        "event_time": event_time,
        "user": user,
        "action": action,
        "max_future": max_future,
        "time_unit": None if time_unit is None else time_unit.value,
        "input_timezone": input_timezone,
    }
    topic = options.topic_given(
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
        changelog=options.changelog_given(changelog, kafka_config, give_up_after, blocks=blocks),
        findings_to=options.findings_given(findings_to, kafka_config, give_up_after),
        cascade=Cascade(
            *_lengths(windows),
            retention=retention,
            min_count=min_count,
            lateness=lateness,
            expire=options.lengths_given("--expire", expire),
        ),
        rules=rules,
        alert_to=[*(alert_to or ()), *(() if rules is None else load_alerts(rules))],
        buckets=buckets,
        time="processing" if processing_time else "event",
    )
    how: dict[str, Any] = {
        "master": master,
        "max_files_per_batch": max_files_per_batch,
        "metrics_port": metrics_port,
        "progress": not quiet,
        "set_aside": set_aside,
        "readmit": readmit,
    }
    before = counting.events_before(out)
    if follow:
        done = counting.follow(
            pipeline,
            out,
            trigger or _TRIGGER,
            restarts_per_hour=restarts_per_hour,
            alive_file=alive_file,
            **how,
        )
    else:
        done = counting.finish(pipeline, out, **how)
    if as_json:
        print_json([done.summary().to_dict()])
    elif not quiet:
        counting.tell(done, out, before)


def _lengths(windows: str) -> list[str]:
    named = [part.strip() for part in windows.split(",")]
    if not all(named):
        message = f"--windows {windows!r} has an empty place."
        raise ConfigurationError(message, hint="Write '1 minute,1 hour,1 day'.")
    return named


def _check_bounded(**told: object) -> None:
    for name, given in told.items():
        if given is not None:
            flag = Option(name).at_terminal
            message = f"{flag} is for a run without an end, but --follow is missing."
            raise ConfigurationError(message, hint="Add --follow, or leave it out.")


@taking(run, but="follow")
def supervise(**told: Any) -> None:
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
    if told["restarts_per_hour"] is None:
        told["restarts_per_hour"] = _RESTARTS_PER_HOUR
    run(**told, follow=True)
