"""Arguments and options that several commands share, topics' among them."""

from __future__ import annotations

import inspect
import tempfile
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from kstoolkit.errors import ConfigurationError, Option
from kstoolkit.moments import moment_ms
from kstoolkit.units import parse_bytes, parse_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.events.topics import Topic
    from kstoolkit.findings.finding import Choice
    from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings

SHOWN = 20


def argument(metavar: str, what: str, *, needed: bool = True) -> Any:
    """Return an argument that has to be given; else it is None unless it is."""
    return typer.Argument(... if needed else None, metavar=metavar, help=what, show_default=False)


def switch(name: str, what: str) -> Any:
    """Return an option that is off unless it is named."""
    return typer.Option(False, name, help=what)


def required(metavar: str, what: str) -> Any:
    """Return an option that has to be given."""
    return typer.Option(..., metavar=metavar, help=what, show_default=False)


def optional(
    metavar: str | None, what: str, default: str = "", *, flag: str | None = None, **bounds: Any
) -> Any:
    """Return an option that is None unless it is given; its help ends with what holds then."""
    flags = [] if flag is None else [flag]
    text = f"{what}  [default: {default}]" if default else what
    return typer.Option(None, *flags, metavar=metavar, help=text, show_default=False, **bounds)


def _saying(parse: Callable[[Any], float]) -> Callable[[str | float], float]:
    """Return a parser whose errors Typer tells: ours it would take for a ValueError, unsaid."""

    def given(text: str | float) -> float:
        try:
            return parse(text)
        except ConfigurationError as error:
            message = f"{error.message} {error.hint}"
            raise typer.BadParameter(message) from error

    return given


def size(what: str, default: str = "") -> Any:
    """Return an option that is a size in bytes, None unless it is given."""
    return optional("SIZE", what, default, parser=_saying(parse_bytes))


def number(what: str, default: str = "") -> Any:
    """Return an option that is a number such as 50M, None unless it is given."""
    return optional("N", what, default, parser=_saying(parse_count))


def hidden(flag: str, **bounds: Any) -> Any:
    """Return an option that is taken as before, and no longer shown."""
    return typer.Option(None, flag, hidden=True, **bounds)


