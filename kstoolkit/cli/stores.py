"""``kstoolkit stores`` and ``rows``: what stores there are, and what lies in them.

Here is also what every command that opens a store shares: its arguments and options, what a shell
passes on as a key, a beginning of one or a moment, and changelog topics beside stores.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator  # noqa: TC003 - the hints of what commands take are read
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli import options
from kstoolkit.cli.options import argument, optional, settings_of, switch, taking
from kstoolkit.cli.terminal import in_flags, left_out_as_notes, note, print_json, print_table, say
from kstoolkit.errors import ConfigurationError, Option
from kstoolkit.formats.streams.kinds import kinds_named
from kstoolkit.moments import moment_text
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kstoolkit.kafka.outputs import KafkaChangelog
    from kstoolkit.stores.discovery.found import FoundStore
    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.stores.rows.counts import Counted
    from kstoolkit.stores.rows.readable import HasRows

_SERDES = "string, long, integer, short, double, float, boolean, uuid, bytes, json or void"

STORE = argument(
    "PATH",
    "One store: the folder of a RocksDB, the one that holds the segments of a store, a level of "
    "a replica, or of a checkpoint of Spark's the folder of a partition, of an operator, or the "
    "checkpoint's own, if it has one operator.",
)
KEY_SERDE = optional("NAME", f"How to read keys: {_SERDES}.", "guessed")
VALUE_SERDE = optional("NAME", "How to read values.", "guessed")
KIND = optional(
    "NAME",
    "What kind of store it is: key-value, window, session, versioned, and more.",
    "recognised",
)
WINDOW_SIZE = optional("W", "How long its windows are, as '60 seconds'.", "not known")
FAMILY = optional(
    "NAME",
    "Only this column family; of Spark's state, a variable, or a store of a join.",
    "those that the application writes to",
    flag="--column-family",
)
OTHER_FOLDERS = optional(
    "PATH",
    "A folder outside PATH with files of the store (db_paths, cf_paths, wal_dir; SSTs of a "
    "snapshot of Spark's); may be given several times.",
    "those that the store names",
    flag="--other-folder",
)
VERSION = optional(
    "N", "Spark's state as it was at this version: stores tells which there are.", "the latest"
)
BATCH = optional(
    "N", "Spark's state as this micro-batch left it: batch 6 leaves version 7.", "the latest"
)

VERSIONS = optional("N N", "Spark's state at these versions, of A and of B.", "the latest")
BATCHES = optional(
    "N N", "Spark's state as these micro-batches left it, of A and of B.", "the latest"
)
ACTION = optional(
    "NAME", "Of kstoolkit's counts, compare those of one action, as a long.", "each, as JSON"
)
NAMED = optional(
    "NAME",
    "Of a folder that is not one store, such as a state directory: all partitions of the store "
    "of this name.",
    "the folder is the store",
)
TOTAL = switch("--total", "Of kstoolkit's counts, compare the sums of all actions, as a long.")
WHERE = optional(
    "PART=VALUE",
    "Of kstoolkit's counts, compare the sums of actions with this value of a part, as a long; PART "
    "alone: that have none.",
    "each, as JSON",
)
SINCE = optional(
    "T",
    "Only rows from this moment on, as 2026-03-03T12:00Z or in epoch ms: that of the window's "
    "start, or without windows the row's own.",
    "all",
)
UNTIL = optional("T", "Only rows before this moment.", "all")


@contextmanager
def _opened_store(
    path: str, *, version: int | None = None, batch: int | None = None, **told: Any
) -> Iterator[OpenedStore]:
    """Yield a store, told as :func:`kstoolkit.open_store` is, at the version that is asked for."""
    from kstoolkit.stores.opening import open_store  # noqa: PLC0415 - loads RocksDB
    from kstoolkit.stores.spark.sparkstore import SparkStore  # noqa: PLC0415 - as above

    _check_not_empty(path)
    with left_out_as_notes(), open_store(path, **told) as store:
        if isinstance(store, SparkStore) and (version, batch) != (None, None):
            yield store.at(version, batch=batch)
            return
        _check_is_latest(path, version=version, batch=batch)
        yield store


def _check_not_empty(path: str) -> None:
    """Refuse an empty path, which would be this folder: a variable of the shell's is not set."""
    if not path:
        message = "The path is empty."
        raise ConfigurationError(message, hint="Give a folder; this one is a dot.")


