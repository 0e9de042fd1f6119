"""The command that sends files of events to a Kafka topic."""

from __future__ import annotations

from enum import StrEnum

import typer

from kstoolkit.cli.endings import FAULT
from kstoolkit.cli.kafkaoptions import KAFKA_CONFIG
from kstoolkit.cli.options import AS_JSON_OBJECT, FILE_FORMAT, QUIET, TIME_UNIT, Format, Unit
from kstoolkit.cli.terminal import note, print_json, say
from kstoolkit.errors import ConfigurationError
from kstoolkit.units import format_count


class RecordTime(StrEnum):
    """What the time of a record can be."""

    event = "event"
    now = "now"


def produce(
    files: list[str] = typer.Argument(
        ...,
        metavar="FILES...",
        help="Events: files, folders (searched to the bottom) or quoted globs; JSON lines, CSV or "
        "Parquet; plain, gzip or zstd.",
        show_default=False,
    ),
    *,
    to: str = typer.Option(..., metavar="TOPIC", help="Where to: kafka://host:port/topic."),
    event_time: str = typer.Option(..., metavar="COLUMN", help="The time of an event: a column."),
    user: str = typer.Option(..., metavar="COLUMN", help="Who: a column; it becomes the key."),
    partitions: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="How many partitions the topic gets if it is missing.  [default: 3]",
        show_default=False,
    ),
    rate: float | None = typer.Option(
        None,
        metavar="N",
        help="At most so many records a second.  [default: as fast as it goes]",
        show_default=False,
    ),
    speed: str | None = typer.Option(
        None,
        metavar="FACTOR",
        help="As fast as it was recorded, but for a factor: 60x sends a minute in a second.  "
        "[default: as fast as it goes]",
        show_default=False,
    ),
    file_format: Format | None = FILE_FORMAT,
    time_unit: Unit | None = TIME_UNIT,
    record_time: RecordTime = typer.Option(
        "event",
        help="What a record's own time is. Old times may leave records twice if a broker is "
        "started again meanwhile, which is said.",
    ),
    kafka_config: str | None = KAFKA_CONFIG,
    quiet: bool = QUIET,
    as_json: bool = AS_JSON_OBJECT,
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
    from kstoolkit.events.topics import (  # noqa: PLC0415
        parse_address,
        read_options,
    )
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
        options=None if kafka_config is None else read_options(kafka_config),
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
