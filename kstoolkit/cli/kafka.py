"""``kstoolkit broker``, ``produce``, ``lag``, ``assignment``, ``reset``: what is around topics."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli import options
from kstoolkit.cli.options import Format, Unit, argument, optional, required, settings_in, switch
from kstoolkit.cli.terminal import FAULT, Outage, in_flags, note, print_json, print_table, say
from kstoolkit.errors import ConfigurationError, KafkaError
from kstoolkit.units import format_count, parse_bytes, parse_duration

if TYPE_CHECKING:
    from kstoolkit.kafka.broker import Broker

FOLDER = optional(
    "DIR", "Where it lives.", "kstoolkit/broker in $XDG_DATA_HOME or ~/.local/share", flag="--dir"
)

PORT = optional(
    "PORT", "Where it listens; fixed by the first start.", "a port that is free", min=1, max=65535
)


def start(
    folder: str | None = FOLDER, *, port: int | None = PORT, as_json: bool = options.AS_JSON_OBJECT
) -> None:
    """Start a broker, and wait until it answers.

    One node of Kafka on loopback, without passwords. It keeps its address and its records in DIR,
    and goes on until it is stopped. At the first start its jars are downloaded into the cache, some
    45 MB. One that runs already is left as it is. The fields of --json are those of status.
    """
    broker = _broker(folder, port)
    if broker.status().running:
        note("It runs already.")
    _print(broker.start(), as_json=as_json)


def stop(folder: str | None = FOLDER, as_json: bool = options.AS_JSON_OBJECT) -> None:
    """Stop a broker; its records stay.

    The next start in the same folder goes on with them, at the same address. The fields of --json
    are those of status.
    """
    broker = _broker(folder)
    broker.stop()
    _print(broker, as_json=as_json)


def status(folder: str | None = FOLDER, as_json: bool = options.AS_JSON_OBJECT) -> None:
    """Say whether a broker runs, and at which address.

    The fields of --json: bootstrap (what clients are given; the same at each start), running, pid,
    dir, version, and log (the file with its warnings and errors). Null is what there is not yet, or
    not any more.
    """
    _print(_broker(folder), as_json=as_json)


def _broker(folder: str | None, port: int | None = None) -> Broker:
    from kstoolkit.kafka.broker import Broker  # noqa: PLC0415 - looks for Java

    return Broker(folder, port=port, tell=note)


def _print(broker: Broker, *, as_json: bool) -> None:
    told = broker.status()
    if as_json:
        print_json([told.to_dict()])
    else:
        text = repr(told)
        say(f"{text[0].upper()}{text[1:]}.")


class RecordTime(StrEnum):
    """What the time of a record can be."""

    event = "event"
    now = "now"


def produce(
    files: list[str] = argument(
        "FILES...",
        "Events: files, folders (searched to the bottom) or quoted globs; JSON lines, CSV or "
        "Parquet; plain, gzip or zstd.",
    ),
    *,
    to: str = required("TOPIC", "Where to: kafka://host:port/topic."),
    event_time: str = required("COLUMN", "The time of an event: a column."),
    user: str = required("COLUMN", "Who: a column; it becomes the key."),
    partitions: int | None = optional(
        "N", "How many partitions the topic gets if it is missing.", "3", min=1
    ),
    rate: float | None = optional("N", "At most so many records a second.", "as fast as it goes"),
    speed: str | None = optional(
        "FACTOR",
        "As fast as it was recorded, but for a factor: 60x sends a minute in a second.",
        "as fast as it goes",
    ),
    file_format: Format | None = options.FILE_FORMAT,
    time_unit: Unit | None = options.TIME_UNIT,
    record_time: RecordTime = typer.Option(
        "event",
        help="What a record's own time is. Old times may leave records twice if a broker is "
        "started again meanwhile, which is said.",
    ),
    kafka_config: str | None = options.KAFKA_CONFIG,
    quiet: bool = options.QUIET,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Send files of events to a Kafka topic, as they are.

    A line of JSON is a record as it stands, whatever is in it; a row of CSV or Parquet becomes a
    JSON object. Keys are users, on the partitions that Java's clients give them; a record's time
    is its event time. A topic that is missing is made, and keeps its records for ever. Records that
    Kafka refuses, such as one that is too large, are counted, and the exit code is 1. The fields of
    --json: topic, records, bytes, seconds, rate (records a second), partitions (how many records
    each got), failures (how many records were refused, by reason), maybe_twice (whether the last
    records before an outage may be there twice).
    """
    from kstoolkit.events.topics import parse_address  # noqa: PLC0415
    from kstoolkit.kafka.producing import produce as produced  # noqa: PLC0415

    if parse_address(to) is None:
        message = f"--to {to!r} is no topic."
        raise ConfigurationError(message, hint="Write it as kafka://host:port/topic.")
    done = produced(
        files,
        to,
        event_time=event_time,
        user=user,
        format=None if file_format is None else file_format.value,
        time_unit=None if time_unit is None else time_unit.value,
        partitions=partitions,
        rate=rate,
        speed=speed,
        record_time=record_time.value,
        options=settings_in(kafka_config),
        progress=False if quiet else None,
        tell=note,
    )
    if as_json:
        print_json([done.to_dict()])
    elif not quiet:
        say(f"{done}.")
    for why, number in done.failures.items():
        was = "was" if number == 1 else "were"
        note(f"Error: {format_count(number)} of the records {was} refused: {why}.")
    if done.failures:
        raise typer.Exit(FAULT)