def _check_is_latest(path: str, *, version: int | None, batch: int | None) -> None:
    for what, number in (("version", version), ("batch", batch)):
        if number is not None:
            message = (
                f"There is no {what} {number} of {path}: only Spark's checkpoints keep several."
            )
            raise ConfigurationError(message, hint="Leave it out: the state as it is now is read.")


_DOUBTFUL = 0.5


def _as_told(found: FoundStore, kind: str) -> FoundStore:
    """Return a store of the kind that somebody says, unless its own is known well."""
    kinds_named(kind)
    if found.kind is not None and not _is_doubtful(found):
        return found
    unknown = {name: why for name, why in found.unknown.items() if name != "kind"}
    return replace(found, kind=kind, confidence=1.0, reasons=("it was told",), unknown=unknown)


def _store_table(found: Sequence[FoundStore], root: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of a table; columns that say nothing of any are left out."""
    columns = {
        name: cell
        for name, cell in _columns(root).items()
        if name not in _OF_SOME or any(map(_OF_SOME[name], found))
    }
    return list(columns), [[cell(each) for cell in columns.values()] for each in found]


_OF_SOME: dict[str, Callable[[FoundStore], bool]] = {
    "starts (UTC)": lambda each: bool(each.segments),
    "versions": lambda each: each.engine == "spark",
    "offset": lambda each: each.offset is not None,
    "closed": lambda each: each.engine == "kafka-streams",
    "errors": lambda each: bool(each.errors),
}
"""Columns of what only some stores have to tell, and which ones."""


def _columns(root: Path) -> dict[str, Callable[[FoundStore], str]]:
    return {
        "store": lambda each: each.store,
        "kind": lambda each: (
            "unknown" if each.kind is None else each.kind + "?" * _is_doubtful(each)
        ),
        "engine": lambda each: each.engine,
        "application": lambda each: each.application or "unknown",
        "part": lambda each: (
            each.task or ("all" if each.partition is None else str(each.partition))
        ),
        "segments": lambda each: format_count(len(each.segments)) if each.segments else "none",
        "size": lambda each: format_bytes(each.size_bytes),
        "entries": lambda each: format_count(each.num_entries),
        "starts (UTC)": _starts,
        "versions": _versions,
        "offset": lambda each: "none" if each.engine == "spark" else format_count(each.offset),
        "closed": _closed,
        "errors": lambda each: format_count(each.errors),
        "folder": lambda each: str(Path(each.path).relative_to(root)),
    }


def _is_doubtful(found: FoundStore) -> bool:
    return found.confidence is not None and found.confidence < _DOUBTFUL


def _starts(found: FoundStore) -> str:
    if not found.segments:
        return "none"
    first, last = (moment_text(found.segments[at].start_ms).removesuffix(" UTC") for at in (0, -1))
    return first if first == last else f"{first} to {last}"


def _versions(found: FoundStore) -> str:
    if found.versions is None:
        return "unknown" if found.engine == "spark" else "none"
    oldest, newest = found.versions
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


def _closed(found: FoundStore) -> str:
    if found.is_locked:
        return "in use"
    return "none" if found.engine == "spark" else found.closed or "unknown"


_EPOCH_MS = re.compile(r"-?\d+")
_DATE_DIGITS = 8  # 20260303 is a day


def moment_given(text: str | None) -> str | int | None:
    """Return a moment as :data:`kstoolkit.moments.Moment`: digits are epoch ms, eight are a day.

    >>> moment_given("1772539920000"), moment_given("20260303"), moment_given("2026-03-03T12:00Z")
    (1772539920000, '20260303', '2026-03-03T12:00Z')
    """
    if text is None or not _EPOCH_MS.fullmatch(text) or len(text) == _DATE_DIGITS:
        return text
    return int(text)


PARTITION = optional(
    "N",
    "Of a changelog topic of Kafka Streams, only this partition.",
    "that of the task in whose folder the other store lies, or all",
    min=0,
)


@dataclass(frozen=True, slots=True)
class GivenSide:
    """A store, a changelog, a run's output folder or a topic, and how it is read.

    ``counted`` is what of kstoolkit's counts is compared; ``config`` the file with the
    settings of the connection; ``told`` what :func:`_opened_store` takes, and which ``store``.
    """

    path: str
    counted: Counted
    config: str | None
    partition: int | None
    told: dict[str, Any]

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic's address."""
        from kstoolkit.events.topics import parse_address  # noqa: PLC0415 - loads Arrow

        return parse_address(self.path) is not None


def say_unflushed(store: GivenSide) -> None:
    """Say if a store beside a topic lacks what its writer has not flushed, or never did."""
    from kstoolkit.stores.discovery.discovering import discover  # noqa: PLC0415 - loads RocksDB

    for each in [] if store.is_topic else discover(store.path, look=True):
        if each.is_locked or each.closed == "not cleanly":
            why = "is in use" if each.is_locked else "was not closed cleanly"
            note(f"{each.path} {why}: what its writer had not flushed is in the topic alone.")


@contextmanager
def both_sides(a: GivenSide, b: GivenSide) -> Iterator[tuple[HasRows, HasRows]]:
    """Yield both sides of a comparison; a topic is read as the store beside it is."""
    if a.partition is not None and not (a.is_topic or b.is_topic):
        message = f"--partition {a.partition} is of topics, and neither side is one."
        raise ConfigurationError(message, hint="Leave it out, or give the folder of the task.")
    with ExitStack() as opening:
        if a.is_topic and not b.is_topic:
            other = _opened(b, None, opening)
            one = _opened(a, other, opening)
        else:
            one = _opened(a, None, opening)
            other = _opened(b, one, opening)
        _check_counts((a, one), (b, other))
        yield one, other


@contextmanager
def opened_at(
    path: str,
    *,
    key_serde: str | None = KEY_SERDE,
    value_serde: str | None = VALUE_SERDE,
    kind: str | None = KIND,
    window_size: str | None = WINDOW_SIZE,
    family: str | None = FAMILY,
    version: int | None = VERSION,
    batch: int | None = BATCH,
    other_folders: list[str] | None = OTHER_FOLDERS,
    partition: int | None = PARTITION,
    kafka_config: str | None = options.KAFKA_CONFIG,
    _scratch: str | None = options.SCRATCH,
) -> Iterator[Any]:
    """Yield one store, or what a topic stands for, read as these options say."""
    told: dict[str, Any] = {"kind": kind, "window_size": window_size, "column_family": family}
    told |= {"key_serde": key_serde, "value_serde": value_serde}
    told |= {"other_folders": other_folders or None, "version": version, "batch": batch}
    side = GivenSide(path, {}, kafka_config, partition, told)
    if side.is_topic:
        with _topic(side, None) as topic:
            yield topic
        return
    if partition is not None:
        message = f"--partition {partition} is of topics, and {path!r} is none."
        raise ConfigurationError(message, hint="Leave it out, or give the folder of the task.")
    with _opened_store(path, **told) as store:
        yield store


def say_expired(one: HasRows, other: HasRows) -> None:
    """Say which differences are none: windows that a store has dropped, and its topic still has."""
    from kstoolkit.operations.topicstore import begins_ms  # noqa: PLC0415 - loads RocksDB
    from kstoolkit.stores.rows.folded import FoldedRecords  # noqa: PLC0415 - as above

    stores = [each for each in (one, other) if not isinstance(each, FoldedRecords)]
    begins = begins_ms(stores[0]) if len(stores) == 1 else None
    if begins is not None:
        moment = datetime.fromtimestamp(begins / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        note(
            f"The store's first segment begins at {moment}: older windows are expired in it, while "
            f"a topic keeps them longer. --since {moment} leaves them out."
        )


def changelog_source(changelog: str, config: str | None) -> str | KafkaChangelog:
    """Return what a replica is restored from: a topic, also that of a run's folder; or a folder."""
    from kstoolkit.events.topics import parse_address  # noqa: PLC0415 - loads Arrow
    from kstoolkit.kafka.outputs import kafka_changelog  # noqa: PLC0415 - as above
    from kstoolkit.operations.topicstore import topic_of_run  # noqa: PLC0415 - as above

    _check_not_empty(changelog)
    if parse_address(changelog) is not None:
        return kafka_changelog(changelog, options=settings_of(config))
    return topic_of_run(changelog, settings_of(config)) or changelog


def _opened(side: GivenSide, beside: HasRows | None, opening: ExitStack) -> HasRows:
    """Return a topic, what kstoolkit counted, or a store of any engine, until the stack is closed.

    With the name of a ``store``, all its partitions below the path are meant.
    """
    from kstoolkit.stores.comparing.folders import opened_partitions, own_counts  # noqa: PLC0415

    if side.is_topic:
        return opening.enter_context(_topic(side, beside))
    path, told = side.path, side.told.copy()
    _check_not_empty(path)
    if (counts := _of_run(side)) is not None:
        return counts
    store = told.pop("store")
    opening.enter_context(left_out_as_notes())
    ours = opening.enter_context(own_counts(path, window_size=told["window_size"], **side.counted))
    if ours is None and store is None:
        return opening.enter_context(_opened_store(path, **told))
    _check_is_latest(path, version=told.pop("version"), batch=told.pop("batch"))
    if ours is not None:
        return ours
    return opening.enter_context(opened_partitions(path, store, **told))


@contextmanager
def _topic(side: GivenSide, beside: HasRows | None) -> Iterator[HasRows]:
    from kstoolkit.events.topics import address_of, options_given  # noqa: PLC0415 - loads Arrow
    from kstoolkit.operations.topicstore import reading_as, topic_store  # noqa: PLC0415 - RocksDB

    _check_is_of_topics(side)
    address = address_of(side.path, None)
    names = ("kind", "key_serde", "value_serde", "window_size")
    with topic_store(
        address,
        beside=beside,
        read_as=reading_as(**{name: side.told.get(name) for name in names}),
        partition=side.partition,
        counted=side.counted,
        options=options_given(settings_of(side.config), address.bootstrap),
        progress=sys.stderr.isatty(),
        only_counts=False,
    ) as topic:
        yield topic


def _of_run(side: GivenSide) -> HasRows | None:
    """Return the counts of a run that writes them to a topic; None of all else."""
    from kstoolkit.operations.topicstore import counts_of_run, topic_of_run  # noqa: PLC0415 - Arrow

    topic = topic_of_run(side.path, settings_of(side.config))
    if topic is None:
        return None
    size = side.told.get("window_size")
    size_ms = None if size is None else as_window(size).size_ms
    return counts_of_run(topic, side.path, window_ms=size_ms, counted=side.counted)


def _check_is_of_topics(side: GivenSide) -> None:
    flags = {"other_folders": "--other-folder"}
    for name in ("version", "batch", "column_family", "other_folders"):
        if side.told.get(name) is not None:
            flag = Option(name, flag=flags.get(name)).at_terminal
            message = f"{flag} is of stores on disk, and {side.path} is a topic."
            raise ConfigurationError(message, hint="Leave it out.")


def _check_counts(*sides: tuple[GivenSide, HasRows]) -> None:
    from kstoolkit.operations.topicstore import CountedTopic, topic_of_run  # noqa: PLC0415 - Arrow
    from kstoolkit.stores.comparing.folders import is_own_counts  # noqa: PLC0415 - as above

    if not any(sides[0][0].counted.values()):
        return
    ours = (
        isinstance(store, CountedTopic) or is_own_counts(side.path) or topic_of_run(side.path)
        for side, store in sides
    )
    if not any(ours):
        message = f"Neither {sides[0][0].path} nor {sides[1][0].path} holds counts of kstoolkit's."
        raise ConfigurationError(message, hint="Leave --action, --total and --where out.")


_UNUSED_KEY_SERDE, _UNUSED_VALUE_SERDE, _UNUSED_WINDOW_SIZE = (
    typer.Option(None, f"--{name}", hidden=True)  # taken, so that a line made for rows will do
    for name in ("key-serde", "value-serde", "window-size")
)


def stores(
    path: str = argument(
        "PATH",
        "A state directory of Kafka Streams, a checkpoint of Spark, a replica, or any folder.",
    ),
    *,
    look: bool = typer.Option(
        True,
        "--look/--no-look",
        help="Open each store through a shadow, where only its rows tell of what kind it is.",
    ),
    kind: str | None = optional(
        "NAME", "What kind those stores are that do not tell it themselves.", "recognised"
    ),
    _key_serde: str | None = _UNUSED_KEY_SERDE,
    _value_serde: str | None = _UNUSED_VALUE_SERDE,
    _window_size: str | None = _UNUSED_WINDOW_SIZE,
    _scratch: str | None = options.SCRATCH,
    as_json: bool = options.AS_JSON,
) -> None:
    """Print which stores lie under a folder.

    Of Spark's checkpoints, versions are the oldest and the newest that can be read. The fields of
    --json: path, engine, application, partition, store, kind, confidence, reasons, segments (each
    with start_ms and end_ms), size_bytes, num_entries, versions, offset, closed, is_locked, errors
    (lines of the log since the last opening that tell of some), errors_before (those set aside),
    and more; unknown says why a null is one.
    """
    from kstoolkit.stores.discovery.discovering import discover  # noqa: PLC0415 - loads RocksDB

    _check_not_empty(path)
    found = discover(path, look=look, progress=sys.stderr.isatty())
    listed = [each if kind is None else _as_told(each, kind) for each in found]
    if as_json:
        print_json(in_flags(each.to_dict()) for each in listed)
    elif listed:
        print_table(*_store_table(listed, found.root))
        whys = (e.unknown.get("kind", "nothing tells it") for e in listed if e.kind is None)
        for why, count in Counter(whys).items():
            told = in_flags(why).rstrip(".")
            note(f"The kind of {counted(count, 'stores')} is unknown: {told}.")
        if any(each.errors for each in listed):
            note("The logs of some stores hold errors: kstoolkit log FOLDER shows them.")
        if before := sum(each.errors_before or 0 for each in listed):
            note(
                f"{counted(before, 'errors')} of before stores were last opened are in LOG.old.*:"
                " kstoolkit log FOLDER --since TIME shows them."
            )
    else:
        note(f"No stores in {path}.")
    for folder, why in found.unreadable.items():
        note(f"Could not look into {folder}: {why}.")


@taking(opened_at, but="path")
def rows(
    path: str = STORE,
    *,
    key: str | None = optional(
        "K",
        "Only rows of this key; 0x00ff is bytes in hex. Of Spark's state, its columns, all or "
        """some, as '{"user": "anna"}', or the value of the only one.""",
        "all",
    ),
    prefix: str | None = optional(
        "P",
        "Only rows whose key begins so; 0x00ff is bytes in hex, as it takes for Spark's state.",
        "all",
    ),
    since: str | None = SINCE,
    until: str | None = UNTIL,
    limit: int | None = optional("N", "How many rows to print.", "all", min=0),
    as_json: bool = options.AS_JSON,
    _details: bool = typer.Option(False, "--details", hidden=True),  # they are shown in any case
    **told: Any,
) -> None:
    """Print the rows of a store, as its application sees them.

    What cannot be decoded is shown in hex, and counted on stderr. The fields of --json: store, key,
    window_start_ms, window_end_ms, timestamp_ms, value, headers, key_hex, value_hex; absent ones
    are null, and the hex is of the application's own bytes. Rows of joins, of foreign keys
    and of versions have details too: an object of what they tell beside key and value, as
    foreign_key, instruction and hash, side, or valid_to_ms (null: still valid). Of Spark's state,
    family names the variable of a row, or the store of a join that it is in, and partition its
    partition, if those of all partitions are read.
    """
    from kstoolkit.stores.rows.asking import typed_key  # noqa: PLC0415 - loads numpy
    from kstoolkit.stores.rows.rows import json_lines  # noqa: PLC0415 - loads Arrow
    from kstoolkit.stores.spark.sparkstore import SparkStore  # noqa: PLC0415 - loads RocksDB

    hint = """Write it as '{"user": "anna"}', in quotes of the shell's."""
    with opened_at(path, **told) as store:
        in_columns = isinstance(store, SparkStore)  # whose keys are JSON of these
        found = store.rows(
            key=None if key is None else typed_key(key, in_columns=in_columns, hint=hint),
            prefix=None if prefix is None else typed_key(prefix),
            since=moment_given(since),
            until=moment_given(until),
            limit=limit,
        )
        undecoded = count = 0
        for some in found.batches():
            count += len(some)
            undecoded += some.num_undecoded
            if as_json:
                lines = json_lines(some, store.name)
                sys.stdout.writelines(f"{line}\n" for line in lines)
            else:
                for row in some:
                    say(str(row))
    if not as_json and not count:
        note("No such rows.")
    if undecoded:
        note(f"{counted(undecoded, 'rows')} could not be decoded, and stand there in hex.")