def taking(
    other: Callable[..., Any], but: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take, as ``**told``, what another function takes, but for one parameter."""

    def made(command: Callable[..., None]) -> Callable[..., None]:
        taken = [*_parameters(command), *(p for p in _parameters(other) if p.name != but)]
        command.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined] # as it reads
        command.__annotations__ = {each.name: each.annotation for each in taken}
        return command

    return made


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds, told = get_type_hints(function), inspect.signature(function).parameters.values()
    named = [each for each in told if each.kind is not each.VAR_KEYWORD]
    return [each.replace(annotation=kinds[each.name]) for each in named]


OUT = argument("OUT", "The output folder of a run.")
AS_JSON = switch("--json", "Print everything, one JSON object a line, and nothing else on stdout.")
AS_JSON_OBJECT = switch("--json", "Print one JSON object, and nothing else on stdout.")
LIMIT = typer.Option(
    SHOWN, min=1, metavar="N", help="How many to show; --json prints all of them anyway."
)
QUIET = typer.Option(
    False,
    "--quiet",
    "-q",
    help="Print no progress and no result, just errors (and what --json asks for).",
)


def metrics_port(what: str, does: str) -> Any:
    """Return the option that serves a run's or a replica's figures while it does something."""
    return optional(
        "PORT",
        f"Serve the {what}'s figures to Prometheus at http://127.0.0.1:PORT/metrics while it "
        f"{does}; 0 takes any port that is free, and says which.",
        "don't",
        min=0,
        max=65_535,
    )


FILE_FORMAT = optional(None, "The files' format.", "what each name says", flag="--format")
TIME_UNIT = optional(None, "What epoch times are counted in.", "told from their size")

Format = StrEnum("Format", ["json", "csv", "parquet"])


class Unit(StrEnum):
    """What an epoch time can be counted in."""

    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


USER = optional("USER", "Only this user's: a name, or a part of one that nobody has.", "all")
ACTION = optional("ACTION", "Only of this action: a name, or a part of one.", "all")
SINCE = optional("T", "Only windows that end after this moment, as 2026-03-03T12:00Z.", "all")
KAFKA_CONFIG = optional(
    "FILE",
    "Settings of the connection to Kafka, one name=value a line.",
    "the file that KSTOOLKIT_KAFKA_CONFIG names",
)
VALUE = optional(
    "EXPRESSION", "Of a topic: what a record's value is, as an SQL expression.", "a JSON object"
)
STARTING = optional(
    "WHERE",
    "Of a topic: where the first run begins: earliest, latest, or a time such as "
    "2026-01-31T08:00Z.",
    "earliest",
)
SCHEMA = optional(
    "FIELDS",
    "Of a topic: the fields of a value, for expressions: 'at long, who string'.",
    "told from records",
)
MAX_RECORDS = optional(
    "N",
    "A micro-batch takes in no more records of a topic.",
    "what three triggers can count, and a million at least",
    min=1,
)
CHANGELOG = optional(
    "TOPIC", "Where the counts go: kafka://host:port/topic, made if missing.", "into OUT"
)
FINDINGS_TO = optional(
    "TOPIC",
    "Send findings, as JSON, to kafka://host:port/topic too; made if missing.",
    "to OUT alone",
)
ALERT_TO = optional(
    "URL",
    "Tell this Alertmanager, or webhook, of incidents; several times, each. [[alert]] in --rules "
    "does so too.",
    "nobody",
)
GIVE_UP_AFTER = optional(
    "DURATION", "With topics: how long brokers that do not answer are waited for.", "10 minutes"
)
_RULES = "unusual counts in an hour, 5 false alarms a day"
RULES = optional("FILE", "A TOML file of rules.", _RULES)
RULES_FOLLOWED = optional(
    "FILE", "A TOML file of rules; with --follow, read again before a batch if it changed.", _RULES
)
BLOCKS = switch(
    "--blocks",
    "With --changelog: many counts in one record, a tenth of the bytes; compaction can't fold "
    "them.",
)

BY = optional(
    "PART",
    "Sum over all actions with the same value of this part; several times, of these parts.",
    "each action on its own",
)
WHERE = optional(
    "PART=VALUE",
    "Only actions with this value of a part; PART alone: where there is none. Several times, all "
    "of it holds.",
    "all actions",
)
SUMS = switch("--total", "Sum over all actions: as --by, of no part at all.")


def _read_through(context: typer.Context, folder: str | None) -> None:
    """Have whatever opens a store for this command make its scratch folder in that folder."""
    if folder is not None:
        context.call_on_close(partial(setattr, tempfile, "tempdir", tempfile.tempdir))
        tempfile.tempdir = folder


SCRATCH = optional(
    "FOLDER",
    "Where to make the scratch folder that a store is read through: its WAL is copied there.",
    "where temporary files go, TMPDIR",
    flag="--scratch",
    callback=_read_through,
)


def by_given(by: list[str] | None, *, total: bool) -> list[str] | None:
    """Return the parts that sums are asked by; ``None`` is each action on its own."""
    if by and total:
        message = "--by and --total are both given."
        raise ConfigurationError(message, hint="Give one of them.")
    return [] if total else by or None


def where_given(where: list[str] | None) -> dict[str, str | None]:
    """Return which values of parts are asked for."""
    given: dict[str, str | None] = {}
    for each in where or ():
        name, is_given, value = each.partition("=")
        if name in given or not name:
            message = f"--where {each!r} names {name!r} again." if name else f"--where {each!r}."
            raise ConfigurationError(message, hint="Write each once: --where region=eu-west.")
        given[name] = value if is_given else None
    return given


EXPIRE = optional(
    "LENGTHS",
    "How long after its end a window's counts and findings stay in the run's folder: '1 minute=7 "
    "days, 1 hour=1 year', say. They go when it is tidied after that.",
    "for ever",
)


def lengths_given(option: str, told: str | None) -> dict[Any, str] | None:
    """Return a length of time for each window that is named.

    >>> lengths_given("--retention", "1 minute=2 days, 5 minutes every 1 minute=1 week")
    {'1 minute': '2 days', '5 minutes every 1 minute': '1 week'}
    """
    if told is None:
        return None
    parts = [part.partition("=") for part in told.split(",")]
    named = {window.strip(): length.strip() for window, _, length in parts}
    if len(named) < len(parts) or not all(map(all, named.items())):
        message = f"{option} {told!r} does not name each window once, with a duration."
        raise ConfigurationError(message, hint="Write '1 minute=7 days, 1 hour=1 year'.")
    return named


def choice_given(user: str | None, action: str | None, since: str | int | None) -> Choice:
    """Return which findings are wanted."""
    from kstoolkit.findings.finding import Choice  # noqa: PLC0415 - loads Arrow

    since_ms = None if since is None else moment_ms(since)
    return Choice(user=user or "", action=action or "", since_ms=since_ms)


def topic_given(source: str, config: str | None, **options: Any) -> Topic | None:
    """Return the topic that the input is; ``None`` if it is files."""
    from kstoolkit.events.topics import kafka_topic, parse_address  # noqa: PLC0415 - loads Arrow

    told = given(**options)
    if parse_address(source) is not None:
        return kafka_topic(source, options=settings_of(config), **told)
    for name in sorted({"value", "starting", "schema", "max_records_per_batch"} & told.keys()):
        message = f"{Option(name).at_terminal} is of topics, and {source!r} is files."
        raise ConfigurationError(message, hint="Leave it out, or give kafka://host:port/topic.")
    return None


def changelog_given(
    address: str | None, config: str | None, give_up_after: str | None, *, blocks: bool
) -> KafkaChangelog | None:
    """Return the topic that the changelog is; ``None`` if none is given."""
    if address is None:
        if blocks:
            message = "--blocks is of a changelog that is a topic."
            raise ConfigurationError(message, hint="Give --changelog kafka://host:port/topic.")
        return None
    from kstoolkit.kafka.outputs import kafka_changelog  # noqa: PLC0415 - loads Arrow

    patience = given(give_up_after=give_up_after)
    return kafka_changelog(address, blocks=blocks, options=settings_of(config), **patience)


def findings_given(
    address: str | None, config: str | None, give_up_after: str | None
) -> KafkaFindings | None:
    """Return the topic that findings go to; ``None`` if none is given."""
    if address is None:
        return None
    from kstoolkit.kafka.outputs import kafka_findings  # noqa: PLC0415 - loads Arrow

    patience = given(give_up_after=give_up_after)
    return kafka_findings(address, options=settings_of(config), **patience)


def given(**told: Any) -> dict[str, Any]:
    """Return those of options that are given."""
    return {name: value for name, value in told.items() if value is not None}


def settings_of(config: str | None) -> dict[str, str]:
    """Return the settings of a file, or of the one that the environment names."""
    from kstoolkit.events.topics import options_of_environment, read_options  # noqa: PLC0415

    return options_of_environment() if config is None else read_options(config)


def settings_in(config: str | None) -> dict[str, str] | None:
    """Return the settings of a file; None of none: where a topic is read, the environment tells."""
    from kstoolkit.events.topics import read_options  # noqa: PLC0415 - loads Arrow

    return None if config is None else read_options(config)
