"""Arguments and options that several commands share, topics' among them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from kstoolkit.events.topics import Topic
    from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings


SHOWN = 20

OUT = typer.Argument(..., metavar="OUT", help="The output folder of a run.", show_default=False)

AS_JSON = typer.Option(
    False, "--json", help="Print everything, one JSON object a line, and nothing else on stdout."
)

AS_JSON_OBJECT = typer.Option(
    False, "--json", help="Print one JSON object, and nothing else on stdout."
)

LIMIT = typer.Option(
    SHOWN, min=1, metavar="N", help="How many to show; --json prints all of them anyway."
)

QUIET = typer.Option(
    False,
    "--quiet",
    "-q",
    help="Print no progress and no result, just errors (and what --json asks for).",
)

FILE_FORMAT = typer.Option(
    None,
    "--format",
    help="The files' format.  [default: what each name says]",
    show_default=False,
)

TIME_UNIT = typer.Option(
    None,
    "--time-unit",
    help="What epoch times are counted in.  [default: told from their size]",
    show_default=False,
)


class Format(StrEnum):
    """What a file of events can be."""

    json = "json"
    csv = "csv"
    parquet = "parquet"


class Unit(StrEnum):
    """What an epoch time can be counted in."""

    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


KAFKA_CONFIG = typer.Option(
    None,
    metavar="FILE",
    help="Settings of the connection to Kafka, one name=value a line.  [default: the file that "
    "KSTOOLKIT_KAFKA_CONFIG names]",
    show_default=False,
)
VALUE = typer.Option(
    None,
    metavar="EXPRESSION",
    help="Of a topic: what a record's value is, as an SQL expression.  [default: a JSON object]",
    show_default=False,
)
STARTING = typer.Option(
    None,
    metavar="WHERE",
    help="Of a topic: where the first run begins: earliest, latest, or a time such as "
    "2026-01-31T08:00Z.  [default: earliest]",
    show_default=False,
)
SCHEMA = typer.Option(
    None,
    metavar="FIELDS",
    help="Of a topic: the fields of a value, for expressions: 'at long, who string'.  "
    "[default: told from records]",
    show_default=False,
)
MAX_RECORDS = typer.Option(
    None,
    "--max-records-per-batch",
    min=1,
    metavar="N",
    help="A micro-batch takes in no more records of a topic.  [default: 1000000]",
    show_default=False,
)
CHANGELOG = typer.Option(
    None,
    metavar="TOPIC",
    help="Where the counts go: kafka://host:port/topic, made if missing.  [default: into OUT]",
    show_default=False,
)
FINDINGS_TO = typer.Option(
    None,
    metavar="TOPIC",
    help="Send findings, as JSON, to kafka://host:port/topic too; made if missing.  "
    "[default: to OUT alone]",
    show_default=False,
)
GIVE_UP_AFTER = typer.Option(
    None,
    metavar="DURATION",
    help="With topics: how long brokers that do not answer are waited for.  [default: 10 minutes]",
    show_default=False,
)
BLOCKS = typer.Option(
    False,
    "--blocks",
    help="With --changelog: many counts in one record, a tenth of the bytes; compaction can't fold "
    "them.",
)


def topic_given(source: str, config: str | None, **options: Any) -> Topic | None:
    """Return the topic that the input is; ``None`` if it is files.

    Raises
    ------
    ConfigurationError
        If it is files, and an option is of topics only.
    """
    from kstoolkit.events.topics import kafka_topic, parse_address  # noqa: PLC0415 - loads Arrow

    of_topics = {"value", "starting", "schema", "max_records_per_batch"}
    told = {name: each for name, each in options.items() if each is not None}
    if parse_address(source) is not None:
        return kafka_topic(source, options=settings_of(config), **told)
    for name in sorted(of_topics & told.keys()):
        message = f"--{name.replace('_', '-')} is of topics, and {source!r} is files."
        raise ConfigurationError(message, hint="Leave it out, or give kafka://host:port/topic.")
    return None


def changelog_given(
    address: str | None, config: str | None, *, blocks: bool, give_up_after: str | None = None
) -> KafkaChangelog | None:
    """Return the topic that the changelog is; ``None`` if none is given.

    Raises
    ------
    ConfigurationError
        If it is no address of a topic, or none is given for ``--blocks``.
    """
    if address is None:
        if blocks:
            message = "--blocks is of a changelog that is a topic."
            raise ConfigurationError(message, hint="Give --changelog kafka://host:port/topic.")
        return None
    from kstoolkit.kafka.outputs import kafka_changelog  # noqa: PLC0415 - loads Arrow

    return kafka_changelog(
        address, blocks=blocks, options=settings_of(config), **_patience(give_up_after)
    )


def findings_given(
    address: str | None, config: str | None, give_up_after: str | None = None
) -> KafkaFindings | None:
    """Return the topic that findings go to; ``None`` if none is given.

    Raises
    ------
    ConfigurationError
        If it is no address of a topic.
    """
    if address is None:
        return None
    from kstoolkit.kafka.outputs import kafka_findings  # noqa: PLC0415 - loads Arrow

    return kafka_findings(address, options=settings_of(config), **_patience(give_up_after))


def settings_of(config: str | None) -> dict[str, str]:
    """Return the settings of a file, or of the one that the environment names.

    Raises
    ------
    InputError
        If it can't be read.
    """
    from kstoolkit.events.topics import options_of_environment, read_options  # noqa: PLC0415

    return options_of_environment() if config is None else read_options(config)


def _patience(give_up_after: str | None) -> dict[str, Any]:
    return {} if give_up_after is None else {"give_up_after": give_up_after}