_READER = argument(
    "OUT|SERVERS", "The output folder of a run on a topic; or, with --group, kafka://host:port."
)
_GROUP = optional(
    "NAME", "A consumer group: a group.id, or the application.id of Kafka Streams.", "a run"
)
TOPIC = optional("TOPIC", "Only this topic of the group.", "all")
_SCHEME = "kafka://"


def lag(
    reader: str = _READER,
    *,
    group: str | None = _GROUP,
    topic: str | None = TOPIC,
    over: str = typer.Option(
        "5 seconds",
        metavar="DURATION",
        help="How long to measure rates; with --watch, how often to look.",
    ),
    watch: bool = switch("--watch", "Look again and again, a line each time, until Ctrl-C."),
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = switch(
        "--json", "Print one JSON object, with --watch one a line, and nothing else on stdout."
    ),
) -> None:
    """Say how far a run or a consumer group is behind.

    Of each partition: where it ends, where the reader is, how many records wait, how much older
    they are than the newest, and when nothing waits any more at the rates that were measured. Where
    that is unknown, why. The fields of --json: reader, state, at_ms (epoch ms UTC), partitions,
    lag_records, lag_seconds, catch_up_seconds, why, measured_seconds.
    """
    from kstoolkit.operations.lag import HEADER, LagWatch  # noqa: PLC0415 - loads Arrow
    from kstoolkit.operations.lag import lag as measured  # noqa: PLC0415

    chosen = _reader(reader, group, topic, kafka_config)
    if watch:
        _watch(LagWatch(**chosen), over, as_json=as_json)
        return
    found = measured(**chosen, over=over)
    if as_json:
        print_json([found.to_dict()])
        return
    found = in_flags(found)
    say(f"{found.sentence()}.")
    if found.partitions:
        say()
        print_table(HEADER, [each.cells() for each in found])


