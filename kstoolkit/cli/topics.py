"""Changelog topics as what commands read: beside a store, alone, or to restore from."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli.kafkaoptions import settings_of
from kstoolkit.cli.storeoptions import check_not_empty, opened_side, opened_store
from kstoolkit.cli.terminal import note
from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.kafka.outputs import KafkaChangelog
    from kstoolkit.stores.rows.readable import HasRows


PARTITION = typer.Option(
    None,
    min=0,
    metavar="N",
    help="Of a changelog topic of Kafka Streams, only this partition.  [default: that of the task "
    "in whose folder the other store lies, or all]",
    show_default=False,
)


@dataclass(frozen=True, slots=True)
class Side:
    """What one side of a comparison is read as, and how to reach a topic.

    Parameters
    ----------
    path
        A store, a changelog, a run's output folder, or a topic's address.
    counted
        The action, or the total, of kstoolkit's counts.
    config
        The file with the settings of the connection.
    partition
        Of a topic, which partition.
    told
        As :func:`kstoolkit.cli.storeoptions.opened_side` takes it.
    """

    path: str
    counted: dict[str, Any]
    config: str | None
    partition: int | None
    told: dict[str, Any]

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic's address."""
        from kstoolkit.events.topics import parse_address  # noqa: PLC0415 - loads Arrow

        return parse_address(self.path) is not None

    def __str__(self) -> str:
        return self.path


@contextmanager
def both_sides(a: Side, b: Side) -> Iterator[tuple[HasRows, HasRows]]:
    """Yield both sides of a comparison; a topic is read as the store beside it is.

    Raises
    ------
    ConfigurationError
        If something is told that is of neither.
    KstoolkitError
        If one can't be read.
    """
    if a.partition is not None and not (a.is_topic or b.is_topic):
        message = f"--partition {a.partition} is of topics, and neither side is one."
        raise ConfigurationError(message, hint="Leave it out, or give the folder of the task.")
    with ExitStack() as opening:
        if a.is_topic and not b.is_topic:
            other = opening.enter_context(_opened(b, None))
            one = opening.enter_context(_opened(a, other))
        else:
            one = opening.enter_context(_opened(a, None))
            other = opening.enter_context(_opened(b, one))
        _check_counts((a, one), (b, other))
        yield one, other


@contextmanager
def opened_at(
    path: str, *, config: str | None, partition: int | None, **told: Any
) -> Iterator[Any]:
    """Yield one store, or what a topic stands for.

    Parameters
    ----------
    path
        As :func:`kstoolkit.cli.storeoptions.opened_store` takes it, or a topic's address.
    config, partition
        As of :class:`Side`.
    told
        As :func:`kstoolkit.cli.storeoptions.opened_store` takes it.

    Raises
    ------
    ConfigurationError
        If something is told that is not of it.
    KstoolkitError
        If it can't be read.
    """
    side = Side(path, {}, config, partition, told)
    if side.is_topic:
        with _topic(side, None) as topic:
            yield topic
        return
    if partition is not None:
        message = f"--partition {partition} is of topics, and {path!r} is none."
        raise ConfigurationError(message, hint="Leave it out, or give the folder of the task.")
    with opened_store(path, **told) as store:
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
    """Return what a replica is restored from: a topic, also that of a run's folder; or a folder.

    Raises
    ------
    ConfigurationError
        If it begins like a topic's address, and is none.
    """
    from kstoolkit.events.topics import parse_address  # noqa: PLC0415 - loads Arrow
    from kstoolkit.kafka.outputs import kafka_changelog  # noqa: PLC0415 - as above
    from kstoolkit.operations.topicstore import topic_of_run  # noqa: PLC0415 - as above

    check_not_empty(changelog)
    if parse_address(changelog) is not None:
        return kafka_changelog(changelog, options=settings_of(config))
    return topic_of_run(changelog, settings_of(config)) or changelog


@contextmanager
def _opened(side: Side, beside: HasRows | None) -> Iterator[HasRows]:
    if side.is_topic:
        with _topic(side, beside) as topic:
            yield topic
        return
    check_not_empty(side.path)
    counts = _of_run(side)
    if counts is not None:
        yield counts
        return
    with opened_side(side.path, side.counted, **side.told) as store:
        yield store


@contextmanager
def _topic(side: Side, beside: HasRows | None) -> Iterator[HasRows]:
    from kstoolkit.events.topics import address_of  # noqa: PLC0415 - loads Arrow
    from kstoolkit.operations.topicstore import reading_as, topic_store  # noqa: PLC0415 - RocksDB

    _check_is_of_topics(side)
    names = ("kind", "key_serde", "value_serde", "window_size")
    with topic_store(
        address_of(side.path, None),
        beside=beside,
        read_as=reading_as(**{name: side.told.get(name) for name in names}),
        partition=side.partition,
        counted=side.counted,
        options=settings_of(side.config),
        progress=sys.stderr.isatty(),
        only_counts=False,
    ) as topic:
        yield topic


def _of_run(side: Side) -> HasRows | None:
    """Return the counts of a run that writes them to a topic; None of all else."""
    from kstoolkit.operations.topicstore import counts_of_run, topic_of_run  # noqa: PLC0415 - Arrow
    from kstoolkit.units import parse_duration  # noqa: PLC0415 - as above

    topic = topic_of_run(side.path, settings_of(side.config))
    if topic is None:
        return None
    size = side.told.get("window_size")
    size_ms = None if size is None else parse_duration(size)
    return counts_of_run(topic, side.path, window_ms=size_ms, counted=side.counted)


def _check_is_of_topics(side: Side) -> None:
    flags = {"version": "version", "batch": "batch", "column_family": "column-family"}
    for name, flag in {**flags, "other_folders": "other-folder"}.items():
        if side.told.get(name) is not None:
            message = f"--{flag} is of stores on disk, and {side.path} is a topic."
            raise ConfigurationError(message, hint="Leave it out.")


def _check_counts(*sides: tuple[Side, HasRows]) -> None:
    """Refuse to count actions where neither side has any."""
    from kstoolkit.operations.topicstore import CountedTopic, topic_of_run  # noqa: PLC0415 - Arrow
    from kstoolkit.stores.comparing.folders import is_own_counts  # noqa: PLC0415 - as above

    if not any(sides[0][0].counted.values()):
        return
    ours = (
        isinstance(store, CountedTopic) or is_own_counts(side.path) or topic_of_run(side.path)
        for side, store in sides
    )
    if not any(ours):
        message = f"Neither {sides[0][0]} nor {sides[1][0]} holds counts of kstoolkit's."
        raise ConfigurationError(message, hint="Leave --action and --total out.")