def assignment(
    servers: str = argument("SERVERS", "kafka://host:port."),
    state_dirs: list[str] | None = argument(
        "[STATE_DIR]...", "State directories of Kafka Streams' instances, or copies.", needed=False
    ),
    *,
    group: str = required("NAME", "A group.id, or the application.id of Kafka Streams."),
    restore_rate: str | None = optional(
        "SIZE", "How many bytes one instance restores a second, such as 50MiB.", "none is told"
    ),
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Say who reads what of a group, and who has too much.

    Of each process: its members, partitions, tasks, lag, the bytes of its stores where its state
    directory is given, and how long the others would restore if it died. The fields of --json:
    group, state, instances, unread (partitions), remarks, folders, lag_records,
    restore_bytes_per_second; unknown says why a null is one.
    """
    from kstoolkit.operations.assignment import HEADER  # noqa: PLC0415 - loads Arrow
    from kstoolkit.operations.assignment import assignment as looked  # noqa: PLC0415

    chosen = _reader(servers, group, None, kafka_config)
    found = looked(
        chosen["what"],
        bootstrap=chosen["bootstrap"],
        state_dirs=state_dirs or (),
        restore_bytes_per_second=None if restore_rate is None else parse_bytes(restore_rate),
        options=chosen["options"],
    )
    if as_json:
        print_json([found.to_dict()])
        return
    if found.instances:
        print_table(HEADER, [in_flags(each).cells() for each in found.instances])
    for each in found.sentences():
        say(f"{in_flags(each)}.")


def reset(
    reader: str = _READER,
    *,
    to: str = required(
        "WHERE",
        "earliest, latest, a time such as 2026-01-31T08:00Z, or offsets by partition: 0=500,1=20.",
    ),
    group: str | None = _GROUP,
    topic: str | None = TOPIC,
    execute: bool = switch("--execute", "Do it.  [default: say what it would do]"),
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Move a run or a consumer group to other offsets.

    Without --execute, it says what that costs, and changes nothing. A run begins anew there when it
    is started next: with a new checkpoint, whose state is empty; the old one stays beside it as
    checkpoint.epoch=N. The newest count of a window wins, so a window that is read again whole is
    counted right, and one that is read in part too low. A run that is counting, or a group with
    members, refuses. The fields of --json: reader, to, done, moves (by partition), again_records,
    skipped_records, in_part (windows), warnings, refusal.
    """
    from kstoolkit.operations.reset import HEADER  # noqa: PLC0415 - loads Arrow
    from kstoolkit.operations.reset import reset as moved  # noqa: PLC0415

    chosen = _reader(reader, group, topic, kafka_config)
    plan = moved(**chosen, to=_where(to), dry_run=not execute)
    if as_json:
        print_json([plan.to_dict()])
        return
    say(f"{plan.sentence()}.")
    say()
    print_table(HEADER, [each.cells() for each in plan.moves])
    for each in plan.remarks():
        note(f"Note: {each}")
    if not plan.done:
        note("Nothing was changed: --execute does it.")


def _reader(
    reader: str, group: str | None, topic: str | None, config: str | None
) -> dict[str, Any]:
    """Return what reads, as the functions of Python take it."""
    settings = settings_in(config)
    if group is None:
        if reader.startswith(_SCHEME):
            message = f"{reader!r} are servers, and no --group is given."
            raise ConfigurationError(message, hint="Give --group NAME, or a run's output folder.")
        return {"what": reader, "topic": topic, "options": settings}
    servers, _, named = reader.removeprefix(_SCHEME).partition("/")
    if not reader.startswith(_SCHEME) or (named and topic not in {None, named}):
        message = f"{reader!r} are no servers of the group {group!r}."
        raise ConfigurationError(message, hint="Write them as kafka://host:port.")
    chosen = topic or named or None
    return {"what": group, "bootstrap": servers, "topic": chosen, "options": settings}


def _where(to: str) -> str | dict[int, int]:
    """Return offsets by partition, if it is those; else the text as it is."""
    parts = [each.partition("=") for each in to.split(",")]
    if not all(p.strip().isdecimal() and at.strip().isdecimal() for p, _, at in parts):
        return to
    found = {int(p): int(at) for p, _, at in parts}
    if len(found) < len(parts):
        message = f"--to {to!r} names a partition twice."
        raise ConfigurationError(message, hint="Give one offset for each: 0=500,1=20.")
    return found


def _watch(watch: Any, over: str, *, as_json: bool) -> None:
    pause_seconds = parse_duration(over) / 1_000
    outage: Outage | None = None
    while True:
        try:
            found = watch.look()
        except KafkaError as error:
            outage = outage or Outage("The lag")
            time.sleep(outage.next_pause(error))
            continue
        outage = None
        if as_json:
            print_json([found.to_dict()])
        else:
            say(f"{datetime.now(UTC):%H:%M:%S} {in_flags(found).sentence()}")
        sys.stdout.flush()
        time.sleep(pause_seconds)
